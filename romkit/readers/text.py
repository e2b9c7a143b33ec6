"""Tables in text, perhaps compressed: separators, decimal signs, comments, names and units.

What may stand above the numbers, in this order: lines about the measurement, which are left out
with a warning; a row of names, or a comment with them; a row of units.
"""

import bz2
import csv
import gzip
import io
import lzma
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
import pandas as pd

from romkit.core.errors import DataWarning, FileError, warn
from romkit.core.files import existing, reason
from romkit.data.units import is_unit
from romkit.readers.ways import WAYS, check_is_table

ENDINGS = {".csv", ".tsv", ".txt", ".dat", ".tab", ".asc", ".prn"}

OPENERS: Mapping[str, Callable[..., TextIO]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
"""Functions that open compressed text, by the endings of names."""

ENCODING = "utf-8-sig"
"""UTF-8, without the mark that spreadsheets write in front."""

EXACT = {}
"""Settings by which numbers are read to the last bit, as they are by default from pandas 3.1 on."""
if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
    EXACT = {"float_precision": "round_trip"}

COMMENT = ("#", "%", "!", "//")
"""Beginnings of lines of comment."""

BLANKS = r"\s+"
"""Separator of columns that are aligned by blanks."""

DIALECTS = (
    (";", "."), (";", ","), ("\t", "."), ("\t", ","), (",", "."), (BLANKS, "."), (BLANKS, ","),
)  # fmt: skip
"""Separators of columns and decimal signs."""

JUDGED_BY = 200
"""Lines by which the dialect of a table and the number of its columns are judged."""

BEGINNING = 2048
"""Bytes by which a file whose ending says nothing is judged."""

NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eEdD][-+]?[0-9]+)?|[-+]?(inf|nan)", re.I)
"""A number, perhaps with the exponent of Fortran."""

FORTRAN = r"^\s*([-+]?[0-9.]+)[dD]([-+]?[0-9]+)\s*$"
"""A number with an exponent that only Fortran knows."""

CLOCK = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?"

DATE = re.compile(
    r"([0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4})"
    rf"([ T]{CLOCK})?(Z|[-+][0-9]{{2}}:?[0-9]{{2}})?|{CLOCK}"
)
"""A date, a time of day, or both."""


@dataclass(frozen=True)
class Dialect:
    """Separators of columns, and between the digits of a number."""

    separator: str

    decimal: str

    def cells(self, line: str) -> list[str]:
        """Split a line into cells without blanks around."""
        if self.separator == BLANKS:
            return re.findall(r'"[^"]*"|\S+', line)
        row = next(csv.reader([line], delimiter=self.separator, skipinitialspace=True), [])
        return [cell.strip() for cell in row]

    def is_value(self, cell: str) -> bool:
        """Tell whether a cell holds a number or a date."""
        text = cell.strip('"')
        number = text.replace(",", ".") if self.decimal == "," else text
        return bool(DATE.fullmatch(text) or NUMBER.fullmatch(number))

    def number_of_values(self, row: Sequence[str]) -> int:
        """Count the cells that hold a number or a date."""
        return sum(map(self.is_value, row))


def can_read(path: Path) -> bool:
    """Tell whether a file is a table in text, by the ending of its name or its first lines."""
    endings = [ending.lower() for ending in path.suffixes]
    ending = endings[-1] if endings else ""
    if not path.is_file():
        return ending in ENDINGS
    if ending in {*OPENERS, ".zip"}:
        # a zipped zarr store is none
        return ".zarr" not in endings
    if ending in ENDINGS:
        return True
    if ending in WAYS:
        return False
    return _has_lines(path)


def _has_lines(path: Path) -> bool:
    """Tell whether a file begins by lines of text, which are no markup."""
    with path.open("rb") as stream:
        beginning = stream.read(BEGINNING)
    # a letter of several bytes may be cut at the end
    is_cut = len(beginning) == BEGINNING
    try:
        text = beginning.decode("utf-8", errors="ignore" if is_cut else "strict")
    except UnicodeDecodeError:
        return False
    is_markup = text.lstrip().startswith(("<", "{", "["))
    return "\0" not in text and "\n" in text and not is_markup


