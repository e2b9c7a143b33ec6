"""Tables of pandas as datasets: rows of times and runs, columns of variables."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import xarray as xr

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.data.clocks import IN_DOUBLE, shared_clock, single_precision
from romkit.data.names import TRAJECTORIES
from romkit.readers.columns import (
    units_in_names,
    with_columns,
    with_numbers,
    without_row_numbers,
    without_units_row,
)
from romkit.readers.dates import times_of_text
from romkit.readers.long import dimensions, restarts, widened
from romkit.readers.names import columns_of_runs, guessed_time
from romkit.readers.places import Placed, placed
from romkit.readers.stacked import VARIABLE, Place, along_places, places_in_names

GAP = 1.5
"""Time between two runs, in the longest interval within them, from which on it is a gap."""


def of_table(
    table: pd.DataFrame, context: Sequence[str], run: str | None, time: str | None
) -> tuple[xr.Dataset, str, list[str]]:
    """Return a table as a dataset, the name of its time, and sentences for warnings.

    A column that stays within each run is a coordinate of the runs.

    Raises:
        InputError: columns that cannot be told apart, no column of time, or several rows of one
            time in a run.
    """
    known_units = table.attrs.get("units", {})
    table, levels = with_columns(table)
    table, of_rows = without_row_numbers(table)
    table, units = without_units_row(table)
    units = known_units | units
    time, notes = _name_of_time(table, time)
    notes = [*of_rows, *notes]
    if run is None:
        run = _name_of_runs(table, context)
    _check_columns(table, context, run, time)
    table = table.assign(**{time: _times(table[time], time)})
    table, marks = with_numbers(table, {run, time})
    table, of_variables, guesses = widened(table, time)
    units = units | of_variables
    places, of_places = places_in_names(table, {run, time, *context})
    notes = [*notes, *marks, *guesses, *of_places]
    levels = [name for name in levels if name in table.columns and name not in (run, time)]
    runs = list(context) if run is None else [run]
    table, space, guesses = _with_space(table, runs, time, levels)
    notes += guesses
    is_single = run is None and _is_single(table, context, time, space)
    if run is None:
        table, run, guesses = _with_runs(table, context, time, space, is_single)
        notes += guesses
    keys = [run, time, *space]
    _check_repeated(table, keys, run, time)
    if not is_single:
        table, clock_notes = _on_one_clock(table, run, time)
        notes = [*notes, *clock_notes]
    data = _variables(table, keys, context, places)
    if is_single:
        data = data.isel(trajectory=0)
    if run == "trajectory":
        data = data.drop_vars("trajectory")
    # a row of units knows better than a name
    units = units_in_names(list(table.columns)) | units
    return _with_units(data, units), time, notes


def _with_space(table: pd.DataFrame, runs: Sequence[str], time: str, known: list[str]) -> Placed:
    """Return the table with columns that are dimensions of its state: those that are known, and
    labels or places by which rows of one time differ.
    """
    labels, notes = dimensions(table, runs, [*runs, time, *known])
    if labels or known:
        return Placed(table, [*known, *labels], notes)
    table, places, of_places = placed(table, runs, time)
    return Placed(table, places, [*notes, *of_places])


def _with_units(data: xr.Dataset, units: Mapping[str, str]) -> xr.Dataset:
    for name, unit in units.items():
        if name in data.variables:
            data[name].attrs["units"] = unit
    return data


def _name_of_time(table: pd.DataFrame, time: str | None) -> tuple[str, list[str]]:
    """Return the column of time, and a warning where it is a guess."""
    if time is not None:
        return time, []
    time, notes = time_among_columns(table)
    if time is None:
        _refuse_without_time(table)
    return time, notes


def time_among_columns(table: pd.DataFrame) -> tuple[str | None, list[str]]:
    """Return the column of time, None where there is none, and a warning where it is a guess."""
    facts: dict[str, tuple[bool, Mapping[str, Any]]] = {}
    for name in table.columns:
        is_date = pd.api.types.is_datetime64_any_dtype(table[name])
        facts[name] = (is_date, {})  # a table has no attributes
    return guessed_time(facts)


def _refuse_without_time(table: pd.DataFrame) -> NoReturn:
    """Raise InputError: no column is called time."""
    raise InputError(
        "data",
        expected="a column of time",
        got=", ".join(map(str, table.columns[:6])),
        fix="name it, time='...'; dates in the index: table.rename_axis('time'); a file for each "
        "time: 'u_{time}.csv'; or give the interval: romkit.data.from_arrays(table.to_numpy(), 0.1)",
    )


def _check_columns(table: pd.DataFrame, context: Sequence[str], run: str | None, time: str) -> None:
    columns = list(table.columns)
    if not len(table):
        raise InputError(
            "data", expected="rows", got="none", fix="check how the table was read or filtered"
        )
    checks.one_of("time", time, columns)
    for name in context:
        checks.one_of("context", name, columns)
    if run is None:
        return
    checks.one_of("trajectory", run, columns)
    _check_every_row(table[run], run)


def _check_every_row(column: pd.Series, name: str) -> None:
    """Raise where a row has no number of a run, or no time."""
    missing = int(column.isna().sum())
    if missing:
        raise InputError(
            "data",
            expected=f"a {name} in every row",
            got=f"{missing} rows without",
            fix=f"fill or drop these rows: table.dropna(subset=[{name!r}])",
        )


def _times(column: pd.Series, name: str) -> pd.Series:
    """Return times as numbers, or as dates without a zone, which are those of UTC.

    Raises:
        InputError: text that is neither, or a row without a time.
    """
    column = column.convert_dtypes() if column.dtype == object else column
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    elif pd.api.types.is_string_dtype(column.dtype):
        # that is also the dtype of dates of the standard library, which are objects
        column = times_of_text(column, name)
    elif pd.api.types.is_numeric_dtype(column):
        column = column.astype(np.float64)
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        # in UTC no hour is there twice, as it is where clocks are put back
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    _check_every_row(column, name)
    return column


def _name_of_runs(table: pd.DataFrame, context: Sequence[str]) -> str | None:
    """Return the column that tells runs apart, None where there is none."""
    for name in columns_of_runs(table.columns):
        if name in TRAJECTORIES:
            return name
        # a scenario with several values of a parameter holds several runs
        parameters = [parameter for parameter in context if parameter in table.columns]
        if name not in context and not _varies_within(table, name, parameters):
            return name
    return None


def _varies_within(table: pd.DataFrame, run: str, names: Sequence[str]) -> bool:
    """Tell whether one of these columns has several values in a run."""
    if not names:
        return False
    return bool((table.groupby(run)[list(names)].nunique(dropna=False) > 1).any(axis=None))


def _is_single(
    table: pd.DataFrame, context: Sequence[str], time: str, space: Sequence[str]
) -> bool:
    """Tell whether rows without a column of runs are one run: a single row of each time and place."""
    if table.duplicated([time, *space]).any():
        return False
    return not _are_blocks(table, context, time)


def _are_blocks(table: pd.DataFrame, context: Sequence[str], time: str) -> bool:
    """Tell whether rows at one time each are runs one after the other: parameters stay between gaps
    in time, and change across them alone.
    """
    if not context:
        return False
    ordered = table.sort_values(time, kind="stable")
    values = ordered[list(context)]
    changes = (values != values.shift()).any(axis=1).to_numpy()[1:]
    steps = ordered[time].diff().to_numpy()[1:]
    if not changes.any() or changes.all():
        return False
    longest = steps[~changes].max()
    return bool((steps[changes] > GAP * longest).all())


def _with_runs(
    table: pd.DataFrame, context: Sequence[str], time: str, space: Sequence[str], is_single: bool
) -> tuple[pd.DataFrame, str, list[str]]:
    """Return the table with a column of runs, its name, and sentences for warnings: rows of one
    context are a run, or rows before the times begin again.
    """
    if is_single:
        return table.assign(trajectory=0), "trajectory", []
    if not space and table.duplicated([*context, time]).any():
        runs = restarts(table, time, context)
        if runs is not None:
            note = f"times begin again: {int(runs.max()) + 1} runs, in the order of the rows"
            return table.assign(trajectory=runs), "trajectory", [note]
    if not context:
        return table.assign(trajectory=0), "trajectory", []
    groups = table.groupby(list(context))
    notes = []
    if table[time].nunique() > 1 and groups[time].nunique().max() == 1:
        notes.append(
            f"each context has a single time: {groups.ngroups} runs of one; where a parameter moves, "
            "name the runs, trajectory='...'"
        )
    if len(context) == 1:
        return table, context[0], notes
    return table.assign(trajectory=groups.ngroup()), "trajectory", notes


def _check_repeated(table: pd.DataFrame, keys: Sequence[str], run: str, time: str) -> None:
    """Raise where a run has several rows of one time and place."""
    repeated = table.duplicated(list(keys))
    if not repeated.any():
        return
    repeated_keys = table.loc[repeated, list(keys)]
    row = repeated_keys.iloc[0].drop(run)
    got = ", ".join(f"{name}={_shown(value)}" for name, value in row.items())
    names = ", ".join(name for name in keys if name != "trajectory")
    clock = table[time]
    if clock.dtype.kind in "fiu" and single_precision(clock.to_numpy(np.float64)):
        raise InputError(
            "data",
            expected=f"one row for each {names}",
            got=f"several for {got}, in times rounded to single precision (float32)",
            fix=IN_DOUBLE,
        )
    raise InputError(
        "data",
        expected=f"one row for each {names}",
        got=f"several for {got}",
        fix="name the runs, trajectory='...' or `romkit check FILE --trajectory ... --out NEW`, or all "
        "parameters, context=[...], or put dimensions into the index, "
        "data.set_index(['run', 't', 'x']); rows that are there twice: data.drop_duplicates()",
    )


def _shown(value: object) -> str:
    if isinstance(value, int | float | np.number):
        return f"{value:g}"
    return str(value)


def _on_one_clock(table: pd.DataFrame, run: str, time: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the table with times that runs share, and sentences for warnings."""
    times = table[time]
    if times.dtype.kind in "mM":
        starts = times.groupby(table[run]).min()
        if starts.nunique() == 1:
            return table, []  # dates stay dates, which forecasts give back
        times = (times - times.min()) / np.timedelta64(1, "s")
    values = times.to_numpy(np.float64)
    groups = table.groupby(run, sort=True)
    rows_of_runs = list(groups.indices.values())
    clocks = [np.unique(values[rows]) for rows in rows_of_runs]
    shared, notes = shared_clock(clocks)
    moved = np.empty_like(values)
    for rows, before, after in zip(rows_of_runs, clocks, shared, strict=True):
        moved[rows] = after[np.searchsorted(before, values[rows])]
    return table.assign(**{time: moved}), notes


