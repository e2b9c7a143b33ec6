"""Runs that are one motion at several speeds: their clocks, and runs interpolated at equal phases.

A chemical reaction passes the same states at each temperature, by orders of magnitude sooner or
later. At equal times such runs have little in common; at equal phases t/τ, by the clock τ of each
run, they are neighbours.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from romkit.core.polynomials import Monomials
from romkit.core.types import Array
from romkit.laws.baselines import interpolated_runs
from romkit.learning.expected import SPLINE, combined
from romkit.numerics import Smoother

SAMPLES, COMPONENTS = 2000, 50
"""Most samples and components by which two runs are compared."""

LAST, AT_REST = 0.1, 1e-3
"""Share of the time of a run, and by how much it may move in it [deviations], to rest at its end."""

Course = Callable[[Array], Array]
"""States (S, n) of a run at times (S,) since its first one."""

DEGREE = 5
"""Highest degree of polynomials that clocks may follow."""


def measure_clocks(states: Array, times: Array, contexts: Array) -> Array:
    """Logarithms (C,) of the clocks of runs, the median 0: each run is aligned to a neighbour.

    Args:
        states: (C, T, n) of runs that begin alike, in deviations, without gaps.
        times: (T,).
        contexts: (C, p) of the runs, scaled.
    """
    rows = np.unique(np.linspace(0, len(times) - 1, SAMPLES).round().astype(int))
    columns = np.unique(np.linspace(0, states.shape[-1] - 1, COMPONENTS).round().astype(int))
    coarse = states[:, rows][:, :, columns]
    since = times[rows] - times[0]
    clocks = np.zeros(len(states))
    for run, neighbour in _tree(contexts):
        clocks[run] = clocks[neighbour] + _ratio(coarse[run], coarse[neighbour], since)
    return clocks - np.median(clocks)


def _tree(contexts: Array) -> list[tuple[int, int]]:
    """Return pairs (run, neighbour) of a shortest tree, each neighbour before its runs."""
    distance = np.linalg.norm(contexts[:, None] - contexts, axis=-1)
    # the run in the middle is the first one
    middle = int(distance.sum(1).argmin())
    reached = [middle]
    pairs = []
    while len(reached) < len(contexts):
        unreached = np.setdiff1d(np.arange(len(contexts)), reached)
        between = distance[unreached][:, reached]
        place, nearest = np.unravel_index(between.argmin(), between.shape)
        pairs.append((int(unreached[place]), reached[nearest]))
        reached.append(int(unreached[place]))
    return pairs


def _ratio(run: Array, neighbour: Array, since: Array) -> float:
    """Logarithm of the clock of a run (T, n) in that of a neighbour, by least squares."""
    slower = _slower(run, neighbour, since)
    faster = _slower(neighbour, run, since)
    if slower[1] <= faster[1]:
        return slower[0]
    return -faster[0]


def _slower(
    slow: Array,
    fast: Array,
    since: Array,
    *,
    slowest: float = 30.0,
    tried: int = 120,
    refined: int = 11,
    refinements: int = 7,
) -> tuple[float, float]:
    """Logarithm, 0 or more, of the clock of a run (T, n) in that of a faster one, and the mean square
    distance that is left over the whole slower run.

    `slowest`: largest ratio of the clocks of neighbouring runs.

    `tried`, `refined`, `refinements`: ratios that are tried, on a grid of their logarithms, and
    again around the best one, so often.
    """
    from scipy.interpolate import CubicSpline  # slow to import, and seldom needed

    course = CubicSpline(since, fast)
    logarithms = np.linspace(0.0, np.log(slowest), tried)
    step = logarithms[1]
    for _ in range(1 + refinements):
        distances = []
        for logarithm in logarithms:
            stretched = course(since * np.exp(-logarithm))
            distances.append(np.square(slow - stretched).mean())
        best = int(np.argmin(distances))
        middle = logarithms[best]
        logarithms = np.maximum(middle + step * np.linspace(-1, 1, refined), 0.0)
        step = 2 * step / (refined - 1)
    return float(middle), float(distances[best])


def sample_phases(states: Array, times: Array, clocks: Array, phases: Array) -> Array:
    """Return states (C, S, n) of runs (C, T, n) at phases (S,): times since the first one by the
    median clock.

    A run that has ended goes on as the nearest one that has not, from where it was: so does one that
    has come to rest, and one of several that are the same motion.
    """
    from scipy.interpolate import CubicSpline  # slow to import, and seldom needed

    since = times - times[0]
    end = since[-1] * np.exp(-clocks)  # (C,) phases at which runs end
    result = np.empty((len(states), len(phases), states.shape[-1]))
    longer = None
    course_of_longer = None
    # splines are linear in their values: those of unit vectors are of all runs, and fewer than
    # the components of a field
    units = CubicSpline(since, np.eye(len(since))) if len(since) < states.shape[-1] else None
    for run in np.argsort(-end, kind="stable"):
        course = CubicSpline(since, states[run]) if units is None else _combined(units, states[run])
        own_times = np.minimum(phases * np.exp(clocks[run]), since[-1])
        result[run] = course(own_times)
        is_over = phases > end[run]
        if longer is not None and course_of_longer is not None and is_over.any():
            time_of_longer = min(end[run] * np.exp(clocks[longer]), since[-1])
            since_then = result[longer, is_over] - course_of_longer(time_of_longer)
            result[run, is_over] += since_then
        longer = run
        course_of_longer = course
    return result


def _combined(units: Course, values: Array) -> Course:
    """Return the course through values (T, n), of those through unit vectors (T, T)."""
    return lambda times: units(times) @ values


def is_settling(course: Array) -> bool:
    """Tell whether a run (T, n), in deviations, hardly moves in the last part of its time."""
    end = course[-max(2, round(LAST * len(course))) :]
    return bool(np.ptp(end, axis=0).max() <= AT_REST)


def fit_clock(clocks: Array, contexts: Tensor, wanted: Tensor) -> Array:
    """Logarithms (k,) of the clocks at wanted contexts (k, p), from those of runs (C, p): by splines
    through these, or by the polynomial that errs less at runs that are left out.

    Clocks are smoother in the context than states, and a power law or an Arrhenius law is nearly a
    polynomial of few terms.
    """
    values = torch.from_numpy(clocks)[:, None, None]
    best = interpolated_runs(values, contexts, wanted)[:, 0, 0].numpy()
    least = _spline_error(values, contexts)
    for degree in range(1, DEGREE + 1):
        monomials = Monomials(contexts.shape[1], degree)
        terms = monomials(contexts).numpy()  # (C, q)
        if terms.shape[1] > len(clocks) - 2:
            break
        inverse = np.linalg.pinv(terms)
        coefficients = inverse @ clocks
        leverage = (terms * inverse.T).sum(1)
        residual = clocks - terms @ coefficients
        error = np.square(residual / np.maximum(1 - leverage, 1e-12)).mean()
        if error < least:
            least = error
            best = monomials(wanted).numpy() @ coefficients
    return best


def _spline_error(values: Tensor, contexts: Tensor) -> float:
    """Return mean square error of splines at runs that are left out in turn."""
    squares = []
    for run in range(len(values)):
        is_kept = torch.arange(len(values)) != run
        between = interpolated_runs(values[is_kept], contexts[is_kept], contexts[run : run + 1])
        squares.append(float((between - values[run]).square().mean()))
    return float(np.mean(squares))


def interpolate_phases(
    states: Array,
    times: Array,
    clocks: Array,
    contexts: Tensor,
    wanted: Tensor,
    wanted_times: Array,
    smoother: Smoother = SPLINE,
) -> Array:
    """Return states (k, S, n) at wanted contexts (k, p) and times (S,), between runs (C, T, n) at
    equal phases.
    """
    courses = []
    for context, clock in zip(wanted, fit_clock(clocks, contexts, wanted), strict=True):
        phases = (wanted_times - times[0]) * np.exp(-clock)
        of_runs = torch.from_numpy(sample_phases(states, times, clocks, phases))
        courses.append(combined(smoother.weights(contexts, context[None]), of_runs))
    return torch.cat(courses).numpy()
