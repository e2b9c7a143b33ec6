"""Tables that pandas reads by other packages: parquet, feather and spreadsheets."""

from pathlib import Path

import pandas as pd

from romkit.core.errors import FileError
from romkit.core.files import existing, reason
from romkit.readers.text import read_table

COLUMNS = {".parquet": pd.read_parquet, ".feather": pd.read_feather}

SHEETS = (".xlsx", ".xls", ".ods")

OF_SHEETS = (
    "give one, romkit.learn(pandas.read_excel(path, sheet_name='runs'), ...); where each is a run: "
    "pandas.concat(pandas.read_excel(path, sheet_name=None), names=['run']).reset_index('run')"
)


def can_read(path: Path) -> bool:
    """Tell whether a file is such a table, by the ending of its name."""
    return path.suffix.lower() in (*COLUMNS, *SHEETS)


def read(path: Path) -> pd.DataFrame:
    """Read a table, or the only sheet, whose names and units stand as in text.

    Raises:
        FileError: no such file, no table, several, or a package that reads it is missing.
    """
    file = existing(path)
    try:
        if path.suffix.lower() in COLUMNS:
            return COLUMNS[path.suffix.lower()](file)
        sheets = pd.read_excel(file, sheet_name=None, header=None)
    except Exception as error:  # readers raise nearly anything on files of others
        problem = f"cannot be read as a table ({reason(error)})"
        fix = "give what pandas reads, romkit.learn(table, ...)"
        if isinstance(error, ImportError):
            fix = 'pip install "romkit-dynamics[readers]", or write it as .csv'
        raise FileError(path, problem=problem, fix=fix) from error
    cells, *others = [cells for cells in sheets.values() if cells.size] or [pd.DataFrame()]
    if others:
        raise FileError(path, problem=f"has {1 + len(others)} sheets", fix=OF_SHEETS)
    rows = cells.replace(r"\s*\n\s*", " ", regex=True).dropna(how="all")
    return read_table(path, rows.to_csv(index=False, header=False).splitlines())
