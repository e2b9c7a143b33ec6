"""Tables of pandas as datasets: rows of times, runs and places, columns of variables."""

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr

from romkit.core import checks
from romkit.core.display import listed
from romkit.core.errors import InputError
from romkit.data.clocks import IN_DOUBLE, shared_clock, single_precision
from romkit.data.names import split_unit
from romkit.data.spelling import strip_unit
from romkit.readers.names import Fact, Guess, Guesses, guessed_time, run_columns

DATES = (pd.DatetimeIndex, pd.TimedeltaIndex, pd.PeriodIndex)


def convert_table(
    table: pd.DataFrame,
    context: Sequence[str],
    run: str | None,
    time: str | None,
    guesses: Guesses,
) -> tuple[xr.Dataset, str]:
    """Return a table as a dataset, and the name of its time.

    A column that stays within each run is a coordinate of the runs.

    Args:
        table: a row for each time of each run and place, further dimensions perhaps in its index.
        context: names of parameters.
        run: column that tells runs apart.
        time: column of times.
        guesses: to which those that are made here are added.

    Raises:
        InputError: columns that cannot be told apart, no column of time, or several rows of one
            time in a run.
    """
    table = split_units(table)
    units = dict(table.attrs["units"])
    table, levels = _reset_index(table)
    table = _drop_unnamed(table, guesses)
    run, time = _run_and_time(table, context, run, time, guesses)
    table = table.assign(**{time: _times(table[time], time)})
    table = _parse_numbers(table, {run, time})
    space = [name for name in levels if name not in (run, time, *context)]
    is_single = run is None and not context
    if run is None:
        table, run = _number_runs(table, context, time, space)
    keys = [run, time, *space]
    _check_repeated(table, keys)
    if not is_single:
        table = _share_clock(table, run, time, guesses)
    data = _build_dataset(table, keys, context)
    if run == "trajectory":
        data = data.drop_vars("trajectory").squeeze(run if is_single else [])
    return _assign_units(data, units), time


