"""Datasets and runs as netCDF files, written whole or not at all, whose damage is noticed when they
are read.

A file is plain netCDF-4 that any tool reads, its numbers in chunks with a fletcher32 checksum.
Behind the end of the HDF5 data stands the SHA-256 of the file, which other programs ignore, and
drop when they change the file. It is compared before HDF5 sees a file, because HDF5 can crash on a
damaged one.
"""

import io
from pathlib import Path

import dask
import numpy as np
import xarray as xr

from romkit.core.boundary import FilePath, validated
from romkit.core.errors import DataWarning, FileError, InputError, warn
from romkit.core.files import atomic, existing, expanded, reason
from romkit.data.untrusted import RESTORE, check_seal, checked_groups, engine_of, seal_of

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
        temporary.write_bytes(content + seal_of(content))
    return expanded(path)


@validated
def open_dataset(path: FilePath, *, group: str | None = None) -> xr.Dataset:
    """Read a netCDF file, romkit's or the user's own, into memory; the file is closed again.

    A file by `save_dataset` is verified first. Files that take numbers from other files are
    refused. Times stay numbers, as romkit needs them, whatever their unit.

    Args:
        path: the file.
        group: that holds the data, "/results" say; by default the outermost one, or the only one
            with data.

    Warns:
        DataWarning: a group was chosen, or others are left out.

    Raises:
        FileError: no such file, not netCDF, or truncated or altered since it was written; no such
            group, or several to choose from; or external links, external storage or virtual
            datasets.

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
    except OSError as error:
        problem = f"cannot be read ({reason(error)})"
        raise FileError(path, problem=problem, fix="check its permissions") from error
    return _loaded(path, content, file, group)


def dataset_of_bytes(content: bytes, name: str) -> xr.Dataset:
    """`open_dataset` of the content of a file that is called `name`, an upload say."""
    return _loaded(name, content, io.BytesIO(content), None)


def _loaded(
    name: object, content: bytes, source: Path | io.BytesIO, group: str | None
) -> xr.Dataset:
    engine = engine_of(name, content)
    check_seal(name, content)
    try:
        settings = {}
        if engine == "h5netcdf":
            settings["group"] = _group(name, checked_groups(name, source), group)
        with xr.open_dataset(source, engine=engine, decode_times=False, **settings) as data:
            data.load()
    except FileError:
        raise
    except Exception as error:  # HDF5 and xarray raise nearly anything on damaged files of others
        problem = f"cannot be read as netCDF ({reason(error)})"
        raise FileError(name, problem=problem, fix=RESTORE) from error
    return with_plain_attributes(_numpy_text(data))


def _group(name: object, groups: dict[str, bool], group: str | None) -> str | None:
    """The group of a file to read; None for the outermost one."""
    filled = [path for path, has_data in groups.items() if has_data]
    if group is not None:
        wanted = f"/{group.strip('/')}"
        if wanted not in groups:
            fix = f"choose one of {', '.join(filled)}"
            raise FileError(name, problem=f"has no group {wanted}", fix=fix)
        return wanted
    if "/" in filled or not filled:
        inner = [path for path in filled if path != "/"]
        if inner:
            fix = "romkit.data.open_dataset(path, group=...) reads one"
            warn(f"{name}: groups {', '.join(inner)} are left out; {fix}", DataWarning)
        return None
    if len(filled) > 1:
        fix = f"name one: romkit.data.open_dataset(path, group={filled[0]!r})"
        raise FileError(name, problem=f"holds its data in groups, {', '.join(filled)}", fix=fix)
    warn(f"{name}: the data are those of its only group, {filled[0]}", DataWarning)
    return filled[0]


def with_plain_attributes(data: xr.Dataset) -> xr.Dataset:
    """The dataset with numbers and lists of Python in place of NumPy's among its attributes."""
    for holder in (data, *data.variables.values()):
        for key, value in holder.attrs.items():
            if isinstance(value, np.ndarray | np.generic):
                holder.attrs[key] = value.tolist()
    return data


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
