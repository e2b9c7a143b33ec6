"""Reduced meshes: LSPG on few rows is LSPG on all of them, sees nothing else, and stays near its
training data.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

import romkit
from romkit.bases import Basis
from romkit.core.errors import ExtrapolationWarning
from romkit.integrators import LSPG
from romkit.integrators.mesh import ReducedMesh, cubature
from romkit.integrators.region import Region
from romkit.systems import Burgers2D, Lorenz96
from tests.refusals import refused

T64 = torch.float64


@pytest.fixture(scope="module")
def burgers():
    return Burgers2D(cells=12, dt=0.1, duration=1.0)


@pytest.fixture(scope="module")
def data(burgers):
    return burgers.dataset("train").isel(time=slice(None, None, 2))


@pytest.fixture(scope="module")
def model(data):
    return romkit.fit(
        "ncae", data, basis=12, latent_dim=3, epochs=20, learning_rate=0.01, verbose=False
    )


@pytest.fixture(scope="module")
def truth(burgers):
    return burgers.dataset(mu1=[4.6, 5.2], mu2=[0.019, 0.027])


@pytest.fixture(scope="module")
def mesh(burgers, model, data):
    return romkit.reduced_mesh(burgers, model, data, tolerance=0.003)


def apart(a, b):
    return float(abs(a.state - b.state).max() / abs(b.state).max())


def test_cubature_finds_few_rows_whose_weighted_sums_are_those_of_all():
    """Each row adds a smooth function of its place: a quadrature of few nodes exists."""
    x = torch.linspace(-1, 1, 400, dtype=T64)
    parts = torch.stack([x**k for k in range(8)], dim=-1)
    rows, weights = cubature(parts, 1e-6)
    assert len(rows) <= 8
    assert bool((weights > 0).all())
    assert (weights @ parts[rows] - parts.sum(0)).norm() < 1e-6 * parts.sum(0).norm()


def test_all_rows_with_weights_of_one_are_the_full_problem(burgers, model, truth, full):
    every = torch.arange(burgers.state_size)
    region = Region(torch.zeros(1, 3), torch.full((3,), 1e9), torch.ones(()))
    whole = ReducedMesh(burgers, model.basis, every, torch.ones(len(every), dtype=T64), region)
    assert apart(romkit.follow(model, truth, dynamics=LSPG(dt=0.1, mesh=whole)), full) < 1e-9


@pytest.fixture(scope="module")
def full(model, truth):
    """The reduced model on all rows."""
    return romkit.follow(model, truth, dynamics=LSPG(dt=0.1))


def test_few_rows_do_what_all_do_and_a_larger_tolerance_takes_fewer(
    burgers, model, data, truth, mesh, full
):
    coarse = romkit.reduced_mesh(burgers, model, data, tolerance=0.3)
    assert len(coarse.rows) < len(mesh.rows) < 0.3 * mesh.basis.size
    assert torch.equal(
        romkit.reduced_mesh(burgers, model, model.basis.project(data), tolerance=0.3).rows,
        coarse.rows,
    )
    few, fewer = (
        romkit.follow(model, truth, dynamics=LSPG(dt=0.1, mesh=each)) for each in (mesh, coarse)
    )
    assert apart(few, full) < 0.02
    assert apart(few, full) < apart(fewer, full)


def test_nothing_but_the_rows_is_computed(model, truth, mesh, monkeypatch):
    monkeypatch.setattr(Burgers2D, "rhs", None)
    monkeypatch.setattr(Burgers2D, "terms", None)
    run = romkit.follow(model, truth, dynamics=LSPG(dt=0.1, mesh=mesh))
    assert run.status.values.tolist() == [0, 0]


def test_weights_hold_those_of_the_metric(model, data):
    class Weighted(Burgers2D):
        weight = 4 * np.ones(288)  # powers of two round nothing, so that ties stay ties

        def weigh(self, x, u, c):
            return 4 * u

    system = Weighted(cells=12, dt=0.1, duration=1.0)
    basis = Basis(model.basis.modes / 2, model.basis.mean, system.weight)
    double = romkit.fit("pod", data, basis=basis, latent_dim=3)
    plain = romkit.fit("pod", data, basis=model.basis, latent_dim=3)
    heavy, light = (
        romkit.reduced_mesh(s, p, data, tolerance=0.1)
        for s, p in ((system, double), (Burgers2D(cells=12, dt=0.1, duration=1.0), plain))
    )
    assert torch.equal(heavy.rows, light.rows)
    assert torch.allclose(heavy.weights, 4 * light.weights)


def test_states_are_held_at_the_edge_of_the_trust_region_and_reported(model, truth, mesh):
    small = replace(mesh.region, scale=mesh.region.scale / 4)
    held = ReducedMesh(mesh.system, mesh.basis, mesh.rows, mesh.weights, small)
    with pytest.warns(ExtrapolationWarning, match="the state of 2 of 2 trajectories"):
        run = romkit.follow(model, truth, dynamics=LSPG(dt=0.1, mesh=held))
    later = run.state_distance.isel(time=slice(1, None))
    assert float(later.max()) == pytest.approx(1.5, rel=1e-6)
    assert run.status.values.tolist() == [0, 0]


def test_states_inside_are_left_alone():
    z = torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=T64)
    region = Region.ellipsoid(z)
    assert torch.allclose(region.clamp(z), z, rtol=1e-14, atol=1e-14)
    assert float(region.distance(z).max()) == pytest.approx(1.0)
    assert torch.allclose(region.distance(region.clamp(10 * z)).max(), torch.tensor(1.5, dtype=T64))


def test_what_cannot_be_sampled_is_said(burgers, model, data, mesh):
    short = Lorenz96(n=8, transient=0.0).dataset(F=3.15, duration=1.0)
    lorenz = {
        "system": Lorenz96(n=8),
        "projection": romkit.fit("pod", short, basis=4, latent_dim=2),
        "data": short,
    }
    described, turned = (
        romkit.data.describe(data, context=["mu2", "mu1"]),
        data.isel(component=slice(None, None, -1)),
    )
    swapped = romkit.fit("pod", described, basis=model.basis, latent_dim=2)
    plain = romkit.fit("pod", data, latent_dim=2)
    for given, argument in (
        (lorenz, "system"),
        (
            {"projection": plain},
            "projection",
        ),
        (
            {"projection": swapped},
            "projection",
        ),
        ({"tolerance": 1e-300}, "tolerance"),
        ({"tolerance": 1.0}, "tolerance"),
        (
            {"data": data.isel(time=[0])},
            "dt",
        ),
        (
            {"data": turned},
            "data",
        ),
    ):
        refused(
            argument,
            romkit.reduced_mesh,
            **{"system": burgers, "projection": model, "data": data} | given,
        )
    for other in (
        romkit.fit("pod", data, basis=5, latent_dim=2),
        romkit.fit("pod", data.isel(trajectory=[0, 1, 2]), basis=12, latent_dim=2),
    ):
        refused("projection", romkit.follow, other, data, dynamics=LSPG(mesh=mesh))


def test_snapshots_at_rest_are_no_obstacle(burgers, model, data):
    class Still(Burgers2D):
        def rhs(self, t, x, c):
            return torch.zeros_like(x) * c[..., :1]

        def rhs_rows(self, t, rows, x, c):
            return torch.zeros_like(x[..., 0]) * c[..., :1]

    mesh = romkit.reduced_mesh(Still(cells=12, dt=0.1, duration=1.0), model, data, tolerance=0.1)
    assert len(mesh.rows) >= 3
    assert bool((mesh.weights > 0).all())
