"""Tables of pandas as datasets: rows of times, runs and places, columns of variables."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr

from romkit.core import checks
from romkit.core.display import listed
from romkit.core.errors import InputError
from romkit.data.clocks import IN_DOUBLE, shared_clock, single_precision
from romkit.data.names import TRAJECTORIES, split_unit
from romkit.data.spelling import without_unit
from romkit.readers.dates import times_of_text
from romkit.readers.names import Fact, Guess, Guesses, columns_of_runs, guessed_time
from romkit.readers.numbers import MISSING

DATES = (pd.DatetimeIndex, pd.TimedeltaIndex, pd.PeriodIndex)

MORE = "pandas.read_csv(file, sep=';', decimal=',', comment='#')"

USUAL = (
    ("value", "values"),
    (
        "variable", "var", "name", "quantity", "indicator", "measure", "metric", "observable",
        "signal", "channel", "parameter", "species", "key",
    ),
    ("unit", "units"),
)  # fmt: skip
"""Names, in small letters, of the columns of a long table: its numbers, of which variable each is, and in
which unit.
"""

SPACE = (
    "x", "y", "z", "r", "s", "position", "pos", "distance", "depth", "height", "lat", "lon",
    "points", "sensor", "probe", "node", "cell", "station", "place",
)  # fmt: skip
"""Beginnings of names, in small letters, of coordinates and numbers of places."""

MOST = 3
"""Number of dimensions of space."""

NUMBER_OF_PLACE = "place"


def of_table(
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
    table = with_units_apart(table)
    units = dict(table.attrs["units"])
    table, levels = _reset_index(table)
    table = _drop_row_numbers(table, guesses)
    run, time = _run_and_time(table, context, run, time, guesses)
    table = table.assign(**{time: _times(table[time], time)})
    table = _parse_numbers(table, {run, time}, guesses)
    table = _widened(table, time, units, guesses)
    runs = list(context) if run is None else [run]
    levels = [name for name in table.columns if name in {*levels} - {run, time}]
    table, space = _find_space(table, [*runs, time], runs, levels, guesses)
    is_single = run is None and _is_single(table, context, time, space)
    if is_single:
        table, run = table.assign(trajectory=0), "trajectory"
    elif run is None:
        table, run = _number_runs(table, context, time, space, guesses)
    keys = [run, time, *space]
    _check_repeated(table, keys, time)
    if not is_single:
        table = _share_clock(table, run, time, guesses)
    data = _build_dataset(table, keys, context)
    if run == "trajectory":
        data = data.drop_vars("trajectory").squeeze(run if is_single else [])
    return _assign_units(data, units), time


def with_units_apart(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose columns have no units in their names, but in `attrs["units"]`: `x` of
    `x [mm]`. Names stay where two would be one.
    """
    columns = [str(name) for name in (*table.columns, *table.index.names)]
    bare = [without_unit(name) for name in columns]
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
    time = time or time_among_columns(table, guesses)
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
        run = _name_of_runs(table, context)
    roles = [("time", time), *(("context", name) for name in context)]
    for role, name in roles + ([] if run is None else [("trajectory", run)]):
        if role == "context" and name not in table.columns:
            raise InputError(
                "context",
                expected="a column of this name, or braces in the names of the files",
                got=repr(name),
                fix=checks.nearest(name, map(str, table.columns))
                or f"give romkit.learn('run_{{{name}}}.csv'), say, where the names of the files have it",
            )
        checks.one_of(role, name, list(table.columns))
    if run is not None:
        _check_every_row(table[run], run)
    return run, time


def time_among_columns(table: pd.DataFrame, guesses: Guesses) -> str | None:
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
            f"name the levels: table.rename_axis(['run', 't']); a file with other separators: {MORE}",
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
            f"read it by {MORE}",
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


def _drop_row_numbers(table: pd.DataFrame, guesses: Guesses) -> pd.DataFrame:
    """Return the table without a first column that nobody named and that counts the rows, as R and
    pandas write it.
    """
    column = table.columns[0]
    if column not in ("", "Unnamed: 0") or len(table) < 2:
        return table
    numbers = pd.to_numeric(table[column], errors="coerce")
    if numbers.iloc[0] not in (0, 1) or not (numbers.diff()[1:] == 1).all():
        return table
    guesses.append(Guess("left out", repr(column), "it has no name, and counts the rows"))
    return table.drop(columns=column)


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