def read(path: Path) -> pd.DataFrame:
    """Read a table; units below the names are its attribute `units`.

    Warns:
        DataWarning: lines above the names are left out.

    Raises:
        FileError: no such file, or no table.
    """
    file = existing(path)
    try:
        with _opened(file) as stream:
            return table_of_text(path, stream)
    except FileError:
        raise
    except UnicodeDecodeError as error:
        raise FileError(
            path,
            problem=f"is no text in UTF-8 ({reason(error)})",
            fix="pass what pandas.read_csv(file, encoding='latin-1') reads, say",
        ) from error
    except Exception as error:  # archives and pandas raise nearly anything on files of others
        raise FileError(
            path,
            problem=f"cannot be read as a table ({reason(error)})",
            fix="write a row of names first, and commas between",
        ) from error


def table_of_text(path: str | Path, stream: TextIO) -> pd.DataFrame:
    """Read a table in lines of text.

    Args:
        path: the file, for errors.
        stream: its text.

    Raises:
        FileError: no table.
        ValueError: of pandas, rows that it does not read.
    """
    lines = list(stream)
    check_is_table(path, lines[:JUDGED_BY])
    dialect = dialect_of(lines[:JUDGED_BY])
    names, units, first = _head(path, lines[:JUDGED_BY], dialect)
    body = _without_comments(path, lines[first:], dialect)
    if dialect.separator == BLANKS:
        _check_full_rows(path, body, len(names))
    table = pd.read_csv(
        io.StringIO("".join(body)),
        sep=dialect.separator,
        decimal=dialect.decimal,
        header=None,
        names=names,
        index_col=False,
        skipinitialspace=True,
        **EXACT,
    )
    # a separator at the end of each line makes a column
    if names[-1].startswith("Unnamed: ") and table[names[-1]].isna().all():
        table = table.drop(columns=names[-1])
    table = _with_usual_numbers(table, dialect)
    table.attrs = {"units": units}
    return table


def dialect_of(lines: Sequence[str]) -> Dialect:
    """Find the dialect by which most cells are numbers or dates, in most columns."""
    rows = [line for line in lines if line.strip() and not line.lstrip().startswith(COMMENT)]
    judged = rows[1:] or rows
    best, best_score = Dialect(",", "."), (-1.0, 0)
    for separator, decimal in DIALECTS:
        dialect = Dialect(separator, decimal)
        if not _is_in_use(dialect, judged):
            continue
        score = _score(dialect, judged)
        if score > best_score:
            best, best_score = dialect, score
    return best


def _is_in_use(dialect: Dialect, lines: Sequence[str]) -> bool:
    """Tell whether half of the lines have the separator, and a comma is between digits somewhere
    where it is the decimal sign.
    """
    if dialect.separator != BLANKS:
        number = sum(dialect.separator in line for line in lines)
        if number < len(lines) / 2:
            return False
    return dialect.decimal == "." or any(re.search(r"[0-9],[0-9]", line) for line in lines)


def _score(dialect: Dialect, lines: Sequence[str]) -> tuple[float, int]:
    """Return share of the cells with content that hold a number or a date, and number of cells."""
    cells = [cell for line in lines for cell in dialect.cells(line)]
    with_content = sum(map(bool, cells))
    share = dialect.number_of_values(cells) / max(with_content, 1)
    return round(share, 3), len(cells)


def _head(
    path: str | Path, lines: Sequence[str], dialect: Dialect
) -> tuple[list[str], dict[str, str], int]:
    """Read what stands above the numbers.

    Returns:
        Names of the columns, units by name, and the number of the first line of numbers.

    Raises:
        FileError: no names, or not as many as columns.
    """
    rows, comments = _rows(lines, dialect)
    if not rows:
        raise FileError(path, problem="holds no table", fix="write a row of names first")
    width = _width(rows)
    above = _numbers_of_head(rows, width, dialect)
    about = [*above]
    units: dict[str, str] = {}
    names = _names_in_comment(comments, width, dialect)
    # names in a comment count where the row above the numbers is too short for names
    is_named = bool(names) and (not above or len(rows[above[-1]]) < width)
    if above and not is_named:
        names = rows[about.pop()]
        if about and _are_units(names, rows[about[-1]], width):
            units_row = names
            names = rows[about.pop()]
            units = _units(names, units_row)
    names = _completed([name.strip('"') for name in names], lines, rows, above, width)
    _check_names(path, names, width)
    if about:
        _warn_of_left_out([lines[number] for number in about])
    first = max(above, default=-1) + 1
    return names, units, first


