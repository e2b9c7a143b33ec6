"""Tables in text files: their separators, comments, and the rows of names above the numbers.

Above the numbers stand, in this order and as far as they are there: comments, lines about the
measurement, rows of names, and a row of units. A name above several columns, as a spreadsheet with
merged cells and exports of motion capture have it, belongs to all of them.
"""

import bz2
import csv
import gzip
import io
import itertools
import lzma
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
import pandas as pd

from romkit.core.errors import FileError
from romkit.core.files import existing, reason
from romkit.data.grace import is_grace, labels_of_grace
from romkit.data.ltspice import is_stepped, table_of_steps
from romkit.data.units import is_unit
from romkit.data.ways import check_is_table

COMMENT = ("#", "%", "!", "//", "@")
"""Beginnings of lines of comment."""

ENCODING = "utf-8-sig"
"""UTF-8, without the mark that spreadsheets write in front."""

BLANKS = r"\s+"
"""Separator of columns that are aligned by blanks."""

BEHIND_UNITS = r"\s{2,}|(?<=\))\s+"
"""Separator of names whose last ones, with units, are as wide as their columns."""

SEPARATORS = (";", "\t", ",", BLANKS)

EXACT = {}
"""Settings by which numbers are read to the last bit, as they are by default from pandas 3.1 on."""
if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
    EXACT = {"float_precision": "round_trip"}

RECOGNISED_BY = 200
"""Lines by which the notation of a table is recognised."""

JUDGED_BY = 60
"""Last ones of these lines, in which separators are counted."""

NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eEdD][-+]?[0-9]+)?|[-+]?(inf|nan)", re.I)
"""A number, perhaps with the exponent of Fortran."""

CLOCK = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?"
DATE = re.compile(
    r"([0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4})"
    rf"([ T]{CLOCK})?(Z|[-+][0-9]{{2}}:?[0-9]{{2}})?|{CLOCK}"
)
"""A date, a time of day, or both."""

FORTRAN = re.compile(r"\s*([-+]?[0-9.]+)[dD]([-+]?[0-9]+)\s*")
"""A number with an exponent that only Fortran knows."""

IN_PARENTHESES = re.compile(r'^\s*\(("[^()]*")\)\s*$')
"""A line of names in quotes, all of them in parentheses."""

OPENSIM = "PathFileType"
"""First word of motion-capture files in the format TRC, with three lines about the measurement."""

VICON = ("Trajectories", "Model Outputs", "Devices", "Joints", "Segments")
"""First lines of exports of motion capture that count frames; the number below is their rate."""

OPENERS: Mapping[str, Callable] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
"""Functions that open compressed text, by the endings of names."""


@dataclass(frozen=True)
class Notation:
    """Separators of columns, and between the digits of a number."""

    separator: str

    decimal: str = "."

    def cells(self, line: str) -> list[str]:
        """The cells of a line, without blanks around."""
        if self.separator == BLANKS:
            # Fluent has its names in parentheses
            line = IN_PARENTHESES.sub(r"\1", line)
            return re.findall(r'"[^"]*"|\S+', line)
        row = next(csv.reader([line], delimiter=self.separator, skipinitialspace=True), [])
        return [cell.strip() for cell in row]

    def is_value(self, cell: str) -> bool:
        """Whether a cell holds a number or a date."""
        text = cell.strip('"')
        if DATE.fullmatch(text):
            return True
        if self.decimal == ",":
            text = text.replace(",", ".")
        return NUMBER.fullmatch(text) is not None


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


def text_table(path: str | Path) -> tuple[pd.DataFrame, list[str]]:
    """A table in a text file, perhaps compressed, and sentences for warnings; units below the names
    are its attribute `units`.

    Raises:
        FileError: no such file, or no table.
    """
    file = existing(path)
    try:
        with _text(file) as stream:
            return table_of_text(path, stream)
    except FileError:
        raise
    except UnicodeDecodeError as error:
        raise FileError(
            path,
            problem=f"is no text in UTF-8 ({reason(error)})",
            fix="pass what pandas.read_csv(file, encoding='latin-1') reads, say",
        ) from error
    except (ValueError, OSError, EOFError, csv.Error, zipfile.BadZipFile, lzma.LZMAError) as error:
        raise FileError(
            path,
            problem=f"cannot be read as a table ({reason(error)})",
            fix="write a row of names first, and commas between",
        ) from error


def table_of_text(path: str | Path, stream: TextIO) -> tuple[pd.DataFrame, list[str]]:
    """A table in lines of text, and sentences for warnings.

    Args:
        path: the file, for errors.
        stream: its text.

    Raises:
        FileError: no table.
        ValueError: of pandas, rows that it does not read.
    """
    lines = list(itertools.islice(stream, RECOGNISED_BY))
    check_is_table(path, lines)
    if is_stepped(lines):
        return table_of_steps(path, itertools.chain(lines, stream))
    notation = _notation(lines)
    head = _head(path, lines, notation)
    body = "".join([*lines[head.lines :], stream.read()])
    body = _without_comments(path, body, notation)
    if notation.separator == BLANKS:
        _check_full_rows(path, body, len(head.names))
    table = pd.read_csv(
        io.StringIO(body),
        sep=notation.separator,
        decimal=notation.decimal,
        header=None,
        names=head.names,
        index_col=False,
        skipinitialspace=True,
        **EXACT,
    )
    table = _without_empty_end(table)
    table = _with_usual_numbers(table, notation)
    table.attrs = {"units": head.units}
    return _with_times_of_frames(table, head)


