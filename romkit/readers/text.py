"""Tables in text files, perhaps compressed: from lines to numbers in columns with names and units."""

import bz2
import csv
import gzip
import io
import itertools
import lzma
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

import numpy as np
import pandas as pd

from romkit.core.errors import FileError
from romkit.core.files import existing, reason
from romkit.readers.head import Head, head_of
from romkit.readers.ltspice import is_stepped, table_of_steps
from romkit.readers.notation import BLANKS, NUMBER, Notation, is_comment, notation_of
from romkit.readers.ways import check_is_table

ENCODING = "utf-8-sig"
"""UTF-8, without the mark that spreadsheets write in front."""

EXACT = {}
"""Settings by which numbers are read to the last bit, as they are by default from pandas 3.1 on."""
if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
    EXACT = {"float_precision": "round_trip"}

RECOGNISED_BY = 200
"""Lines by which the notation of a table is recognised."""

FORTRAN = re.compile(r"\s*([-+]?[0-9.]+)[dD]([-+]?[0-9]+)\s*")
"""A number with an exponent that only Fortran knows."""

VICON = ("Trajectories", "Model Outputs", "Devices", "Joints", "Segments")
"""First lines of exports of motion capture that count frames; the number below is their rate."""

OPENERS: Mapping[str, Callable] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
"""Functions that open compressed text, by the endings of names."""


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
    notation = notation_of(lines)
    head = head_of(path, lines, notation)
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


def _without_comments(path: str | Path, body: str, notation: Notation) -> str:
    """The lines of numbers.

    Raises:
        FileError: a second table follows.
    """
    if not re.search(r"^[^\S\n]*(#|%|!|//|@|\n)", body, re.MULTILINE):
        return body
    lines, is_after_gap = [], False
    for line in io.StringIO(body):
        if is_comment(line):
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