def _warn_of_left_out(lines: Sequence[str]) -> None:
    """Warn of lines about the measurement, by the first four."""
    texts = ", ".join(repr(line.strip().strip(",;")[:40]) for line in lines[:4])
    warn(f"lines above the names of the columns are left out: {texts}", DataWarning)


def _rows(lines: Sequence[str], dialect: Dialect) -> tuple[dict[int, list[str]], list[str]]:
    """Return cells by the numbers of their lines, and the comments above all of them."""
    rows: dict[int, list[str]] = {}
    comments: list[str] = []
    for number, line in enumerate(lines):
        is_comment = line.lstrip().startswith(COMMENT)
        if is_comment and not rows:
            comments.append(line)
        elif line.strip() and not is_comment:
            rows[number] = dialect.cells(line)
    return rows, comments


def _width(rows: Mapping[int, Sequence[str]]) -> int:
    """Return number of columns: the most frequent number of cells in the last rows."""
    last = list(rows.values())[-JUDGED_BY // 2 :]
    sizes = Counter(map(len, last))
    return max(sizes, key=lambda size: (sizes[size], size))


def _units(names: Sequence[str], row: Sequence[str]) -> dict[str, str]:
    """Return units by name, of the columns that have one."""
    units = {name: cell.strip(" []()") for name, cell in zip(names, row, strict=False)}
    return {name: unit for name, unit in units.items() if unit not in ("", "-")}


def _numbers_of_head(rows: Mapping[int, Sequence[str]], width: int, dialect: Dialect) -> list[int]:
    """Find the lines before the first one of numbers."""
    above: list[int] = []
    has_names = False
    for number, row in rows.items():
        values = dialect.number_of_values(row)
        texts = sum(map(bool, row)) - values
        is_full = len(row) >= width - 1
        # a name may be a number, that of a place say, beside names that are none
        if is_full and values and (has_names or not texts):
            break
        has_names = has_names or (is_full and values == 0)
        above.append(number)
    return above


def _are_units(row: Sequence[str], names: Sequence[str], width: int) -> bool:
    """Tell whether a row below names holds their units."""
    if len(row) < width:
        return False
    cells = [cell.strip(" []()") for cell in row if cell]
    if all(cell == "-" or is_unit(cell) for cell in cells):
        return len(names) >= width - 1
    # below names that are complete nothing else can be missing
    return len(names) == width and all(names) and len(set(names)) == width


def _completed(
    names: Sequence[str],
    lines: Sequence[str],
    rows: Mapping[int, Sequence[str]],
    above: Sequence[int],
    width: int,
) -> list[str]:
    """Return name columns that nobody named: an empty one at the end, or that of the names of rows."""
    below = [number for number in rows if number not in above]
    is_one_short = len(names) == width - 1
    # R writes the names of rows in quotes
    if is_one_short and below and lines[below[0]].lstrip().startswith('"'):
        return ["Unnamed: 0", *names]
    if is_one_short and _has_empty_end(rows, below):
        names = [*names, ""]
    has_names_beyond = any(names[width:])
    if not has_names_beyond:
        names = names[:width]
    return [name or f"Unnamed: {column}" for column, name in enumerate(names)]


def _has_empty_end(rows: Mapping[int, Sequence[str]], numbers: Sequence[int]) -> bool:
    """Tell whether the last cell is empty in each of some rows, as a separator at the end makes it."""
    return not any(rows[number][-1] for number in numbers)


def _names_in_comment(comments: Sequence[str], width: int, dialect: Dialect) -> list[str]:
    """Read names in the last line of comment, none where it has not one for each column."""
    if not comments:
        return []
    text = comments[-1].strip().lstrip("#%!/").strip()
    for separator in (dialect.separator, ",", "\t", r"\s{2,}", BLANKS):
        names = [name.strip() for name in re.split(separator, text)]
        if len(names) == width and not any(map(dialect.is_value, names)):
            return names
    return []


def _check_names(path: str | Path, names: Sequence[str], width: int) -> None:
    """Raise where names are not as many as columns, or columns share one."""
    if not names:
        raise FileError(
            path,
            problem=f"has no names above its {width} columns",
            fix="write a row of names first, time,x,y say; or give the table of "
            "pandas.read_csv(path, sep=..., header=None, names=['time', 'x', ...])",
        )
    if len(names) != width:
        raise FileError(
            path,
            problem=f"has {len(names)} names above {width} columns",
            fix="give each column a name",
        )
    repeated = [name for name, number in Counter(names).items() if number > 1]
    if repeated:
        raise FileError(
            path,
            problem=f"has several columns {', '.join(repeated)}",
            fix="give each a name of its own, "
            "pandas.read_csv(path, skiprows=..., names=['time', 'tip_x', ...])",
        )


def _without_comments(path: str | Path, lines: Sequence[str], dialect: Dialect) -> list[str]:
    """Keep the lines of numbers.

    Raises:
        FileError: a second table follows.
    """
    kept: list[str] = []
    is_after_gap = False
    for line in lines:
        if line.lstrip().startswith(COMMENT):
            continue
        if not line.strip():
            is_after_gap = True
            continue
        if is_after_gap and kept and not dialect.number_of_values(dialect.cells(line)):
            raise FileError(
                path,
                problem=f"holds several tables; one begins by {line.strip()[:40]!r}",
                fix="write each to a file of its own",
            )
        is_after_gap = False
        kept.append(line)
    return kept


def _check_full_rows(path: str | Path, lines: Sequence[str], width: int) -> None:
    """Raise where a line has less than `width` cells, of which blanks do not say which is empty."""
    for line in lines:
        number = len(line.split())
        if 0 < number < width:
            raise FileError(
                path,
                problem=f"has {number} cells in {width} columns, {line.strip()[:40]!r}",
                fix="write NaN into empty cells: blanks do not say which one is",
            )


def _with_usual_numbers(table: pd.DataFrame, dialect: Dialect) -> pd.DataFrame:
    """Read points and exponents of columns that other text kept from being read as numbers."""
    columns = {}
    for name in table.columns:
        column = table[name]
        if not pd.api.types.is_string_dtype(column) and not pd.api.types.is_object_dtype(column):
            continue
        text = column.astype("string").str.replace(FORTRAN, r"\1e\2", regex=True)
        if dialect.decimal == ",":
            text = text.str.replace(r"^([-+]?[0-9]*),([0-9])", r"\1.\2", regex=True)
        numbers = pd.to_numeric(text, errors="coerce")
        if numbers.notna().sum() <= pd.to_numeric(column, errors="coerce").notna().sum():
            continue
        is_complete = numbers.notna().sum() == column.notna().sum()
        columns[name] = numbers.astype(np.float64) if is_complete else text.astype(object)
    return table.assign(**columns)


def _opened(file: Path) -> TextIO:
    """Open the text of a file, which may be compressed."""
    ending = file.suffix.lower()
    if ending in OPENERS:
        return OPENERS[ending](file, "rt", encoding=ENCODING)
    if ending != ".zip":
        return file.open(encoding=ENCODING)
    archive = zipfile.ZipFile(file)
    names = []
    for name in archive.namelist():
        # macOS adds a second file to each
        if not name.endswith("/") and not name.startswith("__MACOSX"):
            names.append(name)
    if len(names) != 1:
        archive.close()
        raise FileError(
            file,
            problem=f"holds {len(names)} files",
            fix='unpack it, and give a pattern of its files, "runs/*.csv" say',
        )
    return io.TextIOWrapper(archive.open(names[0]), encoding=ENCODING)
