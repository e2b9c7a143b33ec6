"""The pendulum as a system: datasets, simulation, field, inertia, energy."""

import json

import numpy as np
import pytest
import torch

import romkit.systems
from romkit.core.errors import DivergenceWarning, InputError
from romkit.data import check_dataset, context_matrix
from romkit.solvers import RK4, Status
from romkit.systems import Pendulum

SHORT = {"l1": [0.35, 0.5, 0.42], "l2": [0.4, 0.5, 0.65], "l3": [0.38, 0.5, 0.45], "l4": [0.55, 0.5, 0.36]}


def tensors(data):
    state, velocity, acceleration = (torch.from_numpy(data[k].values) for k in ("state", "velocity", "acceleration"))
    return state, velocity, acceleration, torch.from_numpy(context_matrix(data))


@pytest.fixture(scope="module")
def data():
    return Pendulum().dataset(**SHORT)


def test_is_registered():
    assert romkit.systems.SYSTEMS["pendulum"] is Pendulum


def test_dataset_shapes_units_and_provenance(data):
    check_dataset(data)
    assert dict(data.sizes) == {"trajectory": 3, "time": 3000, "component": 16}
    assert data["time"].values[-1] == pytest.approx(2.999)
    assert data["time"].attrs["units"] == "s"
    assert [data[k].attrs["units"] for k in ("state", "velocity", "acceleration")] == ["rad", "rad s-1", "rad s-2"]
    assert [data[f"l{k}"].attrs["units"] for k in (1, 2, 3, 4)] == ["m"] * 4
    assert data["component"].values.tolist() == [f"q{k}" for k in range(1, 17)]
    assert data.attrs["solver"] == "MuJoCo RK4"
    assert json.loads(data.attrs["parameters"]) == {"dt": 1e-3, "duration": 3.0, "horizon": 3.0}
    assert np.isfinite(data["acceleration"].values).all()


def test_explicit_contexts_start_at_fifteen_degrees_and_rest(data):
    np.testing.assert_allclose(data["state"].values[:, 0, :4], np.deg2rad(15.0))
    assert (data["velocity"].values[:, 0] == 0).all()


def test_training_set_is_random_in_lengths_and_angles():
    data = Pendulum().dataset("train", seed=3, duration=0.002)
    angles, lengths = np.rad2deg(data["state"].values[:, 0, :4]), context_matrix(data)
    for values, low, high in ((angles, 0, 30), (lengths, 0.35, 0.65)):
        assert values.shape == (100, 4)
        assert low <= values.min() < low + 0.05 * (high - low)
        assert high - 0.05 * (high - low) < values.max() <= high
    again, other = (Pendulum().dataset("train", seed=seed, duration=0.002) for seed in (3, 4))
    assert data.equals(again)
    assert not data.equals(other)


def test_test_set_is_the_grid_from_fifteen_degrees():
    data = Pendulum().dataset("test", duration=0.002)
    assert {tuple(row) for row in context_matrix(data)} == {
        (a, b, c, d) for a in (0.35, 0.45, 0.55, 0.65) for b in (0.35, 0.45, 0.55, 0.65)
        for c in (0.35, 0.45, 0.55, 0.65) for d in (0.35, 0.45, 0.55, 0.65)
    }  # fmt: skip
    assert data.sizes["trajectory"] == 256
    np.testing.assert_allclose(data["state"].values[:, 0, :4], np.deg2rad(15.0))


def test_velocities_are_the_derivatives_of_the_states(data):
    q, v, _, _ = tensors(data)
    difference = (q[:, 2:] - q[:, :-2]) / 2e-3
    torch.testing.assert_close(difference[..., :4], v[:, 1:-1, :4], rtol=1e-3, atol=1e-3)
    smooth = _away_from_zero(q)
    torch.testing.assert_close(difference[smooth], v[:, 1:-1][smooth], rtol=1e-3, atol=1e-3)


def test_accelerations_are_the_derivatives_of_the_velocities(data):
    q, v, a, _ = tensors(data)
    difference = (v[:, 2:] - v[:, :-2]) / 2e-3
    torch.testing.assert_close(difference[..., :4], a[:, 1:-1, :4], rtol=2e-3, atol=2e-2)
    smooth = _away_from_zero(q)
    torch.testing.assert_close(difference[smooth], a[:, 1:-1][smooth], rtol=5e-3, atol=5e-2)


def _away_from_zero(q):
    """Snapshots where no angle under a power is near its singular crossing."""
    smooth = (q[:, 1:-1, [0, 2, 3]].abs() > 0.05).all(-1)
    assert smooth.sum() > 1000
    return smooth


