"""Projections behind a basis: the laws of projections, in its metric, at n = 10^4, and Galerkin
without n.
"""

import copy
import dataclasses

import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit.bases import Basis
from romkit.integrators import LSPG, Galerkin, PetrovGalerkin
from romkit.integrators.contracted import contracted, precontracted
from romkit.models import ReducedModel
from romkit.projections import METHODS, stack, unstack
from romkit.solvers import RK4
from romkit.systems.terms import Projected, Term
from romkit.testing import check_projection
from romkit.testing.projections import idempotency, left_inverse, probe, tangents
from tests.properties.test_projection_rules import make
from tests.refusals import refused

R, LARGE = 6, 10_000
BEHIND = (2, R - 2, 1, 0)  # two latents of R coordinates, one context


def weighted_basis(n, rank=R):
    """A random basis that is orthonormal in a metric with weights from 0.1 to 10."""
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.1, 10.0, n)
    q = np.linalg.qr(rng.standard_normal((n, rank)))[0]
    return Basis(q / np.sqrt(weight)[:, None], mean=rng.standard_normal(n), weight=weight)


@pytest.mark.parametrize("method", METHODS)
def test_contract_behind_a_basis(method):
    check_projection(make(method, BEHIND, basis=weighted_basis(30)))


@pytest.mark.parametrize("method", [name for name, kind in METHODS.items() if kind.idempotent])
def test_laws_at_ten_thousand_components(method):
    points = probe(make(method, BEHIND, basis=weighted_basis(LARGE)), batch=4)
    for law in (left_inverse, idempotency, tangents):  # each to 1e-10
        law(points)


@pytest.fixture(scope="module")
def reduced(lorenz_data):
    return romkit.fit("ncae", lorenz_data, basis=10, latent_dim=2, epochs=3)


def test_fit_gives_one_projection_of_full_states(reduced, lorenz_data):
    x = torch.from_numpy(lorenz_data["state"].values[0]).float()
    P = reduced(F=3.14)
    assert P.encode(x).shape == (100, 2)
    assert P(x).shape == (100, 36)
    assert reduced.frame.state_names == tuple(lorenz_data["component"].values)
    flat = lorenz_data["state"].values.reshape(-1, 36)
    assert np.allclose(reduced.frame.state_std, flat.std(0), rtol=1e-5)
    check_projection(reduced)


@pytest.mark.parametrize("named", [True, False], ids=["of a system", "of a user"])
def test_training_sees_the_coordinates_alone(named, lorenz, lorenz_data):
    """In the time of the system, where it is known; else in one that the coordinates give, which
    both see. An NcAE behind a basis has another start.
    """
    basis = romkit.basis(lorenz_data, rank=10)
    data, settings = (
        lorenz_data if named else lorenz_data.drop_attrs(deep=False),
        {"latent_dim": 2, "epochs": 3},
    )
    seen = lorenz.through(basis) if named else None
    alone = romkit.fit("film-ae", basis.project(data), system=seen, **settings)
    behind = romkit.fit("film-ae", data, basis=basis, **settings)
    for a, b in zip(alone.parameters(), behind.parameters(), strict=True):
        assert torch.equal(a, b)
    assert behind.of_coordinates().basis is None
    assert behind.report["data"].get("system") == ("lorenz96" if named else None)


def test_models_share_a_basis(lorenz_data, tmp_path):
    basis = romkit.basis(lorenz_data, rank=5)
    models = [
        romkit.fit(method, lorenz_data, basis=basis, latent_dim=2, epochs=1)
        for method in ("pod", "cae")
    ]
    stacked = romkit.fit("cae", lorenz_data, basis=basis, latent_dim=2, epochs=1, seeds=[0, 1])
    for model in (
        *models,
        stacked,
        *unstack(stacked),
        stack(unstack(stacked)),
        copy.deepcopy(models[0]).double(),
    ):
        assert model.basis is basis
    x = torch.from_numpy(lorenz_data["state"].values[0]).float()
    for model in (*models, stacked):
        romkit.save(model, tmp_path / "model.safetensors")
        again, states = (
            romkit.load(tmp_path / "model.safetensors"),
            x if model.seeds is None else x.expand(2, -1, -1),
        )
        assert torch.equal(again(F=3.15)(states), model(F=3.15)(states))
        assert torch.equal(again.basis.modes, basis.modes)


