"""Times that were written as text: numbers, clocks, dates with the year first, or the day first."""

import re
from typing import NoReturn

import numpy as np
import pandas as pd

from romkit.core.errors import InputError
from romkit.core.types import Array

YEAR_LAST = re.compile(r"\s*([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4})([ T].*)?\s*")
"""A date whose year follows the day and the month, in either order, and a time of day."""

CLOCK = r"\s*[0-9]+:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?\s*"
"""Hours, minutes and perhaps seconds."""

DIGITS = ("%Y%m%d", "%d%m%Y")

YEARS = (1800, 2200)
"""Years in which numbers of eight digits look like dates."""


def times_of_text(column: pd.Series, name: str) -> pd.Series:
    """Return numbers, durations, or dates without a zone, which are those of UTC; NaN and NaT where
    cells are empty.

    Dates have the order year, month, day of ISO 8601, or the order day, month, year, which a day
    beyond the 12th shows. Days and months are never taken for each other: a column that reads well
    in both ways is refused, and one whose months come first, too.

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
    return _year_last(column, year_first, name)


def _year_last(column: pd.Series, year_first: pd.Series, name: str) -> pd.Series:
    """Return dates whose years come last.

    Args:
        column: of text.
        year_first: dates of the cells that are written otherwise.
        name: of the column, for messages.

    Raises:
        InputError: days that may be months, months first, or text that is no date.
    """
    has_text = column.notna()
    day_first = _dates(_with_year_first(column, day=1))
    month_first = _dates(_with_year_first(column, day=3))
    is_day_first = day_first[has_text].notna().all()
    is_month_first = month_first[has_text].notna().all()
    # 05/05/2025 is the same day in both ways
    differs = has_text & (day_first != month_first)
    if is_day_first and not (is_month_first and differs.any()):
        return day_first
    if is_day_first:
        cells = column[differs]
        _refuse(
            cells,
            "days that differ from months",
            "and no day beyond the 12th",
            name,
            "dayfirst=True",
        )
    if is_month_first:
        cells = column[has_text & day_first.isna()]
        _refuse(
            cells, "dates with the day or the year first", "month first", name, "dayfirst=False"
        )
    unread = column[has_text & year_first.isna() & day_first.isna()]
    if unread.empty:  # cells of both orders
        unread = column[has_text & year_first.isna()]
    is_number = pd.to_numeric(unread, errors="coerce").notna()
    if not is_number.all():
        unread = unread[~is_number]
    _refuse(
        unread, "numbers or dates, written alike in all rows", "text", name, "format='%d.%m.%Y'"
    )


def _durations(column: pd.Series, name: str, *, day: float = 86400.0) -> pd.Series:
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
    passes_midnight = (steps < 0) & (steps + day <= 3 * usual)
    if passes_midnight.any():
        raise InputError(
            "time",
            expected="times that go on",
            got=f"{_first(known[passes_midnight])} behind midnight",
            fix="write the date in front of each, 2025-12-31 13:00:00",
        )
    return durations.reindex(column.index)


def digits_of_dates(times: Array, *, fewest_digits: int = 10**6) -> str | None:
    """Return the format in which all of these numbers (T,) are the digits of dates; None where in
    none.

    `fewest_digits`: least number with the digits of a date, 01012025 say.
    """
    is_whole = np.isfinite(times).all() and (times == np.round(times)).all()
    if len(times) < 2 or not is_whole or times.min() < fewest_digits:
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


def _with_year_first(column: pd.Series, day: int) -> pd.Series:
    """Write dates whose years come last in the order of ISO 8601; None of other cells.

    Cells that are punctuated otherwise than the first were written by someone else, who may have had
    the other order.

    Args:
        column: of text.
        day: place of the day, 1 or 3, among the numbers and the mark between them.
    """
    matches = [YEAR_LAST.fullmatch(str(cell)) for cell in column]
    marks = [match[2] for match in matches if match]
    texts: list[str | None] = []
    for match in matches:
        if match is None or match[2] != marks[0]:
            texts.append(None)
            continue
        month = match[4 - day]
        texts.append(f"{match[4]}-{month:0>2}-{match[day]:0>2}{match[5] or ''}".strip())
    return pd.Series(texts, index=column.index, dtype=object)


def _first(cells: pd.Series) -> str:
    text = str(cells.iloc[0])
    return repr(text[:30])


def _refuse(cells: pd.Series, expected: str, kind: str, name: str, option: str) -> NoReturn:
    """Raise InputError with the first of the cells, and the call that reads them."""
    parsed = f"table[{name!r}] = pandas.to_datetime(table[{name!r}], {option})"
    raise InputError(
        "time",
        expected=expected,
        got=f"{_first(cells)}, {kind}",
        fix=f"write the year first, or say how it is written: {parsed}",
    )
