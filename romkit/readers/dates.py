"""Times that were written as text: numbers, clocks, dates with the year first, or the day first."""

import numpy as np
import pandas as pd

from romkit.core.errors import InputError
from romkit.core.types import Array

YEAR_LAST = r"([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4})([ T].*)?"
"""A date whose year follows the day and the month, in either order, and a time of day."""

CLOCK = r"[0-9]+:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?"
"""Hours, minutes and perhaps seconds."""

DIGITS = ("%Y%m%d", "%d%m%Y")

SAME_DAY = ("days that differ from months", "and no day beyond the 12th", "dayfirst=True")
MONTH_FIRST = ("dates with the day or the year first", "month first", "dayfirst=False")
OTHER = ("numbers or dates, written alike in all rows", "text", "format='%d.%m.%Y'")
"""What was expected, what came, and the option of pandas that reads it."""


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
        texts = column.astype("string").str.strip()
    is_text = texts.notna()
    if texts[is_text].str.fullmatch(CLOCK).all():
        return _durations(texts, name)
    year_first = _dates(texts)
    if year_first[is_text].notna().all():
        return year_first
    # cells that are punctuated otherwise than the first may have the other order
    split = texts.str.extract(YEAR_LAST)
    split = split.where(split[1].isin(split[1].dropna()[:1]))
    day_first, month_first = _dates(_write_iso(split, 0)), _dates(_write_iso(split, 2))
    is_number = pd.to_numeric(texts, errors="coerce").notna()
    differs = is_text & (day_first != month_first)  # 05/05/2025 is the same day in both ways
    is_month_first = month_first[is_text].notna().all()
    if day_first[is_text].notna().all():
        if not (is_month_first and differs.any()):
            return day_first
        cells, question = texts[differs], SAME_DAY
    elif is_month_first:
        cells, question = texts[is_text & day_first.isna()], MONTH_FIRST
    else:
        # first what is no date in any order, and words before numbers
        order = np.lexsort((is_number, day_first.notna()))
        cells, question = texts.iloc[order][(is_text & year_first.isna()).iloc[order]], OTHER
    expected, kind, option = question
    parsed = f"table[{name!r}] = pandas.to_datetime(table[{name!r}], {option})"
    raise InputError(
        "time",
        expected=expected,
        got=f"{_first(cells)}, {kind}",
        fix=f"write the year first, or say how it is written: {parsed}",
    )


def _durations(texts: pd.Series, name: str, *, day: float = 86400.0) -> pd.Series:
    """Durations of hours:minutes:seconds, NaT where cells are empty.

    Raises:
        InputError: two numbers, of which nobody knows the unit, or a clock that passes midnight.
    """
    lacks_seconds = texts.str.count(":").eq(1).fillna(False)
    if lacks_seconds.any():
        raise InputError(
            "time",
            expected="hours:minutes:seconds",
            got=f"{_first(texts[lacks_seconds])}: hours and minutes, or minutes and seconds",
            fix=f"say which they are: table[{name!r}] = table[{name!r}] + ':00', or "
            f"'00:' + table[{name!r}]",
        )
    durations = pd.to_timedelta(texts.str.replace(",", "."))
    steps = durations.dropna().dt.total_seconds().diff()
    # a run may begin again earlier; behind midnight, the clock goes on by a usual step
    passes_midnight = (steps < 0) & (steps + day <= 3 * steps[steps > 0].median())
    if passes_midnight.any():
        raise InputError(
            "time",
            expected="times that go on",
            got=f"{_first(texts.dropna()[passes_midnight])} behind midnight",
            fix="write the date in front of each, 2025-12-31 13:00:00",
        )
    return durations


def digits_of_dates(
    times: Array, *, fewest_digits: int = 10**6, years: tuple[int, int] = (1800, 2200)
) -> str:
    """Return the format in which all of these numbers (T,) are the digits of dates, "" where in none.

    `fewest_digits`: least number with the digits of a date, 01012025 say.

    `years`: in which numbers of eight digits look like dates.
    """
    if len(times) < 2 or (times != np.round(times)).any() or times.min() < fewest_digits:
        return ""
    texts = pd.Series([f"{int(time):08d}" for time in times])
    for form in DIGITS:
        if pd.to_datetime(texts, format=form, errors="coerce").dt.year.between(*years).all():
            return form
    return ""


def _dates(texts: pd.Series) -> pd.Series:
    """Dates of texts in the order year, month, day; NaT where a text is none."""
    dates = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
    return dates.dt.tz_localize(None)


def _write_iso(parts: pd.DataFrame, day: int) -> pd.Series:
    """Write dates, of which the day is part 0 or 2 and the month the other, in the order of ISO 8601."""
    month, days = (parts[k].str.zfill(2) for k in (2 - day, day))
    return parts[3] + "-" + month + "-" + days + parts[4].fillna("")


def _first(cells: pd.Series) -> str:
    return repr(cells.iloc[0][:30])
