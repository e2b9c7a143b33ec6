"""Datasets and runs as netCDF files, written whole or not at all, whose damage is noticed when they
are read.

A file is plain netCDF-4 that any tool reads, its numbers in chunks with a fletcher32 checksum.
Behind the end of the HDF5 data stands the SHA-256 of the file, which other programs ignore, and
drop when they change the file. It is compared before HDF5 sees a file, because HDF5 can crash on a
damaged one.
"""

import io
import json
import sys
from collections.abc import Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from romkit.core.boundary import FilePath, validated
from romkit.core.errors import DataWarning, FileError, InputError, warn
from romkit.core.files import atomic, existing, expanded, reason
from romkit.core.types import Array
from romkit.data.untrusted import (
    RESTORE,
    SEAL,
    check_declared,
    check_seal,
    checked_groups,
    compute_seal,
    storage_engine,
)

NOT_NETCDF = (".csv", ".zarr", ".safetensors")
"""Endings by which romkit reads files as something else."""

SEPARATORS: dict[str, str | int | None] = {"/": "\u2215", " ": "_"}
"""Characters that stand in names for a slash, which separates groups, as in `speed (m/s)`, and for a blank, which
separates names of coordinates.
"""

OWN_NAMES = "own_names"
"""Attribute that has names with such characters as they were."""

WITHOUT_NAMES: dict[str, Any] = {"phony_dims": "access"}
"""Setting of h5netcdf by which it reads arrays whose axes have no names."""

WITHOUT_NAME = "phony_dim_"
"""Beginning of the names that h5netcdf gives to axes without a name."""

DEDALUS = {"/scales", "/tasks"}
"""Groups of the files of Dedalus."""

OF_DEDALUS = (
    "with h5py.File(path) as file: u, t = file['tasks/u'][:], file['scales/sim_time'][:]; then "
    "xarray.Dataset({'u': (('t', 'x', 'y'), u)}, {'t': t}), or romkit.data.from_arrays"
)

OF_GROUPS = (
    "with h5py.File(path) as file: romkit.data.from_arrays([run['u'][:] for run in file.values()], "
    "file['run_0/t'][:], context={'Re': [run.attrs['Re'] for run in file.values()]})"
)

OF_AXES = "romkit.open(path) names them where an array of times is as long as the first axes"

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
    if Path(path).suffix.lower() in NOT_NETCDF:
        raise InputError(
            "path",
            expected="the name of a netCDF file",
            got=path,
            fix="let it end in .nc; tables are written by pandas, romkit.data.fields(data).to_dataframe()",
        )
    storable = _storable(data.compute())
    with _lock_locally(), atomic(path) as temporary:
        try:
            # in memory first: HDF5 leaves a file that it can neither write nor close when the disk
            # is full
            content = bytes(storable.to_netcdf(engine="h5netcdf", encoding=_encoding(storable)))
        except (TypeError, ValueError, NotImplementedError) as error:
            raise InputError(
                "data",
                expected="what netCDF can hold",
                got=f"an error: {reason(error)}",
                fix="convert or drop it",
            ) from error
        temporary.write_bytes(content + compute_seal(content))
    return expanded(path)


def _lock_locally() -> AbstractContextManager[object]:
    """Keep xarray from a lock of a dask cluster, which has none for a file in memory."""
    if "dask" not in sys.modules:
        return nullcontext()
    import dask  # an extra

    return dask.config.set(scheduler="synchronous")


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
        raise FileError(
            path, problem=f"cannot be read ({reason(error)})", fix="check its permissions"
        ) from error
    return _loaded(path, content, file, group)


def decode_dataset(content: bytes, name: str) -> xr.Dataset:
    """Read the content of a file that is called `name`, an upload say, as `open_dataset` does."""
    return _loaded(name, content, io.BytesIO(content), None)


def _loaded(
    name: object, content: bytes, source: Path | io.BytesIO, group: str | None
) -> xr.Dataset:
    """Read a netCDF file, or its bytes as a stream, into memory."""
    engine = storage_engine(name, content)
    check_seal(name, content)
    try:
        settings: dict[str, Any] = {}
        if engine == "h5netcdf":
            groups = checked_groups(name, source)
            settings = {"group": group_of(name, groups, group)} | WITHOUT_NAMES
        if SEAL in content and engine == "h5netcdf":
            data = _sealed_dataset(name, source, len(content))
        else:
            with xr.open_dataset(source, engine=engine, decode_times=False, **settings) as data:
                check_declared(name, data.nbytes, len(content))
                if any(str(dim).startswith(WITHOUT_NAME) for dim in data.dims):
                    problem = "has axes without names"
                    raise FileError(name, problem=problem, fix=OF_AXES)
                data.load()
    except FileError:
        raise
    except Exception as error:  # HDF5 and xarray raise nearly anything on damaged files of others
        raise FileError(
            name, problem=f"cannot be read as netCDF ({reason(error)})", fix=RESTORE
        ) from error
    return simplify_attributes(_numpy_text(data))


def _sealed_dataset(name: object, source: Path | io.BytesIO, size: int) -> xr.Dataset:
    """Return the dataset of a file by `save_dataset`, in half the time that xarray takes alone."""
    import h5netcdf

    from romkit.data.hdf5 import Remembered

    with (
        Remembered(source, "r") as file,
        h5netcdf.File(file, "r", decode_vlen_strings=True) as root,
        xr.open_dataset(xr.backends.H5NetCDFStore(root), decode_times=False) as data,
    ):
        # a checksum is no signature
        check_declared(name, data.nbytes, size)
        return data.load()


