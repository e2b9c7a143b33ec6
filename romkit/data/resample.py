"""Runs with times of their own at common ones."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from romkit.core.boundary import Positive, validated
from romkit.core.display import listed
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.types import Array, Names
from romkit.data.context import context_names
from romkit.data.controls import HELD, LINEAR, inputs_held
from romkit.data.layout import component_names
from romkit.data.schema import DIMS, check_states

MOST = 1e9
"""Times of a run, at most: more fit into no memory."""

DENSE, DENSEST = 0.25, 0.1
"""Quantiles of the intervals of runs: of those where samples are dense, and of the shortest."""

FEW = 1000
"""Number of common times that is allowed in any case."""

FEWEST = 4
"""Samples that a spline needs."""


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


def _vary(intervals: Array, *, uneven: float = 4.0) -> bool:
    """Tell whether intervals are as different as those of an adaptive integrator.

    `uneven`: ratio of the long intervals to the short ones from which on intervals vary.
    """
    short, long = np.quantile(intervals, [0.1, 0.9])
    return bool(long > uneven * short)


def _usual_interval(run: Array) -> float:
    """Return the median of the intervals of a clock."""
    return float(np.median(np.diff(run)))


def _gaps(run: Array, curve: Rule, deviation: Array, longest: float | None) -> Array:
    """Tell which intervals between the samples of a run are gaps.

    Args:
        run: its times (N,).
        curve: through its samples, (..., n) at times (...).
        deviation: (n,), by which it is decided whether the curve is a straight line.
        longest: intervals that are longer are gaps; None for the rule of `resampled`.
    """
    intervals = np.diff(run)
    if longest is not None:
        return intervals > longest + _rounding(run)
    is_filled = _grown(intervals, np.full_like(intervals, LONGEST))
    if is_filled.all() or not _vary(intervals):
        return ~is_filled
    gaps = np.flatnonzero(~is_filled)
    growth = np.full_like(intervals, LONGEST)
    is_straight = _straight(curve, run[gaps], run[gaps + 1], deviation)
    growth[gaps[is_straight]] = GROWTH
    return ~_grown(intervals, growth)


def _grown(intervals: Array, growth: Array) -> Array:
    """Tell which intervals are short, or grow by a factor of at most `growth` from one that is.

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


def _rounding(run: Array) -> float:
    """Return difference of times of a run that counts as none."""
    return ROUNDING * max(abs(run[-1]), _usual_interval(run))


def _exceeds_range(run: Array, grid: Array) -> Array:
    """Tell whether times (K,) are before the first or behind the last of a run."""
    tolerance = _rounding(run)
    return (grid < run[0] - tolerance) | (grid > run[-1] + tolerance)


def _spans_gap(run: Array, grid: Array, is_gap: Array) -> Array:
    """Tell whether times (K,) lie between two samples of a run (N,), in an interval that is a gap."""
    tolerance = _rounding(run)
    # interval of the run around each time
    places = np.searchsorted(run, grid - tolerance)
    right = places.clip(1, len(run) - 1)
    from_before = np.abs(grid - run[right - 1])
    from_after = np.abs(grid - run[right])
    is_sample = np.minimum(from_before, from_after) <= tolerance
    return is_gap[right - 1] & ~is_sample & ~_exceeds_range(run, grid)


class Courses(NamedTuple):
    """Values at common times, NaN where they are missing."""

    values: Array
    """(C, K, n)."""

    in_gap: Array
    """(C, K, n), whether one lies between two samples that are too far apart."""

    longest_gap: float
    """Longest time between two such samples, 0 without any."""


