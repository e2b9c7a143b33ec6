"""Runs of any habit, in romkit's schema: files, tables and datasets, with common times."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
import xarray as xr

import romkit.data as datasets
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.types import Array
from romkit.data.circles import warn_of_circles
from romkit.data.clocks import OWN_TIMES as OWN_TIMES_SAID
from romkit.data.context import contexts_of
from romkit.data.equal_runs import warn_of_equal_runs
from romkit.data.extremes import warn_of_extremes
from romkit.data.schema import complete
from romkit.readers.several import read_runs

OWN_TIMES = 1.5
"""Interval between the samples of a run, in that of all runs together, from which on runs have times
of their own.
"""

FILLED = 2000
"""Components, at most, of states whose single missing numbers are filled."""

EXTRAPOLATION = ((1.0,), (2.0, -1.0), (3.0, -3.0, 1.0), (4.0, -6.0, 4.0, -1.0))
"""Weights of even samples in the value that is one interval before them, by the degree of the
polynomial through them.
"""

EXTRAPOLATED = 0.02
"""Largest error of such a value, in deviations of its component, in runs whose first sample is there."""


Source: TypeAlias = (
    xr.Dataset | pd.DataFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
)
"""Runs, a table of them, or their files."""


def read(
    source: Source, context: str | Sequence[str] | None
) -> tuple[xr.Dataset | pd.DataFrame, Sequence[str] | None]:
    """Return a dataset or a table, of files what they hold, and the names of the parameters."""
    names = [context] if isinstance(context, str) else context
    if isinstance(source, xr.Dataset | pd.DataFrame):
        return source, names
    files = [source] if isinstance(source, str | os.PathLike) else source
    data, parameters = read_runs([Path(str(name)) for name in files])
    return data, names if names is not None else parameters or None


def described(source: Source, context: str | Sequence[str] | None) -> xr.Dataset:
    """Return runs in romkit's schema, at three contexts or more."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = _in_schema(source, context)
    common = _with_common_times(data)
    for warning in caught:
        # it asks for what has been done
        if common is data or not _is_of_own_times(warning.message):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    if common is not data:
        step = float(common["time"][1] - common["time"][0])
        warn(
            f"runs have times of their own; brought to common ones, every {step:.3g}, by "
            "romkit.data.resampled",
            DataWarning,
        )
    warn_of_circles(common)
    filled = _with_single_cells_filled(common)
    data = _from_complete_start(filled)
    _check_contexts(data)
    return data


def _in_schema(source: Source, context: str | Sequence[str] | None) -> xr.Dataset:
    """Return files, tables and datasets in romkit's schema, on the times that they have."""
    data, names = read(source, context)
    if _has_schema(data):
        # `describe` warns of those in other data
        warn_of_extremes(data)
        warn_of_equal_runs(data)
        return data.transpose(*datasets.DIMS, ..., missing_dims="ignore")
    return datasets.describe(data, context=names)


def _is_of_own_times(message: Warning | str) -> bool:
    """Tell whether a warning says that runs have times of their own."""
    beginning, _ = OWN_TIMES_SAID.split("{share")
    return isinstance(message, DataWarning) and beginning in str(message)


def _has_schema(data: xr.Dataset | pd.DataFrame) -> bool:
    """Tell whether data have romkit's variables and dimensions."""
    if not isinstance(data, xr.Dataset):
        return False
    return "state" in data and "component" in data.dims


def _with_single_cells_filled(data: xr.Dataset) -> xr.Dataset:
    """Return data in which components that are missing at single times, while others are there, are
    those of splines through their own samples.

    A snapshot of which a part is missing is none for a law: half a percent of lost numbers would
    take an eighth of the snapshots of 24 components.
    """
    state = data["state"].transpose(*datasets.DIMS)
    values = np.asarray(state.values)  # (C, T, n)
    is_missing = np.isnan(values)
    is_single = is_missing & ~is_missing.all(-1, keepdims=True)
    step = datasets.even_step(data["time"].values)
    has_rates = "velocity" in data or "acceleration" in data
    if not is_single.any() or step is None or has_rates or values.shape[-1] > FILLED:
        return data
    with warnings.catch_warnings():
        # gaps that stay are said by `describe`
        warnings.simplefilter("ignore", DataWarning)
        courses = datasets.resampled(data, step)["state"].values
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
    return data.assign(state=(datasets.DIMS, completed, data["state"].attrs))


