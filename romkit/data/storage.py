"""Datasets and runs as netCDF files, written whole or not at all, whose damage is noticed when they
are read.

A file is plain netCDF-4 that any tool reads, its numbers in chunks with a fletcher32 checksum.
Behind the end of the HDF5 data stands the SHA-256 of the file, which other programs ignore, and
drop when they change the file. It is compared before HDF5 sees a file, because HDF5 can crash on a
damaged one.
"""

import hashlib
from pathlib import Path

import dask
import numpy as np
import xarray as xr

from romkit.core.boundary import FilePath, validated
from romkit.core.errors import FileError, InputError
from romkit.core.files import atomic, existing, expanded, reason

SEAL = b"\nromkit sha256 "
ENGINES = {b"\x89HDF": "h5netcdf", b"CDF\x01": "scipy", b"CDF\x02": "scipy"}
PACKING = {"_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned"}


@validated
def save_dataset(data: xr.Dataset, path: FilePath) -> Path:
    """Write a dataset to a netCDF file: all of it, or nothing at all.

    Args:
        data: a dataset in romkit's schema, a rollout run, or any other Dataset of numbers and text.
            Attributes are text, numbers, or lists of either; what `data` was read from (its xarray
            encoding) is ignored.
        path: the file; an earlier one is replaced once the new one is complete.

    Returns:
        The path. `open_dataset` gives back the same values, bit by bit, with dtypes, coordinates
        and their order, and attributes, in plain Python types; netCDF makes a list of one attribute
        value that value, and True 1.

    Raises:
        InputError: `data` holds what netCDF cannot, dates for example.
        FileError: the file cannot be written.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> path = romkit.data.save_dataset(data, "run.nc")
        >>> romkit.data.open_dataset(path).state.sizes == data.state.sizes
        True
    """
    whole = _storable(data.compute())
    # beside a dask cluster xarray would take a lock of the cluster, which has none for a file in
    # memory
    with dask.config.set(scheduler="synchronous"), atomic(path) as temporary:
        try:
            # in memory first: HDF5 leaves a file that it can neither write nor close when the disk
            # is full
            content = bytes(whole.to_netcdf(engine="h5netcdf", encoding=_encoding(whole)))
        except (TypeError, ValueError, NotImplementedError) as error:
            got = f"an error: {reason(error)}"
            raise InputError(
                "data", expected="what netCDF can hold", got=got, fix="convert or drop it"
            ) from error
        temporary.write_bytes(content + SEAL + _sha256(content) + b"\n")
    return expanded(path)


@validated
def open_dataset(path: FilePath) -> xr.Dataset:
    """Read a netCDF file, romkit's or the user's own, into memory; the file is closed again.

    A file by `save_dataset` is verified first. Times stay numbers, as romkit needs them, whatever
    their unit.

    Raises:
        FileError: no such file, not netCDF, or truncated or altered since it was written.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.1)
        >>> path = romkit.data.save_dataset(data, "run.nc")
        >>> romkit.data.open_dataset(path).equals(data)
        True
    """
    file = existing(path)
    try:
        content = file.read_bytes()
        engine = ENGINES.get(content[:4])
        if engine is None:
            problem = (
                "is not a netCDF file, or its first bytes are damaged" if content else "is empty"
            )
            raise FileError(
                path,
                problem=problem,
                fix="give a file by romkit.data.save_dataset or xarray's to_netcdf",
            )
        content, seal, digest = content.rpartition(SEAL)
        if seal and digest.strip() != _sha256(content):
            problem, fix = (
                "has changed since romkit wrote it (checksum)",
                "restore it from a copy or remake it",
            )
            raise FileError(path, problem=problem, fix=fix)
        with xr.open_dataset(file, engine=engine, decode_times=False) as data:
            data.load()
    except FileError:
        raise
    except Exception as error:  # HDF5 and xarray raise nearly anything on damaged files of others
        problem = f"cannot be read as netCDF ({reason(error)})"
        raise FileError(path, problem=problem, fix="restore it from a copy or remake it") from error
    for holder in (data, *data.variables.values()):
        arrays = {
            key: value
            for key, value in holder.attrs.items()
            if isinstance(value, np.ndarray | np.generic)
        }
        holder.attrs |= {key: value.tolist() for key, value in arrays.items()}
    return _numpy_text(data)


def _sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _storable(data: xr.Dataset) -> xr.Dataset:
    """A shallow copy of `data` that netCDF can hold without changing a value."""
    whole = _numpy_text(
        data
    ).drop_encoding()  # a packing left over from another file would round the values
    for owner, holder in {
        "data": whole,
        **{f"data[{name!r}]": v for name, v in whole.variables.items()},
    }.items():
        holder.attrs = {
            key: _attribute(f"{owner}.attrs[{key!r}]", value) for key, value in holder.attrs.items()
        }
    for name, variable in whole.variables.items():
        if variable.dtype.kind not in "fiubU":
            fix = "convert it, for example dates to numbers of seconds"
            raise InputError(
                f"data[{name!r}]",
                expected="numbers or text",
                got=f"dtype {variable.dtype}",
                fix=fix,
            )
        if packed := PACKING & variable.attrs.keys():
            fix = "apply it to the values (xarray.decode_cf) or drop it: readers would change the values"
            got = repr(min(packed))
            raise InputError(
                f"data[{name!r}].attrs", expected="values that are not packed", got=got, fix=fix
            )
    return whole


def _attribute(argument: str, value: object) -> object:
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, str | int | float | np.integer | np.floating):
        return value
    array = np.asarray(value) if isinstance(value, list | tuple | np.ndarray) else None
    if array is not None and array.ndim == 1:
        if array.dtype.kind in "iuf":
            return array
        if all(isinstance(entry, str) for entry in value):
            return list(value)
    expected, fix = (
        "text, a number, or a list of either",
        "store it as text, for example by json.dumps",
    )
    raise InputError(argument, expected=expected, got=repr(value)[:80], fix=fix)


def _encoding(data: xr.Dataset) -> dict[str, dict[str, object]]:
    """Checksums of numbers; no compression, which is six times slower for 15 %, nor fill values,
    which hide NaN.
    """
    numbers = {
        name
        for name, v in data.variables.items()
        if v.dtype.kind in "fiub" and v.ndim > 0 and v.size > 0
    }
    return {
        n: {"_FillValue": None} | ({"fletcher32": True} if n in numbers else {})
        for n in data.variables
    }


def _numpy_text(data: xr.Dataset) -> xr.Dataset:
    """Arrays of Python strings as arrays of NumPy's; xarray would write None among them as empty
    text.
    """
    objects = {name: v for name, v in data.variables.items() if v.dtype.kind == "O"}
    text = {
        name: v
        for name, v in objects.items()
        if all(isinstance(each, str) for each in v.values.flat)
    }
    return data.assign({name: (v.dims, v.values.astype(str), v.attrs) for name, v in text.items()})
