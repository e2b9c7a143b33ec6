"""Columns of a table: their names, their units, and cells of text as numbers."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from romkit.core.errors import InputError
from romkit.data.names import split_unit
from romkit.data.units import is_unit

MORE = "pandas.read_csv(file, sep=';', decimal=',', comment='#')"

COMMENT = ("#", "%")

DASHES = {"-", "--", "---", ".", "..", "...", "*", "**", "***", "?"}

MISSING = DASHES | {"na", "n.a.", "n.a", "nd", "n.d.", "none", "missing", "nodata", "no data"}
"""Marks of numbers that are missing, in small letters, beside those that pandas knows."""

MOSTLY = 0.5
"""Share of text from which on a column is one of text."""


def with_columns(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the table with a column for each level of its index, and the names of these levels."""
    _check_levels(table)
    table = _without_categories(_with_named_dates(table))
    levels = [str(name) for name in table.index.names if name is not None]
    table = table.rename(columns=str)
    _check_names(table, levels)
    if levels:
        table = table.reset_index().rename(columns=str)
    return table, levels


def _without_categories(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with values in place of the categories of pandas, which groups, cuts and
    parquet make of numbers.
    """
    columns = {}
    for name in table.columns:
        column = table[name]
        if isinstance(column, pd.Series) and isinstance(column.dtype, pd.CategoricalDtype):
            values = column.astype(object)
            is_number = pd.api.types.is_numeric_dtype(column.dtype.categories)
            columns[name] = pd.to_numeric(values) if is_number else values
    about = table.attrs
    table = table.assign(**columns)
    table.attrs = about
    return table


def without_row_numbers(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the table without a first column that nobody named and that counts the rows, as R and
    pandas write it, and a sentence where there was one.
    """
    if table.empty:
        raise InputError(
            "data",
            expected="a table with rows and columns",
            got=f"one of {table.shape[0]} rows and {table.shape[1]} columns",
            fix="check what was selected from it",
        )
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
    """Return the table with a name for an index of dates, which is time's."""
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


def without_units_row(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the table without a row below the names that holds the units of the columns, and these
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
    """Return numbers below an entry of text; None where that is a number, or where others are text."""
    entries = column.iloc[1:]
    numbers = pd.to_numeric(entries, errors="coerce")
    # cells that are empty stay missing, and say nothing
    is_number = numbers.notna() | entries.isna()
    if not is_number.all() or not numbers.notna().any():
        return None
    is_text = pd.to_numeric(column.iloc[:1], errors="coerce").isna().all()
    return numbers if is_text else None


def with_numbers(table: pd.DataFrame, labels: set[str | None]) -> tuple[pd.DataFrame, list[str]]:
    """Return the table with numbers in place of text that says numbers, NaN where a mark says that
    one is missing; and sentences for warnings.

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
    """Tell whether a column may hold numbers as text, or as objects."""
    kinds = pd.api.types
    return kinds.is_object_dtype(column) or kinds.is_string_dtype(column)


def units_in_names(names: Sequence[str]) -> dict[str, str]:
    """Return units behind names, as in "x [m]" and "x / m"; what is no unit, as in "x[0]", is a
    name.
    """
    units = {}
    for name in names:
        _, unit = split_unit(name)
        if is_unit(unit):
            units[name] = unit
    return units


def _is_plain(column: pd.Series) -> bool:
    """Tell whether a column holds numbers or dates."""
    kinds = pd.api.types
    if kinds.is_numeric_dtype(column) or kinds.is_timedelta64_dtype(column):
        return True
    return kinds.is_datetime64_any_dtype(column)
