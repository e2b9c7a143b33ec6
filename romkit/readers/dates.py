"""Times that were written as text: numbers, clocks, dates with the year first, or the day first."""

import re
from typing import NoReturn

import numpy as np
import pandas as pd

from romkit.core.errors import InputError
from romkit.core.types import Array

NUMERALS = re.compile(r"([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4})([ T].*)?")
"""A date whose year follows the day and the month, in either order, and a time of day."""

CLOCK = r"\s*[0-9]+:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?\s*"
"""Hours, minutes and perhaps seconds."""

DAY = 86400.0

DIGITS = ("%Y%m%d", "%d%m%Y")
FEWEST_DIGITS = 10**6
"""Least number with the digits of a date, 01012025 say."""

YEARS = (1800, 2200)
"""Years in which numbers of eight digits look like dates."""


def times_of_text(column: pd.Series, name: str) -> pd.Series:
    """Return numbers, durations, or dates without a zone, which are those of UTC; NaN and NaT where
    cells are empty.

    Dates have the order year, month, day of ISO 8601, or the order day, month, year. The column
    decides on the order: one day beyond the 12th shows that it comes first. Days and months are
    never taken for each other: a column that reads well in both ways is refused, and one whose
    months come first, too.

    Args:
        column: numbers or dates as text, or dates of the standard library.
        name: of the column, for messages.

    Raises:
        InputError: text that is neither, or dates of which nobody knows the order.
    """
    # numbers first: 20200101 would be a date, and counts of seconds are no dates
    try:
        return pd.to_numeric(column)
    except (ValueError, TypeError):
        pass
    has_text = column.notna()
    if column[has_text].str.fullmatch(CLOCK).all():
        return _durations(column, name)
    year_first = _dates(column)
    if year_first[has_text].notna().all():
        return year_first
    day_first, month_first = _read_both_ways(column)
    is_day_first = day_first[has_text].notna().all()
    is_month_first = month_first[has_text].notna().all()
    if is_day_first and is_month_first:
        _check_order(column, day_first, month_first, name)
    if is_day_first:
        return day_first
    if is_month_first:
        _refuse_month_first(column[has_text & day_first.isna()], name)
    is_unread = has_text & year_first.isna()
    is_no_date = is_unread & day_first.isna()
    # without a cell that is no date, cells of both orders stand in one column
    if is_no_date.any():
        is_unread = is_no_date
    _refuse_text(column[is_unread], name)


def _durations(column: pd.Series, name: str) -> pd.Series:
    """Durations of hours:minutes:seconds, NaT where cells are empty.

    Raises:
        InputError: two numbers, of which nobody knows the unit, or a clock that passes midnight.
    """
    known = column.dropna()
    has_seconds = known.str.count(":") == 2
    if not has_seconds.all():
        raise InputError(
            "time",
            expected="hours:minutes:seconds",
            got=f"{_first(known[~has_seconds])}: hours and minutes, or minutes and seconds",
            fix=f"say which they are: table[{name!r}] = table[{name!r}] + ':00', or "
            f"'00:' + table[{name!r}]",
        )
    durations = pd.to_timedelta(known.str.strip().str.replace(",", "."))
    steps = durations.dt.total_seconds().diff()
    usual = steps[steps > 0].median()
    # a run may begin again earlier; behind midnight, the clock goes on by a usual step
    passes_midnight = (steps < 0) & (steps + DAY <= 3 * usual)
    if passes_midnight.any():
        raise InputError(
            "time",
            expected="times that go on",
            got=f"{_first(known[passes_midnight])} behind midnight",
            fix="write the date in front of each, 2025-12-31 13:00:00",
        )
    return durations.reindex(column.index)


def digits_of_dates(times: Array) -> str | None:
    """Return the format in which all of these numbers (T,) are the digits of dates; None where in
    none.
    """
    is_whole = np.isfinite(times).all() and (times == np.round(times)).all()
    if len(times) < 2 or not is_whole or times.min() < FEWEST_DIGITS:
        return None
    texts = pd.Series([f"{int(time):08d}" for time in times])
    for form in DIGITS:
        years = pd.to_datetime(texts, format=form, errors="coerce").dt.year
        if years.between(*YEARS).all():
            return form
    return None


def _dates(texts: pd.Series) -> pd.Series:
    """Dates of texts in the order year, month, day; NaT where a text is none."""
    dates = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
    return dates.dt.tz_localize(None)


def _read_both_ways(column: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Dates of a column whose years come last, read day first and month first; NaT where a cell
    has no such date.

    Cells that are punctuated otherwise than those above them were written by someone else, who may
    have had the other order: they are NaT.
    """
    day_first = pd.Series(None, index=range(len(column)), dtype=object)
    month_first = day_first.copy()
    punctuation = None
    for row, cell in enumerate(column):
        match = NUMERALS.fullmatch(str(cell).strip())
        if match is None:
            continue
        left, mark, right, year, clock = match.groups(default="")
        if punctuation is None:
            punctuation = mark
        if mark != punctuation:
            continue
        day_first[row] = f"{year}-{right:0>2}-{left:0>2}{clock}"
        month_first[row] = f"{year}-{left:0>2}-{right:0>2}{clock}"
    # rows are counted above, as labels of a table that was put together occur twice
    day_first.index = column.index
    month_first.index = column.index
    return _dates(day_first), _dates(month_first)


def _check_order(
    column: pd.Series, day_first: pd.Series, month_first: pd.Series, name: str
) -> None:
    """Raise where dates depend on the order in which they are read: 05/05/2025 does not."""
    is_ambiguous = column.notna() & (day_first != month_first)
    if not is_ambiguous.any():
        return
    raise InputError(
        "time",
        expected="days that differ from months",
        got=f"{_first(column[is_ambiguous])}, and no day beyond the 12th",
        fix=f"write the year first, or say which it is: {_parsed(name, 'dayfirst=True')}",
    )


def _refuse_month_first(cells: pd.Series, name: str) -> NoReturn:
    """Raise InputError: months come first."""
    raise InputError(
        "time",
        expected="dates with the day or the year first",
        got=f"{_first(cells)}, month first",
        fix=f"write the year first, or say which it is: {_parsed(name, 'dayfirst=False')}",
    )


def _refuse_text(cells: pd.Series, name: str) -> NoReturn:
    """Raise InputError: cells are neither numbers nor dates."""
    is_number = pd.to_numeric(cells, errors="coerce").notna()
    if not is_number.all():
        cells = cells[~is_number]
    parsed = _parsed(name, "format='%d.%m.%Y'")
    raise InputError(
        "time",
        expected="numbers or dates, written alike in all rows",
        got=f"text, {_first(cells)}",
        fix=f"say how it is written: {parsed}, or pandas.read_csv(..., date_format=...)",
    )


def _first(cells: pd.Series) -> str:
    text = str(cells.iloc[0])
    return repr(text[:30])


def _parsed(name: str, option: str) -> str:
    return f"table[{name!r}] = pandas.to_datetime(table[{name!r}], {option})"