def _variables(
    table: pd.DataFrame, keys: list[str], context: Sequence[str], places: Mapping[str, Place]
) -> xr.Dataset:
    """Return a dataset of the columns, of those that are called by places one variable."""
    others = table.drop(columns=list(places))
    data = _with_constant_coordinates(others, keys, context)
    if not places:
        return data
    columns = table.set_index(keys)[list(places)].to_xarray()
    return data.assign({VARIABLE: along_places(columns, places)})


def _with_constant_coordinates(
    table: pd.DataFrame, keys: Sequence[str], context: Sequence[str]
) -> xr.Dataset:
    """Return a dataset of the columns; those that stay within each run are coordinates of the runs,
    and those that stay at each place of the places.

    Where each run has one time, as first states have, these are the parameters and text alone.
    """
    run, time, *space = keys
    groups = table.groupby(run)
    has_course = groups[time].nunique().max() > 1
    data = table.set_index(list(keys)).to_xarray()
    # a parameter stands in each row of its run
    for name in table.columns:
        is_state = not has_course and name not in context and table[name].dtype.kind == "f"
        if name in keys or is_state:
            continue
        if space and _stays_at_places(table, name, space):
            places = table.drop_duplicates(space).set_index(space)[name].to_xarray()
            data = data.drop_vars(name).assign_coords({name: places.variable})
            continue
        column = groups[name]
        if column.nunique(dropna=False).max() <= 1:
            coordinate = (run, column.first().values)
            data = data.drop_vars(name).assign_coords({name: coordinate})
    return data


def _stays_at_places(table: pd.DataFrame, name: str, space: Sequence[str]) -> bool:
    """Tell whether a column has one value at each place, and several in all."""
    if table[name].nunique(dropna=False) < 2:
        return False
    return int(table.groupby(list(space))[name].nunique(dropna=False).max()) <= 1
