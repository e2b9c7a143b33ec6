"""Data without a time, and runs that do not move: whether they are, and in romkit's schema."""

import contextlib
import io
from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

import romkit.data as datasets
from romkit.core.errors import InputError
from romkit.data.circles import warn_of_circles
from romkit.data.names import TRAJECTORIES
from romkit.learning.contexts import number_of_contexts
from romkit.readers.names import Fact, guessed_time

SETTLED = 1e-6
"""Range along time, in that over all runs, up to which a variable is at rest."""

TWICE = np.array([0.0, 1.0])
"""Times at which a field that does not move is written into the schema."""


def without_motion(
    source: xr.Dataset | pd.DataFrame, context: Sequence[str] | None
) -> xr.Dataset | None:
    """Return steady fields in romkit's schema, at two times; None for runs that move.

    Args:
        source: fields without a time, or runs, in a dataset of any habit or a table.
        context: names of the parameters; None for those that data in romkit's schema declare.

    Raises:
        InputError: fewer than three contexts, or values that are missing.
    """
    names = list(context or ())
    fields = _of_table(source, names) if isinstance(source, pd.DataFrame) else _of_data(source)
    has_names = bool(names) or (fields is not None and "state" in fields)
    if fields is None or not has_names:
        return None
    data = _in_schema(fields, names)
    if number_of_contexts(data) < 3:
        got = f"{number_of_contexts(data)} of fields that do not move"
        fix = "name the parameters, context=[...], or give more fields"
        raise InputError("context", expected="three contexts or more", got=got, fix=fix)
    if not np.isfinite(data["state"].values).all():
        fix = "fill them, or leave these fields out"
        raise InputError("state", expected="numbers in each field", got="missing ones", fix=fix)
    warn_of_circles(data)
    lines = datasets.summary(data).splitlines()
    about_states, about_context = (line.split(maxsplit=1)[1] for line in lines[1:3])
    count, n = data.sizes["trajectory"], data.sizes["component"]
    print(f"fields   {count} without a time, n = {n}: {about_states}\ncontext  {about_context}")
    return data


def _in_schema(fields: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
    """Return fields without a time in romkit's schema, at two times."""
    if "state" in fields and "component" in fields.dims:
        twice = fields.expand_dims(time=TWICE).copy(deep=True)
        return twice.transpose(*datasets.DIMS, ..., missing_dims="ignore")
    fields = fields.set_coords([name for name in names if name in fields.data_vars])
    twice = fields.expand_dims(time=TWICE).copy(deep=True)  # a view cannot be written to
    with contextlib.redirect_stdout(io.StringIO()):  # it would tell of the two times
        return datasets.describe(twice, context=names, time="time")


def _of_table(table: pd.DataFrame, context: Sequence[str]) -> xr.Dataset | None:
    """Return a row of each context of a table that has no time, or the first one of each run that
    does not move; None for others.
    """
    if not {*context} <= {*table.columns}:
        return None
    others = [name for name in table.columns if name not in context]
    facts = {str(name): Fact(_are_dates(table[name]), {}) for name in others}
    time = guessed_time(facts, [])
    runs = [*context, *(name for name in TRAJECTORIES if name in others)]
    if time is None:
        is_once = not table.duplicated(runs).any()
        return _numbers(table, runs, context) if is_once else None
    if not _rows_rest(table, time, runs):
        return None
    return _numbers(table.drop_duplicates(runs).drop(columns=time), runs, context)


def _rows_rest(table: pd.DataFrame, time: str, runs: Sequence[str]) -> bool:
    """Tell whether all other columns are numbers that do not move in any run."""
    states = table.drop(columns=[time, *runs], errors="ignore")
    numbers = states.select_dtypes("number")
    if numbers.empty or numbers.shape[1] < states.shape[1]:
        return False
    of_run = numbers.groupby([table[name] for name in runs])
    span = (of_run.max() - of_run.min()).max()
    return bool((span <= SETTLED * (numbers.max() - numbers.min())).all())


def _are_dates(column: pd.Series) -> bool:
    return column.dtype.kind == "M"


def _numbers(table: pd.DataFrame, runs: Sequence[str], context: Sequence[str]) -> xr.Dataset | None:
    """Return rows as runs with their parameters and numbers; None where there are no numbers."""
    states = table.drop(columns=runs).select_dtypes("number")
    if states.shape[1] == 0:
        return None
    data = xr.Dataset({str(name): ("trajectory", states[name].to_numpy()) for name in states})
    return data.assign_coords({name: ("trajectory", table[name].to_numpy()) for name in context})


def _of_data(data: xr.Dataset) -> xr.Dataset | None:
    """Return fields that have no time, or the first ones of runs that do not move; None for others."""
    time = guessed_time(_facts(data), [])
    if time is None:
        return data
    (*_, along) = data[time].dims if time in data.variables else (time,)
    if "control" in data or data.sizes.get(along, 0) < 2:
        return None
    fields = [field for field in data.data_vars.values() if along in field.dims]
    if not all(_rests(field, str(along)) for field in fields):
        return None
    rates = [name for name in ("velocity", "acceleration") if name in data]
    first = data.isel({along: 0}).drop_vars(time, errors="ignore")
    return first.drop_vars(rates)


def _facts(data: xr.Dataset) -> dict[str, Fact]:
    """Return what tells of the variables and dimensions that may be the time."""
    facts = {}
    for name, values in data.variables.items():
        if values.ndim in (1, 2):
            facts[str(name)] = Fact(values.dtype.kind == "M", values.attrs)
    for name in data.dims:
        facts.setdefault(str(name), Fact(False, {}))
    return facts


def _rests(values: xr.DataArray, along: str) -> bool:
    """Tell whether a variable of numbers does not move along a dimension."""
    if values.dtype.kind not in "fiu":
        return False
    ends = values.isel({along: [0, -1]}).astype(float)
    width = float(values.max() - values.min())
    # most runs move by their ends, and need no look at all of them
    if float((ends.max(along) - ends.min(along)).max()) > SETTLED * width:
        return False
    return float((values.max(along) - values.min(along)).max()) <= SETTLED * width
