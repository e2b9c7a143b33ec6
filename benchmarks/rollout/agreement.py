"""Before anything is timed: all contestants evaluate the same field and follow the same trajectories."""

from collections.abc import Callable

from torch import Tensor

from benchmarks.rollout.problem import DT, Problem
from romkit.engine.compiled import RungeKutta
from romkit.solvers import RK4

FIELD_TOLERANCE = 1e-10
"""Relative to the largest component of a velocity, and of a state where two contestants use one method."""

METHOD_FACTOR = 10
"""Errors by which another method's may exceed that of RK4 with the same step."""

Adaptive = Callable[[Problem, float], Callable[[int], Tensor]]
LADDER = tuple(10 ** (-k / 2) for k in range(6, 25))
"""Tolerances 1e-3, ..., 1e-12."""


class Disagreement(AssertionError):
    """Contestants do not compute the same."""


def check_fields(problem: Problem, others: dict[str, Tensor]) -> float:
    """Largest difference of ż (C, m) at the start from torch's, relative; romkit's compiled field is among them."""
    start = problem.times(0)[0]
    expected = problem.g(start, problem.z0)
    found = dict(others)
    if problem.z0.device.type == "cpu":
        found["romkit, compiled"] = RungeKutta(problem.g, problem.times(1), problem.z0).evaluate(0.0, problem.z0)
    return max((_close(f"the field of {name}", z, expected, FIELD_TOLERANCE) for name, z in found.items()), default=0.0)


def check_trajectories(problem: Problem, states: dict[str, Tensor], same_method: set[str]) -> dict[str, float]:
    """Errors of the states (C, m) after one time unit, those of `same_method` being equal to rounding."""
    exact = _exact(problem, 1)[-1]
    errors = {name: float((z - exact).abs().max()) for name, z in states.items()}
    reference = next(name for name in states if name in same_method)
    for name in same_method & states.keys():
        _close(f"the trajectory of {name}", states[name], states[reference], FIELD_TOLERANCE)
    for name, error in errors.items():
        if not error <= METHOD_FACTOR * errors[reference]:
            raise Disagreement(f"{name} has an error of {error:.1e}, RK4 one of {errors[reference]:.1e}")
    return errors


def calibrate(problem: Problem, adaptive: Adaptive, intervals: int) -> dict[str, float]:
    """The largest tolerance of the ladder with which an adaptive solver is as accurate as RK4 with step DT."""
    exact = _exact(problem, intervals)
    wanted = float((_rk4(problem, DT, intervals) - exact).abs().max())
    for tolerance in LADDER:
        error = float((adaptive(problem, tolerance)(intervals) - exact).abs().max())
        if error <= wanted:
            return {"tolerance": tolerance, "error": error, "rk4_error": wanted}
    raise Disagreement(f"no tolerance gives the error of RK4, {wanted:.1e}; the last one gives {error:.1e}")


def _exact(problem: Problem, intervals: int) -> Tensor:
    """RK4 with a tenth of the step, which has a ten thousandth of the error."""
    return _rk4(problem, DT / 10, intervals)


def _rk4(problem: Problem, dt: float, intervals: int) -> Tensor:
    return RK4(dt)(problem.g, problem.z0, problem.times(intervals)).states.movedim(-2, 0)[1:]


def _close(what: str, found: Tensor, expected: Tensor, tolerance: float) -> float:
    difference = float((found.to(expected.device) - expected).abs().max() / expected.abs().max())
    if not difference <= tolerance:
        raise Disagreement(f"{what} differs by {difference:.1e}")
    return difference
