"""Tables that pandas reads by other packages: parquet, feather and spreadsheets."""

import io
from pathlib import Path

import pandas as pd

from romkit.core.display import listed
from romkit.core.errors import DataWarning, FileError, warn
from romkit.core.files import existing, reason
from romkit.readers.text import table_of_text

COLUMNS = {".parquet": pd.read_parquet, ".feather": pd.read_feather}

ENDINGS = (*COLUMNS, ".xlsx", ".xls", ".xlsm", ".ods")

OF_SHEETS = (
    "where each is a run: pandas.concat(pandas.read_excel(path, sheet_name=None), names=['run'])"
    ".reset_index('run') is their table"
)


def can_read(path: Path) -> bool:
    """Tell whether a file is such a table, by the ending of its name."""
    return path.suffix.lower() in ENDINGS


def read(path: Path) -> pd.DataFrame:
    """Read a table, or the only sheet with numbers; its titles, units and names stand as in text.

    Raises:
        FileError: no such file, no table, several, or a package that reads it is missing.
    """
    file = existing(path)
    reader = COLUMNS.get(path.suffix.lower())
    try:
        if reader is not None:
            return reader(file)
        sheets = pd.read_excel(file, sheet_name=None, header=None)
    except Exception as error:  # readers raise nearly anything on files of others
        problem = f"cannot be read as a table ({reason(error)})"
        fix = "give what pandas reads, romkit.learn(table, ...)"
        if isinstance(error, ImportError):
            fix = 'pip install "romkit-dynamics[readers]", or write it as .csv'
        raise FileError(path, problem=problem, fix=fix) from error
    return table_of_sheets(path, sheets)


def table_of_sheets(path: str | Path, sheets: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Read the only sheet with numbers.

    Args:
        path: the spreadsheet, for errors.
        sheets: cells by name of the sheet, as `pandas.read_excel(..., header=None)` reads them.

    Raises:
        FileError: none has numbers, or several have.
    """
    tables, skipped = {}, []
    for name, cells in sheets.items():
        if cells.map(lambda cell: not isinstance(cell, str) and not pd.isna(cell)).any(axis=None):
            tables[name] = cells
        elif cells.size:
            skipped.append(name)
    if not tables:
        raise FileError(path, problem="holds no table", fix="write a row of names first")
    if len(tables) > 1:
        raise FileError(path, problem=f"has several sheets, {listed(tables)}", fix=OF_SHEETS)
    if skipped:
        warn(f"sheets without numbers are left out: {listed(skipped)}", DataWarning)
    (cells,) = tables.values()
    # as lines of text, on one line each; rows without a cell are empty lines
    text = cells.replace(r"\s*\n\s*", " ", regex=True).to_csv(index=False, header=False)
    lines = [line if line.strip(",\n") else "\n" for line in io.StringIO(text)]
    return table_of_text(path, io.StringIO("".join(lines).lstrip("\n")))