def split_units(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose columns have no units in their names, but in `attrs["units"]`: `x` of
    `x [mm]`. Names stay where two would be one.
    """
    columns = [str(name) for name in (*table.columns, *table.index.names)]
    bare = [strip_unit(name) for name in columns]
    counts = Counter(bare)
    # x(t) is a function of the column t
    functions = {f"{name}({argument})" for name in bare for argument in bare}
    units, names = {}, {}
    for name, short in zip(columns, bare, strict=True):
        if name != short and counts[short] == 1 and name not in functions:
            names[name], units[short] = short, split_unit(name).unit
    plain = table.rename(columns=names)
    if names.keys() & {*table.index.names}:
        plain = plain.rename_axis(index=names)
    # a row of units knows better than a name
    row_units = {names.get(name, name): unit for name, unit in table.attrs.get("units", {}).items()}
    plain.attrs = table.attrs | {"units": units | row_units}
    return plain


def _assign_units(data: xr.Dataset, units: Mapping[str, str]) -> xr.Dataset:
    for name in units.keys() & data.variables.keys():
        data[name].attrs["units"] = units[name]
    return data


def _run_and_time(
    table: pd.DataFrame,
    context: Sequence[str],
    run: str | None,
    time: str | None,
    guesses: Guesses,
) -> tuple[str | None, str]:
    """Return the columns that tell runs apart, None for none, and of time.

    Raises:
        InputError: there is no column of such a name, or a row without run.
    """
    time = time or find_time_column(table, guesses)
    if time is None:
        raise InputError(
            "data",
            expected="a column of time",
            got=listed(table.columns, 12),
            fix="name it, time='day', or rename it, table.rename(columns={'day': 'time'}); dates in "
            "the index: table.rename_axis('time'); a file for each time: 'u_{time}.csv'; or give the "
            "interval: romkit.data.from_arrays(table.to_numpy(), 0.1)",
        )
    if run is None:
        names = (name for name in run_columns(table.columns) if name not in context)
        run = next(names, None)
    columns = list(table.columns)
    checks.one_of("time", time, columns)
    _check_has_contexts(columns, context)
    if run is not None:
        checks.one_of("trajectory", run, columns)
        _check_every_row(table[run], run)
    return run, time


def _check_has_contexts(columns: Sequence[str], context: Sequence[str]) -> None:
    """Raise where a parameter is no column."""
    for name in context:
        if name not in columns:
            raise InputError(
                "context",
                expected="a column of this name, or braces in the names of the files",
                got=repr(name),
                fix=checks.nearest(name, map(str, columns))
                or f"give romkit.learn('run_{{{name}}}.csv'), say, where the names of the files have it",
            )


def find_time_column(table: pd.DataFrame, guesses: Guesses) -> str | None:
    """Return the column of time, None where there is none."""
    is_date = pd.api.types.is_datetime64_any_dtype
    # a table has no attributes
    return guessed_time({name: Fact(is_date(table[name]), {}) for name in table.columns}, guesses)


def is_text(column: pd.Series) -> bool:
    """Tell whether a column may hold text, or objects."""
    kinds = pd.api.types
    return kinds.is_string_dtype(column) or kinds.is_object_dtype(column)


def _reset_index(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the table with a column for each level of its index, and the names of these levels.

    Raises:
        InputError: columns or levels without a name of their own.
    """
    if isinstance(table.index, DATES) and table.index.name is None:
        table = table.rename_axis("index" if "time" in table.columns else "time")
    levels = [str(name) for name in table.index.names if name is not None]
    _check_names(table, levels)
    table = table.rename(columns=str)
    if levels:
        table = table.reset_index().rename(columns=str)
    # groups, cuts and parquet make categories of numbers
    categories = table.select_dtypes("category").columns
    return table.astype({name: table[name].cat.categories.dtype for name in categories}), levels


def _check_names(table: pd.DataFrame, levels: Sequence[str]) -> None:
    """Raise where columns, or levels of the index, have no name of their own, or nothing is there."""
    columns = list(map(str, table.columns))
    repeated = [name for name, number in Counter([*levels, *columns]).items() if number > 1]
    header = columns[0] if columns else ""
    refusals = (
        (
            table.columns.nlevels > 1,
            "one name for each column",
            f"{table.columns.nlevels} levels",
            "join their parts: table.columns = ['_'.join(map(str, c)) for c in table.columns]",
        ),
        (
            table.index.nlevels > max(len(levels), 1),
            "names of the index",
            "none",
            "name the levels: table.rename_axis(['run', 't']); read comments by "
            "pandas.read_csv(file, sep=';', decimal=',', comment='#')",
        ),
        (
            repeated,
            "one column of each name",
            f"{', '.join(sorted(repeated))} twice",
            "rename one of them: table.columns = [...]",
        ),
        (
            ";" in header or header.startswith(("#", "%")),
            "columns of a table",
            f"a column {header[:40]!r}: semicolons between, or a line of comment",
            "read it by pandas.read_csv(file, sep=';', decimal=',', comment='#')",
        ),
        (
            not len(table) or not (levels or columns),
            "a table with rows and columns",
            f"one of {table.shape[0]} rows and {table.shape[1]} columns",
            "check how it was read or filtered",
        ),
    )
    for is_wrong, expected, got, fix in refusals:
        if is_wrong:
            raise InputError("data", expected=expected, got=got, fix=fix)


def _drop_unnamed(table: pd.DataFrame, guesses: Guesses) -> pd.DataFrame:
    """Return the table without columns that nobody named, the numbers of the rows say."""
    unnamed = [name for name in table.columns if not name or name.startswith("Unnamed: ")]
    if unnamed:
        guesses.append(Guess("left out", listed(map(repr, unnamed)), "nobody named it"))
    return table.drop(columns=unnamed)


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
        column = _parse_times(column, name)
    elif pd.api.types.is_numeric_dtype(column):
        column = column.astype(np.float64)
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        # in UTC no hour is there twice, as it is where clocks are put back
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    _check_every_row(column, name)
    return column


def _parse_times(column: pd.Series, name: str) -> pd.Series:
    """Return numbers, or dates of ISO 8601; the order of days and months is never guessed.

    Raises:
        InputError: other text.
    """
    with contextlib.suppress(ValueError, TypeError):
        return pd.to_numeric(column)  # 20200101 would be a date, and counts of seconds are none
    texts = column.astype("string").str.strip()
    dates = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
    others = texts[dates.isna() & texts.notna()]
    if others.empty:
        return dates
    raise InputError(
        "time",
        expected="numbers, or dates with the year first, 2025-12-31 13:00",
        got=f"{others.iloc[0][:30]!r}",
        fix=f"say how it is written: table[{name!r}] = pandas.to_datetime(table[{name!r}], "
        f"format='%d.%m.%Y'), or pandas.to_timedelta(table[{name!r}]) of a clock",
    )


def _parse_numbers(
    table: pd.DataFrame, labels: set[str | None], *, mostly: float = 0.5
) -> pd.DataFrame:
    """Return the table with numbers in place of text that says numbers.

    Args:
        table: of any columns.
        labels: columns that stay as they are: "007" is a name of a run.
        mostly: share of text from which on a column is one of text.

    Raises:
        InputError: a column of numbers with text between, of which nobody knows what it means.
    """
    columns = {}
    for name in table.columns:
        column = table[name]
        if name in labels or not is_text(column):
            continue
        numbers = pd.to_numeric(column, errors="coerce")
        has_text = numbers.isna() & column.notna()
        if has_text.mean() > mostly:
            continue  # names, dates or remarks
        if has_text.any():
            raise InputError(
                "data",
                expected=f"numbers in {name!r}",
                got=f"text, {str(column[has_text].iloc[0])[:30]!r}, in {has_text.sum()} rows",
                fix="convert or drop it: pandas.read_csv(..., thousands=',', na_values=['-'], "
                "skiprows=[1]), say",
            )
        columns[name] = numbers.astype(np.float64)
    return table.assign(**columns)


def _number_runs(
    table: pd.DataFrame, context: Sequence[str], time: str, space: Sequence[str]
) -> tuple[pd.DataFrame, str]:
    """Return the table with a column of runs, and its name: rows of one context are a run.

    Raises:
        InputError: no time is there twice, so that a parameter may move within one run.
    """
    if not context:
        return table.assign(trajectory=0), "trajectory"
    groups = table.groupby(list(context))
    if groups.ngroups > 1 and not table.duplicated([time, *space]).any():
        raise InputError(
            "data",
            expected="a column of runs, since no time is there twice",
            got=f"{groups.ngroups} values of {listed(context)}",
            fix=f"table.assign(run=0) where {context[0]} moves in one run; else "
            f"table.assign(run=table.groupby({[*context]}).ngroup())",
        )
    if len(context) == 1:
        return table, context[0]
    return table.assign(trajectory=groups.ngroup()), "trajectory"


def _check_repeated(table: pd.DataFrame, keys: Sequence[str]) -> None:
    """Raise where a run has several rows of one time and place."""
    repeated = table.loc[table.duplicated(list(keys)), list(keys)]
    if repeated.empty:
        return
    time = keys[1]
    names = [name for name in keys if name != "trajectory"]
    expected = f"one row for each {', '.join(names)}"
    fix = (
        "name the runs, trajectory='...', and all parameters, context=[...]; runs one behind the "
        f"other: table['run'] = (table[{time!r}].diff() < 0).cumsum(); places: "
        "table.set_index(['run', 't', 'x']); long tables: table.pivot(index=['run', 't'], "
        "columns='variable', values='value').reset_index(); rows twice: data.drop_duplicates()"
    )
    clock = table[time]
    if clock.dtype.kind in "fiu" and single_precision(clock.to_numpy(np.float64)):
        expected = f"{expected}, and times that are not rounded to single precision (float32)"
        fix = IN_DOUBLE
    row = ", ".join(f"{name}={repeated[name].iloc[0]}" for name in names)
    raise InputError("data", expected=expected, got=f"several for {row}", fix=fix)


def _share_clock(table: pd.DataFrame, run: str, time: str, guesses: Guesses) -> pd.DataFrame:
    """Return the table with times that runs share."""
    times = table[time]
    if times.dtype.kind in "mM":
        if times.groupby(table[run]).min().nunique() == 1:
            return table  # dates stay dates, which forecasts give back
        times = (times - times.min()) / np.timedelta64(1, "s")
    values = times.to_numpy(np.float64)
    rows_of_runs = list(table.groupby(run, sort=True).indices.values())
    clocks = [np.unique(values[rows]) for rows in rows_of_runs]
    shared, notes = shared_clock(clocks)
    guesses += [Guess("time", time, note) for note in notes]
    moved = np.empty_like(values)
    for rows, before, after in zip(rows_of_runs, clocks, shared, strict=True):
        moved[rows] = after[np.searchsorted(before, values[rows])]
    return table.assign(**{time: moved})


def _build_dataset(table: pd.DataFrame, keys: Sequence[str], context: Sequence[str]) -> xr.Dataset:
    """Return a dataset of the columns; those that stay within each run are coordinates of the runs,
    and those that stay at each place of the places.

    Where each run has one time, as first states have, these are the parameters and text alone.
    """
    run, time, *space = keys
    has_course = table.groupby(run)[time].nunique().max() > 1
    data = table.set_index(list(keys)).to_xarray()
    for name in table.columns.difference(keys, sort=False):
        if not has_course and name not in context and table[name].dtype.kind == "f":
            continue  # a state
        varies = table[name].nunique(dropna=False) > 1
        for along in ([space] if space and varies else []) + [[run]]:
            groups = table.groupby(along)[name]
            if groups.nunique(dropna=False).max() <= 1:
                column = groups.first().to_xarray().variable
                data = data.drop_vars(name).assign_coords({name: column})
                break
    return data