def test_the_state_crosses_zero_and_stays_finite(data):
    q, v, a, _ = tensors(data)
    assert (q[..., :4].amin(dim=(0, 1)) < 0).all()
    assert all(x.isfinite().all() for x in (q, v, a))


def test_energy_is_kept_to_1e4_of_the_energy_above_rest(data):
    q, v, _, c = tensors(data)
    energy = Pendulum().energy(c)(q, v)
    assert energy.shape == (3, 3000)
    drift = (energy - energy[:, :1]).abs() / energy[:, :1]  # energy is 0 at rest hanging down
    assert drift.max() < 1e-4


def test_field_gives_the_recorded_accelerations(data):
    q, v, a, c = tensors(data)
    torch.testing.assert_close(Pendulum().field(c)(torch.tensor(0.0), q, v), a)


def test_field_under_another_integrator_gives_the_simulation():
    system = Pendulum()
    c = torch.full((1, 4), 0.5, dtype=torch.float64)  # the one length at which the powers are smooth at 0
    q0 = system.initial_state(c, None)
    times = torch.arange(401, dtype=torch.float64) * 1e-3
    motion = system.simulate((q0, torch.zeros_like(q0)), c, times)

    def first_order(t, x):
        return system.rhs(t, x, c)

    states = RK4(1e-3)(first_order, torch.cat([q0, torch.zeros_like(q0)], -1), times).states
    torch.testing.assert_close(states, torch.cat([motion.state, motion.velocity], -1), rtol=1e-8, atol=1e-8)


def test_a_batch_of_contexts_equals_a_loop(data):
    for i in range(3):
        alone = Pendulum().dataset(duration=0.1, **{name: values[i] for name, values in SHORT.items()})
        np.testing.assert_allclose(alone["state"].values[0], data["state"].values[i, :100], rtol=0, atol=1e-12)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
def test_simulate_keeps_the_leading_axes(lead):
    system = Pendulum()
    c = 0.35 + 0.3 * torch.rand(*lead, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    motion = system.simulate(system.start(c), c, torch.arange(5, dtype=torch.float64) * 1e-3)
    assert motion.state.shape == motion.velocity.shape == motion.acceleration.shape == (*lead, 5, 16)
    assert motion.status.shape == lead
    assert (motion.status == Status.COMPLETED).all()


def test_one_context_serves_many_initial_states():
    system = Pendulum()
    c = torch.full((4,), 0.4, dtype=torch.float64)
    q0 = system.initial_state(c, None).expand(3, 16) * torch.tensor([[0.5], [1.0], [-1.0]])
    times = torch.arange(20, dtype=torch.float64) * 1e-3
    v0 = torch.zeros_like(q0)
    together = system.simulate((q0, v0), c, times).state
    torch.testing.assert_close(together[2], system.simulate((q0[2], v0[2]), c, times).state)


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


def test_float32_states_stay_float32():
    system = Pendulum()
    c = torch.full((2, 4), 0.4)
    motion = system.simulate(system.start(c), c, torch.arange(5) * 1e-3)
    assert all(x.dtype == torch.float32 for x in motion[:3])
    assert system.field(c)(torch.tensor(0.0), motion.state, motion.velocity).dtype == torch.float32


def _simulated(parts):
    return Pendulum().simulate(parts, torch.full((4,), 0.5), torch.zeros(1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pendulum(dt=0), "dt: expected a positive number"),
        (lambda: Pendulum(duration=-1), "duration: expected a positive number"),
        (lambda: Pendulum().dataset(l1=0.4), "add l2=..., l3=..., l4=..."),
        (lambda: Pendulum().dataset(l1=0.4, l2=0.4, l3=-0.4, l4=0.4), "positive link lengths"),
        (lambda: _simulated((torch.zeros(4), torch.zeros(4))), r"initial_state: expected shape \(\.\.\., 16\)"),
        (lambda: _simulated((torch.zeros(16), torch.zeros(4))), r"initial_velocity: expected shape \(\.\.\., 16\)"),
        (lambda: _simulated((torch.zeros(16),)), r"parts: expected \(q, q̇\), tensors \(\.\.\., 16\).*a tuple of 2"),
        (lambda: _simulated(torch.zeros(16)), r"parts: expected \(q, q̇\)"),
    ],
)
def test_errors_say_what_is_wrong(make, message):
    with pytest.raises(InputError, match=message):
        make()