def group_of(name: object, groups: dict[str, bool], group: str | None) -> str | None:
    """Return the group of a file to read; None for the outermost one."""
    filled = [path for path, has_data in groups.items() if has_data]
    if group is not None:
        path = f"/{group.strip('/')}"
        if path not in groups:
            fix = f"choose one of {', '.join(filled)}"
            raise FileError(name, problem=f"has no group {path}", fix=fix)
        return path
    inner = [path for path in filled if path != "/"]
    if not inner:
        return None
    if "/" in filled:
        fix = "romkit.data.open_dataset(path, group=...) reads one"
        warn(f"{name}: groups {', '.join(inner)} are left out; {fix}", DataWarning)
        return None
    if len(inner) > 1:
        fix = f"name one: romkit.data.open_dataset(path, group={inner[0]!r}); where each is a run, {OF_GROUPS}"
        if set(inner) >= DEDALUS:
            fix = OF_DEDALUS
        raise FileError(name, problem=f"holds its data in groups, {', '.join(inner)}", fix=fix)
    warn(f"{name}: the data are those of its only group, {inner[0]}", DataWarning)
    return inner[0]


def simplify_attributes(data: xr.Dataset) -> xr.Dataset:
    """Return the dataset with numbers and lists of Python in place of NumPy's among its attributes,
    and its own names.
    """
    for attributes in (data.attrs, *(values.attrs for values in data.variables.values())):
        for key, value in attributes.items():
            if isinstance(value, Array | np.generic):
                attributes[key] = value.tolist()
    if OWN_NAMES not in data.attrs:
        return data
    names = json.loads(data.attrs.pop(OWN_NAMES))
    # other programs may have dropped some
    present = {*data.variables, *data.dims}
    return data.rename({name: original for name, original in names.items() if name in present})


def _storable(data: xr.Dataset) -> xr.Dataset:
    """Return a shallow copy of `data` that netCDF can hold without changing a value."""
    # a packing left over from another file would round the values
    storable = _rename_unstorable(_numpy_text(data).drop_encoding())
    storable.attrs = _plain_attributes("data", storable.attrs)
    for name, variable in storable.variables.items():
        variable.attrs = _plain_attributes(f"data[{name!r}]", variable.attrs)
        _check_storable(f"data[{name!r}]", variable)
    return storable


def _rename_unstorable(data: xr.Dataset) -> xr.Dataset:
    """Return data whose names netCDF takes, with their own ones in an attribute."""
    names = {str(name): name for name in (*data.variables, *data.dims)}
    stored: dict[Hashable, str] = {}
    for text, name in names.items():
        changed = text.translate(str.maketrans(SEPARATORS))
        if changed == text:
            continue
        while changed in names or changed in stored.values():
            changed += "_"
        stored[name] = changed
    if not stored:
        return data
    originals = {changed: name for name, changed in stored.items()}
    return data.rename(stored).assign_attrs({OWN_NAMES: json.dumps(originals)})


def _check_storable(argument: str, variable: xr.Variable) -> None:
    """Raise where netCDF has no type for a variable, or readers would change its values."""
    if variable.dtype.kind not in "fiubU":
        raise InputError(
            argument,
            expected="numbers or text",
            got=f"dtype {variable.dtype}",
            fix="convert it, for example dates to numbers of seconds",
        )
    packing = PACKING & variable.attrs.keys()
    if packing:
        raise InputError(
            f"{argument}.attrs",
            expected="values that are not packed",
            got=repr(min(packing)),
            fix="apply it to the values (xarray.decode_cf) or drop it: readers would change the values",
        )


def _plain_attributes(owner: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    plain = {}
    for key, value in attributes.items():
        plain[key] = _attribute(f"{owner}.attrs[{key!r}]", value)
    return plain


def _attribute(argument: str, value: object) -> object:
    """Return an attribute that netCDF can hold.

    Raises:
        InputError: it cannot.
    """
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, str | int | float | np.integer | np.floating):
        return value
    if isinstance(value, list | tuple | Array):
        array = np.asarray(value)
        if array.ndim == 1 and array.dtype.kind in "iuf":
            return array
        if array.ndim == 1 and all(isinstance(entry, str) for entry in value):
            return list(value)
    raise InputError(
        argument,
        expected="text, a number, or a list of either",
        got=repr(value)[:80],
        fix="store it as text, for example by json.dumps",
    )


def _encoding(data: xr.Dataset) -> dict[Hashable, dict[str, object]]:
    """Return the checksums of numbers; no compression, which is six times slower for 15 %, nor fill
    values, which hide NaN.
    """
    encoding: dict[Hashable, dict[str, object]] = {}
    for name, variable in data.variables.items():
        encoding[name] = {"_FillValue": None}
        # HDF5 checks chunks, and what is empty or a single number has none
        if variable.dtype.kind in "fiub" and variable.ndim > 0 and variable.size > 0:
            encoding[name]["fletcher32"] = True
    return encoding


def _numpy_text(data: xr.Dataset) -> xr.Dataset:
    """Return arrays of Python strings as arrays of NumPy's; xarray would write None among them as
    empty text.
    """
    text = {}
    for name, variable in data.variables.items():
        if variable.dtype.kind == "O" and {*map(type, variable.values.flat)} <= {str}:
            text[name] = (variable.dims, variable.values.astype(str), variable.attrs)
    return data.assign(text)
