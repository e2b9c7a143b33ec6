"""Lines above the numbers of a table of text: comments, lines about the measurement, rows of names,
and a row of units, in this order and as far as they are there.

A name above several columns, as a spreadsheet with merged cells and exports of motion capture have
it, belongs to all of them.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from romkit.core.errors import FileError
from romkit.data.units import is_unit
from romkit.readers.grace import is_grace, labels_of_grace
from romkit.readers.notation import BLANKS, IN_PARENTHESES, JUDGED_BY, Notation, is_comment

BEHIND_UNITS = r"\s{2,}|(?<=\))\s+"
"""Separator of names whose last ones, with units, are as wide as their columns."""

OPENSIM = "PathFileType"
"""First word of motion-capture files in the format TRC, with three lines about the measurement."""


class Head(NamedTuple):
    """Lines above the numbers of a table."""

    lines: int
    """Number of lines before the first one of numbers."""

    names: list[str]
    """Names of the columns."""

    units: dict[str, str]
    """Units by name of the column."""

    about: list[str]
    """Lines that are neither comments nor names."""


def head_of(path: str | Path, lines: Sequence[str], notation: Notation) -> Head:
    """Read the lines above the numbers.

    Raises:
        FileError: no names, or not as many as columns.
    """
    rows, comments = _rows_and_comments(lines, notation)
    if not rows:
        raise FileError(path, problem="holds no table", fix="write a row of names first")
    width = _width(list(rows.values()))
    about = _lines_about(lines, rows, width, notation)
    texts = [lines[number].strip().strip(",;") for number in about]
    table = {number: row for number, row in rows.items() if number not in about}
    header = _rows_of_names(table, notation)
    if not header:
        names = _names_in_comment(path, comments, width, notation)
        return Head(min(table, default=0), names, {}, texts)
    cells = [rows[number] for number in header]
    if notation.separator == BLANKS and len(cells) > 1:
        _check_full_names(path, cells, width)
    names, units = _names_and_units(cells, width)
    if len(cells) == 1 and len(cells[0]) == width - 1:
        names = _names_of_one_column_less(names, lines, rows, header[0])
    _check_header(path, names, width)
    return Head(header[-1] + 1, names, units, texts)


def _rows_and_comments(
    lines: Sequence[str], notation: Notation
) -> tuple[dict[int, list[str]], list[str]]:
    """Cells of each line by its number, and the comments above the first."""
    rows: dict[int, list[str]] = {}
    comments = []
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        if not is_comment(line):
            rows[number] = notation.cells(line)
        elif not rows:
            comments.append(line)
    return rows, comments


def _stripped(row: Sequence[str]) -> list[str]:
    """Cells without the empty ones at the end."""
    number = len(row)
    while number and not row[number - 1]:
        number -= 1
    return list(row[:number])


def _width(rows: Sequence[Sequence[str]]) -> int:
    """The number of columns of most of the last rows."""
    numbers = Counter(len(row) for row in rows[-JUDGED_BY:])
    return max(numbers, key=lambda number: (numbers[number], number))


def _lines_about(
    lines: Sequence[str], rows: Mapping[int, Sequence[str]], width: int, notation: Notation
) -> list[int]:
    """Numbers of the lines about the measurement: short ones, and those before an empty line or
    before names in parentheses.
    """
    if next(iter(rows.values()))[0] == OPENSIM:
        return list(rows)[:3]
    about = _short_rows(rows, width)
    for number, line in enumerate(lines):
        row = rows.get(number, [])
        # the first line of numbers ends what may stand above
        if len(row) == width and sum(map(notation.is_value, row)) > width / 2:
            break
        is_below = IN_PARENTHESES.match(line) is not None and len(row) == width
        if not line.strip():
            is_below = _has_names_below(number, rows, width, notation)
        if is_below:
            about = [above for above in rows if above < number]
    return about


def _short_rows(rows: Mapping[int, Sequence[str]], width: int) -> list[int]:
    """Numbers of the first rows with at most half as many cells as there are columns."""
    short = []
    for number, row in rows.items():
        if 2 * len(_stripped(row)) > width or width == 1:
            break
        short.append(number)
    return short


def _has_names_below(
    number: int, rows: Mapping[int, Sequence[str]], width: int, notation: Notation
) -> bool:
    """Whether a row of names, one for each column, follows the line of this number."""
    rows_below = [row for below, row in rows.items() if below > number and len(row) == width]
    return any(not any(map(notation.is_value, row)) for row in rows_below)


def _rows_of_names(rows: Mapping[int, Sequence[str]], notation: Notation) -> list[int]:
    """Numbers of the lines of names and units: those without a value, and the first with text.

    A name may be a number, that of a place say, beside names that are none.
    """
    header: list[int] = []
    for number, row in rows.items():
        values = sum(map(notation.is_value, row))
        texts = sum(map(bool, row)) - values
        if values and (header or not texts):
            break
        header.append(number)
    return header


def _names_and_units(
    header: Sequence[Sequence[str]], width: int
) -> tuple[list[str], dict[str, str]]:
    """Names of columns, each the parts that stand above it, and their units."""
    rows = []
    for row in header:
        cells = [cell.strip('"').strip() for cell in row]
        rows.append(cells + [""] * (width - len(cells)))
    units_row: list[str] = []
    if len(rows) > 1 and _is_row_of_units(rows[-1], rows[:-1]):
        units_row = rows.pop()
    names = _joined_names(rows)
    # columns that are empty have no names either
    if len(names) > width:
        names = _stripped(names)
    names = [name or f"Unnamed: {column}" for column, name in enumerate(names)]
    units = {}
    for name, unit in zip(names, units_row, strict=False):
        text = unit.strip(" []()")
        if text and text != "-":
            units[name] = text
    return names, units


def _joined_names(rows: Sequence[Sequence[str]]) -> list[str]:
    """Names of columns, each the parts that stand above it."""
    *above, lowest = rows
    above = [_filled(row) for row in above]
    names = []
    for column, name in enumerate(lowest):
        parts = [row[column] for row in above if column < len(row)]
        names.append("_".join(part for part in [*parts, name] if part))
    return names


def _names_of_one_column_less(
    names: Sequence[str], lines: Sequence[str], rows: Mapping[int, Sequence[str]], header: int
) -> list[str]:
    """Names of columns above which one name is missing, that of an empty column or of the names of
    rows.

    Args:
        names: of the columns, the last of which nobody named.
        lines: of the file.
        rows: cells of these, by number.
        header: number of the line of names.
    """
    below = [number for number in rows if number > header]
    if not any(rows[number][-1] for number in below):
        return list(names)
    # R writes the names of rows in quotes, and nothing above them
    if lines[below[0]].lstrip().startswith('"'):
        return ["Unnamed: 0", *names[:-1]]
    return list(names[:-1])


def _is_row_of_units(row: Sequence[str], above: Sequence[Sequence[str]]) -> bool:
    """Whether a row of text below names holds their units, and no further part of the names."""
    cells = [cell.strip(" []()") for cell in row if cell]
    if all(cell == "-" or is_unit(cell) for cell in cells):
        return True
    # of names that are complete, nothing else can be missing
    (*_, names) = above
    return len(above) == 1 and all(names) and len(set(names)) == len(names)


def _filled(row: Sequence[str]) -> list[str]:
    """Names of merged cells, each above all of its columns."""
    filled, name = [], ""
    for cell in row:
        name = cell or name
        filled.append(name)
    return filled


def _names_in_comment(
    path: str | Path, comments: Sequence[str], width: int, notation: Notation
) -> list[str]:
    """Names in the last line of comment above numbers that have no others.

    Raises:
        FileError: it has not as many words as there are columns.
    """
    names: list[str] = []
    if is_grace(comments):
        names = labels_of_grace(comments)
    elif comments:
        text = comments[-1].strip().lstrip("#%!/@").strip()
        for separator in (notation.separator, ",", "\t", r"\s{2,}", BEHIND_UNITS, BLANKS):
            names = [name.strip() for name in re.split(separator, text)]
            if len(names) == width:
                break
    if len(names) != width or any(notation.is_value(name) for name in names):
        raise FileError(
            path,
            problem=f"has no names above its {width} columns",
            fix="write a row of names first, time,x,y say; or give the table of "
            "pandas.read_csv(path, sep=..., header=None, names=['time', 'x', ...])",
        )
    _check_header(path, names, width)
    return names


def _check_full_names(path: str | Path, header: Sequence[Sequence[str]], width: int) -> None:
    """Raise where one of several rows of names has less cells than there are columns: blanks do not
    say above which ones they stand.
    """
    for row in header:
        if len(row) < width:
            raise FileError(
                path,
                problem=f"has names in several rows, {' '.join(row)[:40]!r} above {width} columns",
                fix="write them into one row, a name for each column",
            )


def _check_header(path: str | Path, names: Sequence[str], width: int) -> None:
    """Raise where names are not as many as columns, or columns share one."""
    if len(names) != width:
        raise FileError(
            path,
            problem=f"has {len(names)} names above {width} columns",
            fix="give each column a name",
        )
    number_of = Counter(names)
    repeated = [name for name, number in number_of.items() if number > 1]
    if repeated:
        raise FileError(
            path,
            problem=f"has several columns {', '.join(repeated)}",
            fix="give each a name of its own",
        )
