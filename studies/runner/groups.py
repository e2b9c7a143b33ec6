"""Several datasets in one netCDF file, a group each, sealed as a whole.

Arrays are neither chunked nor compressed: they are small, the seal covers them, and a repository packs the file better
and finds again what two versions share.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np
import xarray as xr

from romkit.core.files import existing
from romkit.data.storage import check_seal, plain, prepared, readable, sealed

_ROOM = 2**17
"""Bytes per group for names, dimensions and attributes, when room on the disk is reserved."""
_NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"
_OF_NETCDF = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates"}
"""Attributes by which netCDF keeps dimensions in HDF5."""


def save_datasets(datasets: Mapping[str, xr.Dataset], path: str | os.PathLike, **attrs: str) -> Path:
    """Write datasets to one file, as `save_dataset` does one: all of them, or nothing at all.

    Args:
        datasets: by the name of their group, which has no slash.
        path: the file; an earlier one is replaced once the new one is complete.
        attrs: attributes of the file.

    Raises:
        InputError: a dataset holds what netCDF cannot.
        FileError: the file cannot be written.
    """
    whole = {name: prepared(data) for name, data in datasets.items()}
    encoding = {f"/{name}": {key: {"_FillValue": None} for key in data.variables} for name, data in whole.items()}
    size = sum(data.nbytes + _ROOM for data in whole.values())
    with sealed(path, size) as temporary:
        tree = xr.DataTree.from_dict({"/": xr.Dataset(attrs=attrs), **whole})
        tree.to_netcdf(temporary, engine="h5netcdf", encoding=encoding)
    return Path(path).expanduser()


def open_datasets(path: str | os.PathLike) -> dict[str, xr.Dataset]:
    """Read a file by `save_datasets`: the datasets by name, in their order, bit by bit.

    Raises:
        FileError: no such file, not by `save_datasets`, or truncated or altered since it was written.
    """
    with readable(path), h5py.File(_verified(path)) as file:
        return {name: _dataset(group) for name, group in file.items()}


def group_attribute(path: str | os.PathLike, name: str) -> dict[str, str]:
    """One attribute of every group that has it, without reading the data.

    Raises:
        FileError: as `open_datasets`.
    """
    with readable(path), h5py.File(_verified(path)) as file:
        return {key: group.attrs[name] for key, group in file.items() if name in group.attrs}


def file_attributes(path: str | os.PathLike) -> dict[str, str]:
    """The attributes of the file itself.

    Raises:
        FileError: as `open_datasets`.
    """
    with readable(path), h5py.File(_verified(path)) as file:
        return {key: value for key, value in file.attrs.items() if isinstance(value, str) and not key.startswith("_")}


def _verified(path: str | os.PathLike) -> Path:
    file = existing(path)
    check_seal(file, needed=True)
    return file


def _dataset(group: h5py.Group) -> xr.Dataset:
    """A group as a dataset. (xarray would search the whole file for the name of each dimension of each variable.)"""
    names = {item.attrs["_Netcdf4Dimid"]: name for name, item in group.items() if item.is_scale}
    there = {name: item for name, item in group.items() if not item.attrs.get("NAME", b"").startswith(_NO_VARIABLE)}
    variables = {
        name: ([names[key] for key in item.attrs.get("_Netcdf4Coordinates", ())], _values(item), _attributes(item))
        for name, item in there.items()
    }
    return plain(xr.decode_cf(xr.Dataset(variables, attrs=_attributes(group)), decode_times=False))


def _values(item: h5py.Dataset) -> np.ndarray:
    return np.asarray(item.asstr()[()], dtype=str) if h5py.check_string_dtype(item.dtype) else np.asarray(item[()])


def _attributes(item: h5py.Group | h5py.Dataset) -> dict[str, object]:
    """The user's attributes; HDF5 keeps a number as a list of one."""
    found = {key: value for key, value in item.attrs.items() if key not in _OF_NETCDF}
    return {k: v[0] if isinstance(v, np.ndarray) and v.size == 1 else v for k, v in found.items()}
