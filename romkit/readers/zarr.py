"""Stores of zarr, as chunks of dask."""

import json
import os
from pathlib import Path

import xarray as xr

from romkit.core.errors import FileError
from romkit.core.files import reason
from romkit.data.storage import with_plain_attributes
from romkit.data.untrusted import check_store, is_store
from romkit.readers.axes import with_named_axes
from romkit.readers.groups import joined_groups
from romkit.readers.joining import MORE_WAYS


def can_read(path: Path) -> bool:
    """Tell whether a folder is a store."""
    return is_store(path)


def read(path: Path) -> xr.Dataset:
    """Read a store as chunks of dask; one whose groups are runs, along a dimension of these.

    Raises:
        FileError: it is damaged, would run code, or holds nothing outside of its groups.
    """
    check_store(path)
    runs = joined_groups(path, _groups(path), {"engine": "zarr", "consolidated": False})
    if runs is not None:
        return runs
    try:
        data = xr.open_dataset(path, engine="zarr", decode_times=False, chunks="auto")
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


def _groups(store: Path) -> dict[str, bool]:
    """Find the groups that hold arrays, by the files that describe these."""
    groups = {}
    for folder, _, files in os.walk(store):
        is_array = ".zarray" in files
        if "zarr.json" in files:
            description = json.loads(Path(folder, "zarr.json").read_text())
            is_array = description.get("node_type") == "array"
        if is_array:
            inside = Path(folder).parent.relative_to(store).as_posix()
            groups["/" + inside.removeprefix(".")] = True
    return groups
