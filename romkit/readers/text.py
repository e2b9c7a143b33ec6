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

from romkit.core.display import listed
from romkit.core.errors import DataWarning, FileError, warn
from romkit.core.files import existing, reason
from romkit.readers.numbers import MISSING
from romkit.readers.ways import WAYS, check_is_table

ENDINGS = (".csv", ".tsv", ".txt", ".dat", ".tab", ".asc", ".prn")

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

FORTRAN = re.compile(r"(?<=[0-9.])[dD](?=[-+][0-9]{2}\b)")
"""The letter of an exponent that only Fortran writes so, 1.0D+00."""

CLOCK = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?"

VALUE = re.compile(
    r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eEdD][-+]?[0-9]+)?|[-+]?(inf|nan)|"
    r"([0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4})"
    rf"([ T]{CLOCK})?(Z|[-+][0-9]{{2}}:?[0-9]{{2}})?|{CLOCK}",
    re.IGNORECASE,
)
"""A number, or a date, a time of day, or both."""

Rows = dict[int, list[str]]
"""Cells by the numbers of their lines."""


class Dialect(NamedTuple):
    """Separators of columns, and between the digits of a number."""

    separator: str
    decimal: str

    def cells(self, line: str) -> list[str]:
        """Split a line into cells without blanks around."""
        if self.separator == BLANKS:
            return [cell.strip('"') for cell in re.findall(r'"[^"]*"|\S+', line)]
        row = next(csv.reader([line], delimiter=self.separator, skipinitialspace=True), [])
        return [cell.strip() for cell in row]

    def number_of_values(self, row: Sequence[str]) -> int:
        """Count the cells that hold a number or a date."""
        texts = [cell.replace(self.decimal, ".") for cell in row]
        return sum(map(bool, map(VALUE.fullmatch, texts)))

    def score(self, lines: Sequence[str]) -> tuple[float, int]:
        """Return share of the cells that hold a value, and their number; none of a separator that
        half of the lines lack, or of decimal commas between no digits.
        """
        is_rare = sum(self.separator in line for line in lines) < len(lines) / 2
        has_no_comma = self.decimal == "," and not re.search("[0-9],[0-9]", "".join(lines))
        if (is_rare and self.separator != BLANKS) or has_no_comma:
            return -1.0, 0
        cells = [cell for line in lines for cell in self.cells(line)]
        return round(self.number_of_values(cells) / max(sum(map(bool, cells)), 1), 3), len(cells)


DIALECTS = [
    Dialect(*rule)
    for rule in (";.", ";,", "\t.", "\t,", ",.", (BLANKS, "."), (BLANKS, ","))
]  # fmt: skip
"""Dialects; `csv.Sniffer` knows no decimal sign, and takes a decimal comma for the separator."""


def can_read(path: Path) -> bool:
    """Tell whether a file is a table in text, by the ending of its name or its first lines."""
    ending = path.suffix.lower()
    if ending in ENDINGS or not path.is_file():
        return ending in ENDINGS
    if ending in (*OPENERS, ".zip"):
        return ".zarr" not in path.name.lower()  # a zipped zarr store is none
    if ending in WAYS:
        return False
    with path.open("rb") as stream:
        beginning = stream.read(2048)
    # a letter of several bytes may be cut at the end
    text = beginning.decode("utf-8", errors="ignore")
    is_text = len(text.encode()) > len(beginning) - 4 and "\0" not in text and "\n" in text
    return is_text and not text.lstrip().startswith(("<", "{", "["))


def read(path: Path) -> pd.DataFrame:
    """Read a table; units below the names are its attribute `units`.

    Warns:
        DataWarning: lines above the names are left out.

    Raises:
        FileError: no such file, or no table.
    """
    existing(path)
    try:
        return table_of_text(path, io.StringIO(_text(path), newline=None))
    except FileError:
        raise
    except Exception as error:  # archives and pandas raise nearly anything on files of others
        problem = f"cannot be read as a table ({reason(error)})"
        fix = "write a row of names first, and commas between"
        if isinstance(error, UnicodeDecodeError):
            problem = f"is no text in UTF-8 ({reason(error)})"
            fix = "pass what pandas.read_csv(file, encoding='latin-1') reads, say"
        raise FileError(path, problem=problem, fix=fix) from error


def _text(path: Path) -> str:
    """Return the text of a file, which may be compressed."""
    ending = path.suffix.lower()
    if ending != ".zip":
        with OPENERS.get(ending, open)(path, "rt", encoding=ENCODING) as stream:
            return stream.read()
    with zipfile.ZipFile(path) as archive:
        # macOS adds a second file to each
        names = [name for name in archive.namelist() if not name.startswith("__MACOSX")]
        if len(names) != 1:
            fix = 'unpack it, and give a pattern of its files, "runs/*.csv" say'
            raise FileError(path, problem=f"holds {len(names)} files", fix=fix)
        return archive.read(names[0]).decode(ENCODING)


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
    rows = {k: line for k, line in enumerate(lines[:HEAD]) if _has_cells(line)}
    if not rows:
        raise FileError(path, problem="holds no table", fix="write a row of names first")
    sample = list(rows.values())[1:] or list(rows.values())
    # the dialect by which most cells are numbers or dates, in most columns
    dialect = max(DIALECTS, key=lambda rule: rule.score(sample))
    cells = {k: dialect.cells(line) for k, line in rows.items()}
    names, units, begin = _head(path, lines, cells, dialect)
    table = _parsed(path, [line for line in lines[begin:] if _has_cells(line)], names, dialect)
    # a separator at the end of each line makes a column
    if names[-1].startswith("Unnamed: ") and table[names[-1]].isna().all():
        table = table.drop(columns=names[-1])
    table.attrs = {"units": units}
    return table


