"""Tables in files of any format: text, spreadsheets, parquet and lines of JSON."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from romkit.core.errors import DataWarning, FileError, warn
from romkit.core.files import existing, reason
from romkit.data.names import columns_of_runs
from romkit.data.text import OPENERS, text_table

TEXT = {".csv", ".tsv", ".txt", ".dat", ".tab", ".asc", ".prn", ".trc", ".mot"}
"""Endings of the names of tables in text."""

SPREADSHEETS = {".xlsx", ".xls", ".xlsm", ".ods"}

LINES = {".jsonl", ".ndjson"}
"""Endings of files with a JSON object in each line, a row of the table."""

COLUMNS = {".parquet", ".feather"}

TABLES = TEXT | SPREADSHEETS | LINES | COLUMNS

COMPRESSED = {*OPENERS, ".zip"}

SHEET = "run"
"""Column with the names of the sheets of a spreadsheet, which are its runs."""


def is_table(path: str | Path) -> bool:
    """Whether a file is a table by the ending of its name, or by its text."""
    path = Path(path)
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in COMPRESSED:
        # a zipped zarr store is none
        return ".zarr" not in endings
    if endings and endings[-1] in TABLES:
        return True
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
            return pd.read_json(file, lines=True, convert_dates=False), []
        if ending == ".feather":
            return pd.read_feather(file), []
        if ending in COLUMNS:
            return pd.read_parquet(file), []
        return _sheets(pd.read_excel(file, sheet_name=None)), []
    except ImportError as error:
        package = "pyarrow" if ending in COLUMNS else "openpyxl"
        raise FileError(
            path,
            problem=f"needs a package that is missing ({reason(error)})",
            fix=f"pip install {package}, or write it as .csv",
        ) from error
    except (ValueError, OSError, KeyError) as error:
        raise FileError(
            path,
            problem=f"cannot be read as a table ({reason(error)})",
            fix="give what pandas reads, romkit.learn(table, ...)",
        ) from error


def _sheets(sheets: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The sheets of a spreadsheet, each a run by its name; empty ones are none."""
    filled = {name: sheet for name, sheet in sheets.items() if len(sheet)}
    if len(filled) < 2:
        return next(iter((filled or sheets).values()))
    tables = []
    for name, sheet in filled.items():
        if SHEET in sheet:
            tables.append(sheet)
        else:
            tables.append(sheet.assign(**{SHEET: name}))
    return pd.concat(tables, ignore_index=True)


def joined_tables(
    paths: Sequence[str | Path], parameters: Mapping[str, Sequence[float]] | None = None
) -> pd.DataFrame:
    """Tables of several runs below each other; without numbers of runs of their own, a run each.

    Args:
        paths: their files.
        parameters: columns of one value in each file, by name.

    Raises:
        FileError: no table, one that has a parameter with other values, or units that differ.
    """
    tables, notes = [], {}
    for path in paths:
        table, of_file = _table(path)
        tables.append(table)
        notes |= dict.fromkeys(of_file)
    for note in notes:
        warn(note, DataWarning)
    for name, values in (parameters or {}).items():
        for k, value in enumerate(values):
            tables[k] = _with_parameter(tables[k], paths[k], name, value)
    if len(tables) == 1:
        return tables[0]
    units = _common_units(paths, tables)
    # of tables that number their runs, the numbers stay
    columns = {str(name) for table in tables for name in table.columns}
    if not columns_of_runs(columns):
        tables = [table.assign(run=k) for k, table in enumerate(tables)]
    joined = pd.concat(tables, ignore_index=True)
    joined.attrs = {"units": units}
    return joined


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
