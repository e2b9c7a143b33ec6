"""What all solvers must do: `romkit.testing.check_solver` on each of them, and on broken ones."""

import inspect
import math
from dataclasses import dataclass

import pytest
import torch

from romkit import solvers
from romkit.core.errors import InputError
from romkit.solvers import (
    RK4,
    Adaptive,
    Exponential,
    ImplicitMidpoint,
    Restarted,
    SciPy,
    Solver,
    Status,
    TorchDiffEq,
)
from romkit.solvers.fixed import Grid
from romkit.testing import check_solver
from tests.refusals import refused

TIGHT = {"rtol": 1e-8, "atol": 1e-9}
REGISTERED = {
    RK4(0.01): 4,
    ImplicitMidpoint(0.02): 2,
    Restarted(RK4(0.01), 1, lambda t, y: y): 4,
    Restarted(Adaptive(**TIGHT), 2, lambda t, y: y): None,
    Adaptive(**TIGHT): None,
    **{TorchDiffEq(method, **TIGHT): None for method in ("dopri5", "dopri8")},
    SciPy("Radau", rtol=1e-7, atol=1e-9): None,
    SciPy("LSODA", rtol=1e-8, atol=1e-10): None,
}
"""Each with its order, if it has one."""

COARSE = {ImplicitMidpoint: 1e-3}
"""Tolerance of what is of low order."""


def test_all_solvers_are_here():
    exported = {
        kind for kind in map(solvers.__dict__.get, solvers.__all__) if inspect.isclass(kind)
    }
    concrete = {
        kind for kind in exported if issubclass(kind, Solver) and not inspect.isabstract(kind)
    }
    assert concrete - {Exponential} == {type(solver) for solver in REGISTERED}


def test_exact_steps_of_an_affine_field_keep_what_of_the_contract_is_affine():
    """All laws of the contract but its logistic equation, which is not affine."""
    times = torch.tensor([3.0, 3.1, 4.0, 6.0], dtype=torch.float64)
    starts = torch.tensor([[0.2], [0.5], [torch.nan]], dtype=torch.float64)
    relaxing = lambda t, y: 1 - 2 * y  # noqa: E731
    found = Exponential()(relaxing, starts, times)
    exact = 0.5 + (starts - 0.5).unsqueeze(1) * torch.exp(-2 * (times - 3)).unsqueeze(-1)
    assert torch.allclose(found.states, exact, rtol=0, atol=1e-12, equal_nan=True)
    assert found.status.tolist() == [Status.COMPLETED, Status.COMPLETED, Status.DIVERGED]
    alone = torch.stack([Exponential()(relaxing, y0, times).states for y0 in starts[:2]])
    assert torch.allclose(found.states[:2], alone, rtol=0, atol=1e-14)
    growing = Exponential()(lambda t, y: 100 * y, starts[:2], times)
    assert growing.status.tolist() == [Status.DIVERGED] * 2
    assert Exponential()(relaxing, starts.float(), times).states.dtype == torch.float32
    assert Exponential()(relaxing, torch.zeros(3, 0, 2), times).states.shape == (3, 0, 4, 2)
    refused("field", Exponential(), lambda t, y: torch.cat([y, y], dim=-1), starts, times)
    refused("times", Exponential(), relaxing, starts, times.flip(0))


@pytest.mark.parametrize("start", [0.0, 1e-15, 3.0])
def test_starts_near_zero_keep_the_matrix_of_an_affine_field(start):
    times = torch.linspace(0, 5, 6, dtype=torch.float64)
    y0 = torch.full((1,), start, dtype=torch.float64)
    states = Exponential()(lambda t, y: 23 - 3.7 * y, y0, times).states
    rest = 23 / 3.7
    exact = rest + (start - rest) * torch.exp(-3.7 * times)
    assert states[..., 0].flatten().numpy() == pytest.approx(exact.numpy(), rel=1e-12)


@pytest.mark.parametrize("solver", REGISTERED, ids=lambda solver: f"{solver}"[:40])
def test_contract(solver):
    check_solver(solver, order=REGISTERED[solver], tolerance=COARSE.get(type(solver), 1e-6))
    found = solver(lambda t, y: -y, torch.zeros(3, 0, 2), torch.linspace(0, 1, 5))
    assert (found.states.shape, found.status.shape) == (
        (3, 0, 5, 2),
        (3, 0),
    )  # a batch without members stays one
    y, times = torch.ones(1, 3, dtype=torch.float64), torch.linspace(0, 1, 3, dtype=torch.float64)
    refused(
        "field",
        solver,
        lambda t, y: y[..., :1],
        y,
        times,
    )


@pytest.mark.parametrize("method", SciPy.METHODS)
def test_a_member_that_leaves_the_domain_of_its_field_is_lost_alone(method):
    times, y = (
        torch.linspace(0, 2, 5, dtype=torch.float64),
        torch.tensor([[0.0], [-9.0]], dtype=torch.float64),
    )
    found = SciPy(method)(lambda t, y: 1 + (1 - y).sqrt(), y, times)
    assert found.status.tolist() == [1, 0]
    assert bool(found.states[0, :2].isfinite().all())  # what was before stays
    at_once = SciPy(method)(lambda t, y: torch.where(t > 0, torch.nan, -y), y, times)
    assert at_once.status.tolist() == [1, 1]

    def refusing(t, y):
        if t > 0.5:
            raise InputError("F", expected="a number", got="none", fix="give one")
        return -y

    refused("F", SciPy(method), refusing, y, times)  # no divergence


@pytest.mark.parametrize(
    ("rtol", "atol", "dtype"),
    [(1e-12, None, "float32"), (1e-17, 1e-300, "float32"), (1e-20, None, "float64")],
)
def test_a_tolerance_that_rounding_exceeds_is_refused(rtol, atol, dtype):
    """Its steps would shrink without end."""
    y, times = torch.ones(1, 2, dtype=getattr(torch, dtype)), torch.linspace(0, 1, 3)
    refused("rtol", Adaptive(rtol=rtol, atol=atol), lambda t, y: -y, y, times)
    states = Adaptive(rtol=rtol, atol=1e-6)(lambda t, y: -y, y, times).states  # atol can be reached
    assert abs(float(states[0, -1, 0]) - math.exp(-1)) < 1e-5


@dataclass(frozen=True)
class Euler(Solver):
    """One step per output time, or several."""

    steps: int = 1
    shared: bool = False

    def prepare(self, field, y0, times, engine, label):
        def run(y, times):
            states = [y]
            for t, h in zip(times, times.diff() / self.steps, strict=False):
                for k in range(self.steps):
                    rate = field(t + k * h, y)
                    y = y + h * (
                        rate + 0.1 * y.nan_to_num().clamp(-10, 0).sum() if self.shared else rate
                    )
                states.append(y)
            return torch.stack(states)

        return run, "torch"


def test_a_solver_of_ones_own_is_checked_for_order_and_accuracy():
    check_solver(Euler(steps=100), order=1, tolerance=1e-2)
    for solver, order, law in (
        (Euler(), None, r"Euler.*states = known solution: relative error"),
        (Euler(steps=100), 2, "order of convergence: expected 2, got"),
        (Euler(steps=100, shared=True), None, "of what diverges"),
    ):
        refused(law, check_solver, solver, order=order, tolerance=1e-2, error=AssertionError)


def test_rounded_times_take_no_further_steps():
    times = 100 + torch.linspace(0, 10, 1001, dtype=torch.float64)
    for each in (times, times.float(), times + 1e7):
        assert Grid.cover(each, 0.01).count == 1000
    assert Grid.cover(times, 0.0099).count == 2000
