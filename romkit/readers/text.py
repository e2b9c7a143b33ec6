"""Tables in text, perhaps compressed, by pandas: a row of names, perhaps one of units, and rows of
numbers, without empty lines and lines of comment.
"""

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from romkit.core.errors import FileError
from romkit.core.files import existing, reason

ENDINGS = (".csv", ".tsv", ".txt", ".dat", ".log")

COMPRESSED = (".gz", ".bz2", ".xz", ".zip")

EXACT: dict[str, Any] = {}
"""Settings by which numbers are read to the last bit, as they are by default from pandas 3.1 on."""
if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
    EXACT = {"float_precision": "round_trip"}

COMMENT = ("#", "%")
"""Beginnings of lines of comment."""

BLANKS = r"\s+"
"""Separator of columns that are aligned by blanks."""

DECIMAL_COMMA = re.compile("[0-9],[0-9]")

BY_PANDAS = (
    "give what pandas reads, pandas.read_csv(path, skiprows=..., names=['time', 'x', ...]) say"
)


def can_read(path: Path) -> bool:
    """Tell whether a file is a table in text, by the ending of its name."""
    name = Path(path.stem) if path.suffix.lower() in COMPRESSED else path
    return name.suffix.lower() in ENDINGS


def read(path: Path) -> pd.DataFrame:
    """Read a table; units below the names are its attribute `units`.

    Raises:
        FileError: no such file, or no table.
    """
    existing(path)
    try:
        # one column of whole lines, which pandas decompresses
        lines = pd.read_csv(
            path,
            sep="\x01",
            header=None,
            names=["line"],
            dtype=str,
            quoting=3,
            encoding="utf-8-sig",
        )
        return read_table(path, lines["line"].dropna().tolist())
    except FileError:
        raise
    except Exception as error:  # archives and pandas raise nearly anything on files of others
        problem, fix = f"cannot be read as a table ({reason(error)})", BY_PANDAS
        if isinstance(error, UnicodeDecodeError):
            problem = f"is no text in UTF-8 ({reason(error)})"
            fix = "pass what pandas.read_csv(file, encoding='latin-1') reads, say"
        raise FileError(path, problem=problem, fix=fix) from error


def read_table(path: str | Path, lines: Sequence[str]) -> pd.DataFrame:
    """Read a table in lines of text.

    Args:
        path: the file, for errors.
        lines: of its text, of which empty ones and comments are left out.

    Raises:
        FileError: no table, or cells that are not as many as names.
        ValueError: of pandas, rows that it does not read.
    """
    rows = _rows(lines)
    if not rows:
        raise FileError(path, problem="holds no table", fix=BY_PANDAS)
    separator = next((mark for mark in ";\t," if mark in rows[0]), BLANKS)
    names, units = _cells(rows[0], separator), {}
    if any(map(_is_number, names)):
        names = _comment_names(lines[: lines.index(rows[0])], separator)
    else:
        units = _unit_row(names, rows[1:], separator)
        rows = rows[2:] if units else rows[1:]
    _check_width(path, names, rows, separator)
    table = pd.read_csv(
        io.StringIO("\n".join(rows)),
        sep=separator,
        decimal=_decimal_mark(rows, separator),
        header=None,
        names=[name or f"Unnamed: {column}" for column, name in enumerate(names)],
        index_col=False,
        skipinitialspace=True,
        **EXACT,
    )
    table.attrs = {"units": {name: unit for name, unit in units.items() if name and unit}}
    return table


def _rows(lines: Sequence[str]) -> list[str]:
    """Select the lines that are neither empty nor comments."""
    return [line for line in lines if line.strip() and not line.lstrip().startswith(COMMENT)]


def _decimal_mark(rows: Sequence[str], separator: str) -> str:
    """Return the decimal mark, a comma where one is found that does not separate."""
    has_comma = any(map(DECIMAL_COMMA.search, rows))
    return "," if has_comma and separator != "," else "."


def _comment_names(comments: Sequence[str], separator: str) -> list[str]:
    """Return names of columns from the last comment, where OpenFOAM writes them."""
    return _cells(comments[-1].lstrip("#% "), separator) if comments else []


def _unit_row(names: Sequence[str], rows: Sequence[str], separator: str) -> dict[str, str]:
    """Return units of columns from the first row, where all its cells are text; else none."""
    below = _cells(rows[0], separator) if rows else []
    if len(below) != len(names) or any(map(_may_be_value, below)):
        return {}
    return dict(zip(names, (cell.strip("[]()") for cell in below), strict=True))


def _check_width(path: str | Path, names: Sequence[str], rows: Sequence[str], mark: str) -> None:
    """Raise where a row has not as many cells as there are names; a shorter one may end early, but
    not where blanks do not say which cell is empty.
    """
    for row in rows if mark == BLANKS else rows[:1]:
        cells = _cells(row, mark)
        if len(cells) != len(names):
            problem = f"has {len(names)} names above {len(cells)} columns, {row.strip()[:40]!r}"
            raise FileError(path, problem=problem, fix=BY_PANDAS)


def _cells(line: str, separator: str) -> list[str]:
    """Split a row into cells without quotes and blanks around."""
    if separator == BLANKS:
        return [cell.strip('"') for cell in re.findall(r'"[^"]*"|\S+', line)]
    row = next(csv.reader([line.strip(" \n")], delimiter=separator, skipinitialspace=True))
    return [cell.strip() for cell in row]


def _is_number(cell: str) -> bool:
    """Tell whether a cell is a number, perhaps with a decimal comma."""
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _may_be_value(cell: str) -> bool:
    """Tell whether a cell is empty, or begins as numbers and dates do."""
    return not cell or cell.lower() in ("nan", "na") or cell[0].isdigit() or _is_number(cell)
