"""Gaps of runs: intervals between samples that are too long, or too rough, to be filled."""

from collections.abc import Callable

import numpy as np

from romkit.core.types import Array

LONGEST = 3.0
"""Longest interval that is filled by default, in usual ones of the run or in the one beside it."""

GROWTH = 10.0 * (1 + 1e-6)
"""Factor by which integrators lengthen a step at most, up to rounding of the times."""

ERROR = 0.01
"""Largest error of splines through common times at the samples, and largest distance between a
spline and a straight line that count as one, in deviations of a component.
"""

ROUNDING = 1e-9
"""Relative difference of numbers that count as equal."""

Rule = Callable[[Array], Array]


def vary(intervals: Array, *, uneven: float = 4.0) -> bool:
    """Tell whether intervals are as different as those of an adaptive integrator.

    `uneven`: ratio of the long intervals to the short ones from which on intervals vary.
    """
    short, long = np.quantile(intervals, [0.1, 0.9])
    return bool(long > uneven * short)


def usual_interval(run: Array) -> float:
    """Median of the intervals of a clock."""
    return float(np.median(np.diff(run)))


def gaps_of(run: Array, curve: Rule, deviation: Array, longest: float | None) -> Array:
    """Which intervals between the samples of a run are gaps.

    Args:
        run: its times (N,).
        curve: through its samples, (..., n) at times (...).
        deviation: (n,), by which it is decided whether the curve is a straight line.
        longest: intervals that are longer are gaps; None for the rule of `resampled`.
    """
    intervals = np.diff(run)
    if longest is not None:
        return intervals > longest + rounding_of(run)
    is_filled = _grown(intervals, np.full_like(intervals, LONGEST))
    if is_filled.all() or not vary(intervals):
        return ~is_filled
    gaps = np.flatnonzero(~is_filled)
    growth = np.full_like(intervals, LONGEST)
    is_straight = _straight(curve, run[gaps], run[gaps + 1], deviation)
    growth[gaps[is_straight]] = GROWTH
    return ~_grown(intervals, growth)


def _grown(intervals: Array, growth: Array) -> Array:
    """Which intervals are short, or grow by a factor of at most `growth` from one that is.

    Steps grow in the direction of time or, before a front, against it.
    """
    usual = float(np.median(intervals))
    is_filled = intervals <= LONGEST * usual * (1 + ROUNDING)
    _spread(is_filled, intervals, growth)
    _spread(is_filled[::-1], intervals[::-1], growth[::-1])
    return is_filled


def _spread(is_filled: Array, intervals: Array, growth: Array) -> None:
    """Fill intervals, in place and in their order, that do not jump from one that is filled."""
    has_no_jump = intervals[1:] <= growth[1:] * intervals[:-1] * (1 + ROUNDING)
    for k in np.flatnonzero(has_no_jump & ~is_filled[1:]):
        is_filled[k + 1] = is_filled[k]


def _straight(curve: Rule, starts: Array, ends: Array, deviation: Array) -> Array:
    """Tell whether a curve is a straight line between the start and the end of each interval (N,)."""
    values = curve(starts)  # (N, n)
    change = curve(ends) - values
    is_straight = np.full(len(starts), True)
    for share in (0.25, 0.5, 0.75):
        line = values + share * change
        distance = np.abs(curve(starts + share * (ends - starts)) - line)
        is_straight &= (distance <= ERROR * deviation).all(-1)
    return is_straight


def rounding_of(run: Array) -> float:
    """Return difference of times of a run that counts as none."""
    return ROUNDING * max(abs(run[-1]), usual_interval(run))


def beside(run: Array, grid: Array) -> Array:
    """Tell whether times (K,) are before the first or behind the last of a run."""
    tolerance = rounding_of(run)
    return (grid < run[0] - tolerance) | (grid > run[-1] + tolerance)


def within(run: Array, grid: Array, is_gap: Array) -> Array:
    """Tell whether times (K,) lie between two samples of a run (N,), in an interval that is a gap."""
    tolerance = rounding_of(run)
    # interval of the run around each time
    places = np.searchsorted(run, grid - tolerance)
    right = places.clip(1, len(run) - 1)
    from_before = np.abs(grid - run[right - 1])
    from_after = np.abs(grid - run[right])
    is_sample = np.minimum(from_before, from_after) <= tolerance
    return is_gap[right - 1] & ~is_sample & ~beside(run, grid)
