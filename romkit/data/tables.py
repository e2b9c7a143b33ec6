"""Tables of pandas as datasets: rows of times and runs, columns of variables."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np
import pandas as pd
import xarray as xr

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.data.clocks import shared_clock
from romkit.data.dates import times_of_text
from romkit.data.long import dimensions, restarts, widened
from romkit.data.names import TRAJECTORIES, columns_of_runs, guessed_time, split_unit
from romkit.data.places import Placed, placed
from romkit.data.stacked import VARIABLE, Place, along_places, places_in_names
from romkit.data.units import is_unit

MORE = "pandas.read_csv(file, sep=';', decimal=',', comment='#')"
COMMENT = ("#", "%")

DASHES = {"-", "--", "---", ".", "..", "...", "*", "**", "***", "?"}
MISSING = DASHES | {"na", "n.a.", "n.a", "nd", "n.d.", "none", "missing", "nodata", "no data"}
"""Marks of numbers that are missing, in small letters, beside those that pandas knows."""

MOSTLY = 0.5
"""Share of text from which on a column is one of text."""


def of_table(
    table: pd.DataFrame, context: Sequence[str], run: str | None, time: str | None
) -> tuple[xr.Dataset, str, list[str]]:
    """A table as a dataset, the name of its time, and sentences for warnings.

    A column that stays within each run is a coordinate of the runs.

    Raises:
        InputError: columns that cannot be told apart, no column of time, or several rows of one
            time in a run.
    """
    known_units = table.attrs.get("units", {})
    table, levels = _with_columns(table)
    table, of_rows = _without_row_numbers(table)
    table, units = _without_units_row(table)
    units = known_units | units
    time, notes = _name_of_time(table, time)
    notes = [*of_rows, *notes]
    if run is None:
        run = _name_of_runs(table, context)
    _check_columns(table, context, run, time)
    table = table.assign(**{time: _times(table[time], time)})
    table, marks = _with_numbers(table, {run, time})
    table, of_variables, guesses = widened(table, time)
    units = units | of_variables
    places, of_places = places_in_names(table, {run, time, *context})
    notes = [*notes, *marks, *guesses, *of_places]
    levels = [name for name in levels if name in table.columns and name not in (run, time)]
    runs = list(context) if run is None else [run]
    table, space, guesses = _with_space(table, runs, time, levels)
    notes += guesses
    is_single = run is None and not table.duplicated([time, *space]).any()
    if run is None:
        table, run, guesses = _with_runs(table, context, time, space, is_single)
        notes += guesses
    keys = [run, time, *space]
    _check_repeated(table, keys, run)
    if not is_single:
        table, clock_notes = _on_one_clock(table, run, time)
        notes = [*notes, *clock_notes]
    data = _variables(table, keys, context, places)
    if is_single:
        data = data.isel(trajectory=0)
    if run == "trajectory":
        data = data.drop_vars("trajectory")
    # a row of units knows better than a name
    units = _units_in_names(list(table.columns)) | units
    return _with_units(data, units), time, notes


def _with_space(table: pd.DataFrame, runs: Sequence[str], time: str, known: list[str]) -> Placed:
    """The table with columns that are dimensions of its state: those that are known, and labels or
    places by which rows of one time differ.
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
    """The column of time, and a warning where it is a guess."""
    if time is not None:
        return time, []
    facts = {}
    for name in table.columns:
        is_date = pd.api.types.is_datetime64_any_dtype(table[name])
        facts[name] = (is_date, {})  # a table has no attributes
    time, notes = guessed_time(facts)
    if time is None:
        _refuse_without_time(table)
    return time, notes


