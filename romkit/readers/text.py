"""Tables in text, perhaps compressed, by pandas: dialects, names, units and comments.

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
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pandas as pd

from romkit.core.errors import DataWarning, FileError, warn
from romkit.core.files import existing, reason
from romkit.readers.numbers import MISSING
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

EXACT: dict[str, Any] = {}
"""Settings by which numbers are read to the last bit, as they are by default from pandas 3.1 on."""
if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
    EXACT = {"float_precision": "round_trip"}

COMMENT = ("#", "%", "!", "//")
"""Beginnings of lines of comment."""

BLANKS = r"\s+"
"""Separator of columns that are aligned by blanks."""

HEAD = 200
"""Lines by which the dialect of a table and the number of its columns are judged."""

NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eEdD][-+]?[0-9]+)?|[-+]?(inf|nan)", re.I)

FORTRAN = re.compile(r"(?<=[0-9.])[dD](?=[-+][0-9]{2}\b)")
"""The letter of an exponent that only Fortran writes so, 1.0D+00."""

CLOCK = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?"

DATE = re.compile(
    r"([0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4})"
    rf"([ T]{CLOCK})?(Z|[-+][0-9]{{2}}:?[0-9]{{2}})?|{CLOCK}"
)
"""A date, a time of day, or both."""


Rows = Mapping[int, Sequence[str]]
"""Cells by the numbers of their lines."""


class Dialect(NamedTuple):
    """Separators of columns, and between the digits of a number."""

    separator: str
    decimal: str

    def cells(self, line: str) -> list[str]:
        """Split a line into cells without blanks around."""
        if self.separator == BLANKS:
            return re.findall(r'"[^"]*"|\S+', line)
        row = next(csv.reader([line], delimiter=self.separator, skipinitialspace=True), [])
        return [cell.strip() for cell in row]

    def number_of_values(self, row: Sequence[str]) -> int:
        """Count the cells that hold a number or a date."""
        count = 0
        for cell in row:
            text = cell.strip('"')
            number = text.replace(",", ".") if self.decimal == "," else text
            count += bool(DATE.fullmatch(text) or NUMBER.fullmatch(number))
        return count

    def score(self, lines: Sequence[str]) -> tuple[float, int]:
        """Return share of the cells that hold a value, and their number; none of a separator that
        half of the lines lack, or of decimal commas between no digits.
        """
        text = "".join(lines)
        number_with = sum(self.separator in line for line in lines)
        is_rare = self.separator != BLANKS and number_with < len(lines) / 2
        if is_rare or (self.decimal == "," and not re.search(r"[0-9],[0-9]", text)):
            return -1.0, 0
        cells = [cell for line in lines for cell in self.cells(line)]
        with_content = sum(map(bool, cells))
        return round(self.number_of_values(cells) / max(with_content, 1), 3), len(cells)


DIALECTS = [
    Dialect(*rule)
    for rule in (";.", ";,", "\t.", "\t,", ",.", (BLANKS, "."), (BLANKS, ","))
]  # fmt: skip
"""Dialects; `csv.Sniffer` knows no decimal sign, and takes a decimal comma for the separator."""


class Head(NamedTuple):
    """Header of a text table, above its numbers.

    Attributes:
        names: of the columns.
        units: by name.
        first: number of the first line of numbers.
    """

    names: list[str]
    units: dict[str, str]
    first: int


def can_read(path: Path) -> bool:
    """Tell whether a file is a table in text, by the ending of its name or its first lines."""
    endings = [ending.lower() for ending in path.suffixes]
    ending = endings[-1] if endings else ""
    if ending in ENDINGS or not path.is_file():
        return ending in ENDINGS
    if ending in {*OPENERS, ".zip"}:
        # a zipped zarr store is none
        return ".zarr" not in endings
    if ending in WAYS:
        return False
    with path.open("rb") as stream:
        beginning = stream.read(2048)
    # a letter of several bytes may be cut at the end
    text = beginning.decode("utf-8", errors="ignore")
    is_text = len(text.encode()) > len(beginning) - 4 and "\0" not in text and "\n" in text
    is_markup = text.lstrip().startswith(("<", "{", "["))
    return is_text and not is_markup


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
    check_is_table(path, lines[:HEAD])
    dialect = dialect_of(lines[:HEAD])
    names, units, first = _head(path, lines[:HEAD], dialect)
    body = [line for line in lines[first:] if _has_cells(line)]
    if dialect.separator == BLANKS:
        _check_full_rows(path, body, len(names))
    table = pd.read_csv(
        io.StringIO(FORTRAN.sub("e", "".join(body))),
        sep=dialect.separator,
        decimal=dialect.decimal,
        header=None,
        names=names,
        index_col=False,
        skipinitialspace=True,
        na_values=sorted(MISSING),
        **EXACT,
    )
    # a separator at the end of each line makes a column
    if names[-1].startswith("Unnamed: ") and table[names[-1]].isna().all():
        table = table.drop(columns=names[-1])
    table.attrs = {"units": units}
    return table


def dialect_of(lines: Sequence[str]) -> Dialect:
    """Find the dialect by which most cells are numbers or dates, in most columns."""
    rows = [line for line in lines if _has_cells(line)]
    scores = [dialect.score(rows[1:] or rows) for dialect in DIALECTS]
    return DIALECTS[scores.index(max(scores))]


def _has_cells(line: str) -> bool:
    """Tell whether a line is neither empty nor a comment."""
    return bool(line.strip()) and not line.lstrip().startswith(COMMENT)


def _head(path: str | Path, lines: Sequence[str], dialect: Dialect) -> Head:
    """Read what stands above the numbers.

    Raises:
        FileError: no names, or not as many as columns.
    """
    rows = {k: dialect.cells(line) for k, line in enumerate(lines) if _has_cells(line)}
    if not rows:
        raise FileError(path, problem="holds no table", fix="write a row of names first")
    width = _width(rows)
    above = _rows_above(rows, width, dialect)
    first = max(above, default=-1) + 1
    names = _names_in_comment(lines[: next(iter(rows))], width, dialect)
    units: list[str] = []
    # names in a comment count where the row above the numbers is too short for names
    has_row = bool(above) and (not names or len(rows[above[-1]]) >= width)
    if has_row:
        names, units = _names_and_units(rows, above, width)
    names = _completed([name.strip('"') for name in names], lines, rows, first)
    _check_names(path, names, width)
    _say_left_out([lines[k] for k in above])
    cells = [cell.strip(" []()-") for cell in units]
    return Head(names, dict(filter(all, zip(names, cells, strict=False))), first)


def _width(rows: Rows) -> int:
    """Return number of columns: the last rows are numbers, and most of them are complete."""
    sizes = Counter(map(len, list(rows.values())[-HEAD // 2 :]))
    return max(sizes, key=lambda size: (sizes[size], size))


def _say_left_out(lines: Sequence[str]) -> None:
    """Warn of lines about the measurement, by the first four."""
    if lines:
        texts = ", ".join(repr(line.strip().strip(",;")[:40]) for line in lines[:4])
        warn(f"lines above the names of the columns are left out: {texts}", DataWarning)


def _rows_above(rows: Rows, width: int, dialect: Dialect) -> list[int]:
    """Find the lines before the first one of numbers."""
    above: list[int] = []
    has_names = False
    for k, row in rows.items():
        values = dialect.number_of_values(row)
        texts = sum(map(bool, row)) - values
        is_full = len(row) >= width - 1
        # a name may be a number, that of a place say, beside names that are none
        if is_full and values and (has_names or not texts):
            break
        has_names = has_names or (is_full and values == 0)
        above.append(k)
    return above


def _names_and_units(rows: Rows, above: list[int], width: int) -> tuple[list[str], list[str]]:
    """Take names, and perhaps units, from the rows above the numbers, last ones first."""
    last = list(rows[above.pop()])
    if above and len(last) >= width:
        before = list(rows[above[-1]])
        # a row that has a name of its own for each column: what stands below are units
        if len(before) == width and "" not in before and len(set(before)) == width:
            above.pop()
            return before, last
    return last, []


def _completed(names: list[str], lines: Sequence[str], rows: Rows, first: int) -> list[str]:
    """Name columns that nobody named: an empty one at the end, or that of the names of rows."""
    below = {k: row for k, row in rows.items() if k >= first}
    if not below:
        return names
    start, row = next(iter(below.items()))
    width = len(row)
    if len(names) == width - 1:
        if lines[start].lstrip().startswith('"'):
            names = ["", *names]  # as R writes names of rows
        elif not any(map(itemgetter(-1), below.values())):
            names = [*names, ""]
    while len(names) > width and not names[-1]:
        names = names[:-1]
    return [name or f"Unnamed: {column}" for column, name in enumerate(names)]


def _names_in_comment(lines: Sequence[str], width: int, dialect: Dialect) -> list[str]:
    """Read names in the last line of comment, none where it has not one for each column."""
    comments = [line for line in lines if line.strip()]
    if not comments:
        return []
    text = comments[-1].strip().lstrip("#%!/").strip()
    for separator in (dialect.separator, ",", "\t", r"\s{2,}", BLANKS):
        names = [name.strip() for name in re.split(separator, text)]
        if len(names) == width and not dialect.number_of_values(names):
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


def _check_full_rows(path: str | Path, lines: Sequence[str], width: int) -> None:
    """Raise where a line has less than `width` cells, of which blanks do not say which is empty."""
    for line in lines:
        number = len(line.split())
        if number < width:
            raise FileError(
                path,
                problem=f"has {number} cells in {width} columns, {line.strip()[:40]!r}",
                fix="write NaN into empty cells: blanks do not say which one is",
            )


def _opened(file: Path) -> TextIO:
    """Open the text of a file, which may be compressed."""
    ending = file.suffix.lower()
    if ending in OPENERS:
        return OPENERS[ending](file, "rt", encoding=ENCODING)
    if ending != ".zip":
        return file.open(encoding=ENCODING)
    archive = zipfile.ZipFile(file)
    # macOS adds a second file to each
    names = [name for name in archive.namelist() if not name.startswith("__MACOSX")]
    if len(names) != 1:
        archive.close()
        raise FileError(
            file,
            problem=f"holds {len(names)} files",
            fix='unpack it, and give a pattern of its files, "runs/*.csv" say',
        )
    return io.TextIOWrapper(archive.open(names[0]), encoding=ENCODING)
