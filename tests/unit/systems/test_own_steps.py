"""Full models whose step is not their sampling interval, stiff ones, and ones that blow up."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import romkit
from romkit.core.errors import DivergenceWarning
from romkit.data import ContextParameter
from romkit.laws import encoded_samples, galerkin_samples
from romkit.solvers import RK4, Adaptive, SciPy
from romkit.systems import CylinderWake, Pendulum, System
from tests.refusals import refused


@dataclass(frozen=True)
class Stiff(System):
    """ẋ = -k (x - cos t): stiff for large k."""

    dt: float = 0.1
    duration: float = 1.0
    horizon: float = 1.0
    step: float | None = None
    transient: float = 0.0

    name = "stiff"
    state_names = ("x", "y")
    state_units = ("1", "1")
    context = (ContextParameter("k", "1", 1.0, 1000.0, "rate"),)

    def rhs(self, t, x, c):
        return -c * (x - torch.cos(t))

    def initial_state(self, contexts, rng):
        return torch.zeros(len(contexts), 2, dtype=contexts.dtype)


def exact(k, t):
    return (k**2 * np.cos(t) + k * np.sin(t) - k**2 * np.exp(-k * t)) / (1 + k**2)


def test_the_step_is_apart_from_the_sampling_and_a_transient_ends_where_the_clock_begins():
    k = np.array([1.0, 20.0])
    errors = []
    for step in (None, 0.01):
        data = romkit.simulate(Stiff(step=step), k=k)
        assert data.sizes["time"] == 11
        errors.append(np.abs(data.state.values[..., 0] - exact(k[:, None], data.time.values)).max())
    assert errors[0] > 1e-3
    assert errors[1] < 1e-5
    assert Stiff(step=0.01).dataset(k=k).attrs["step"] == 0.01
    data = Stiff(step=0.01, transient=10.3).dataset(k=2.0)
    t = data.time.values
    assert np.abs(data.state.values[0, :, 0] - (4 * np.cos(t) + 2 * np.sin(t)) / 5).max() < 1e-6


@pytest.mark.parametrize("method", ["BDF", "Radau", "LSODA"])
def test_an_implicit_solver_takes_what_is_stiff(method):
    k = np.array([1.0, 1000.0])
    solver = SciPy(method, rtol=1e-8, atol=1e-10)
    data = romkit.simulate(Stiff(), k=k, solver=solver)
    assert np.abs(data.state.values[..., 0] - exact(k[:, None], data.time.values)).max() < 1e-6
    assert data.attrs["engine"] == "SciPy"
    assert data.attrs["solver"].startswith("SciPy(")
    assert Stiff().using(solver).dataset(k=k).attrs["solver"] == str(solver)


class Measured(Stiff):
    """Forced by a table, of which one time can be read at a time."""

    def rhs(self, t, x, c):
        return -c * (x - float(np.interp(float(t), [0.0, 0.3, 1.0], [1.0, -1.0, 2.0])))


class Pair(Stiff):
    """Each component has a force of its own, put together for one time."""

    def rhs(self, t, x, c):
        return -c * x + torch.stack([torch.cos(t), torch.sin(t)])


@pytest.mark.parametrize("kind", [Stiff, Measured, Pair])
@pytest.mark.parametrize(
    "duration", [1.0, 0.2]
)  # ten samples; as many as components, and as contexts
def test_recorded_velocities_are_those_of_their_time(kind, duration):
    system, k = kind(), torch.tensor([[2.0], [20.0]], dtype=torch.float64)
    data = system.dataset(k=k.flatten().numpy(), duration=duration)
    for t, at in zip(data.time.values, data.transpose("time", ...).state.values, strict=True):
        expected = system.field(k)(torch.tensor(t), torch.from_numpy(at))
        np.testing.assert_allclose(data.velocity.sel(time=t), expected, rtol=1e-12)


def test_samples_of_a_field_are_those_of_their_time():
    data = Stiff().dataset(k=[2.0, 20.0])
    pod = romkit.fit("pod", data, latent_dim=1)  # both components are the same
    samples = galerkin_samples(pod, data, Stiff().problem, spread=0.0)
    torch.testing.assert_close(samples.targets, encoded_samples(pod, data).targets)


def test_states_of_large_units_are_not_lost():
    start = [2e7, 1e5]  # pascal
    data = romkit.simulate(Stiff(), k=1.0, initial_state=start)
    assert np.isfinite(data.state.values).all()
    with pytest.warns(
        DivergenceWarning, match="begin beyond the solver's divergence_threshold: raise it"
    ):
        romkit.simulate(Stiff(), k=1.0, initial_state=start, solver=SciPy())
    given = SciPy(divergence_threshold=1e12)
    assert np.isfinite(
        romkit.simulate(Stiff(), k=1.0, initial_state=start, solver=given).state.values
    ).all()


def test_what_blows_up_is_named():
    with pytest.warns(DivergenceWarning) as caught:
        data = romkit.simulate(Stiff(), k=[1.0, 1000.0, 900.0], duration=3.0)
    message = str(caught[0].message)
    assert len(caught) == 1
    assert message.startswith("full model of stiff: 2 of 3 trajectories are lost: 1 (k=1000, t=")
    assert "SciPy('BDF')" in message
    assert np.isfinite(data.state.values[0]).all()
    assert not np.isfinite(data.state.values[1:, -1]).any()


def test_what_is_no_solver_and_no_field_of_a_loss_is_refused():
    refused("solver", romkit.simulate, Stiff(), k=1.0, solver="BDF")
    refused("solver", Pendulum().using, RK4(0.01))
    refused("solver", CylinderWake().using, RK4(0.01))
    refused(
        "engine",
        romkit.simulate,
        Stiff(),
        k=1.0,
        solver=SciPy(),
        engine="compiled",
    )
    refused("method", SciPy, "Euler")
    given = {"latent_dim": 1, "system": Stiff(), "latent_weight": 1.0}
    refused("system", romkit.fit, "ncae", Stiff().dataset(k=[2.0, 5.0]), **given)


class Kicked(System):
    """ẋ = -x + g u(t), u = 100 for a twentieth of a unit from t = 5 on."""

    name, state_names, dt, duration, horizon = "kicked", ["x"], 0.1, 6.0, 6.0
    context = (ContextParameter("g", "1", 0.5, 2.0, "force"),)

    def rhs(self, t, x, c):
        return -x + c * ((t >= 5) & (t < 5.05)).to(x) * 100

    def initial_state(self, contexts, rng):
        return contexts.new_zeros(len(contexts), 1)


class Announced(Kicked):
    jump_times = (5.0, 5.05)


@pytest.mark.parametrize("solver", [None, Adaptive(), SciPy("RK45"), SciPy("BDF")])
def test_steps_end_where_a_field_jumps(solver):
    exact = 100 * (1 - np.exp(-0.05)) * np.exp(-0.95)  # at t = 6
    system = Announced()
    if solver is not None:
        system = system.using(solver)
    run = romkit.simulate(system, g=[0.5, 1.0])
    tolerance = 1e-3 if solver == SciPy("BDF") else 1e-5
    assert run.state.values[:, -1, 0] == pytest.approx([exact / 2, exact], rel=tolerance)
    pod = romkit.fit("pod", run, latent_dim=1, verbose=False)
    reduced = romkit.forecast(pod, initial_state=[0.0], system=system, duration=6.0, dt=0.1, g=1.0)
    assert float(reduced.state[-1, 0]) == pytest.approx(exact, rel=1e-5)


@dataclass(frozen=True)
class Fast(System):
    """ẍ = -k² x, of period 2π / k, sampled every 0.05."""

    step: float | None = None

    name = "fast"
    dt, duration, horizon = 0.05, 5.0, 5.0
    state_names = ("x", "v")
    context = (ContextParameter("k", "1", 1.0, 30.0, "frequency"),)

    def rhs(self, t, x, c):
        return torch.stack([x[..., 1], -(c[..., 0] ** 2) * x[..., 0]], dim=-1)

    def initial_state(self, contexts, rng):
        return torch.tensor([1.0, 0.0]).expand(len(contexts), 2)


@pytest.mark.parametrize(
    ("k", "step", "is_wrong"),
    [(20.0, None, True), (20.0, 0.005, False), (2.0, None, False), ([2.0, 20.0], None, True)],
)
def test_steps_that_are_too_long_are_warned_of(k, step, is_wrong):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = romkit.simulate(Fast(step=step), k=k)
    exact = np.cos(np.max(k) * run.time.values)
    assert (np.abs(run.state.values[-1, :, 0] - exact).max() > 0.1) == is_wrong
    assert [entry.category for entry in caught] == [RuntimeWarning] * is_wrong


@dataclass(frozen=True)
class Ring(System):
    """Heat on a ring, whose fastest modes are near the limit of stability and have no share."""

    name = "ring"
    dt, duration, horizon = 0.005, 1.0, 1.0
    state_names = tuple(f"x{k}" for k in range(30))
    context = (ContextParameter("k", "1", 50.0, 110.0, "conductivity"),)

    def rhs(self, t, x, c):
        return c * (x.roll(1, -1) - 2 * x + x.roll(-1, -1))

    def initial_state(self, contexts, rng):
        angle = 2 * np.pi * torch.arange(30, dtype=torch.float64) / 30
        return torch.sin(angle).expand(len(contexts), 30)


@pytest.mark.filterwarnings("error")
def test_steps_that_are_short_enough_are_not_warned_of():
    ring = romkit.simulate(Ring(), k=100.0)
    rate = 100 * (2 - 2 * np.cos(2 * np.pi / 30))
    exact = np.exp(-rate * ring.time.values)
    assert np.abs(ring.state.values[0, :, 7] / ring.state.values[0, 0, 7] - exact).max() < 1e-8
    # a transient that is over after some steps of many
    romkit.simulate(Stiff(step=0.01), k=100.0, duration=50.0)


class Kepler(System):
    """Two bodies, from their closest passage."""

    name, state_names, dt, duration, horizon = "kepler", tuple("xyuv"), 0.1, 6.3, 63.0
    context = (ContextParameter("e", "1", 0.1, 0.95, "eccentricity"),)

    def rhs(self, t, s, c):
        q, p = s.chunk(2, dim=-1)
        return torch.cat([p, -q / torch.linalg.vector_norm(q, dim=-1, keepdim=True) ** 3], -1)

    def initial_state(self, contexts, rng):
        e, zero = contexts, torch.zeros_like(contexts)
        return torch.cat([1 - e, zero, zero, torch.sqrt((1 + e) / (1 - e))], dim=-1)


@pytest.mark.parametrize(("e", "warned"), [(0.3, False), (0.8, True), (0.95, True)])
def test_steps_that_miss_a_close_passage_are_warned_of(e, warned):
    """A body that is thrown out by its first step moves slowly from there on."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        states = romkit.simulate(Kepler(), e=e).state.values[0]
    energy = (states[:, 2:] ** 2).sum(-1) / 2 - 1 / np.hypot(states[:, 0], states[:, 1])
    is_wrong = np.abs(energy + 0.5).max() > 0.05
    assert is_wrong == warned
    assert any("errs by" in str(one.message) for one in said) == warned


