"""The pendulum as a system, and its twelve coupled angles: the published table, derivatives, the
crossing of zero.
"""

import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import jvp

from romkit.core.errors import DivergenceWarning
from romkit.data import check_dataset, context_matrix
from romkit.solvers import Status
from romkit.systems import Pendulum
from romkit.systems.pendulum import couple
from tests.refusals import refused

SHORT = {
    "l1": [0.35, 0.5, 0.42],
    "l2": [0.4, 0.5, 0.65],
    "l3": [0.38, 0.5, 0.45],
    "l4": [0.55, 0.5, 0.36],
}


def tensors(data):
    state, velocity, acceleration = (
        torch.from_numpy(data[k].values) for k in ("state", "velocity", "acceleration")
    )
    return state, velocity, acceleration, torch.from_numpy(context_matrix(data))


@pytest.fixture(scope="module")
def data():
    return Pendulum().dataset(**SHORT)


def test_datasets_start_at_fifteen_degrees_and_rest_and_have_units_and_provenance(data):
    check_dataset(data)
    assert dict(data.sizes) == {"trajectory": 3, "time": 3000, "component": 16}
    assert data["time"].values[-1] == pytest.approx(2.999)
    assert data["time"].attrs["units"] == "s"
    assert [data[k].attrs["units"] for k in ("state", "velocity", "acceleration")] == [
        "rad",
        "rad s-1",
        "rad s-2",
    ]
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
    smooth = (q[:, 1:-1, [0, 2, 3]].abs() > 0.05).all(
        -1
    )  # no angle under a power is near its singular crossing
    assert smooth.sum() > 1000
    for x, rate, near in (
        (q, v, {"rtol": 1e-3, "atol": 1e-3}),
        (v, a, {"rtol": 5e-3, "atol": 5e-2}),
    ):
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
    with pytest.warns(
        DivergenceWarning, match="full model of pendulum: 1 of 3 trajectories are lost"
    ):
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
    for parts, fact in (
        ((m, m), "initial_state"),
        ((n, m), "initial_velocity"),
        ((n,), "parts"),
        (n, "parts"),
    ):
        refused(fact, Pendulum().simulate, parts, torch.full((4,), 0.5), torch.zeros(1))


ZERO = torch.zeros(4, dtype=torch.float64)


def original_table(q):
    """The context-free coupling of Friedl et al. (2025), as printed."""
    q1, q2, q3, q4 = q
    return [
        q3 - np.cos(q2),
        q1 + 0.1 * np.sin(q2),
        q4 * np.cos(q2),
        q1 + q3**2,
        1.5 * np.sin(q2),
        -q4 * q1,
        np.sin(q1),
        0.4 * q3 * q4,
        -0.9 * q1 - q2 + q3 - 2 * q4**2,
        -3 * np.sin(q3),
        -2 * q3**2,
        -0.9 * q1**2,
    ]


def contextual_table(q, c):
    """The context-dependent coupling as printed, with |q| under the power."""
    (q1, q2, q3, q4), (l1, l2, l3, l4) = q, c
    return [
        q3 - np.cos(2 * l2 * q2),
        q1 + 2 * l1 * 0.1 * np.sin(2 * l2 * q2),
        q4 * np.cos(2 * l4 * q2),
        q1 + abs(q3) ** (2 * 2 * l3),
        2 * l2 * 1.5 * np.sin(q2),
        -(l4 + l1) * q4 * q1,
        np.sin(2 * l1 * q1),
        2 * l3 * 0.4 * q3 * q4,
        -2 * l1 * 0.9 * q1 - q2 + q3 - 2 * abs(q4) ** (2 * 2 * l4),
        -2 * l3 * 3 * np.sin(q3),
        -2 * abs(q3) ** (2 * 2 * l3),
        -0.9 * abs(q1) ** (2 * 2 * l1),
    ]


def vectors(low, high):
    return st.lists(st.floats(low, high), min_size=4, max_size=4).map(
        lambda x: torch.tensor(x, dtype=torch.float64)
    )


away_from_zero = st.tuples(
    vectors(0.05, 2.0), st.lists(st.sampled_from([-1.0, 1.0]), min_size=4, max_size=4)
).map(lambda pair: pair[0] * torch.tensor(pair[1], dtype=torch.float64))
lengths = vectors(0.2, 0.8)


@settings(max_examples=30)
@given(vectors(-2.0, 2.0), lengths)
def test_values_are_those_of_the_table(q, c):
    state, _, _ = couple(q, ZERO, ZERO, c)
    assert torch.equal(state[:4], q)
    np.testing.assert_allclose(
        state[4:].numpy(), contextual_table(q.numpy(), c.numpy()), rtol=1e-12, atol=1e-14
    )


@settings(max_examples=30)
@given(vectors(-2.0, 2.0))
def test_at_half_a_metre_the_table_is_the_original_one(q):
    state, _, _ = couple(q, ZERO, ZERO, torch.full((4,), 0.5, dtype=torch.float64))
    np.testing.assert_allclose(state[4:].numpy(), original_table(q.numpy()), rtol=1e-12, atol=1e-14)


@settings(max_examples=3)
@given(away_from_zero, vectors(-5.0, 5.0), vectors(-20.0, 20.0), lengths)
def test_derivatives_are_those_of_automatic_differentiation(q, v, a, c):
    def value(q):
        return couple(q, ZERO, ZERO, c)[0]

    def velocity(q, v):
        return jvp(value, (q,), (v,))[1]

    _, lifted_v, lifted_a = couple(q, v, a, c)
    torch.testing.assert_close(lifted_v, velocity(q, v), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(lifted_a, jvp(velocity, (q, v), (v, a))[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("zeros", [[0], [2], [3], [0, 1, 2, 3]])
def test_everything_is_finite_at_zero(zeros):
    c = torch.tensor([0.2, 0.35, 0.5, 0.65, 0.8], dtype=torch.float64).unsqueeze(-1).expand(5, 4)
    q, v, a = (torch.full((5, 4), x, dtype=torch.float64) for x in (-0.3, 2.0, 5.0))
    q[:, zeros] = 0.0
    inputs = [x.clone().requires_grad_() for x in (q, v, a, c)]
    values = couple(*inputs)
    gradients = torch.autograd.grad(sum(x.sum() for x in values), inputs)
    assert all(x.isfinite().all() for x in (*values, *gradients))


def test_curvature_at_zero_is_exact_where_it_exists():
    v, half, long = (torch.full((4,), x, dtype=torch.float64) for x in (2.0, 0.5, 0.6))
    _, _, parabola = couple(ZERO, v, ZERO, half)
    assert parabola[14].item() == pytest.approx(-2 * 2 * 2.0**2)  # (-2 q²)¨ = -4 q̇² at q = 0
    _, _, flat = couple(ZERO, v, ZERO, long)
    assert flat[14].item() == 0.0
