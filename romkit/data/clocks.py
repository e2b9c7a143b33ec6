"""Clocks of runs: dates as numbers, times that runs share, and times that are rounded, repeated or
missing.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from romkit.core.display import listed
from romkit.core.errors import InputError
from romkit.core.types import Array

ROUNDING = 1e-3
"""Largest difference of two times that count as one, as a share of the shortest interval."""

LOST = 0.01
"""Share of an interval that single precision rounds to, from which on its rounding is seen."""

IN_DOUBLE = (
    "read them in float64, or count them anew, data['time'] = dt * numpy.arange(...), in a table "
    "table['time'] = dt * table.groupby('run').cumcount()"
)
"""Advice for times that lost digits in float32."""

OWN_STARTS = "runs start at different times; each is counted from its start"
OWN_TIMES = (
    "runs have times of their own: each has samples at {share:.0%} of all times within it; "
    "romkit.data.resampled(data) gives them common ones"
)


def elapsed_seconds(times: Array) -> tuple[Array, str]:
    """Return dates or durations (...) as seconds since the first, and that date as text.

    Args:
        times: of NumPy, or dates of cftime, which know the calendars of climate models. A missing
            date is NaN.

    Raises:
        InputError: neither numbers nor dates.
    """
    if times.dtype.kind in "mM":
        if not times.size:
            return times.astype(np.float64), ""
        start = np.nanmin(times)
        # durations have no date to count from
        since = str(start) if times.dtype.kind == "M" else ""
        return (times - start) / np.timedelta64(1, "s"), since
    if times.size and all(hasattr(time, "calendar") for time in times.flat):
        seconds = [time.total_seconds() for time in (times - min(times.flat)).flat]
        return np.reshape(seconds, times.shape), ""
    raise InputError(
        "time",
        expected="numbers or dates",
        got=f"dtype {times.dtype}",
        fix="parse them: pandas.to_datetime(..., format='%d.%m.%Y'), say",
    )


def check_clock(name: str, times: Array) -> None:
    """Raise where times (T,) along the dimension `name` are missing, repeated or not in order.

    Raises:
        InputError: with the call that mends it.
    """
    missing = np.flatnonzero(~np.isfinite(times))
    unique, counts = np.unique(times, return_counts=True)
    repeated = unique[counts > 1]
    backward = np.flatnonzero(np.diff(times) < 0)
    if len(missing):
        expected, got = f"a number for every {name}", f"none at {listed(missing)}"
        fix = f"drop them: data.isel({name}=numpy.isfinite(data[{name!r}].values))"
    elif len(repeated):
        expected = f"each {name} once"
        got = f"{listed(f'{time:g}' for time in repeated)} twice (duplicate times)"
        fix = f"keep one of each, data.drop_duplicates({name!r}), or give them anew: "
        fix += f"data.assign_coords({name}=dt * numpy.arange({len(times)}))"
        if single_precision(times):
            got, fix = f"{got}, rounded to single precision", IN_DOUBLE
    elif len(backward):
        before, after = times[backward[0] :][:2]
        expected, got = "increasing times", f"{before:g} before {after:g}"
        fix = f"sort them: data.sortby({name!r})"
    else:
        return
    raise InputError("data", expected=expected, got=got, fix=fix)


def single_precision(times: Array) -> float:
    """Return the rounding error of times that were stored in single precision, zero of others.

    Dates as seconds or days keep seven digits there, and neighbours become equal.

    Args:
        times: (T,) in float64, in any order.
    """
    finite = times[np.isfinite(times)]
    if not finite.size or not np.array_equal(finite.astype(np.float32), finite):
        return 0.0
    spacing = float(np.spacing(np.float32(np.abs(finite).max())))
    unique = np.unique(finite)
    # of whole numbers that are small nothing is lost
    if len(unique) < 2 or spacing < LOST * float(np.median(np.diff(unique))):
        return 0.0
    return spacing


def shared_clock(times: Sequence[Array], *, many: float = 0.1) -> tuple[list[Array], list[str]]:
    """Return times of runs on one clock, and sentences for warnings.

    Runs that start at different times are counted each from its start. Times that differ by
    rounding become equal.

    Args:
        times: (Tₖ,) of each run, increasing, at least one.
        many: share of missing snapshots beyond which runs have times of their own.
    """
    notes = []
    steps = np.concatenate([np.diff(run) for run in times])
    tolerance = 0.0
    if len(steps):
        tolerance = ROUNDING * steps.min()
    starts = np.array([run[0] for run in times])
    if np.ptp(starts) > tolerance:
        times = [run - run[0] for run in times]
        notes.append(OWN_STARTS)
    times = _agree_nearby(times, tolerance)
    # shorter runs miss nothing behind their end: only times within a run count
    union = np.unique(np.concatenate(times))
    ends = np.array([run[-1] for run in times])
    spanned = np.searchsorted(union, ends, side="right").sum()
    present = sum(len(run) for run in times)
    share = 1 - present / spanned
    if share > many:
        notes.append(OWN_TIMES.format(share=1 - share))
    return times, notes


def _agree_nearby(times: Sequence[Array], tolerance: float) -> list[Array]:
    """Return times of which those that differ by less than the tolerance are equal."""
    values, place = np.unique(np.concatenate(times), return_inverse=True)
    steps = np.diff(values, prepend=values[:1])
    group = np.cumsum(steps > tolerance)
    earliest = values[np.searchsorted(group, group)]
    if (values - earliest).max() > tolerance:  # a chain of times, each near the next: no rounding
        return list(times)
    ends = np.cumsum([len(run) for run in times])
    return np.split(earliest[place], ends[:-1])


def insert_missing_times(
    data: xr.Dataset, dim: str, *, present: float = 2 / 3
) -> tuple[xr.Dataset, int]:
    """Return data whose times are those of an even grid, NaN where some were missing, and their
    number.

    Data stay as they are where times are even, or not those of an even grid.

    `present`: smallest share of an even grid's times that must be there for the others to count
    as missing.
    """
    times = data[dim].values.astype(np.float64)
    steps = np.diff(times)
    if len(steps) < 3:
        return data, 0
    step = float(np.median(steps))
    counts = np.round(steps / step)  # intervals of the grid in each interval of the times
    is_even = (counts >= 1) & (np.abs(steps - counts * step) <= ROUNDING * step)
    places = np.cumsum([0, *counts]).astype(int)
    size = places[-1] + 1
    # with few of its times there, a grid is a coincidence
    if not is_even.all() or size == len(times) or len(times) < present * size:
        return data, 0
    grid = np.interp(np.arange(size), places, times)
    grid[places] = times  # to the bit, or `reindex` would not find them
    about = data[dim].attrs
    complete = data.assign_coords({dim: (dim, times, about)}).reindex({dim: grid})
    complete[dim].attrs.update(about)
    return complete, int(size - len(times))
