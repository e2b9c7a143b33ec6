"""Runs of any habit, in romkit's schema: files, tables and datasets, with common times, and fields
without a time.
"""

import contextlib
import io
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
import xarray as xr

import romkit.data as datasets
from romkit.core.errors import DataWarning, warn
from romkit.data.cleaning import (
    align_times,
    fill_single_cells,
    trim_incomplete_start,
)
from romkit.data.clocks import OWN_TIMES
from romkit.data.habits import warn_habits
from romkit.data.names import TRAJECTORIES
from romkit.data.spelling import full_name
from romkit.readers.names import Fact, guessed_time
from romkit.readers.several import read_runs
from romkit.readers.tables import split_units

TWICE = np.array([0.0, 1.0])
"""Times at which a field without a time is written into the schema."""

Source: TypeAlias = (
    xr.Dataset | pd.DataFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
)
"""Runs, a table of them, or their files."""


def described(
    source: Source, context: str | Sequence[str] | None, time: str | None = None
) -> xr.Dataset:
    """Return runs in romkit's schema, whole from their start on and at common times; fields without
    a time at two times.
    """
    names = [context] if isinstance(context, str) else context
    runs = source
    if not isinstance(source, xr.Dataset | pd.DataFrame):
        files = [source] if isinstance(source, str | os.PathLike) else source
        runs, parameters = read_runs([Path(str(name)) for name in files])
        names = names if names is not None else parameters or None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = _describe(runs, names, time)
    common = align_times(data)
    for warning in caught:
        # it asks for what has been done
        if common is data or not _has_own_times(warning.message):
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
    warn_habits(common, "jumps", "circles")
    return trim_incomplete_start(fill_single_cells(common))


def _describe(
    data: xr.Dataset | pd.DataFrame, names: Sequence[str] | None, time: str | None
) -> xr.Dataset:
    """Return tables and datasets in romkit's schema, on the times that they have."""
    if isinstance(data, pd.DataFrame):
        data = split_units(data)
        names = names and [full_name(name, map(str, data.columns)) for name in names]
    fields = None if time else _static_fields(data, names or ())
    runs = data if fields is None else fields
    if isinstance(runs, xr.Dataset) and "state" in runs and "component" in runs.dims:
        # `describe` warns of those in other data
        warn_habits(runs, "extremes", "equal runs")
        return runs.transpose(*datasets.DIMS, ..., missing_dims="ignore")
    if fields is None:
        return datasets.describe(data, context=names, time=time)
    with contextlib.redirect_stdout(io.StringIO()):  # it would tell of the two times
        return datasets.describe(fields, context=names, time="time")


def _has_own_times(message: Warning | str) -> bool:
    """Tell whether a warning says that runs have times of their own."""
    beginning, _ = OWN_TIMES.split("{share")
    return isinstance(message, DataWarning) and beginning in str(message)


def _static_fields(data: xr.Dataset | pd.DataFrame, names: Sequence[str]) -> xr.Dataset | None:
    """Return fields that have no time, at two times, also rows of a table that are the same at all
    times of a run; None for others.
    """
    facts = _facts(data, names)
    time = guessed_time(facts, [])
    if isinstance(data, pd.DataFrame):
        rows = data if time is None else data.drop(columns=time).drop_duplicates()
        fields = _match_runs(rows, names)
    else:
        has_names = bool(names) or "state" in facts
        fields = data if time is None and has_names else None
    if fields is None:
        return None
    fields = fields.set_coords([name for name in names if name in fields.data_vars])
    return fields.expand_dims(time=TWICE).copy(deep=True)  # a view cannot be written to


def _match_runs(rows: pd.DataFrame, names: Sequence[str]) -> xr.Dataset | None:
    """Return rows of a table as runs; None where a run has several, or no numbers."""
    runs = [*names, *(name for name in TRAJECTORIES if name in rows)]
    if not names or not {*names} <= {*rows.columns} or rows.duplicated(runs).any():
        return None
    states = rows.drop(columns=runs).select_dtypes("number")
    if states.shape[1] == 0:
        return None
    columns = {**states, **rows[[*names]]}
    return xr.Dataset({str(name): ("trajectory", column) for name, column in columns.items()})


def _facts(data: xr.Dataset | pd.DataFrame, names: Sequence[str]) -> dict[str, Fact]:
    """Return what tells of the variables, columns and dimensions that may be the time."""
    if isinstance(data, pd.DataFrame):
        dtypes = data.dtypes.drop([name for name in names if name in data])
        return {str(name): Fact(dtype.kind == "M", {}) for name, dtype in dtypes.items()}
    facts = {}
    for name, values in data.variables.items():
        if values.ndim in (1, 2):
            facts[str(name)] = Fact(values.dtype.kind == "M", values.attrs)
    for name in data.dims:
        facts.setdefault(str(name), Fact(False, {}))
    return facts