def _parsed(
    path: str | Path, body: Sequence[str], names: Sequence[str], dialect: Dialect
) -> pd.DataFrame:
    """Read rows of numbers and text below their names.

    Raises:
        FileError: an empty cell among columns that blanks separate.
    """
    short = next((line for line in body if len(line.split()) < len(names)), None)
    if short and dialect.separator == BLANKS:
        raise FileError(
            path,
            problem=f"has {len(short.split())} cells in {len(names)} columns, {short.strip()[:40]!r}",
            fix="write NaN into empty cells: blanks do not say which one is",
        )
    return pd.read_csv(
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


def _has_cells(line: str) -> bool:
    """Tell whether a line is neither empty nor a comment."""
    return bool(line.strip()) and not line.lstrip().startswith(COMMENT)


def _head(
    path: str | Path, lines: Sequence[str], rows: Rows, dialect: Dialect
) -> tuple[list[str], dict[str, str], int]:
    """Read what stands above the numbers: names of the columns, units by name, and the number of
    the first line of numbers.

    Raises:
        FileError: no names, or not as many as columns.
    """
    # the last rows are numbers, and most of them are complete
    sizes = Counter(map(len, list(rows.values())[-HEAD // 2 :]))
    width = max(sizes, key=lambda size: (sizes[size], size))
    above = _rows_above(rows, width, dialect)
    begin = max(above, default=-1) + 1
    names = _names_in_comment(lines[: next(iter(rows))], width, dialect)
    units: list[str] = []
    # names in a comment count where the row above the numbers is too short for names
    if above and not (names and len(rows[above[-1]]) < width):
        names = rows[above.pop()]
        before = rows[above[-1]] if above and len(names) >= width else [""]
        # a row that has a name of its own for each column: what stands below are units
        if len(before) == len({*before}) == width and "" not in before:
            above.pop()
            names, units = before, names
    names = _completed(names, lines, rows, begin)
    _check_names(path, names, width)
    if above:
        texts = [lines[k].strip().strip(",;")[:40] for k in above]
        said = listed(map(repr, texts))
        warn(f"lines above the names of the columns are left out: {said}", DataWarning)
    cells = [cell.strip(" []()-") for cell in units]
    return names, dict(filter(all, zip(names, cells, strict=False))), begin


def _rows_above(rows: Rows, width: int, dialect: Dialect) -> list[int]:
    """Find the lines before the first one of numbers."""
    above: list[int] = []
    has_names = False
    for k, row in rows.items():
        values = dialect.number_of_values(row)
        is_full = len(row) >= width - 1
        # a name may be a number, that of a place say, beside names that are none
        if is_full and values and (has_names or values == sum(map(bool, row))):
            break
        has_names = has_names or (is_full and not values)
        above.append(k)
    return above


def _completed(names: list[str], lines: Sequence[str], rows: Rows, first: int) -> list[str]:
    """Name columns that nobody named: an empty one at the end, or that of the names of rows."""
    below = {k: row for k, row in rows.items() if k >= first}
    if not below:
        return names
    start, row = next(iter(below.items()))
    if len(names) == len(row) - 1:
        if lines[start].lstrip().startswith('"'):
            names = ["", *names]  # as R writes names of rows
        elif not any(map(itemgetter(-1), below.values())):
            names = [*names, ""]
    while len(names) > len(row) and not names[-1]:
        names = names[:-1]
    return [name or f"Unnamed: {column}" for column, name in enumerate(names)]


def _names_in_comment(lines: Sequence[str], width: int, dialect: Dialect) -> list[str]:
    """Read names in the last line of comment, none where it has not one for each column."""
    comments = [line.strip() for line in lines if line.strip()]
    text = comments[-1].lstrip("#%!/").strip() if comments else ""
    for separator in (dialect.separator, ",", "\t", r"\s{2,}", BLANKS):
        names = [name.strip() for name in re.split(separator, text)]
        if len(names) == width and text and not dialect.number_of_values(names):
            return names
    return []


def _check_names(path: str | Path, names: Sequence[str], width: int) -> None:
    """Raise where names are not as many as columns, or columns share one."""
    repeated = [name for name, number in Counter(names).items() if number > 1]
    problem, fix = "", "give each column a name"
    if not names:
        problem = f"has no names above its {width} columns"
        fix = "write a row of names first, time,x,y say; or give the table of "
        fix += "pandas.read_csv(path, sep=..., header=None, names=['time', 'x', ...])"
    elif len(names) != width:
        problem = f"has {len(names)} names above {width} columns"
    elif repeated:
        problem = f"has several columns {', '.join(repeated)}"
        fix = "give each a name of its own, "
        fix += "pandas.read_csv(path, skiprows=..., names=['time', 'tip_x', ...])"
    if problem:
        raise FileError(path, problem=problem, fix=fix)
