"""A table in a spreadsheet."""

import io
from pathlib import Path

import pandas as pd

from romkit.core.display import listed
from romkit.core.errors import DataWarning, FileError, warn
from romkit.core.files import existing, reason
from romkit.readers.text import table_of_text

ENDINGS = (".xlsx", ".xls", ".xlsm", ".ods")

OF_SHEETS = (
    "where each is a run: pandas.concat(pandas.read_excel(path, sheet_name=None), names=['run'])"
    ".reset_index('run') is their table"
)


def can_read(path: Path) -> bool:
    """Tell whether a file is a spreadsheet, by the ending of its name."""
    return path.suffix.lower() in ENDINGS


def read(path: Path) -> pd.DataFrame:
    """Read the only sheet with numbers; titles, units and names stand as in text.

    Raises:
        FileError: no such file, no table, several, or a package that reads it is missing.
    """
    file = existing(path)
    try:
        sheets = pd.read_excel(file, sheet_name=None, header=None)
    except ImportError as error:
        raise FileError(
            path,
            problem=f"needs a package that is missing ({reason(error)})",
            fix="pip install openpyxl, or write it as .csv",
        ) from error
    except Exception as error:  # readers raise nearly anything on files of others
        raise FileError(
            path,
            problem=f"cannot be read as a spreadsheet ({reason(error)})",
            fix="give what pandas reads, romkit.learn(table, ...)",
        ) from error
    return table_of_sheets(path, sheets)


def table_of_sheets(path: str | Path, sheets: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Read the only sheet with numbers.

    Args:
        path: the spreadsheet, for errors.
        sheets: cells by name of the sheet, as `pandas.read_excel(..., header=None)` reads them.

    Raises:
        FileError: none has numbers, or several have.
    """
    with_numbers = [name for name, cells in sheets.items() if _has_numbers(cells)]
    if not with_numbers:
        raise FileError(path, problem="holds no table", fix="write a row of names first")
    if len(with_numbers) > 1:
        raise FileError(path, problem=f"has several sheets, {listed(with_numbers)}", fix=OF_SHEETS)
    others = [name for name, cells in sheets.items() if cells.size and name not in with_numbers]
    if others:
        warn(f"sheets without numbers are left out: {listed(others)}", DataWarning)
    return table_of_text(path, io.StringIO(_as_text(sheets[with_numbers[0]])))


def _has_numbers(cells: pd.DataFrame) -> bool:
    """Tell whether a sheet has a cell with a number, a date or a time."""
    is_value = cells.map(lambda cell: not isinstance(cell, str) and not pd.isna(cell))
    return bool(is_value.any(axis=None))


def _as_text(cells: pd.DataFrame) -> str:
    """Write rows of a sheet as lines with commas between; rows without a cell are empty lines."""
    on_one_line = cells.replace(r"\s*\n\s*", " ", regex=True)
    lines = []
    for line in io.StringIO(on_one_line.to_csv(index=False, header=False)):
        lines.append(line if line.strip(",\n") else "\n")
    return "".join(lines).lstrip("\n")