def _parse_numbers(
    table: pd.DataFrame, labels: set[str | None], guesses: Guesses, *, mostly: float = 0.5
) -> pd.DataFrame:
    """Return the table with numbers in place of text that says numbers, NaN where a mark says that
    one is missing.

    Args:
        table: of any columns.
        labels: columns that stay as they are: "007" is a name of a run.
        guesses: to which marks are added.
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
        marks = column[has_text].astype(str).str.strip()
        unknown = marks[~marks.str.lower().isin(MISSING)]
        if len(unknown):
            raise InputError(
                "data",
                expected=f"numbers in {name!r}",
                got=f"text, {unknown.iloc[0][:30]!r}, in {len(unknown)} of {len(table)} rows",
                fix="convert or drop it: pandas.read_csv(..., thousands=',', na_values=[...], "
                "skiprows=[1]), say",
            )
        columns[name] = numbers.astype(np.float64)
        if len(marks):
            guesses.append(Guess("missing", name, f"{len(marks)} marks {marks.iloc[0]!r}"))
    return table.assign(**columns)


def _widened(
    table: pd.DataFrame, time: str, units: dict[str, str], guesses: Guesses
) -> pd.DataFrame:
    """Return a table of rows (..., variable, value) with a column for each variable; others as they
    are. Where a row is missing, the variable is NaN.

    Raises:
        InputError: several rows of one variable, time and place, a row without one of these, or
            several units of a variable.
    """
    names = {str(name).strip().lower(): str(name) for name in table.columns.drop(time)}
    value, variable, unit = (_first_of(usual, names) for usual in USUAL)
    if not (value and variable and is_text(table[variable])):
        return table
    indices = table.columns.drop([value, variable])
    keys = [name for name in indices if not _is_about(table, name, variable, unit)]
    # text beside one number in each row is a remark or a name of the run
    if not table.duplicated(keys).any():
        return table
    for name in (*keys, variable):
        _check_every_row(table[name], name)
    _check_once(table, [*keys, variable], f"one value of each {variable}", "data.drop_duplicates()")
    if unit:
        units |= _units_of_variables(table, variable, unit)
    wide = table.pivot(index=keys, columns=variable, values=value).rename(columns=str)
    guesses.append(Guess("variables", listed(wide.columns), f"those in {variable}"))
    return wide.rename_axis(columns=None).reset_index()


def _units_of_variables(table: pd.DataFrame, variable: str, unit: str) -> dict[str, str]:
    """Return units of the variables of a long table.

    Raises:
        InputError: a variable has several units.
    """
    pairs = table[[variable, unit]].drop_duplicates()
    _check_once(pairs, [variable], f"one unit of each {variable}", "convert them to one")
    return pairs.set_index(variable)[unit].dropna().astype(str).to_dict()


def _first_of(usual: Sequence[str], names: dict[str, str]) -> str:
    """Return what the first of the usual names stands for, "" where there is none."""
    return next((names[name] for name in usual if name in names), "")


def _is_about(table: pd.DataFrame, name: str, variable: str, unit: str) -> bool:
    """Tell whether a column says something of each variable, its unit or its long name."""
    if name == unit:
        return True
    if not is_text(table[name]) or table[name].nunique() < 2:
        return False
    return int(table.groupby(variable)[name].nunique().max()) <= 1


def _check_once(table: pd.DataFrame, keys: Sequence[str], expected: str, fix: str) -> None:
    """Raise where several rows have the same keys."""
    repeated = table.loc[table.duplicated(list(keys)), list(keys)]
    if len(repeated):
        row = ", ".join(f"{name}={value}" for name, value in repeated.iloc[0].items())
        raise InputError("data", expected=expected, got=f"several for {row}", fix=fix)


def _find_space(
    table: pd.DataFrame,
    keys: list[str],
    runs: Sequence[str],
    levels: list[str],
    guesses: Guesses,
) -> tuple[pd.DataFrame, list[str]]:
    """Return the table and its dimensions of space: levels of its index, and the fewest columns by
    which rows of one time of a run differ. A column `place` numbers places that fill no grid.

    Args:
        table: one column for each variable.
        keys: columns of runs and time.
        runs: columns that tell runs apart.
        levels: dimensions that are known.
        guesses: to which dimensions are added.
    """
    keys = [*keys, *levels]
    if not table.duplicated(keys).any():
        return table, levels
    candidates = list(_columns_of_places(table, keys, runs))
    for number in range(1, MOST + 1):
        for names in itertools.combinations(candidates, number):
            if not table.duplicated([*keys, *names]).any():
                table, space = _number_places(table, list(names), guesses)
                return table, [*levels, *space]
    return table, levels


def _columns_of_places(
    table: pd.DataFrame, keys: Sequence[str], runs: Sequence[str]
) -> Iterator[str]:
    """Yield columns of labels that occur in every run, and coordinates that are the same at each
    time of each run. Names of people or of repeats occur in one run each.
    """
    for name in table.columns:
        column = table[name]
        number = column.nunique()
        if name in keys or column.isna().any() or number < 2:
            continue
        within = None
        if is_text(column):
            within = runs
        elif re.split("[^a-z]", name.lower())[0] in SPACE:
            within = keys
        if within is None:
            continue
        groups = [table[key] for key in within]
        if not groups or (column.groupby(groups, sort=False).nunique() == number).all():
            yield name


def _number_places(
    table: pd.DataFrame, names: list[str], guesses: Guesses, *, filling: int = 4
) -> tuple[pd.DataFrame, list[str]]:
    """Return the table with its dimensions, which are the number of the place where a grid would be
    empty.

    `filling`: cells of a grid for each place, at most; places that are more scattered are
    numbered.
    """
    # as the rows go through them, so that the state has the order of the rows
    changes = (table[names] != table[names].shift()).sum()
    names = sorted(names, key=changes.__getitem__)
    places = table[names].drop_duplicates()
    text = " and ".join(names)
    if places.nunique().prod() <= filling * len(places):
        guesses.append(Guess("dimensions", text, "rows of one time differ in it"))
        return table, names
    why = f"rows of one time differ in it: {len(places)} scattered places, which are numbered"
    guesses.append(Guess("dimensions", text, why))
    numbers = table.groupby(names, sort=False).ngroup()
    return table.assign(**{NUMBER_OF_PLACE: numbers}), [NUMBER_OF_PLACE]


def _name_of_runs(table: pd.DataFrame, context: Sequence[str]) -> str | None:
    """Return the column that tells runs apart, None where there is none."""
    parameters = [name for name in context if name in table.columns]
    for name in columns_of_runs(table.columns):
        if name in TRAJECTORIES:
            return name
        # a scenario with several values of a parameter holds several runs
        counts = table.groupby(name)[parameters].nunique(dropna=False)
        if name not in context and (counts <= 1).all(axis=None):
            return name
    return None


def _is_single(
    table: pd.DataFrame,
    context: Sequence[str],
    time: str,
    space: Sequence[str],
    *,
    gap: float = 1.5,
) -> bool:
    """Tell whether rows without a column of runs are one run: a single row of each time and place,
    and no parameters that stay between gaps in time and change across them alone.

    `gap`: time between two runs, in the longest interval within them, from which on it is a
    gap.
    """
    if table.duplicated([time, *space]).any():
        return False
    ordered = table.sort_values(time, kind="stable")
    values = ordered[list(context)]
    changes = (values != values.shift()).any(axis=1).to_numpy()[1:]
    steps = ordered[time].diff().to_numpy()[1:]
    if not changes.any() or changes.all():
        return True
    longest = steps[~changes].max()
    return not bool((steps[changes] > gap * longest).all())


def _number_runs(
    table: pd.DataFrame,
    context: Sequence[str],
    time: str,
    space: Sequence[str],
    guesses: Guesses,
) -> tuple[pd.DataFrame, str]:
    """Return the table with a column of runs, and its name: rows of one context are a run, or rows
    before the times begin again.
    """
    if not space and table.duplicated([*context, time]).any():
        runs = _restarts(table, time, context)
        if runs is not None:
            why = f"times begin again: {int(runs.max()) + 1}, in the order of the rows"
            guesses.append(Guess("runs", "trajectory", why))
            return table.assign(trajectory=runs), "trajectory"
    if not context:
        return table.assign(trajectory=0), "trajectory"
    groups = table.groupby(list(context))
    if table[time].nunique() > 1 and groups[time].nunique().max() == 1:
        why = f"a single time of each: {groups.ngroups} runs of one; where a parameter moves, "
        guesses.append(Guess("runs", listed(context), f"{why}name the runs, trajectory='...'"))
    if len(context) == 1:
        return table, context[0]
    return table.assign(trajectory=groups.ngroup()), "trajectory"


def _restarts(
    table: pd.DataFrame, time: str, context: Sequence[str], *, fewest: int = 3
) -> pd.Series | None:
    """Return numbers of the runs of rows whose times begin again at the same one; None where rows
    are not such runs in their order.

    `fewest`: least number of rows of a run among runs that are told apart by times that begin
    again.
    """
    steps = table[time].diff()
    zero = steps.iloc[-1] - steps.iloc[-1]
    runs = (steps <= zero).cumsum()
    groups = table.groupby(runs.to_numpy())
    if groups[time].first().nunique() > 1 or groups.ngroups < 2 or groups.size().min() < fewest:
        return None
    counts = groups[list(context)].nunique(dropna=False)
    return runs if (counts <= 1).all(axis=None) else None


def _check_repeated(table: pd.DataFrame, keys: Sequence[str], time: str) -> None:
    """Raise where a run has several rows of one time and place."""
    fix = (
        "name the runs, trajectory='...' or `romkit check FILE --trajectory ... --out NEW`, or all "
        "parameters, context=[...], or put dimensions into the index, "
        "data.set_index(['run', 't', 'x']); rows that are there twice: data.drop_duplicates()"
    )
    names = ", ".join(name for name in keys if name != "trajectory")
    expected = f"one row for each {names}"
    clock = table[time]
    if clock.dtype.kind in "fiu" and single_precision(clock.to_numpy(np.float64)):
        expected = f"{expected}, and times that are not rounded to single precision (float32)"
        fix = IN_DOUBLE
    _check_once(table, keys, expected, fix)


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
