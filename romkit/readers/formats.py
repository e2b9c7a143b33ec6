"""Tables in files of any format: text, spreadsheets, parquet and lines of JSON."""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from romkit.core.errors import DataWarning, FileError, warn
from romkit.core.files import existing, reason
from romkit.data.names import TIMES
from romkit.readers.meshes import is_mesh
from romkit.readers.names import columns_of_runs
from romkit.readers.parameters import with_parameters_of_runs
from romkit.readers.sheets import table_of_sheets
from romkit.readers.snapshot_files import tables_of_runs, time_in_braces
from romkit.readers.text import OPENERS, text_table
from romkit.readers.ways import WAYS

TEXT = {".csv", ".tsv", ".txt", ".dat", ".tab", ".asc", ".prn", ".trc", ".mot"}
"""Endings of the names of tables in text."""

SPREADSHEETS = {".xlsx", ".xls", ".xlsm", ".ods"}

LINES = {".jsonl", ".ndjson"}
"""Endings of files with a JSON object in each line, a row of the table."""

COLUMNS = {".parquet", ".feather"}

TABLES = TEXT | SPREADSHEETS | LINES | COLUMNS

COMPRESSED = {*OPENERS, ".zip"}


def is_table(path: str | Path) -> bool:
    """Whether a file is a table by the ending of its name, or by its text."""
    path = Path(path)
    if is_mesh(path):
        return False
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in COMPRESSED:
        # a zipped zarr store is none
        return ".zarr" not in endings
    if endings and endings[-1] in TABLES:
        return True
    if endings and endings[-1] in WAYS:
        return False
    return path.is_file() and _is_text(path)


def _is_text(path: Path) -> bool:
    """Whether a file begins with lines of text that are no markup."""
    with path.open("rb") as stream:
        beginning = stream.read(2048)
    try:
        # a letter of several bytes may be cut at the end
        text = beginning.decode("utf-8", errors="strict" if len(beginning) < 2048 else "ignore")
    except UnicodeDecodeError:
        return False
    is_markup = text.lstrip().startswith(("<", "{", "["))
    return "\0" not in text and "\n" in text and not is_markup


def read_table(path: str | Path) -> pd.DataFrame:
    """The table of a file; units below the names are its attribute `units`.

    Warns:
        DataWarning: lines above the names are left out, or frames are counted as times.

    Raises:
        FileError: no such file, no table, or a package that reads it is missing.
    """
    table, notes = _table(path)
    for note in notes:
        warn(note, DataWarning)
    return table


def _table(path: str | Path) -> tuple[pd.DataFrame, list[str]]:
    """The table of a file, and sentences for warnings."""
    ending = Path(path).suffix.lower()
    if ending not in SPREADSHEETS | LINES | COLUMNS:
        return text_table(path)
    file = existing(path)
    try:
        if ending in LINES:
            return _of_lines(file), []
        if ending == ".feather":
            return pd.read_feather(file), []
        if ending in COLUMNS:
            return pd.read_parquet(file), []
        return table_of_sheets(path, pd.read_excel(file, sheet_name=None, header=None))
    except ImportError as error:
        package = "pyarrow" if ending in COLUMNS else "openpyxl"
        raise FileError(
            path,
            problem=f"needs a package that is missing ({reason(error)})",
            fix=f"pip install {package}, or write it as .csv",
        ) from error
    except FileError:
        raise
    except (ValueError, OSError, KeyError) as error:
        raise FileError(
            path,
            problem=f"cannot be read as a table ({reason(error)})",
            fix="give what pandas reads, romkit.learn(table, ...)",
        ) from error


def _of_lines(file: Path) -> pd.DataFrame:
    """A row for each line, which is an object of JSON; or the rows of a run for each line, whose
    numbers are lists.
    """
    with file.open(encoding="utf-8") as stream:
        table = pd.DataFrame([json.loads(line) for line in stream if line.strip()])
    is_list = table.map(lambda cell: isinstance(cell, list)).all()
    lists = list(table.columns[is_list])
    if not lists:
        return table
    if not columns_of_runs(map(str, table.columns)):
        table = table.assign(run=range(len(table)))
    return table.explode(lists, ignore_index=True)