def _text(file: Path) -> TextIO:
    """The text of a file, which may be compressed."""
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


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith(COMMENT)


def _notation(lines: Sequence[str]) -> Notation:
    """The notation by which most cells of the last lines are numbers or dates, in most columns."""
    rows = [line for line in lines if line.strip() and not _is_comment(line)]
    if not rows:
        return Notation(",")
    judged = rows[1:][-JUDGED_BY:] or rows
    best, best_score = Notation(","), (-1.0, 0)
    for separator in SEPARATORS:
        for decimal in (".", ","):
            if separator == decimal or not _is_used(separator, decimal, judged):
                continue
            notation = Notation(separator, decimal)
            score = _score(notation, judged)
            if score > best_score:
                best, best_score = notation, score
    return best


def _is_used(separator: str, decimal: str, lines: Sequence[str]) -> bool:
    """Whether most lines have a separator, and some a comma between digits if it is the decimal."""
    if separator != BLANKS:
        number = sum(separator in line for line in lines)
        if number < len(lines) / 2:
            return False
    return decimal == "." or any(re.search(r"[0-9],[0-9]", line) for line in lines)


def _score(notation: Notation, lines: Sequence[str]) -> tuple[float, int]:
    """Share of cells with values, empty ones aside, and number of cells."""
    values, texts, cells = 0, 0, 0
    for line in lines:
        row = notation.cells(line)
        cells += len(row)
        for cell in row:
            if notation.is_value(cell):
                values += 1
            elif cell:
                texts += 1
    share = values / max(values + texts, 1)
    return round(share, 3), cells


def _head(path: str | Path, lines: Sequence[str], notation: Notation) -> Head:
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
        if not _is_comment(line):
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


def _without_comments(path: str | Path, body: str, notation: Notation) -> str:
    """The lines of numbers.

    Raises:
        FileError: a second table follows.
    """
    if not re.search(r"^[^\S\n]*(#|%|!|//|@|\n)", body, re.MULTILINE):
        return body
    lines, is_after_gap = [], False
    for line in io.StringIO(body):
        if _is_comment(line):
            continue
        if not line.strip():
            is_after_gap = True
            continue
        if is_after_gap and lines and not any(map(notation.is_value, notation.cells(line))):
            raise FileError(
                path,
                problem=f"holds several tables; one begins by {line.strip()[:40]!r}",
                fix="write each to a file of its own",
            )
        is_after_gap = False
        lines.append(line)
    return "".join(lines)


def _check_full_rows(path: str | Path, body: str, width: int) -> None:
    """Raise where a line has less than `width` cells, of which blanks do not say which is empty."""
    for line in io.StringIO(body):
        number = len(line.split())
        if 0 < number < width:
            raise FileError(
                path,
                problem=f"has {number} cells in {width} columns, {line.strip()[:40]!r}",
                fix="write NaN into empty cells: blanks do not say which one is",
            )


def _without_empty_end(table: pd.DataFrame) -> pd.DataFrame:
    """The table without a last column that a separator at the end of each line makes."""
    last = table.columns[-1]
    if str(last).startswith("Unnamed: ") and table[last].isna().all():
        return table.drop(columns=last)
    return table


def _with_usual_numbers(table: pd.DataFrame, notation: Notation) -> pd.DataFrame:
    """The table with points and exponents as Python has them, in columns that other text kept from
    being read as numbers.
    """
    columns = {}
    for name in table.columns:
        column = table[name]
        if not pd.api.types.is_string_dtype(column) and not pd.api.types.is_object_dtype(column):
            continue
        text = column.astype("string")
        if notation.decimal == ",":
            text = text.str.replace(r"^([-+]?[0-9]*),([0-9])", r"\1.\2", regex=True)
        text = text.str.replace(FORTRAN, r"\1e\2", regex=True)
        numbers = pd.to_numeric(text, errors="coerce")
        if numbers.notna().sum() <= pd.to_numeric(column, errors="coerce").notna().sum():
            continue
        is_complete = numbers.notna().sum() == column.notna().sum()
        columns[name] = numbers.astype(np.float64) if is_complete else text.astype(object)
    return table.assign(**columns)


def _with_times_of_frames(table: pd.DataFrame, head: Head) -> tuple[pd.DataFrame, list[str]]:
    """The table with times in place of frames, where the lines above name their rate."""
    about = head.about
    rate = 0.0
    if len(about) == 2 and about[0] in VICON and NUMBER.fullmatch(about[1]):
        rate = float(about[1])
    if not rate or "Frame" not in table or "time" in table:
        if not about:
            return table, []
        texts = ", ".join(repr(text[:40]) for text in about[:4])
        return table, [f"lines above the names of the columns are left out: {texts}"]
    samples = table["Frame"] - 1.0
    if "Sub Frame" in table:
        of_frame = table["Sub Frame"].max() + 1
        samples = samples * of_frame + table["Sub Frame"]
    timed = table.drop(columns=["Frame", "Sub Frame"], errors="ignore")
    timed.insert(0, "time", samples / rate)
    timed.attrs = {"units": head.units | {"time": "s"}}
    return timed, [f"time is (Frame - 1) / {rate:g}, by the rate above the names of the columns"]
