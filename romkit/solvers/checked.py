"""Fixed steps that are short enough: for code that cannot control its error while it runs, and for
differences of solutions, which steps of changing length would make rough.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from romkit.core.boundary import Count, Part, Positive, Times, validated
from romkit.core.errors import warn
from romkit.core.types import Field
from romkit.engine import Repeated
from romkit.solvers.adaptive import Adaptive
from romkit.solvers.base import Solver
from romkit.solvers.fixed import RK4

ALLOWED = 10
"""Error, relative to a tolerance, that is no reason for shorter steps; solutions are compared with
one that is as many times more exact.
"""


@validated
def checked_step(
    field: Field,
    start: Tensor,
    times: Times,
    *,
    rtol: Positive = 1e-6,
    dt: Positive | None = None,
    make: Callable[[float], Solver] | type[Any] = RK4,
    order: Count = 4,
    closer: Part = 0.8,
    most_steps: Count = 20_000,
) -> float:
    """Return a fixed step with which the solution is as exact as that of `Adaptive(rtol)`, or errs
    by `ALLOWED` rtol at most, relative to each member's largest component.

    Where none is found, for a field that jumps, say, the shortest one that was tried is returned,
    with a warning.

    Args:
        field: f(t, y).
        start: (..., d) states at `times[0]`.
        times: (T,) of a run that is long enough to judge by.
        rtol: tolerance.
        dt: the longest step; the largest interval of `times` by default.
        make: solver of a step.
        order: of that solver.
        closer: share of the step that would be just short enough.
        most_steps: of a run.

    Example:
        >>> import torch
        >>> from romkit.solvers import checked_step
        >>> oscillator = lambda t, y: torch.stack([y[..., 1], -y[..., 0]], dim=-1)
        >>> start = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
        >>> times = torch.linspace(0, 5, 6, dtype=torch.float64)
        >>> 0.05 < checked_step(oscillator, start, times, rtol=1e-6) < 0.2
        True
    """
    # the length of steps is an argument of compiled loops, so that all runs share one
    repeated = Repeated(field, runs=2)

    def states(solver: Solver) -> Tensor:
        return solver(repeated, start, times).states

    @functools.cache
    def unavoidable() -> float:
        """Error of chaotic motion, which grows: that of the adaptive solution, too."""
        return largest_error(states(Adaptive(rtol=rtol)), exact)

    step = dt
    if step is None:
        step = float(times.diff().max())
    shortest = float(times[-1] - times[0]) / most_steps
    with torch.no_grad():
        exact = states(Adaptive(rtol=rtol / ALLOWED))
        allowed = ALLOWED * rtol
        error = largest_error(states(make(step)), exact)
        shortened = False
        while error > allowed and step > shortest:
            # the error falls with the order of the method, where steps are short enough
            shorter = closer * (allowed / error) ** (1 / order)
            step *= min(max(shorter, 0.2), 0.8)
            before = error
            error = largest_error(states(make(step)), exact)
            shortened = True
            if error > before / 2:
                allowed = max(allowed, unavoidable())
        # a step that became short in a leap may be far shorter than it has to be
        if shortened and 0 < error <= allowed:
            longer = step * closer * (allowed / error) ** (1 / order)
            if longer > step and largest_error(states(make(longer)), exact) <= allowed:
                step = longer
    if error > allowed:
        fix = "a jump of the field? give a solver with a step, RK4(dt), and look at what it makes of it"
        text = f"the step is {step:.2g}, of which the solution errs by {error:.1e} still; {fix}"
        warn(text, RuntimeWarning)
    return step


def largest_error(states: Tensor, exact: Tensor) -> float:
    """Return largest error of states (..., T, d), relative to each member's largest exact
    component, where the exact states are known; infinite where the others are not.
    """
    finite = exact.abs().nan_to_num(0.0)
    size = finite.amax((-2, -1), keepdim=True)
    apart = (states - exact).abs()
    relative = torch.where(size > 0, apart / size, apart)
    relative = torch.where(exact.isfinite(), relative, 0.0)
    return float(relative.nan_to_num(nan=torch.inf).max())