def joined_tables(
    paths: Sequence[str | Path], parameters: Mapping[str, Sequence[float]] | None = None
) -> pd.DataFrame:
    """Tables of several runs below each other; without numbers of runs of their own, a run each.

    Args:
        paths: their files.
        parameters: columns of one value in each file, by name; where one is a time, files are
            snapshots of runs.

    Raises:
        FileError: no table, one that has a parameter with other values, or units that differ.
    """
    tables, notes = [], {}
    for path in paths:
        table, of_file = _table(path)
        tables.append(table)
        notes |= dict.fromkeys(of_file)
    if len(tables) > 1 and not parameters:
        samples, of_runs = with_parameters_of_runs(
            paths[0], dict(zip(map(str, paths), tables, strict=True))
        )
        paths, tables = list(samples), list(samples.values())
        notes |= dict.fromkeys(of_runs)
    for note in notes:
        warn(note, DataWarning)
    for name, values in (parameters or {}).items():
        for k, value in enumerate(values):
            tables[k] = _with_parameter(tables[k], paths[k], name, value)
    if time_in_braces(parameters or {}):
        paths, tables = zip(*tables_of_runs(paths, tables, parameters), strict=True)
    if len(tables) == 1:
        return tables[0]
    units = _common_units(paths, tables)
    joined = pd.concat(_with_own_runs(tables, paths), ignore_index=True)
    joined.attrs = {"units": units}
    return joined


def _with_own_runs(
    tables: Sequence[pd.DataFrame], paths: Sequence[str | Path]
) -> list[pd.DataFrame]:
    """Tables with a column of runs, each of which is in one table.

    Raises:
        FileError: a table that does not name its runs as the first one does.
    """
    names = []
    for table in tables:
        columns = columns_of_runs(map(str, table.columns))
        names.append(columns[0] if columns else None)
    if set(names) == {None}:
        return [table.assign(run=k) for k, table in enumerate(tables)]
    name = names[0]
    for path, other in zip(paths, names, strict=True):
        if other != name:
            raise FileError(
                path,
                problem=f"has runs called {other}, {paths[0]} has {name}",
                fix="name the column of runs alike in all files, or drop it",
            )
    numbers = [set(table[name]) for table in tables]
    are_distinct = len(set().union(*numbers)) == sum(map(len, numbers))
    if are_distinct or _continue(tables, name):
        return [*tables]
    # each file counts its runs anew: run 0 of one is not run 0 of another
    renumbered, count = [], 0
    for table in tables:
        codes, values = pd.factorize(table[name])
        renumbered.append(table.assign(**{name: np.where(codes < 0, np.nan, codes + count)}))
        count += len(values)
    warn(f"{name}s have the same numbers in several files; they are counted anew", DataWarning)
    return renumbered


def _continue(tables: Sequence[pd.DataFrame], run: str) -> bool:
    """Whether runs go on from one file to another, each behind the end of the one before."""
    spans: dict[object, list[tuple[float, float]]] = {}
    for table in tables:
        time = next((name for name in TIMES if name in table.columns), None)
        if time is None:
            return False
        times = pd.to_numeric(table[time], errors="coerce").groupby(table[run])
        for number, least, largest in zip(times.groups, times.min(), times.max(), strict=True):
            spans.setdefault(number, []).append((least, largest))
    for spans_of_run in spans.values():
        ordered = sorted(spans_of_run)
        for (_, end), (start, _) in itertools.pairwise(ordered):
            if not end < start:  # NaN included, of dates as text
                return False
    return True


def _with_parameter(table: pd.DataFrame, path: str | Path, name: str, value: float) -> pd.DataFrame:
    """The table with a column of one value."""
    if name in table.columns:
        numbers = pd.to_numeric(table[name], errors="coerce")
        # a row of units below the names is none of the values
        if not np.isclose(numbers[numbers.notna()], value).all() or numbers.isna().all():
            raise FileError(
                path,
                problem=f"has a column {name} of other values than {value:g} in its name",
                fix="give another name in braces",
            )
    return table.assign(**{name: value})


def _common_units(paths: Sequence[str | Path], tables: Sequence[pd.DataFrame]) -> dict[str, str]:
    """Units by column, which are those of all tables.

    Raises:
        FileError: a column has another unit than in the first table.
    """
    common: dict[str, str] = {}
    for path, table in zip(paths, tables, strict=True):
        for name, unit in table.attrs.get("units", {}).items():
            if common.setdefault(name, unit) != unit:
                raise FileError(
                    path,
                    problem=f"has {name} in {unit}, others in {common[name]}",
                    fix="convert it, or name its unit alike",
                )
    return common