@validated
def resampled(
    data: xr.Dataset, step: Positive | None = None, *, longest: Positive | None = None
) -> xr.Dataset:
    """Return a dataset at even times, each component of a run interpolated by a cubic spline
    through its own samples.

    Where velocities are given, cubic polynomials meet them and the states. Splines pass through
    noise. Gaps stay missing, and are warned of. So does what is before the first sample of a
    component or behind its last one, without a warning. Inputs are held or straight lines, as they
    are in the data.

    Intervals vary where the 90 % quantile is more than four times the 10 % quantile, as in the
    output of adaptive integrators.

    Args:
        data: in romkit's schema; samples that are missing are NaN, as `from_arrays` and `describe`
            leave them where runs have times of their own.
        step: the interval; by default the longest of the usual intervals of the runs, so that no
            run seems to know more than was measured. Splines through the common times are to meet
            all samples to 1 % of the deviation of each component: where they do not, a shorter
            interval at which they do, if there is one. Where intervals vary, it begins at the mean
            interval, and ends at that of the densest quarter of the samples where none meets them.
            There are at most four times as many common times as samples of the run with most, or
            1000.
        longest: longest time between two samples of a component that the spline fills; by default
            three usual intervals of its run, or three times an interval beside it that is filled:
            no integrator makes a hole, since its steps lengthen by and by. Where intervals vary,
            ten times the one beside it if the spline is a straight line there, to 1 % of the
            deviation: integrators lengthen their steps at rest. Give more where samples are rare
            because little happens.

    Raises:
        InputError: a run with fewer than four samples, or a step that leaves one time.

    Warns:
        DataWarning: gaps that stay missing.

    Example:
        >>> import warnings
        >>> import numpy as np
        >>> import romkit
        >>> times = [0.1 * np.arange(80), 0.15 * np.arange(40)]
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # the two have times of their own
        ...     runs = romkit.data.from_arrays([np.sin(t)[:, None] for t in times], times)
        trajectories  2 of up to 100 samples, n = 1
        state         state (component 1), float64
        context       none
        time          0 ... 7.9, uneven steps
        rates         none given; estimated where needed
        missing       runs have times of their own, each about 60 of 100; learn and romkit.data.resampled give common ones
        >>> data = romkit.data.resampled(runs, 0.1)
        >>> bool(abs(data.state[1, :59, 0] - np.sin(data.time[:59])).max() < 1e-4)
        True
    """
    check_states(data)
    times = data["time"].values.astype(np.float64)
    # a sample of a run has a number in any of its components: the others have gaps there
    states = data["state"].transpose(*DIMS).values
    is_sampled = np.isfinite(states).any(-1)  # (C, T)
    clocks = [times[row] for row in is_sampled]
    short = [k for k, run in enumerate(clocks) if len(run) < FEWEST]
    if short:
        raise InputError(
            "data",
            expected=f"{FEWEST} samples in each run",
            got=f"fewer in {listed(short, 8)}",
            fix="drop these runs",
        )
    if step is None:
        step = _default_step(data, clocks, longest)
    else:
        _check_step(clocks, step)
    grid = _grid(times, step)  # (K,)

    variables: dict[str, Any] = {}
    for name in ("state", "velocity", "acceleration"):
        if name in data:
            courses = _interpolated(data, name, grid, longest)
            variables[name] = (DIMS, courses.values, data[name].attrs)
            if name == "state":
                _warn_gaps(courses, grid)
                _warn_few(data)
    if "control" in data:
        variables["control"] = _inputs(data, times, grid)
    return xr.Dataset(variables, _coords(data, times, grid), data.attrs)


def _coords(data: xr.Dataset, times: Array, grid: Array) -> dict[Hashable, Any]:
    """Return coordinates at the times of the grid; contexts that move are straight lines."""
    context = context_names(data)
    coords: dict[Hashable, Any] = {"time": ("time", grid, data["time"].attrs)}
    for name, coord in data.coords.items():
        if "time" not in coord.dims:
            coords[name] = coord
        elif name in context:
            coords[name] = _sample_curves(coord, DIMS[:2], times, grid, np.interp)
    return coords


def _grid(times: Array, step: float) -> Array:
    """Return the even times from the first to the last."""
    duration = times[-1] - times[0]
    # the end is kept where rounding puts it just before the last step
    intervals = duration / step * (1 + 1e-9)
    count = int(np.floor(intervals)) + 1
    return times[0] + step * np.arange(count)


def _check_step(clocks: list[Array], step: float) -> None:
    """Raise where a step leaves one time, or too many."""
    longest = max(run[-1] - run[0] for run in clocks)
    if longest / MOST <= step < longest:
        return
    usual = max(_usual_interval(run) for run in clocks)
    raise InputError(
        "step",
        expected=f"less than {longest:g}, and at most {MOST:g} times in a run",
        got=step,
        fix=f"give step={usual:.3g}, say",
    )


