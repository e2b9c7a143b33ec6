"""Solvers: order by regression, agreement with SciPy, and members that do not disturb each other."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import romkit
from romkit.core.errors import InputError
from romkit.solvers import RK4, Adaptive, PerMember, Status

T64 = torch.float64


def pendulum(t, y):
    return torch.stack([y[..., 1], -torch.sin(y[..., 0]) + 0.1 * torch.cos(t)], dim=-1)


def reference(y0, t_end):
    def f(t, y):
        return [y[1], -math.sin(y[0]) + 0.1 * math.cos(t)]

    return solve_ivp(f, (0, t_end), y0, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]


def test_rk4_has_order_four():
    y0 = torch.tensor([1.0, 0.3], dtype=T64)
    exact = torch.from_numpy(reference(y0.tolist(), 2.0))
    steps = np.array([0.2, 0.1, 0.05, 0.025])
    times = torch.tensor([0.0, 2.0], dtype=T64)
    errors = [(RK4(h)(pendulum, y0, times).states[-1] - exact).norm().item() for h in steps]
    order = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert order == pytest.approx(4, abs=0.15)


@pytest.mark.parametrize("method", ["dopri5", "dopri8", "bosh3"])
def test_adaptive_meets_its_tolerance_for_every_member(method):
    y0 = torch.tensor([[1.0, 0.3], [0.0, 1e-3], [2.0, -1.0]], dtype=T64)
    times = torch.linspace(0, 5, 6, dtype=T64)
    states = Adaptive(method=method, rtol=1e-9, atol=1e-10)(pendulum, y0, times).states
    exact = np.stack([reference(y, 5.0) for y in y0.tolist()])
    assert np.allclose(states[:, -1], exact, atol=1e-6)


@pytest.mark.parametrize("method", ["dopri5", "dopri8", "bosh3"])
def test_adaptive_meets_its_tolerance_between_its_steps(method):
    times = torch.linspace(0, 3, 31, dtype=T64)
    states = Adaptive(method, rtol=1e-7, atol=1e-7)(lambda t, y: -y, torch.ones(1, 1, dtype=T64), times).states
    assert (states[0, :, 0] - torch.exp(-times)).abs().max() < 2e-6


@pytest.mark.parametrize("solver", [Adaptive, PerMember])
def test_the_error_follows_the_tolerance(solver):
    """A hundred times smaller tolerances give errors about a hundred times smaller."""
    y0 = torch.tensor([1.0, 0.3], dtype=T64)
    exact = torch.from_numpy(reference(y0.tolist(), 20.0))
    times = torch.tensor([0.0, 20.0], dtype=T64)
    tolerances = np.array([1e-4, 1e-6, 1e-8, 1e-10])
    errors = [(solver(rtol=tol, atol=tol)(pendulum, y0, times).states[-1] - exact).norm().item() for tol in tolerances]
    assert np.polyfit(np.log(tolerances), np.log(errors), 1)[0] == pytest.approx(1, abs=0.2)


def test_output_times_do_not_change_the_result():
    y0 = torch.tensor([1.0, 0.3], dtype=T64)
    coarse = RK4(0.01)(pendulum, y0, torch.tensor([0.0, 1.0], dtype=T64)).states[-1]
    fine = RK4(0.01)(pendulum, y0, torch.linspace(0, 1, 101, dtype=T64)).states[-1]
    assert torch.allclose(coarse, fine, atol=1e-13)


def blow_up(t, y):
    """ẏ = y²: the solution from y₀ > 0 ends at t = 1/y₀."""
    return y.square()


@pytest.mark.parametrize("solver", [RK4(1e-3), Adaptive(rtol=1e-8, atol=1e-10)])
def test_a_diverging_member_is_scored_and_leaves_its_neighbours_alone(solver):
    y0 = torch.tensor([[-1.0], [2.0], [0.1]], dtype=T64)
    times = torch.linspace(0, 1, 11, dtype=T64)
    together = solver(blow_up, y0, times)
    assert together.status.tolist() == [Status.COMPLETED, Status.DIVERGED, Status.COMPLETED]
    assert together.states[1, :5].isfinite().all()
    assert together.states[1, 6:].isnan().all()
    exact = y0[[0, 2]] / (1 - y0[[0, 2]] * times)
    assert torch.allclose(together.states[[0, 2], :, 0], exact, atol=1e-6)
    if isinstance(solver, RK4):
        alone = solver(blow_up, y0[[0, 2]], times)
        assert torch.equal(together.states[[0, 2]], alone.states)


def test_a_field_that_becomes_nan_is_a_divergence():
    solution = RK4(0.1)(lambda t, y: torch.log(y) * 0 - 1, torch.tensor([0.5], dtype=T64), torch.linspace(0, 1, 5))
    assert solution.status.item() == Status.DIVERGED


def test_bad_arguments_are_named():
    y0 = torch.zeros(1, dtype=T64)
    with pytest.raises(InputError, match="dt: expected a positive number"):
        RK4(-0.1)
    with pytest.raises(InputError, match="times: expected times that increase"):
        RK4(0.1)(pendulum, y0, torch.tensor([0.0, 1.0, 0.5]))
    with pytest.raises(InputError, match="did you mean 'dopri"):
        Adaptive(method="dopri")


def test_lorenz_agrees_with_scipy():
    """Must hold: 1e-6 over one time unit against DOP853 at rtol 1e-12."""
    system = romkit.systems.Lorenz96(transient=20.0)
    data = system.dataset(F=[3.14, 3.19], duration=1.01)
    for trajectory in range(2):
        F = data.F.values[trajectory]

        def rhs(t, x, F=F):
            return (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + F

        states = data.state.values[trajectory]
        exact = solve_ivp(rhs, (0, 1.0), states[0], method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
        assert np.abs(states[100] - exact).max() < 1e-6
        field = np.array([rhs(0, x) for x in states])
        assert np.abs(data.velocity.values[trajectory] - field).max() < 1e-12
