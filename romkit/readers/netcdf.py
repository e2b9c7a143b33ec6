"""netCDF and other HDF5 files, as chunks of dask; a group for each run, and axes without names."""

from pathlib import Path
from typing import Any

import xarray as xr

from romkit.core.errors import FileError
from romkit.core.files import existing, reason
from romkit.data.storage import WITHOUT_NAMES, group_of, with_plain_attributes
from romkit.data.untrusted import (
    ENGINES,
    check_declared,
    check_seal_of_file,
    checked_groups,
    engine_of,
)
from romkit.readers.axes import with_named_axes
from romkit.readers.groups import joined_groups
from romkit.readers.joining import MORE_WAYS

ENDINGS = (".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".hdf")


def can_read(path: Path) -> bool:
    """Tell whether a file is netCDF or HDF5, by its first bytes, or by the ending of its name."""
    if path.suffix.lower() in ENDINGS:
        return True
    if not path.is_file() or path.suffix.lower() == ".mat":
        return False
    with path.open("rb") as stream:
        return stream.read(4) in ENGINES


def read(path: Path) -> xr.Dataset:
    """Read a file as chunks of dask; files whose groups are runs, along a dimension of these.

    Raises:
        FileError: no such file, one that is damaged, or takes numbers from others; or arrays whose
            axes nobody names.
    """
    with existing(path).open("rb") as stream:
        engine = engine_of(path, stream.read(4))
    check_seal_of_file(path)
    settings: dict[str, Any] = {"engine": engine}
    try:
        if engine == "h5netcdf":
            groups = checked_groups(path, path)
            settings |= WITHOUT_NAMES
            runs = joined_groups(path, groups, settings)
            if runs is not None:
                return runs
            settings["group"] = group_of(path, groups, None)
        data = xr.open_dataset(path, decode_times=False, chunks="auto", **settings)
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
    return with_plain_attributes(with_named_axes(path, data))