def _default_step(
    data: xr.Dataset, clocks: list[Array], longest: float | None, *, per_sample: int = 4
) -> float:
    """Return the longest interval at which splines meet the samples; without one, as with noise,
    that of the samples.

    `per_sample`: common times, at most, for each sample of the run that has most of them.
    """
    intervals = np.concatenate([np.diff(run) for run in clocks])
    durations = np.array([run[-1] - run[0] for run in clocks])
    samples = np.array([len(run) for run in clocks])
    most_times = max(per_sample * samples.max(), FEW)
    bound = durations.max() / most_times
    dense, shortest = np.maximum(np.quantile(intervals, [DENSE, DENSEST]), bound)
    if _vary(intervals):
        start, otherwise = (durations / (samples - 1)).max(), dense
    else:
        start = otherwise = max(_usual_interval(run) for run in clocks)
    for step in _halved(start, shortest):
        if _meets_samples(data, step, longest):
            return float(step)
    return float(otherwise)


def _halved(longest: float, shortest: float) -> Array:
    """Return intervals to try, longest first, at least two for each factor of two."""
    if shortest >= longest:
        return np.array([longest])
    number = 1 + int(np.ceil(2 * np.log2(longest / shortest)))
    return np.geomspace(longest, shortest, number)


def _meets_samples(data: xr.Dataset, step: float, longest: float | None) -> bool:
    """Tell whether splines through the states at even times meet the samples between these."""
    times = data["time"].values.astype(np.float64)
    states = data["state"].transpose(*DIMS).values.astype(np.float64)  # (C, T, n)
    grid = _grid(times, step)  # (K,)
    courses = _interpolated(data, "state", grid, longest).values  # (C, K, n)
    deviation, largest = _scales(states)
    tolerance = ERROR * deviation + ROUNDING * largest
    for run, course in zip(states, courses, strict=True):
        for rows, components in _alike(np.isfinite(course)):
            if not len(rows):
                continue
            if len(rows) < FEWEST:
                return False
            curve = _curve(grid[rows], course[np.ix_(rows, components)])
            is_between = _is_interior(grid[rows], times, step)
            error = np.abs(curve(times[is_between]) - run[is_between][:, components])
            # samples that are missing have no error
            if (error > tolerance[components]).any():
                return False
    return True


def _scales(values: Array) -> tuple[Array, Array]:
    """Return deviation and largest magnitude (n,) of what is known of (C, T, n); zero where nothing
    is.
    """
    masked = np.ma.masked_invalid(values)
    deviation = np.ma.filled(masked.std((0, 1)), 0.0)
    largest = np.ma.filled(np.abs(masked).max((0, 1)), 0.0)
    return deviation, largest


def _is_interior(grid: Array, times: Array, step: float) -> Array:
    """Tell whether times lie between two of the grid (K,) that are one step apart."""
    interval = np.diff(grid, prepend=-np.inf, append=np.inf)[np.searchsorted(grid, times)]
    return (interval < 1.5 * step) | (times == grid[0])


def _warn_gaps(courses: Courses, grid: Array) -> None:
    """Say which share of the numbers is missing between the first and the last sample of a run."""
    in_gap = courses.in_gap
    if not in_gap.any():
        return
    share = in_gap.sum() / (in_gap | np.isfinite(courses.values)).sum()
    begin, end = grid[np.flatnonzero(in_gap.any((0, 2)))[[0, -1]]]
    missing = f"{share:.1%} of the numbers within runs, between time {begin:.4g} and {end:.4g}"
    longest = 1.01 * courses.longest_gap  # three digits are less than the number, perhaps
    fix = f"romkit.data.resampled(..., longest={longest:.3g}) fills them"
    warn(f"data: {missing}, lie in gaps and stay missing; {fix}", DataWarning)


def _warn_few(data: xr.Dataset) -> None:
    """Name components that have too few samples in a run for a spline, and stay missing there."""
    counts = np.isfinite(data["state"].transpose(*DIMS).values).sum(1)  # (C, n)
    too_few = (counts > 0) & (counts < FEWEST)
    if not too_few.any():
        return
    labels = sorted(np.array(component_names(data))[too_few.any(0)])
    text = f"data: {listed(labels, 5)} of runs {listed(np.flatnonzero(too_few.any(1)), 5)}"
    fix = "drop these runs or components, or measure more"
    warn(f"{text}: fewer than {FEWEST} samples, which stay missing; {fix}", DataWarning)


