"""netCDF and other HDF5 files of one's own, whose axes may have no names."""

from pathlib import Path

import xarray as xr

from romkit.core.files import existing
from romkit.data.storage import loaded
from romkit.readers.axes import with_named_axes
from romkit.readers.ways import check_is_read


def read_netcdf(path: str | Path) -> xr.Dataset:
    """Read a file into memory, its axes named.

    Raises:
        FileError: damaged, of another format, or without times that name its axes.
    """
    file = existing(path)
    content = file.read_bytes()
    check_is_read(path, content[:4])
    return with_named_axes(path, loaded(path, content, file, None))