def _first_states(values: Array) -> Array:
    """Return first states (C, n) by what errs least in the runs whose first sample is there:
    polynomials through the samples (C, T, n) behind it, or the mean of the first states of the
    others; NaN for components of which even that errs.
    """
    first = np.ma.masked_invalid(values[:, 0])  # (C, n)
    number = (~np.ma.getmaskarray(first)).sum(0) - ~np.ma.getmaskarray(first)
    of_others = np.ma.masked_where(number < 1, first.sum(0) - first.filled(0.0))
    candidates = [(of_others / np.maximum(number, 1)).filled(np.nan)]
    for weights in EXTRAPOLATION:
        behind = values[:, 1 : len(weights) + 1]
        if behind.shape[1] == len(weights):
            candidates.append(np.einsum("k, ckn -> cn", weights, behind))
    deviation = np.ma.masked_invalid(values).std((0, 1)).filled(0.0)  # (n,)
    best = np.full_like(values[:, 0], np.nan)
    smallest = EXTRAPOLATED * deviation
    for candidate in candidates:
        error = np.ma.abs(np.ma.masked_invalid(candidate) - first)
        largest = error.max(0).filled(np.inf)
        is_better = largest <= smallest
        best = np.where(is_better, candidate, best)
        smallest = np.where(is_better, largest, smallest)
    return best


def _from_complete_start(data: xr.Dataset) -> xr.Dataset:
    """Return data from the first time on at which no run lacks a part of its state.

    Forecasts begin there, and need it whole.
    """
    is_complete = complete(data, ["state"])  # (C, T)
    first = int(is_complete.all(0).argmax())
    if first == 0:
        return data
    time = data["time"].values
    run = int(np.flatnonzero(~is_complete[:, 0])[0])
    is_missing = np.isnan(data["state"].transpose(*datasets.DIMS).values[run, 0])
    names = data["component"].values[is_missing]
    component = str(names[0]) if len(names) else "a part of the state"
    context = datasets.context_names(data)
    about = ", ".join(f"{name} = {data[name].values.flat[run]:g}" for name in context[:1])
    warn(
        f"begins at time {time[first]:.4g}: a run lacks a part of its state before it, {component} "
        f"of run {run} ({about}) say; a number there, or a column less, keeps the start",
        DataWarning,
    )
    return data.isel(time=slice(first, None))


def _with_common_times(data: xr.Dataset) -> xr.Dataset:
    """Return data as they are, or resampled where most runs have times of their own."""
    times = data["time"].values.astype(float)
    known = np.asarray(np.isfinite(data["state"].data).any(-1))  # (C, T)
    intervals = [np.diff(times[row]) for row in known if row.sum() > 1]
    if not intervals:
        return data
    usual = np.median([np.median(steps) for steps in intervals])
    if usual < OWN_TIMES * np.median(np.diff(times)):
        return data
    resampled = datasets.resampled(data)
    # behind a gap that stays missing a run may have a single sample, at no common time
    is_known = np.isfinite(resampled["state"].values).any((0, 2))  # (T,)
    last = int(np.flatnonzero(is_known)[-1])
    return resampled.isel(time=slice(0, last + 1))


def _check_contexts(data: xr.Dataset) -> None:
    """Refuse runs at fewer than three contexts."""
    names = datasets.context_names(data)
    number, parameters = 0, "no parameter"
    if names:
        number = len(np.unique(contexts_of(data), axis=0))
        parameters = ", ".join(names)
    if number < 3:
        got = f"{number} in {parameters}"
        fix = "name the parameters, context=[...], or give more runs"
        raise InputError("context", expected="three contexts or more", got=got, fix=fix)