def _interpolated(data: xr.Dataset, name: str, grid: Array, longest: float | None) -> Courses:
    """Return a variable (C, K, n) at the times of the grid, run by run.

    States with velocities meet both.
    """
    times = data["time"].values.astype(np.float64)
    names = [name]
    if name == "state" and "velocity" in data:
        names.append("velocity")
    # values, and slopes where they are known
    curves = [data[name].transpose(*DIMS).values.astype(np.float64) for name in names]  # (C, T, n)
    is_known = np.logical_and.reduce([np.isfinite(curve) for curve in curves])  # (C, T, n)
    deviation, _ = _scales(curves[0])
    runs, _, n = is_known.shape
    values = np.full((runs, len(grid), n), np.nan)
    in_gap = np.full(values.shape, False)
    longest_gap = 0.0
    for k in range(runs):
        for rows, components in _alike(is_known[k]):
            if len(rows) < FEWEST:
                continue
            run = times[rows]
            samples = np.ix_(rows, components)
            curve = _curve(run, *(numbers[k][samples] for numbers in curves))
            course = curve(grid)
            is_gap = _gaps(run, curve, deviation[components], longest)
            is_missing = _spans_gap(run, grid, is_gap)
            course[is_missing | _exceeds_range(run, grid)] = np.nan
            values[k][:, components] = course
            in_gap[k][:, components] = is_missing[:, None]
            longest_gap = max(longest_gap, np.diff(run)[is_gap].max(initial=0.0))
    return Courses(values, in_gap, float(longest_gap))


def _alike(known: Array) -> list[tuple[Array, Array]]:
    """Return rows and components of known numbers (T, n): components that are known in the same
    rows together.
    """
    any_known = known.any(-1)
    if np.array_equal(any_known, known.all(-1)):
        return [(np.flatnonzero(any_known), np.arange(known.shape[1]))]
    patterns, which = np.unique(known, axis=1, return_inverse=True)
    groups = []
    for number, pattern in enumerate(patterns.T):
        components = np.flatnonzero(which.ravel() == number)
        groups.append((np.flatnonzero(pattern), components))
    return groups


def _curve(times: Array, values: Array, slopes: Array | None = None) -> Rule:
    from scipy.interpolate import CubicHermiteSpline, CubicSpline  # slow to import

    if slopes is None:
        return CubicSpline(times, values)
    return CubicHermiteSpline(times, values, slopes)


def _inputs(data: xr.Dataset, times: Array, grid: Array) -> xr.DataArray:
    """Return inputs at the times of the grid, held or straight lines as in the data, which say so."""
    rule: Callable[[Array, Array, Array], Array] = np.interp
    between = LINEAR
    if inputs_held(data):
        rule, between = _steps, HELD
    dims = (*DIMS[:2], "input")
    inputs = _sample_curves(data["control"], dims, times, grid, rule)
    # a finer grid would show a staircase where there are lines
    return inputs.assign_attrs(between=between)


def _steps(grid: Array, times: Array, values: Array) -> Array:
    """Return values that stay until the next sample."""
    largest = max(abs(grid[-1]), abs(times[-1]))
    tolerance = 1e-9 * largest  # times of the grid are rounded
    later = np.searchsorted(times, grid + tolerance, side="right")
    return values[(later - 1).clip(0)]


def _sample_curves(
    values: xr.DataArray,
    dims: Names,
    times: Array,
    grid: Array,
    rule: Callable[[Array, Array, Array], Array],
) -> xr.DataArray:
    """Return inputs or contexts at the times of the grid, by a rule through what is known."""
    ordered = values.transpose(*[dim for dim in dims if dim in values.dims])
    numbers = ordered.values.astype(np.float64)
    rows = np.moveaxis(numbers, 1, -1)  # (C, ..., T)
    courses = []
    for row in rows.reshape(-1, len(times)):
        is_known = np.isfinite(row)
        course = np.full(len(grid), np.nan)
        if is_known.any():
            course = rule(grid, times[is_known], row[is_known])
        courses.append(course)
    result = np.moveaxis(np.reshape(courses, (*rows.shape[:-1], len(grid))), -1, 1)  # (C, K, ...)
    along_time = [name for name, coord in ordered.coords.items() if "time" in coord.dims]
    coords = ordered.drop_vars(along_time).coords
    return xr.DataArray(result, dims=ordered.dims, coords=coords, attrs=ordered.attrs)
