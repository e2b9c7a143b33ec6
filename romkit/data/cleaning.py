"""Runs in romkit's schema made ready for a fit: common times, single cells filled, complete starts."""

import warnings

import numpy as np
import xarray as xr

from romkit.core.errors import DataWarning, warn
from romkit.core.types import Array
from romkit.data.context import context_names
from romkit.data.resample import resampled
from romkit.data.schema import DIMS, complete
from romkit.data.times import even_step

EXTRAPOLATION = ((1.0,), (2.0, -1.0), (3.0, -3.0, 1.0), (4.0, -6.0, 4.0, -1.0))
"""Weights of even samples in the value that is one interval before them, by the degree of the
polynomial through them.
"""


def align_times(data: xr.Dataset, *, own_times: float = 1.5) -> xr.Dataset:
    """Return data as they are, or resampled where most runs have times of their own.

    `own_times`: interval between the samples of a run, in that of all runs together, from which
    on runs have times of their own.
    """
    times = data["time"].values.astype(float)
    is_sampled = np.asarray(np.isfinite(data["state"].data).any(-1))  # (C, T)
    intervals = [np.diff(times[row]) for row in is_sampled if row.sum() > 1]
    if not intervals:
        return data
    usual = np.median([np.median(steps) for steps in intervals])
    if usual < own_times * np.median(np.diff(times)):
        return data
    common = resampled(data)
    # behind a gap that stays missing a run may have a single sample, at no common time
    is_known = np.isfinite(common["state"].values).any((0, 2))  # (T,)
    end = int(np.flatnonzero(is_known)[-1])
    return common.isel(time=slice(0, end + 1))


def fill_single_cells(data: xr.Dataset, *, filled: int = 2000) -> xr.Dataset:
    """Return data in which components that are missing at single times, while others are there, are
    those of splines through their own samples.

    A snapshot of which a part is missing is none for a law: half a percent of lost numbers would
    take an eighth of the snapshots of 24 components.

    `filled`: components, at most, of states whose single missing numbers are filled.
    """
    state = data["state"].transpose(*DIMS)
    values = np.asarray(state.values)  # (C, T, n)
    is_missing = np.isnan(values)
    is_single = is_missing & ~is_missing.all(-1, keepdims=True)
    step = even_step(data["time"].values)
    has_rates = "velocity" in data or "acceleration" in data
    if not is_single.any() or step is None or has_rates or values.shape[-1] > filled:
        return data
    with warnings.catch_warnings():
        # gaps that stay are said by `describe`
        warnings.simplefilter("ignore", DataWarning)
        courses = resampled(data, step)["state"].values
    # rounding may have moved the last time beyond the end
    if courses.shape != values.shape:
        return data
    courses[:, 0] = np.where(is_single[:, 0], _first_states(values), courses[:, 0])
    is_filled = is_single & np.isfinite(courses)
    if not is_filled.any():
        return data
    warn(
        f"{int(is_filled.sum())} single numbers are missing, and filled by splines through the "
        "samples beside them, as romkit.data.resampled does",
        DataWarning,
    )
    completed = np.where(is_filled, courses, values)
    return data.assign(state=(DIMS, completed, data["state"].attrs))


def _first_states(values: Array, *, extrapolated: float = 0.02) -> Array:
    """Return first states (C, n) by what errs least in the runs whose first sample is there:
    polynomials through the samples (C, T, n) behind it, or the mean of the first states of the
    others; NaN for components of which even that errs.

    `extrapolated`: largest error of such a value, in deviations of its component, in runs whose
    first sample is there.
    """
    starts = np.ma.masked_invalid(values[:, 0])  # (C, n)
    number = (~np.ma.getmaskarray(starts)).sum(0) - ~np.ma.getmaskarray(starts)
    of_others = np.ma.masked_where(number < 1, starts.sum(0) - starts.filled(0.0))
    candidates = [(of_others / np.maximum(number, 1)).filled(np.nan)]
    for weights in EXTRAPOLATION:
        behind = values[:, 1 : len(weights) + 1]
        if behind.shape[1] == len(weights):
            candidates.append(np.einsum("k, ckn -> cn", weights, behind))
    deviation = np.ma.masked_invalid(values).std((0, 1)).filled(0.0)  # (n,)
    best = np.full_like(values[:, 0], np.nan)
    smallest = extrapolated * deviation
    for candidate in candidates:
        error = np.ma.abs(np.ma.masked_invalid(candidate) - starts)
        largest = error.max(0).filled(np.inf)
        is_better = largest <= smallest
        best = np.where(is_better, candidate, best)
        smallest = np.where(is_better, largest, smallest)
    return best


def trim_incomplete_start(data: xr.Dataset) -> xr.Dataset:
    """Return data from the first time on at which no run lacks a part of its state.

    Forecasts begin there, and need it whole.
    """
    is_complete = complete(data, ["state"])  # (C, T)
    begin = int(is_complete.all(0).argmax())
    if begin == 0:
        return data
    time = data["time"].values
    run = int(np.flatnonzero(~is_complete[:, 0])[0])
    is_missing = np.isnan(data["state"].transpose(*DIMS).values[run, 0])
    names = data["component"].values[is_missing]
    component = str(names[0]) if len(names) else "a part of the state"
    context = context_names(data)
    about = ", ".join(f"{name} = {data[name].values.flat[run]:g}" for name in context[:1])
    warn(
        f"begins at time {time[begin]:.4g}: a run lacks a part of its state before it, {component} "
        f"of run {run} ({about}) say; a number there, or a column less, keeps the start",
        DataWarning,
    )
    return data.isel(time=slice(begin, None))
