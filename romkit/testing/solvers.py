"""The contract of solvers: accuracy, order, members, times."""

import functools

import numpy as np
import torch
from torch import Tensor

from romkit.core.boundary import Positive, validated
from romkit.core.errors import InputError
from romkit.solvers import Solver, Status
from romkit.testing.rules import close, fact, holds, list_rules, refused

TIMES = torch.linspace(0, 2, 5, dtype=torch.float64)
STARTS = torch.tensor([[0.2], [0.5], [3.0]], dtype=torch.float64)


def logistic(t: Tensor, y: Tensor) -> Tensor:
    """ẏ = y (1 - y): settles at 1 from y₀ > 0, and ends in finite time for y₀ < 0."""
    return y * (1 - y)


def logistic_solution(t: Tensor, y0: Tensor) -> Tensor:
    """(..., T, 1) from y0 (..., 1) at t = 0."""
    decay = torch.exp(-t).unsqueeze(-1)
    return y0.unsqueeze(-2) / (y0.unsqueeze(-2) * (1 - decay) + decay)


def accuracy(solver: Solver, tolerance: float) -> None:
    """States at the requested times, and there alone, in the precision of the start; a record of
    the cost.
    """
    times, states, status, cost = solver(logistic, STARTS, TIMES)
    fact("output at the requested times alone", TIMES.tolist(), times.tolist())
    close("states = known solution", states, logistic_solution(TIMES, STARTS), tolerance)
    fact("status of what completes", [Status.COMPLETED] * 3, status.tolist())
    recorded = {"solver", "engine", "seconds_compiling", "seconds_computing"}
    fact("what the cost records", [], sorted(recorded - cost.keys()))
    single = solver(logistic, STARTS.float(), TIMES)
    fact("precision of float32 states", torch.float32, single.states.dtype)
    close("float32 = float64", single.states.double(), states, max(tolerance, 1e-5))


def solver_batch(solver: Solver, tolerance: float) -> None:
    """A batch equals a loop, and a member that is lost is NaN and leaves the others as they are."""
    together = solver(logistic, STARTS, TIMES).states
    alone = torch.stack([solver(logistic, y0, TIMES).states for y0 in STARTS])
    close("batch = loop", together, alone, tolerance)
    # the one that starts at -1 ends at t = log 2
    lost = torch.tensor([[-1.0], [torch.nan]], dtype=torch.float64)
    beside = solver(logistic, torch.cat([lost, STARTS]), TIMES)
    statuses = [Status.DIVERGED] * 2 + [Status.COMPLETED] * 3
    fact("status of what diverges", statuses, beside.status.tolist())
    until_log_2 = [True] * 2 + [False] * 3
    fact("finite before it diverges, NaN from then on", until_log_2, _finite(beside.states[0]))
    fact("NaN from the start stays", [False] * 5, _finite(beside.states[1]))
    close("neighbours of what diverges", beside.states[2:], together, tolerance)


def clock(solver: Solver, tolerance: float) -> None:
    """Times may start anywhere, and may be a single one; they must be sorted."""
    start, times = torch.ones(1, dtype=torch.float64), TIMES + 3
    states = solver(lambda t, y: torch.cos(t) * y, start, times).states
    exact = torch.exp(torch.sin(times) - torch.sin(times[0])).unsqueeze(-1)
    close("times that do not start at zero", states, exact, tolerance)
    close("a single time", solver(logistic, STARTS, TIMES[:1]).states, STARTS.unsqueeze(-2))
    wrong_times = {
        "falling times": TIMES.flip(0),
        "equal times": TIMES[[0, 1, 1]],
        "a table": TIMES[None],
    }
    for name, wrong in wrong_times.items():
        call = functools.partial(solver, logistic, STARTS, wrong)
        refused(f"{name} are refused", InputError, call)
    call = functools.partial(solver, logistic, STARTS, TIMES, engine="abacus")
    refused("an unknown engine is refused", InputError, call)


def convergence(solver: Solver, order: float) -> None:
    """The error over steps of length 0.2, 0.1 and 0.05 falls with this order.

    The field is sped up so far that one step per output time is short for the solver.
    """
    tiny, steps, y0 = 1e-6, (0.2, 0.1, 0.05), STARTS[:2]
    errors = []
    # one step per output time, whatever the solver's own step
    for h in steps:
        times = torch.arange(round(2 / h) + 1, dtype=torch.float64)
        speed = h / tiny
        fast = lambda t, y, speed=speed: speed * logistic(t, y)  # noqa: E731
        states = solver(fast, y0, tiny * times).states
        errors.append((states - logistic_solution(h * times, y0)).abs().max().item())
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    holds(abs(slope - order) < 0.3, f"order of convergence: expected {order:g}, got {slope:.2f}")


@validated
def check_solver(
    solver: Solver, *, order: Positive | None = None, tolerance: Positive = 1e-6
) -> None:
    """Raise AssertionError with rule, error and tolerance if `solver` breaks a rule of solvers.

    Args:
        solver: with settings that solve ẏ = y (1 - y) over two units of time to the tolerance.
        order: of a method with a fixed step, to be confirmed by regression.
        tolerance: largest relative error.

    Example:
        >>> import romkit
        >>> from romkit.solvers import RK4
        >>> romkit.testing.check_solver(RK4(0.02), order=4)  # silent, since every rule holds
    """
    with list_rules(str(solver)):
        for rule in (accuracy, solver_batch, clock):
            rule(solver, tolerance)
        if order is not None:
            convergence(solver, order)


def _finite(states: Tensor) -> list[bool]:
    return states.isfinite().all(-1).tolist()