def _with_columns(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The table with a column for each level of its index, and the names of these levels."""
    _check_levels(table)
    table = _with_named_dates(table)
    levels = [str(name) for name in table.index.names if name is not None]
    table = table.rename(columns=str)
    _check_names(table, levels)
    if levels:
        table = table.reset_index().rename(columns=str)
    return table, levels


def _without_row_numbers(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The table without a first column that nobody named and that counts the rows, as R and pandas
    write it, and a sentence where there was one.
    """
    first = str(table.columns[0])
    if first not in ("", "Unnamed: 0"):
        return table, []
    numbers = pd.to_numeric(table.iloc[:, 0], errors="coerce").to_numpy(dtype=float)
    steps = np.diff(numbers)
    if len(steps) == 0 or numbers[0] not in (0.0, 1.0) or not (steps == 1).all():
        return table, []
    return table.iloc[:, 1:], ["the first column, without a name, counts the rows, and is left out"]


def _check_levels(table: pd.DataFrame) -> None:
    """Raise where columns have several levels, or levels of the index have no names."""
    if table.columns.nlevels > 1:
        raise InputError(
            "data",
            expected="one name for each column",
            got=f"{table.columns.nlevels} levels",
            fix="join their parts: table.columns = ['_'.join(map(str, c)) for c in table.columns]",
        )
    if table.index.nlevels > 1 and None in table.index.names:
        fix = "name the levels: table.rename_axis(['run', 't']); a file with other separators: "
        raise InputError("data", expected="names of the index", got="none", fix=fix + MORE)


def _with_named_dates(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a name for an index of dates, which is time's."""
    is_dated = isinstance(table.index, pd.DatetimeIndex | pd.TimedeltaIndex | pd.PeriodIndex)
    if not is_dated or table.index.name is not None:
        return table
    return table.rename_axis("index" if "time" in table.columns else "time")


def _check_names(table: pd.DataFrame, levels: Sequence[str]) -> None:
    """Raise where names occur twice, or are those of a file that was not split into columns."""
    number_of = Counter([*levels, *table.columns])
    repeated = sorted(name for name, number in number_of.items() if number > 1)
    if repeated:
        raise InputError(
            "data",
            expected="one column of each name",
            got=f"{', '.join(repeated)} twice",
            fix="rename one of them: table.columns = [...]",
        )
    if table.columns.empty:
        return
    name = str(table.columns[0])
    if ";" in name or name.startswith(COMMENT):
        raise InputError(
            "data",
            expected="columns of a table",
            got=f"a column {name[:40]!r}: semicolons between, or a line of comment",
            fix=f"read it by {MORE}",
        )


def _without_units_row(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """The table without a row below the names that holds the units of the columns, and these
    units.
    """
    if len(table) < 2:
        return table, {}
    columns, units, beside = {}, {}, []
    for name in table.columns:
        column = table[name]
        if _is_plain(column):
            beside.append(name)
            continue
        numbers = _numbers_below(column)
        if numbers is not None:
            columns[name] = numbers
            units[name] = str(column.iloc[0]).strip(" []()")
    # numbers beside the text: a row of data, and none of units
    if not columns or table.iloc[0][beside].notna().any():
        return table, {}
    return table.iloc[1:].assign(**columns), units


def _numbers_below(column: pd.Series) -> pd.Series | None:
    """Numbers below an entry of text; None where that is a number, or where others are text."""
    entries = column.iloc[1:]
    numbers = pd.to_numeric(entries, errors="coerce")
    # cells that are empty stay missing, and say nothing
    is_number = numbers.notna() | entries.isna()
    if not is_number.all() or not numbers.notna().any():
        return None
    is_text = pd.to_numeric(column.iloc[:1], errors="coerce").isna().all()
    return numbers if is_text else None


def _with_numbers(table: pd.DataFrame, labels: set[str | None]) -> tuple[pd.DataFrame, list[str]]:
    """The table with numbers in place of text that says numbers, NaN where a mark says that one is
    missing; and sentences for warnings.

    Args:
        table: without a row of units.
        labels: columns that stay as they are: "007" is a name of a run.

    Raises:
        InputError: a column of numbers with text between, of which nobody knows what it means.
    """
    columns, notes = {}, []
    for name in table.columns:
        column = table[name]
        if name in labels or _is_plain(column) or not _has_text(column):
            continue
        numbers = pd.to_numeric(column, errors="coerce")
        is_text = numbers.isna() & column.notna()
        if is_text.mean() > MOSTLY:
            continue  # names, dates or remarks
        marks = column[is_text].astype(str).str.strip()
        _check_marks(name, marks, len(table))
        columns[name] = numbers.astype(np.float64)
        if len(marks):
            notes.append(f"{len(marks)} marks {marks.iloc[0]!r} in {name}: missing")
    return table.assign(**columns), notes


def _check_marks(name: str, marks: pd.Series, rows: int) -> None:
    """Raise where text among numbers is no usual mark of what is missing."""
    unknown = marks[~marks.str.lower().isin(MISSING)]
    if not len(unknown):
        return
    text = unknown.iloc[0][:30]
    raise InputError(
        "data",
        expected=f"numbers in {name!r}",
        got=f"text, {text!r}, in {len(unknown)} of {rows} rows",
        fix="convert or drop it: pandas.read_csv(..., thousands=',', na_values=[...]), say",
    )


def _has_text(column: pd.Series) -> bool:
    """Whether a column may hold numbers as text, or as objects."""
    kinds = pd.api.types
    return kinds.is_object_dtype(column) or kinds.is_string_dtype(column)


def _units_in_names(names: Sequence[str]) -> dict[str, str]:
    """Units behind names, as in "x [m]" and "x / m"; what is no unit, as in "x[0]", is a name."""
    units = {}
    for name in names:
        _, unit = split_unit(name)
        if is_unit(unit):
            units[name] = unit
    return units


def _is_plain(column: pd.Series) -> bool:
    """Whether a column holds numbers or dates."""
    kinds = pd.api.types
    if kinds.is_numeric_dtype(column) or kinds.is_timedelta64_dtype(column):
        return True
    return kinds.is_datetime64_any_dtype(column)


def _refuse_without_time(table: pd.DataFrame) -> NoReturn:
    """Raise InputError: no column is called time."""
    raise InputError(
        "data",
        expected="a column of time",
        got=", ".join(map(str, table.columns[:6])),
        fix="name it, time='...'; dates in the index: table.rename_axis('time'); "
        "or give the interval: romkit.data.from_arrays(table.to_numpy(), 0.1)",
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
    """Times as numbers, or as dates without a zone, which are those of UTC.

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
    """The column that tells runs apart, None where there is none."""
    for name in columns_of_runs(table.columns):
        if name in TRAJECTORIES:
            return name
        # a scenario with several values of a parameter holds several runs
        parameters = [parameter for parameter in context if parameter in table.columns]
        if name not in context and not _varies_within(table, name, parameters):
            return name
    return None


def _varies_within(table: pd.DataFrame, run: str, names: Sequence[str]) -> bool:
    """Whether one of these columns has several values in a run."""
    if not names:
        return False
    return bool((table.groupby(run)[list(names)].nunique(dropna=False) > 1).any(axis=None))


def _with_runs(
    table: pd.DataFrame, context: Sequence[str], time: str, space: Sequence[str], is_single: bool
) -> tuple[pd.DataFrame, str, list[str]]:
    """The table with a column of runs, its name, and sentences for warnings: rows of one context
    are a run, or rows before the times begin again.
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


def _check_repeated(table: pd.DataFrame, keys: Sequence[str], run: str) -> None:
    """Raise where a run has several rows of one time and place."""
    repeated = table.duplicated(list(keys))
    if not repeated.any():
        return
    repeated_keys = table.loc[repeated, list(keys)]
    row = repeated_keys.iloc[0].drop(run)
    got = ", ".join(f"{name}={_shown(value)}" for name, value in row.items())
    names = ", ".join(name for name in keys if name != "trajectory")
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
    """The table with times that runs share, and sentences for warnings."""
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
    """A dataset of the columns, of those that are called by places one variable."""
    others = table.drop(columns=list(places))
    data = _with_constant_coordinates(others, keys, context)
    if not places:
        return data
    columns = table.set_index(keys)[list(places)].to_xarray()
    return data.assign({VARIABLE: along_places(columns, places)})


def _with_constant_coordinates(
    table: pd.DataFrame, keys: Sequence[str], context: Sequence[str]
) -> xr.Dataset:
    """A dataset of the columns; those that stay within each run are coordinates of the runs, and
    those that stay at each place of the places.

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
    """Whether a column has one value at each place, and several in all."""
    if table[name].nunique(dropna=False) < 2:
        return False
    return int(table.groupby(list(space))[name].nunique(dropna=False).max()) <= 1
