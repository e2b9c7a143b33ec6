"""Runs with times of their own at common ones."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from romkit.core.boundary import Positive, validated
from romkit.core.display import listed
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.types import Array, Names
from romkit.data.context import context_names
from romkit.data.controls import HELD, LINEAR, inputs_held
from romkit.data.schema import DIMS, check_states

MOST = 1e9
"""Times of a run, at most: more fit into no memory."""

LONGEST = 3.0
"""Longest interval without a sample that is filled by default, in usual intervals of the run."""

FEWEST = 4
"""Samples that a spline needs."""

Rule = Callable[[Array], Array]


@validated
def resampled(
    data: xr.Dataset, step: Positive | None = None, *, longest: Positive | None = None
) -> xr.Dataset:
    """A dataset at even times, each component of a run interpolated by a cubic spline through its own
    samples.

    Where velocities are given, cubic polynomials meet them and the states. Splines pass through
    noise. Gaps that are longer than `longest` stay missing, and are warned of. So does what is before
    the first sample of a component or behind its last one, without a warning. Inputs are held or
    straight lines, as they are in the data.

    Args:
        data: in romkit's schema; samples that are missing are NaN, as `from_arrays` and `describe`
            leave them where runs have times of their own.
        step: the interval; by default the longest of the usual intervals of the runs, so that no
            run seems to know more than was measured.
        longest: longest time between two samples of a component that the spline fills; by default
            three usual intervals of its run. Give more where samples are rare because little
            happens.

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
        velocity      none; estimated where it is needed
        missing       runs have times of their own, each about 60 of 100; romkit.data.resampled gives common ones
        >>> data = romkit.data.resampled(runs, 0.1)
        >>> bool(abs(data.state[1, :59, 0] - np.sin(data.time[:59])).max() < 1e-4)
        True
    """
    check_states(data)
    times = data["time"].values.astype(np.float64)
    # a sample of a run has a number in any of its components: the others have gaps there
    states = data["state"].transpose(*DIMS).values
    known = np.isfinite(states).any(-1)  # (C, T)
    clocks = [times[row] for row in known]
    step = _checked_step(clocks, step)
    grid = _grid(times, step)  # (K,)

    variables = {}
    for name in ("state", "velocity", "acceleration"):
        if name in data:
            variables[name] = (DIMS, _interpolated(data, name, grid, longest), data[name].attrs)
    _warn_of_gaps(variables["state"][1], grid)
    if "control" in data:
        variables["control"] = _inputs(data, times, grid)
    return xr.Dataset(variables, _coords(data, times, grid), data.attrs)


def _coords(data: xr.Dataset, times: Array, grid: Array) -> dict[object, object]:
    """Coordinates at the times of the grid; contexts that move are straight lines."""
    context = context_names(data)
    coords = {"time": ("time", grid, data["time"].attrs)}
    for name, coord in data.coords.items():
        if "time" not in coord.dims:
            coords[name] = coord
        elif name in context:
            coords[name] = _at_times(coord, DIMS[:2], times, grid, np.interp)
    return coords


def _grid(times: Array, step: float) -> Array:
    """Even times from the first to the last."""
    duration = times[-1] - times[0]
    # the end is kept where rounding puts it just before the last step
    intervals = duration / step * (1 + 1e-9)
    count = int(np.floor(intervals)) + 1
    return times[0] + step * np.arange(count)


def _checked_step(clocks: list[Array], step: float | None) -> float:
    """The step that was given, or the longest of the usual intervals.

    Raises:
        InputError: it leaves one time, or a run is too short for a spline.
    """
    short = [k for k, run in enumerate(clocks) if len(run) < FEWEST]
    if short:
        raise InputError(
            "data",
            expected=f"{FEWEST} samples in each run",
            got=f"fewer in {listed(short, 8)}",
            fix="drop these runs",
        )
    usual = max(_usual_interval(run) for run in clocks)
    if step is None:
        return usual
    longest = max(run[-1] - run[0] for run in clocks)
    if longest / MOST <= step < longest:
        return step
    raise InputError(
        "step",
        expected=f"less than {longest:g}, and at most {MOST:g} times in a run",
        got=step,
        fix=f"give step={usual:.3g}, say",
    )


def _usual_interval(run: Array) -> float:
    """Median of the intervals of a clock."""
    return float(np.median(np.diff(run)))


def _longest_gap(known: Array, grid: Array) -> float:
    """Longest time between two samples (C, K, n) that are known, and one step of the grid, since
    samples lie beside it.
    """
    longest = 0.0
    for run in known:
        for component in run.T:
            gaps = np.diff(grid[component])
            longest = max(longest, gaps.max(initial=0.0))
    return longest + float(np.diff(grid).max())


def _warn_of_gaps(states: Array, grid: Array) -> None:
    """Say which share of the numbers (C, K, n) is missing between the first and the last of a run."""
    known = np.isfinite(states)
    began = np.maximum.accumulate(known, axis=1)
    goes_on = np.maximum.accumulate(known[:, ::-1], axis=1)[:, ::-1]
    in_gap = began & goes_on & ~known
    if not in_gap.any():
        return
    share = in_gap.sum() / (began & goes_on).sum()
    first, last = grid[np.flatnonzero(in_gap.any((0, 2)))[[0, -1]]]
    missing = f"{share:.0%} of the numbers within runs, between time {first:.4g} and {last:.4g}"
    fix = f"romkit.data.resampled(..., longest={_longest_gap(known, grid):.3g}) fills them"
    warn(f"data: {missing}, lie in gaps and stay missing; {fix}", DataWarning)


def _outside(run: Array, grid: Array, longest: float | None) -> Array:
    """Whether times (K,) lie beside a run, or in a gap of it that is longer than `longest`."""
    usual = _usual_interval(run)
    if longest is None:
        longest = LONGEST * usual
    tolerance = 1e-9 * max(abs(grid[-1]), usual)
    # interval of the run around each time
    places = np.searchsorted(run, grid - tolerance)
    right = places.clip(1, len(run) - 1)
    before = run[right - 1]
    after = run[right]
    is_long = after - before > longest + tolerance
    from_before = np.abs(grid - before)
    from_after = np.abs(grid - after)
    is_sample = np.minimum(from_before, from_after) <= tolerance
    is_early = grid < run[0] - tolerance
    is_late = grid > run[-1] + tolerance
    return is_early | is_late | (is_long & ~is_sample)


def _interpolated(data: xr.Dataset, name: str, grid: Array, longest: float | None) -> Array:
    """A variable (C, K, n) at the times of the grid, run by run.

    States with velocities meet both.
    """
    times = data["time"].values.astype(np.float64)
    names = [name]
    if name == "state" and "velocity" in data:
        names.append("velocity")
    # values, and slopes where they are known
    curves = [data[name].transpose(*DIMS).values.astype(np.float64) for name in names]  # (C, T, n)
    known = np.isfinite(curves).all(0)
    runs, _, n = known.shape
    result = np.full((runs, len(grid), n), np.nan)
    for k in range(runs):
        for rows, components in _alike(known[k]):
            if len(rows) < FEWEST:
                continue
            run = times[rows]
            samples = np.ix_(rows, components)
            curve = _curve(run, *(numbers[k][samples] for numbers in curves))
            course = curve(grid)
            course[_outside(run, grid, longest)] = np.nan
            result[k][:, components] = course
    return result


def _alike(known: Array) -> list[tuple[Array, Array]]:
    """Rows and components of known numbers (T, n): components that are known in the same rows
    together.
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
    """Inputs at the times of the grid, held or straight lines as in the data, which say so."""
    rule, between = np.interp, LINEAR
    if inputs_held(data):
        rule, between = _steps, HELD
    dims = (*DIMS[:2], "input")
    inputs = _at_times(data["control"], dims, times, grid, rule)
    # a finer grid would show a staircase where there are lines
    return inputs.assign_attrs(between=between)


def _steps(grid: Array, times: Array, values: Array) -> Array:
    """Values that stay until the next sample."""
    largest = max(abs(grid[-1]), abs(times[-1]))
    tolerance = 1e-9 * largest  # times of the grid are rounded
    later = np.searchsorted(times, grid + tolerance, side="right")
    place = np.clip(later - 1, 0, None)
    return values[place]


def _at_times(
    values: xr.DataArray,
    dims: Names,
    times: Array,
    grid: Array,
    rule: Callable[[Array, Array, Array], Array],
) -> xr.DataArray:
    """Inputs or contexts at the times of the grid, by a rule through what is known."""
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
    *lead, _ = rows.shape
    result = np.reshape(courses, (*lead, len(grid)))
    result = np.moveaxis(result, -1, 1)  # (C, K, ...)
    along_time = [name for name, coord in ordered.coords.items() if "time" in coord.dims]
    coords = ordered.drop_vars(along_time).coords
    return xr.DataArray(result, dims=ordered.dims, coords=coords, attrs=ordered.attrs)
