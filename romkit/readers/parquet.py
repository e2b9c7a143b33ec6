"""A table in columns: parquet and feather."""

from pathlib import Path

import pandas as pd

from romkit.core.errors import FileError
from romkit.core.files import existing, reason

READERS = {".parquet": pd.read_parquet, ".feather": pd.read_feather}


def can_read(path: Path) -> bool:
    """Tell whether a file holds a table in columns, by the ending of its name."""
    return path.suffix.lower() in READERS


def read(path: Path) -> pd.DataFrame:
    """Read a table.

    Raises:
        FileError: no such file, no table, or pyarrow is missing.
    """
    file = existing(path)
    try:
        return READERS[path.suffix.lower()](file)
    except ImportError as error:
        raise FileError(
            path,
            problem=f"needs a package that is missing ({reason(error)})",
            fix="pip install pyarrow, or write it as .csv",
        ) from error
    except Exception as error:  # readers raise nearly anything on files of others
        raise FileError(
            path,
            problem=f"cannot be read as a table ({reason(error)})",
            fix="give what pandas reads, romkit.learn(table, ...)",
        ) from error
