"""The door of files: the first reader that can read one reads it.

A reader has two functions, `can_read(path)`, which looks at the name and at most at the first bytes
of a file, and `read(path)`, which returns a Dataset or a table. Packages add readers by the group
`romkit.readers` of entry points, and are asked before those of romkit.
"""

import importlib
import warnings
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol, cast

import pandas as pd
import xarray as xr

from romkit.core.boundary import FilePath, validated
from romkit.core.errors import DataWarning, FileError, RomkitError, warn
from romkit.core.files import existing, reason

GROUP = "romkit.readers"
"""Group of entry points."""

OWN = (
    "openfoam", "vtk", "arrays_by_name", "sheets", "netcdf", "text",
)  # fmt: skip
"""Files of romkit's readers, in the order in which they are asked."""


FROM_ARRAYS = "romkit.data.from_arrays([run, ...], times, context={'Re': [...]})"

BY_LIBRARY = f"read it by its library into a table of pandas or an xarray.Dataset, or {FROM_ARRAYS}"

OF_MESH = f"write it as .vtu by ParaView, or numpy.stack([pyvista.read(name)['p'] for name in names]), {FROM_ARRAYS}"

OF_PICKLE = f"a pickle can run code; if you trust its author, load it, then {FROM_ARRAYS}"

WAYS = {
    **dict.fromkeys((".vtp", ".vts", ".pvtu", ".xdmf", ".xmf"), OF_MESH),
    **dict.fromkeys((".pkl", ".pickle", ".joblib"), OF_PICKLE),
    ".npy": f"numpy.load(name), then {FROM_ARRAYS}",
}
"""Ways for files of formats that are not read, by the endings of their names."""


class Reader(Protocol):
    """A module or object that reads files of one format.

    Example:
        >>> from pathlib import Path
        >>> from romkit.readers import text
        >>> text.can_read(Path("run.csv"))
        True
    """

    def can_read(self, path: Path) -> bool:
        """Tell whether a file is of the format, by its name or its first bytes."""
        ...

    def read(self, path: Path) -> xr.Dataset | pd.DataFrame:
        """Read a file: a Dataset with a dimension of time, or a table with a row for each time."""
        ...


@validated
def read(path: FilePath) -> xr.Dataset | pd.DataFrame:
    r"""Read a file of any format that a reader knows.

    Args:
        path: the file, or the folder of a store or case.

    Returns:
        A Dataset, in chunks where the format has them, or a table; `romkit.data.describe` takes
        both.

    Raises:
        FileError: no such file, one that is damaged, or of a format that no reader knows.

    Example:
        >>> from pathlib import Path
        >>> import romkit
        >>> _ = Path("run.csv").write_text("time,x\n0,1\n0.5,2\n")
        >>> list(romkit.readers.read("run.csv").columns)
        ['time', 'x']
    """
    return _content(Path(path))


def _content(path: Path) -> xr.Dataset | pd.DataFrame:
    """Return what the first reader that can read a file makes of it.

    Raises:
        FileError: no such file, no reader, or a file that is damaged.
    """
    try:
        return find_reader(path).read(path)
    except RomkitError:
        raise
    except Exception as error:  # libraries raise nearly anything on damaged files
        raise FileError(
            path,
            problem=f"cannot be read ({type(error).__name__}: {reason(error)})",
            fix="check that it was written to its end, and is neither damaged nor encrypted",
        ) from error


def find_reader(path: Path) -> Reader:
    """Find the first reader that can read a file.

    Raises:
        FileError: there is none.
    """
    for reader in _readers():
        if reader.can_read(path):
            return reader
    if path.is_dir():
        raise FileError(
            path,
            problem="is a folder, and neither a zarr store nor a case of OpenFOAM with probes",
            fix='give its files: "runs/*.nc", say, or "runs/u_{time}.nc" where each is a time',
        )
    fix = WAYS.get(existing(path).suffix.lower(), BY_LIBRARY)
    raise FileError(path, problem="is of a format that no reader knows", fix=fix)


def read_all(paths: Sequence[Path]) -> list[xr.Dataset] | list[pd.DataFrame]:
    """Read files of one kind; what is said of several of them is said once.

    Raises:
        FileError: a file that cannot be read, or tables beside Datasets.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sources = [_content(path) for path in paths]
    for said in {str(warning.message): warning for warning in caught}.values():
        warnings.warn_explicit(said.message, said.category, said.filename, said.lineno)
    for path, source in zip(paths, sources, strict=True):
        if type(source) is not type(sources[0]):
            problem = f"is of another kind than {paths[0]}"
            raise FileError(path, problem=problem, fix="give tables alone, or none")
    return cast("list[xr.Dataset] | list[pd.DataFrame]", sources)


@cache
def _readers() -> tuple[Reader, ...]:
    """Load all readers, those of other packages first."""
    readers = []
    for entry in entry_points(group=GROUP):
        try:
            reader = entry.load()
        except Exception as error:  # of another package
            warn(f"the reader {entry.name} cannot be loaded ({reason(error)})", DataWarning)
            continue
        if all(callable(getattr(reader, name, None)) for name in ("can_read", "read")):
            readers.append(reader)
        else:
            warn(f"the reader {entry.name} lacks can_read(path) or read(path)", DataWarning)
    builtin = [importlib.import_module(f"romkit.readers.{name}") for name in OWN]
    return (*readers, *builtin)
