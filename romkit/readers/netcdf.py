"""netCDF and other HDF5 files, and stores of zarr, as chunks of dask, also of axes without names."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import xarray as xr

from romkit.core.errors import FileError
from romkit.core.files import existing, reason
from romkit.data.storage import WITHOUT_NAMES, group_of, simplify_attributes
from romkit.data.untrusted import (
    ENGINES,
    check_declared,
    check_file_seal,
    check_store,
    checked_groups,
    is_store,
    storage_engine,
)
from romkit.readers.axes import name_axes
from romkit.readers.joining import MORE_WAYS

ENDINGS = (".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".hdf")


def can_read(path: Path) -> bool:
    """Tell whether a path is a store, or a file that its first bytes or the ending of its name show."""
    if not path.is_file() or path.suffix.lower() in (*ENDINGS, ".mat"):
        return path.suffix.lower() in ENDINGS or is_store(path)
    with path.open("rb") as stream:
        return stream.read(4) in ENGINES


def read(path: Path) -> xr.Dataset:
    """Read a file or a store as chunks of dask.

    Raises:
        FileError: no such file, one that is damaged, takes numbers from others or would run code;
            or arrays whose axes nobody names.
    """
    settings: dict[str, Any] = {"engine": "zarr"}
    # without dask, an extra, numbers are read when they are looked at
    chunks = "auto" if find_spec("dask") else None
    if is_store(path):
        check_store(path)
    else:
        with existing(path).open("rb") as stream:
            settings = {"engine": storage_engine(path, stream.read(4))}
        check_file_seal(path)
    try:
        if settings["engine"] == "h5netcdf":
            settings |= WITHOUT_NAMES | {"group": group_of(path, checked_groups(path, path), None)}
        data = xr.open_dataset(path, decode_times=False, chunks=chunks, **settings)
        if path.is_file():
            check_declared(path, data.nbytes, path.stat().st_size)
    except FileError:
        raise
    except Exception as error:  # readers raise nearly anything on files of others
        raise FileError(
            path, problem=f"cannot be opened ({reason(error)})", fix=MORE_WAYS
        ) from error
    if not data.variables:
        raise FileError(
            path,
            problem="holds no numbers outside of its groups",
            fix="name the group that holds them: xarray.open_dataset(path, group=...)",
        )
    return simplify_attributes(name_axes(path, data))
