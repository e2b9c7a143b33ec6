"""Tables of pandas as datasets: rows of times and runs, columns of variables."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from romkit.core import checks
from romkit.core.errors import FileError, InputError
from romkit.core.files import existing, reason
from romkit.data.clocks import shared_clock
from romkit.data.names import TRAJECTORIES, guessed_time

MORE = "pandas.read_csv(file, sep=';', decimal=',', comment='#')"
COMMENT = ("#", "%")


def read_table(path: str | Path) -> pd.DataFrame:
    """A table in a text file, with commas, semicolons or tabs between, and comments in front.

    Raises:
        FileError: no such file, or no table.
    """
    file = existing(path)
    try:
        with file.open(encoding="utf-8-sig") as stream:
            lines = [line for _, line in zip(range(200), stream, strict=False)]
        comments = 0
        while comments < len(lines) and lines[comments].lstrip().startswith(COMMENT):
            comments += 1
        header = lines[comments] if comments < len(lines) else ""
        separator = max(",;\t", key=header.count)
        decimal = (
            "," if separator != "," and any("," in line for line in lines[comments + 1 :]) else "."
        )
        return pd.read_csv(
            file,
            sep=separator,
            decimal=decimal,
            skiprows=comments,
            skipinitialspace=True,
            float_precision="round_trip",
            encoding="utf-8-sig",
        )
    except (ValueError, OSError) as error:
        problem = f"cannot be read as a table ({reason(error)})"
        fix = "write a row of names first, and commas between"
        raise FileError(path, problem=problem, fix=fix) from error


def of_table(
    table: pd.DataFrame, context: Sequence[str], run: str | None, time: str | None
) -> tuple[xr.Dataset, str, list[str]]:
    """A table as a dataset, the name of its time, and sentences for warnings.

    A column that stays within each run is a coordinate of the runs.

    Raises:
        InputError: columns that cannot be told apart, no column of time, or several rows of one
            time in a run.
    """
    table, space = _with_columns(table)
    table, units = _without_units_row(table)
    notes = []
    if time is None:
        time, guess = guessed_time(_facts(table))
        notes += guess
    if time is None:
        _refuse_without_time(table)
    if run is None:
        run = next((name for name in TRAJECTORIES if name in table.columns), None)
    _check_columns(table, context, run, time)
    space = [name for name in space if name not in (run, time)]
    table = table.assign(**{time: _times(table[time], time)})

    single = run is None and not table.duplicated([time, *space]).any()
    if run is None:
        table, run = _with_runs(table, context, single)
    _check_repeated(table, [name for name in (run, time, *space) if name in table.columns], run)
    if not single:
        table, clock = _on_one_clock(table, run, time)
        notes += clock
    data = _with_constant_coordinates(table, [run, time, *space])
    if single:
        data = data.isel(trajectory=0)
    data = data.drop_vars("trajectory", errors="ignore")
    for name, unit in units.items():
        if name in data.variables:
            data[name].attrs["units"] = unit
    return data, time, notes


def _with_columns(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The table with a column for each level of its index, and the names of these levels."""
    if table.columns.nlevels > 1:
        fix = "join their parts: table.columns = ['_'.join(map(str, c)) for c in table.columns]"
        got = f"{table.columns.nlevels} levels"
        raise InputError("data", expected="one name for each column", got=got, fix=fix)
    is_dated = isinstance(table.index, pd.DatetimeIndex | pd.TimedeltaIndex | pd.PeriodIndex)
    if table.index.nlevels == 1 and table.index.name is None and is_dated:
        table = table.rename_axis("time" if "time" not in table.columns else "index")
    levels = [str(name) for name in table.index.names if name is not None]
    if any(name is None for name in table.index.names) and table.index.nlevels > 1:
        fix = "name the levels: table.rename_axis(['run', 't']); a file with other separators: "
        raise InputError("data", expected="names of the index", got="none", fix=fix + MORE)
    table = table.rename(columns=str)
    names = [*levels, *table.columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        fix = "rename one of them: table.columns = [...]"
        got = f"{', '.join(repeated)} twice"
        raise InputError("data", expected="one column of each name", got=got, fix=fix)
    first = str(table.columns[0]) if len(table.columns) else ""
    if ";" in first or first.startswith(COMMENT):
        got = f"a column {first[:40]!r}: semicolons between, or a line of comment"
        raise InputError("data", expected="columns of a table", got=got, fix=f"read it by {MORE}")
    if levels:
        table = table.reset_index().rename(columns=str)
    return table, levels


def _without_units_row(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """The table without a first row that holds the units of the columns, and these units."""
    is_text = [name for name in table.columns if not _is_plain(table[name])]
    if len(table) < 2 or not is_text:
        return table, {}
    columns, units = {}, {}
    for name in is_text:
        below = pd.to_numeric(table[name].iloc[1:], errors="coerce")
        first = pd.to_numeric(table[name].iloc[:1], errors="coerce")
        # text above numbers; cells below that are empty stay missing
        is_number = below.notna() | table[name].iloc[1:].isna()
        if first.notna().any() or not is_number.all() or not below.notna().any():
            continue
        columns[name], units[name] = below, str(table[name].iloc[0])
    if not columns:
        return table, {}
    others = [name for name in table.columns if name not in columns and _is_plain(table[name])]
    if table.iloc[0][others].notna().any():  # numbers beside text: no row of units
        return table, {}
    units = {name: unit.strip(" []()") for name, unit in units.items()}
    return table.iloc[1:].assign(**columns), units


def _is_plain(column: pd.Series) -> bool:
    """Whether a column holds numbers or dates."""
    kinds = pd.api.types
    return (
        kinds.is_numeric_dtype(column)
        or kinds.is_datetime64_any_dtype(column)
        or (kinds.is_timedelta64_dtype(column))
    )


def _facts(table: pd.DataFrame) -> dict[str, tuple[bool, dict]]:
    """Whether each column holds dates, and its attributes, of which a table has none."""
    return {name: (pd.api.types.is_datetime64_any_dtype(table[name]), {}) for name in table.columns}


def _refuse_without_time(table: pd.DataFrame) -> None:
    """Raise InputError: no column is called time."""
    got = ", ".join(map(str, table.columns[:6]))
    fix = (
        "name it, time='...'; dates in the index: table.rename_axis('time'); "
        "or give the interval: romkit.data.from_arrays(table.to_numpy(), 0.1)"
    )
    raise InputError("data", expected="a column of time", got=got, fix=fix)


def _check_columns(table: pd.DataFrame, context: Sequence[str], run: str | None, time: str) -> None:
    columns = list(table.columns)
    if not len(table):
        fix = "check how the table was read or filtered"
        raise InputError("data", expected="rows", got="none", fix=fix)
    checks.one_of("time", time, columns)
    for name in context:
        checks.one_of("context", name, columns)
    if run is not None:
        checks.one_of("trajectory", run, columns)
        if table[run].isna().any():
            fix = f"fill or drop its rows: table.dropna(subset=[{run!r}])"
            got = f"{int(table[run].isna().sum())} rows without"
            raise InputError("data", expected=f"a {run} in every row", got=got, fix=fix)


def _times(column: pd.Series, name: str) -> pd.Series:
    """Times as numbers, or as dates without a zone, which are those of UTC.

    Raises:
        InputError: text that is neither, or a row without a time.
    """
    column = column.convert_dtypes() if column.dtype == object else column
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    elif pd.api.types.is_string_dtype(column.dtype):
        column = _times_of_text(column, name)
    elif pd.api.types.is_numeric_dtype(column):
        column = column.astype(np.float64)
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    if column.isna().any():
        fix = f"drop these rows: table.dropna(subset=[{name!r}])"
        got = f"{int(column.isna().sum())} rows without"
        raise InputError("data", expected=f"a {name} in every row", got=got, fix=fix)
    return column


def _times_of_text(column: pd.Series, name: str) -> pd.Series:
    """Numbers, or dates in the order year, month, day, that were written as text."""
    try:
        return pd.to_numeric(column)
    except (ValueError, TypeError):
        pass
    try:
        dates = pd.to_datetime(column, format="ISO8601", utc=True)
    except (ValueError, TypeError) as error:
        got = f"text, {str(column.iloc[0])[:30]!r}"
        fix = (
            f"say how it is written: table[{name!r}] = pandas.to_datetime(table[{name!r}], "
            "format='%d.%m.%Y'), or pandas.read_csv(..., parse_dates=[...], date_format=...)"
        )
        raise InputError("time", expected="numbers or dates", got=got, fix=fix) from error
    return dates.dt.tz_localize(None)


def _with_runs(
    table: pd.DataFrame, context: Sequence[str], single: bool
) -> tuple[pd.DataFrame, str]:
    """The table with a column of runs, and its name: rows of one context are a run."""
    if single or not context:
        return table.assign(trajectory=0), "trajectory"
    if len(context) == 1:
        return table, context[0]
    return table.assign(trajectory=table.groupby(list(context)).ngroup()), "trajectory"


def _check_repeated(table: pd.DataFrame, keys: Sequence[str], run: str) -> None:
    """Raise where a run has several rows of one time and place."""
    repeated = table.duplicated(list(keys))
    if not repeated.any():
        return
    row = table.loc[repeated, [name for name in keys if name != run]].iloc[0]
    got = ", ".join(f"{name}={_shown(value)}" for name, value in row.items())
    fix = (
        "name the runs, trajectory='...', or put dimensions into the index, "
        "data.set_index(['run', 't', 'x']); rows that are there twice: data.drop_duplicates()"
    )
    expected = f"one row for each {', '.join(name for name in keys if name != 'trajectory')}"
    raise InputError("data", expected=expected, got=f"several for {got}", fix=fix)


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float | np.number) else str(value)


def _on_one_clock(table: pd.DataFrame, run: str, time: str) -> tuple[pd.DataFrame, list[str]]:
    """The table with times that runs share, and sentences for warnings."""
    times = table[time]
    if times.dtype.kind in "mM":
        starts = times.groupby(table[run]).min()
        if starts.nunique() == 1:
            return table, []
        times = (times - times.min()) / np.timedelta64(1, "s")
    values = times.to_numpy(np.float64)
    rows = list(table.groupby(run, sort=True).indices.values())
    own = [np.unique(values[each]) for each in rows]
    shared, notes = shared_clock(own)
    moved = np.empty_like(values)
    for each, before, after in zip(rows, own, shared, strict=True):
        moved[each] = after[np.searchsorted(before, values[each])]
    return table.assign(**{time: moved}), notes


def _with_constant_coordinates(table: pd.DataFrame, keys: Sequence[str]) -> xr.Dataset:
    """A dataset of the columns; those that stay within each run are coordinates of the runs."""
    run = keys[0]
    groups = table.groupby(run)
    data = table.set_index(list(keys)).to_xarray()
    for name in table.columns:
        if name not in keys and groups[name].nunique(dropna=False).max() <= 1:
            data = data.drop_vars(name).assign_coords({name: (run, groups[name].first().values)})
    return data
