"""Runs with times of their own at common ones."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from romkit.core.boundary import Positive, validated
from romkit.core.errors import InputError
from romkit.data.context import context_names
from romkit.data.schema import DIMS, check_states, complete

MOST = 1e9
"""Times of a run, at most: more fit into no memory."""

LONGEST = 3.0
"""Longest interval without a sample that is filled, in usual intervals of the run."""

FEWEST = 4
"""Samples that a spline needs."""

Rule = Callable[[np.ndarray], np.ndarray]


@validated
def resampled(data: xr.Dataset, step: Positive | None = None) -> xr.Dataset:
    """A dataset at even times, each run interpolated by cubic splines through its own samples.

    Where velocities are given, cubic polynomials meet them and the states. Gaps of more than three
    usual intervals of a run stay missing. So does what is before a run's first sample or behind its
    last one. Inputs are interpolated by straight lines.

    Args:
        data: in romkit's schema; samples that are missing are NaN, as `from_arrays` and `describe`
            leave them where runs have times of their own.
        step: the interval; by default the longest of the usual intervals of the runs, so that no
            run seems to know more than was measured.

    Raises:
        InputError: a run with fewer than four samples, or a step that leaves one time.

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
        missing       40.0% of the snapshots, in 2 trajectories (0, 1); left out, never filled
        >>> data = romkit.data.resampled(runs, 0.1)
        >>> bool(abs(data.state[1, :59, 0] - np.sin(data.time[:59])).max() < 1e-4)
        True
    """
    check_states(data)
    times = data["time"].values.astype(np.float64)
    # (C, T) samples that a run has, by any of its components: others are gaps of these alone
    has = complete(data, ("state",))
    own = [times[row] for row in has]
    step = _checked_step(own, step)
    count = int(np.floor((times[-1] - times[0]) / step * (1 + 1e-9))) + 1
    grid = times[0] + step * np.arange(count)  # (K,)
    gaps = np.stack([_outside(run, grid) for run in own])  # (C, K)

    variables = {}
    for name in ("state", "velocity", "acceleration"):
        if name in data:
            rates = "velocity" if name == "state" and "velocity" in data else None
            values = _interpolated(data, name, rates, has, grid)
            variables[name] = (DIMS, np.where(gaps[..., None], np.nan, values), data[name].attrs)
    if "control" in data:
        variables["control"] = _linear(data["control"], (*DIMS[:2], "input"), times, grid)
    coords = {name: c for name, c in data.coords.items() if "time" not in c.dims}
    coords["time"] = ("time", grid, data["time"].attrs)
    result = xr.Dataset(variables, coords, data.attrs)
    for name in context_names(data):
        if "time" in data[name].dims:
            result[name] = _linear(data[name], DIMS[:2], times, grid)
            result = result.set_coords(name)
    return result


def _checked_step(own: list[np.ndarray], step: float | None) -> float:
    """The step that was given, or the longest of the usual intervals.

    Raises:
        InputError: it leaves one time, or a run is too short for a spline.
    """
    short = [k for k, run in enumerate(own) if len(run) < FEWEST]
    if short:
        expected, fix = f"{FEWEST} complete snapshots in each run", "drop these runs"
        got = f"fewer in {', '.join(map(str, short[:8]))}"
        raise InputError("data", expected=expected, got=got, fix=fix)
    usual = [float(np.median(np.diff(run))) for run in own]
    if step is None:
        return max(usual)
    longest = max(run[-1] - run[0] for run in own)
    if step >= longest:
        fix = f"give step={max(usual):.3g}, say"
        raise InputError("step", expected=f"less than {longest:g}", got=step, fix=fix)
    if longest > MOST * step:
        fix = f"give step={max(usual):.3g}, say"
        raise InputError("step", expected=f"at most {MOST:g} times in a run", got=step, fix=fix)
    return step


def _outside(run: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Whether times (K,) lie beside a run, or in a long gap of it."""
    usual = np.median(np.diff(run))
    tolerance = 1e-9 * max(abs(grid[-1]), usual)
    # interval of the run around each time
    right = np.clip(np.searchsorted(run, grid - tolerance), 1, len(run) - 1)
    is_long = run[right] - run[right - 1] > LONGEST * usual
    is_sample = (np.abs(grid - run[right]) <= tolerance) | (
        np.abs(grid - run[right - 1]) <= tolerance
    )
    is_beside = (grid < run[0] - tolerance) | (grid > run[-1] + tolerance)
    return is_beside | (is_long & ~is_sample)


def _interpolated(
    data: xr.Dataset, name: str, rates: str | None, has: np.ndarray, grid: np.ndarray
) -> np.ndarray:
    """A variable (C, K, n) at the times of the grid, run by run."""
    from scipy.interpolate import CubicHermiteSpline, CubicSpline  # slow to import

    times = data["time"].values.astype(np.float64)
    values = data[name].transpose(*DIMS).values.astype(np.float64)
    slopes = None if rates is None else data[rates].transpose(*DIMS).values
    runs = []
    for k, row in enumerate(has):
        known = row & np.isfinite(values[k]).all(-1)
        if slopes is not None:
            known &= np.isfinite(slopes[k]).all(-1)
        if known.sum() < FEWEST:
            runs.append(np.full((len(grid), values.shape[-1]), np.nan))
            continue
        if slopes is None:
            curve: Rule = CubicSpline(times[known], values[k, known])
        else:
            curve = CubicHermiteSpline(times[known], values[k, known], slopes[k, known])
        runs.append(curve(grid))
    return np.stack(runs)


def _linear(
    values: xr.DataArray, dims: tuple[str, ...], times: np.ndarray, grid: np.ndarray
) -> xr.DataArray:
    """Inputs or contexts at the times of the grid, by straight lines through what is known."""
    known = values.transpose(*[dim for dim in dims if dim in values.dims])
    rows = np.moveaxis(known.values.astype(np.float64), 1, -1)  # (C, ..., T)
    flat = rows.reshape(-1, len(times))
    lines = []
    for row in flat:
        is_known = np.isfinite(row)
        if is_known.any():
            lines.append(np.interp(grid, times[is_known], row[is_known]))
        else:
            lines.append(np.full(len(grid), np.nan))
    result = np.moveaxis(np.reshape(lines, (*rows.shape[:-1], len(grid))), -1, 1)
    coords = {name: c for name, c in known.coords.items() if "time" not in c.dims}
    return xr.DataArray(result, dims=known.dims, coords=coords, attrs=known.attrs)
