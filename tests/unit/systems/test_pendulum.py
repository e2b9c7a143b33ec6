"""The pendulum as a system: datasets, simulation, field, inertia, energy."""

import itertools
import json

import numpy as np
import pytest
import torch

from romkit.core.errors import DivergenceWarning
from romkit.data import check_dataset, context_matrix
from romkit.solvers import Status
from romkit.systems import Pendulum
from tests.refusals import refused

SHORT = {"l1": [0.35, 0.5, 0.42], "l2": [0.4, 0.5, 0.65], "l3": [0.38, 0.5, 0.45], "l4": [0.55, 0.5, 0.36]}


def tensors(data):
    state, velocity, acceleration = (torch.from_numpy(data[k].values) for k in ("state", "velocity", "acceleration"))
    return state, velocity, acceleration, torch.from_numpy(context_matrix(data))


@pytest.fixture(scope="module")
def data():
    return Pendulum().dataset(**SHORT)


def test_datasets_start_at_fifteen_degrees_and_rest_and_have_units_and_provenance(data):
    check_dataset(data)
    assert dict(data.sizes) == {"trajectory": 3, "time": 3000, "component": 16}
    assert data["time"].values[-1] == pytest.approx(2.999)
    assert data["time"].attrs["units"] == "s"
    assert [data[k].attrs["units"] for k in ("state", "velocity", "acceleration")] == ["rad", "rad s-1", "rad s-2"]
    assert [data[f"l{k}"].attrs["units"] for k in (1, 2, 3, 4)] == ["m"] * 4
    assert data["component"].values.tolist() == [f"q{k}" for k in range(1, 17)]
    assert data.attrs["solver"] == "MuJoCo RK4"
    assert json.loads(data.attrs["parameters"]) == {"dt": 1e-3, "duration": 3.0, "horizon": 3.0}
    np.testing.assert_allclose(data["state"].values[:, 0, :4], np.deg2rad(15.0))
    assert (data["velocity"].values[:, 0] == 0).all()


def test_the_training_set_is_random_and_the_test_set_a_grid():
    data = Pendulum().dataset("train", seed=3, duration=0.002)
    angles, lengths = np.rad2deg(data["state"].values[:, 0, :4]), context_matrix(data)
    for values, low, high in ((angles, 0, 30), (lengths, 0.35, 0.65)):
        assert values.shape == (100, 4)
        assert low <= values.min() < low + 0.05 * (high - low)
        assert high - 0.05 * (high - low) < values.max() <= high
    again, other = (Pendulum().dataset("train", seed=seed, duration=0.002) for seed in (3, 4))
    assert data.equals(again)
    assert not data.equals(other)
    data = Pendulum().dataset("test", duration=0.002)
    grid = itertools.product((0.35, 0.45, 0.55, 0.65), repeat=4)
    assert {tuple(row) for row in context_matrix(data)} == set(grid)
    assert data.sizes["trajectory"] == 256
    np.testing.assert_allclose(data["state"].values[:, 0, :4], np.deg2rad(15.0))


def test_rates_are_the_derivatives_also_where_angles_cross_zero(data):
    q, v, a, _ = tensors(data)
    assert (q[..., :4].amin(dim=(0, 1)) < 0).all()
    assert all(x.isfinite().all() for x in (q, v, a))
    smooth = (q[:, 1:-1, [0, 2, 3]].abs() > 0.05).all(-1)  # no angle under a power is near its singular crossing
    assert smooth.sum() > 1000
    for x, rate, near in ((q, v, {"rtol": 1e-3, "atol": 1e-3}), (v, a, {"rtol": 5e-3, "atol": 5e-2})):
        difference = (x[:, 2:] - x[:, :-2]) / 2e-3
        torch.testing.assert_close(difference[..., :4], rate[:, 1:-1, :4], **near)
        torch.testing.assert_close(difference[smooth], rate[:, 1:-1][smooth], **near)


def test_energy_is_kept_to_1e4_of_the_energy_above_rest(data):
    q, v, _, c = tensors(data)
    energy = Pendulum().energy(c)(q, v)
    assert energy.shape == (3, 3000)
    drift = (energy - energy[:, :1]).abs() / energy[:, :1]  # energy is 0 at rest hanging down
    assert drift.max() < 1e-4


def test_simulate_starts_at_the_velocity_it_is_given():
    system = Pendulum()
    c = torch.full((4,), 0.4, dtype=torch.float64)
    q0, v0 = system.initial_state(c, None), torch.linspace(-1, 1, 16, dtype=torch.float64)
    motion = system.simulate((q0, v0), c, torch.arange(3, dtype=torch.float64) * 1e-3)
    torch.testing.assert_close(motion.state[0], q0)
    torch.testing.assert_close(motion.velocity[0, :4], v0[:4])


def test_divergence_is_a_status_of_one_member():
    system = Pendulum()
    c = torch.full((3, 4), 0.5, dtype=torch.float64)
    q0 = system.initial_state(c, None)
    v0 = torch.zeros_like(q0)
    v0[1, 0] = 1e5
    with pytest.warns(DivergenceWarning, match="full model of pendulum: 1 of 3 trajectories are lost"):
        motion = system.simulate((q0, v0), c, torch.arange(40, dtype=torch.float64) * 1e-3)
    assert motion.status.tolist() == [Status.COMPLETED, Status.DIVERGED, Status.COMPLETED]
    for values in motion[:3]:
        assert values[[0, 2]].isfinite().all()
        assert values[1, 0].isfinite().all()
        assert values[1, -1].isnan().all()


def test_mass_is_that_of_the_links_and_zero_elsewhere():
    system = Pendulum()
    q = torch.randn(2, 5, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    v = torch.randn_like(q)
    c = torch.tensor([[0.4, 0.5, 0.5, 0.5], [0.6, 0.5, 0.5, 0.5]], dtype=torch.float64)
    mass = system.metric(c)(q, torch.eye(16, dtype=torch.float64).expand(2, 5, 16, 16))
    assert mass.shape == (2, 5, 16, 16)
    assert (mass[..., 4:, :] == 0).all()
    assert (mass[..., :, 4:] == 0).all()
    energy = system.energy(l1=[0.4, 0.6], l2=0.5, l3=0.5, l4=0.5)
    kinetic = torch.einsum("...i,...ij,...j->...", v, mass, v) / 2
    torch.testing.assert_close(kinetic, energy(q, v) - energy(q, 0 * v))


def test_errors_say_what_is_wrong():
    refused("add l2=..., l3=..., l4=...", Pendulum().dataset, l1=0.4)
    refused("positive link lengths", Pendulum().dataset, l1=0.4, l2=0.4, l3=-0.4, l4=0.4)
    n, m = torch.zeros(16), torch.zeros(4)
    for parts, message in (
        ((m, m), "initial_state: expected shape (..., 16)"),
        ((n, m), "initial_velocity: expected shape (..., 16)"),
        ((n,), r"parts: expected \(q, q̇\), tensors \(\.\.\., 16\).*a tuple of 2"),
        (n, "parts: expected (q, q̇)"),
    ):
        refused(message, Pendulum().simulate, parts, torch.full((4,), 0.5), torch.zeros(1))
