"""Solvers: order by regression, agreement with SciPy, and members that do not disturb each other."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import romkit
from romkit.solvers import RK4, Adaptive, ImplicitMidpoint, Restarted, Status, TorchDiffEq

T64 = torch.float64


def pendulum(t, y):
    return torch.stack([y[..., 1], -torch.sin(y[..., 0])], dim=-1)


def reference(y0, times):
    """(T, 2) from y0 (2,), by SciPy."""
    f = lambda t, y: [y[1], -math.sin(y[0])]  # noqa: E731
    found = solve_ivp(f, (0, times[-1]), y0, "DOP853", t_eval=times, rtol=1e-12, atol=1e-13)
    return torch.from_numpy(found.y.T)


TIGHT = {"rtol": 1e-9, "atol": 1e-9}
KINDS = [
    Adaptive(**TIGHT),
    Adaptive(rtol=1e-9),
    *(TorchDiffEq(method, **TIGHT) for method in ("dopri5", "dopri8", "bosh3")),
]


@pytest.mark.parametrize("solver", KINDS)
def test_every_member_agrees_with_scipy(solver):
    """The second one starts close to the top."""
    y0 = torch.tensor([[[1.0, 0.3], [3.1, 0.0]], [[0.0, 1e-3], [2.0, -1.0]]], dtype=T64)
    times = torch.linspace(0, 5, 6, dtype=T64)
    found = solver(pendulum, y0, times)
    exact = torch.stack([reference(y.tolist(), times.tolist()) for y in y0.flatten(0, 1)])
    assert not found.status.any()
    assert torch.allclose(found.states.flatten(0, 1), exact, rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", ["dopri5", "dopri8", "bosh3"])
def test_adaptive_meets_its_tolerance_between_its_steps(method):
    times = torch.linspace(0, 3, 31, dtype=T64)
    states = TorchDiffEq(method, rtol=1e-7, atol=1e-7)(
        lambda t, y: -y, torch.ones(1, 1, dtype=T64), times
    ).states
    assert (states[0, :, 0] - torch.exp(-times)).abs().max() < 2e-6


@pytest.mark.parametrize("solver", [Adaptive, TorchDiffEq])
def test_the_error_follows_the_tolerance(solver):
    """A hundred times smaller tolerances give errors about a hundred times smaller."""
    y0, times = torch.tensor([1.0, 0.3], dtype=T64), torch.tensor([0.0, 20.0], dtype=T64)
    exact = reference(y0.tolist(), times.tolist())[-1]
    tolerances = np.array([1e-4, 1e-6, 1e-8, 1e-10])
    errors = [
        (solver(rtol=tol, atol=tol)(pendulum, y0, times).states[-1] - exact).norm().item()
        for tol in tolerances
    ]
    assert np.polyfit(np.log(tolerances), np.log(errors), 1)[0] == pytest.approx(1, abs=0.2)


def test_output_times_do_not_change_the_result():
    y0 = torch.tensor([1.0, 0.3], dtype=T64)
    coarse = RK4(0.01)(pendulum, y0, torch.tensor([0.0, 1.0], dtype=T64)).states[-1]
    fine = RK4(0.01)(pendulum, y0, torch.linspace(0, 1, 101, dtype=T64)).states[-1]
    assert torch.allclose(coarse, fine, atol=1e-13)


def blow_up(t, y):
    """ẏ = y²: the solution from y₀ > 0 ends at t = 1/y₀."""
    return y.square()


COMPILED = RK4(1e-3), ImplicitMidpoint(1e-3), Restarted(RK4(1e-3), 2, lambda t, y: y)
RUNS = [
    *itertools.product(COMPILED, ("torch", "compiled")),
    (Adaptive(rtol=1e-8), "torch"),
    (Adaptive(rtol=1e-8), "compiled"),
    (TorchDiffEq(rtol=1e-8), "torch"),
]


@pytest.mark.parametrize(("solver", "engine"), RUNS, ids=lambda part: type(part).__name__)
def test_a_diverging_member_is_scored_and_its_neighbours_are_the_same_to_the_bit(solver, engine):
    """Members of `TorchDiffEq` share their steps: those that stay are near what they are alone."""
    y0 = torch.tensor([[-1.0], [2.0], [0.1], [torch.nan], [1e200]], dtype=T64)
    times, well, healthy = torch.linspace(0, 1, 11, dtype=T64), y0[[0, 2]], y0.clone()
    healthy[[1, 3, 4]] = 0.3
    together, unharmed = (solver(blow_up, y, times, engine=engine) for y in (y0, healthy))
    bad, good = Status.DIVERGED, Status.COMPLETED
    assert together.status.tolist() == [good, bad, good, bad, bad]
    assert together.states[1, :5].isfinite().all()
    assert together.states[1, 6:].isnan().all()
    assert together.states[3:].isnan().all()
    assert torch.allclose(
        together.states[[0, 2], :, 0], well / (1 - well * times), rtol=0, atol=1e-5
    )
    assert torch.equal(together.states[[0, 2]], unharmed.states[[0, 2]]) or isinstance(
        solver, TorchDiffEq
    )


def test_lorenz_agrees_with_scipy():
    """Must hold: 1e-6 over one time unit against DOP853 at rtol 1e-12."""
    system = romkit.systems.Lorenz96(transient=20.0)
    data = system.dataset(F=[3.14, 3.19], duration=1.01)
    for trajectory in range(2):
        F = data.F.values[trajectory]

        def rhs(t, x, F=F):
            return (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + F

        states = data.state.values[trajectory]
        exact = solve_ivp(rhs, (0, 1.0), states[0], method="DOP853", rtol=1e-12, atol=1e-12).y[
            :, -1
        ]
        assert np.abs(states[100] - exact).max() < 1e-6
        field = np.array([rhs(0, x) for x in states])
        assert np.abs(data.velocity.values[trajectory] - field).max() < 1e-12