def test_rollouts_in_the_loss_see_the_system_through_the_basis(lorenz_data):
    plan = romkit.training.RolloutTraining(steps=1, length=12, every=1)
    settings = {"rollouts": plan, "latent_weight": 1.0, "engine": "torch"}
    model = romkit.fit("cae", lorenz_data, basis=5, latent_dim=2, epochs=1, **settings)
    assert np.isfinite(model.report["rollout_losses"]).all()


@pytest.mark.parametrize("dynamics", [Galerkin(), PetrovGalerkin()])
def test_dynamics_through_the_basis_are_those_in_full_space(dynamics, lorenz, reduced):
    double, c = copy.deepcopy(reduced).double(), torch.tensor([[3.14], [3.18]], dtype=torch.float64)
    z = torch.randn(2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    through = ReducedModel.build(reduced, dynamics, lorenz).fix_context(c)
    assert through.problem.path.at(torch.zeros(())).state_size == 10
    full = lorenz.problem(romkit.projections.Path.constant(double(c)), c)
    t = torch.zeros((), dtype=torch.float64)
    assert torch.allclose(
        dynamics.field(through.problem)(t, z), dynamics.field(full)(t, z), rtol=0, atol=1e-10
    )


def test_lspg_stays_in_full_space_unless_asked(lorenz, reduced):
    c = torch.tensor([[3.14]], dtype=torch.float64)
    assert (
        ReducedModel.build(reduced, LSPG(), lorenz)
        .fix_context(c)
        .problem.path.at(torch.zeros(()))
        .state_size
        == 36
    )
    asked = lorenz.through(reduced.basis)
    assert (
        ReducedModel.build(reduced, LSPG(), asked)
        .fix_context(c)
        .problem.path.at(torch.zeros(()))
        .state_size
        == 10
    )


def test_a_rollout_and_one_with_a_moving_context(lorenz, reduced):
    settings = {"duration": 0.05, "solver": RK4(0.01)}
    run = romkit.rollout(lorenz, reduced, F=[3.14, 3.18], **settings)
    assert run.rom.shape == (2, 6, 36)
    moving = romkit.rollout(lorenz, reduced, F=lambda t: 3.14, **settings)
    assert np.allclose(moving.rom, run.rom[0], atol=1e-9)


def test_a_rollout_of_the_system_seen_through_the_basis_is_one_in_coordinates(lorenz, reduced):
    through, settings = lorenz.through(reduced.basis), {"F": [3.14, 3.18], "duration": 0.2}
    run, full = (
        romkit.rollout(through, reduced, **settings),
        romkit.rollout(lorenz, reduced, **settings),
    )
    assert np.allclose(
        reduced.basis.decode(torch.from_numpy(run.rom.values)), full.rom, rtol=0, atol=1e-10
    )
    assert np.array_equal(run.truth, romkit.simulate(through, **settings).state)
    assert np.array_equal(
        run.rom, romkit.rollout(through, reduced.of_coordinates(), **settings).rom
    )


def test_tensors_are_made_once_for_equal_systems(lorenz, lorenz_data, monkeypatch):
    made, init = [], Projected.__init__
    monkeypatch.setattr(Projected, "__init__", lambda *given: made.append(given[1]) or init(*given))
    model = romkit.fit("pod", lorenz_data, basis=6, latent_dim=3)
    for system in (lorenz, copy.copy(lorenz), dataclasses.replace(lorenz)):
        romkit.rollout(system, model, F=3.15, duration=0.1)
    assert len(made) == 1
    romkit.rollout(dataclasses.replace(lorenz, dt=lorenz.dt / 2), model, F=3.15, duration=0.1)
    assert len(made) == 2


def test_a_system_that_can_change_gets_tensors_of_its_own(lorenz_data):
    class Damped(romkit.systems.Lorenz96):
        def terms(self):
            return (*super().terms(), Term(1, lambda x: -self.rate * x))

        def rhs(self, t, x, c):
            return super().rhs(t, x, c) - self.rate * x

    system, model = Damped(transient=0.0), romkit.fit("pod", lorenz_data, basis=6, latent_dim=3)
    ends = []
    for system.rate in (0.0, 5.0):
        ends.append(romkit.follow(model, lorenz_data, system=system).state.values[:, -1])
    assert np.abs(ends[0] - ends[1]).max() > 0.1


def test_bad_input(lorenz_data, lorenz, reduced):
    other = romkit.basis(lorenz_data, rank=3)
    small = xr.Dataset(
        {name: lorenz_data[name].isel(component=slice(9)) for name in ("state", "velocity")}
    )
    for data, given, fact in (
        (lorenz_data, {"basis": 400, "latent_dim": 2}, "rank"),
        (lorenz_data, {"basis": 0, "latent_dim": 2}, "basis"),
        (small, {"basis": other, "latent_dim": 2}, "data"),
        (lorenz_data, {"basis": other, "latent_dim": 4}, "sizes that do not decrease"),
    ):
        refused(fact, romkit.fit, "pod", data, **given)
    refused(
        "basis",
        lorenz.through,
        weighted_basis(36),
    )
    refused("basis", lorenz.through, weighted_basis(35))
    refused("system", romkit.systems.Pendulum().through, weighted_basis(16))
    seen = lorenz.through(other)
    refused("projection", romkit.follow, reduced, lorenz_data, system=seen)


@pytest.mark.parametrize(
    "method", ["ncae", "cae", "ncae-slope", "ncae-weights", "film-ae", "polynomial-manifold"]
)
def test_the_last_layer_folds_into_the_field(method, lorenz, lorenz_data):
    """Galerkin in the hidden units before it, with tensors of their number, is Galerkin in full
    space.
    """
    own = {
        "film-ae": {"encoder": (10, 5, 2), "decoder": (2, 5, 10)},
        "polynomial-manifold": {"latent_dim": 2, "degree": 2, "context_degree": 1},
    }
    sizes = own.get(method, {"layers": (2, 5, 10)})
    model = romkit.fit(method, lorenz_data, basis=10, epochs=1, **sizes)
    for follower in getattr(model, "followers", ()):
        follower.directions.data += 0.1
    c = torch.tensor([[3.14], [3.18]], dtype=torch.float64)
    reduced = ReducedModel.build(model, Galerkin(), lorenz).fix_context(c)
    small = precontracted(reduced.problem, reduced.quadratic)
    assert small.path.operator.state_size == (2 if method == "polynomial-manifold" else 5)
    z, t = (
        torch.randn(2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64),
        torch.zeros(()),
    )
    rate = Galerkin().field(
        lorenz.problem(romkit.projections.Path.constant(copy.deepcopy(model).double()(c)), c)
    )(t, z)
    assert torch.allclose(Galerkin().field(small)(t, z), rate, rtol=0, atol=1e-10)


def test_what_cannot_be_folded_stays(lorenz, lorenz_data):
    c = torch.tensor([[3.14]], dtype=torch.float64)
    stack_of_two = romkit.fit(
        "ncae", lorenz_data, basis=10, layers=(2, 5, 10), epochs=1, seeds=[0, 1]
    )
    wide = romkit.fit("ncae", lorenz_data, basis=10, layers=(2, 10), epochs=1)
    pod = romkit.fit("pod", lorenz_data, basis=10, latent_dim=2)
    for model in (stack_of_two, pod):
        reduced = ReducedModel.build(model, Galerkin(), lorenz).fix_context(c)
        assert precontracted(reduced.problem, reduced.quadratic) is reduced.problem
    reduced = ReducedModel.build(wide, Galerkin(), lorenz).fix_context(c)
    assert precontracted(reduced.problem, reduced.quadratic).path.operator.state_size == 2


@pytest.mark.parametrize("dynamics", [Galerkin(), PetrovGalerkin()])
@pytest.mark.parametrize("degrees", [(1, 0), (4, 2)])
def test_the_field_of_a_polynomial_manifold_is_a_polynomial(dynamics, degrees, lorenz, lorenz_data):
    """Contracted once per context, it is the field in full space."""
    settings = {"degree": degrees[0], "context_degree": degrees[1]}
    model = romkit.fit("polynomial-manifold", lorenz_data, basis=30, latent_dim=2, **settings)
    c = torch.tensor([[3.14], [3.16], [3.18]], dtype=torch.float64)
    reduced = ReducedModel.build(model, dynamics, lorenz).fix_context(c)
    small = contracted(reduced.problem, dynamics, reduced.quadratic)
    assert small is not reduced.problem
    draw = torch.Generator().manual_seed(0)
    z = 2 * torch.rand(3, 2, generator=draw, dtype=torch.float64) - 1  # where the data are
    t = torch.zeros(())
    full = lorenz.problem(romkit.projections.Path.constant(copy.deepcopy(model).double()(c)), c)
    rate = dynamics.field(full)(t, z)
    assert torch.allclose(dynamics.field(small)(t, z), rate, rtol=1e-9, atol=1e-10)
    runs = [
        RK4(0.01)(dynamics.field(small), z, torch.linspace(0, 0.1, 11).double(), engine=engine)
        for engine in ("torch", "compiled")
    ]
    assert torch.allclose(runs[0].states, runs[1].states, rtol=1e-12, atol=1e-12)