CELLS = 40
BAND = np.abs(np.subtract.outer(np.arange(CELLS), np.arange(CELLS)))
LINE = torch.linspace(0, 3, CELLS, dtype=torch.float64)


def diffusion(y, strength=1e4):
    padded = torch.nn.functional.pad(y, (1, 1))
    return strength * (padded[..., 2:] - 2 * y + padded[..., :-2])


def fronts(y):
    """A field with two states at rest, on cells that pull at each other."""
    return diffusion(y, 300.0) + 50 * y * (1 - y * y)


def reaction(y):
    """The Brusselator on half as many cells, its species in turns."""
    u, v = y[..., ::2], y[..., 1::2]
    made = u * u * v
    rates = 1 - 4 * u + made + diffusion(u, 500.0), 3 * u - made + diffusion(v, 500.0)
    return torch.stack(rates, -1).flatten(-2)


@pytest.mark.parametrize(("rate", "reach"), [(diffusion, 1), (fronts, 1), (reaction, 2)])
@pytest.mark.parametrize("method", ["BDF", "Radau"])
def test_a_sparse_jacobian_gives_the_states_of_scipy(rate, reach, method):
    times = torch.linspace(0, 0.1, 4, dtype=torch.float64)
    start = 1 + torch.sin(LINE)
    solver = SciPy(method, rtol=1e-8, atol=1e-10, jac_sparsity=reach >= BAND)
    states = solver(lambda t, y: rate(y), start[None], times).states[0]
    exact = solve_ivp(
        lambda t, y: rate(torch.from_numpy(y)).numpy(), (0, 0.1), start.numpy(),
        "Radau", t_eval=times.numpy(), rtol=1e-10, atol=1e-12,
    )  # fmt: skip
    assert states.T.numpy() == pytest.approx(exact.y, abs=1e-6)


def test_a_pattern_of_another_size_or_for_another_method_is_refused():
    refused("jac_sparsity", SciPy, "LSODA", jac_sparsity=BAND)
    wrong = SciPy("BDF", jac_sparsity=BAND[:5, :5])
    refused("jac_sparsity", wrong, lambda t, y: diffusion(y), LINE[None], torch.arange(2.0))
