"""Datasets and rollout runs as netCDF files that say so when they are damaged.

A file is plain netCDF-4 (HDF5), every numeric array with a fletcher32 checksum, that any netCDF tool reads. Behind
its end stand 80 bytes: the SHA-256 of everything before. HDF5 ignores them, and drops them when another program
changes the file. `open_dataset` compares them before HDF5 sees the file, so neither names, text nor metadata can be
altered unnoticed. Arrays are not compressed: a dataset of the pendulum would be 16 % smaller and take ten times longer
to save.
"""

import contextlib
import gc
import hashlib
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import xarray as xr

from romkit.core.boundary import FilePath, validated
from romkit.core.errors import FileError, InputError
from romkit.core.files import atomic, existing, expanded, reason, reserve

_SEAL = b"\nromkit sha256 "
_SEAL_BYTES = len(_SEAL) + 65
_ENGINES = {b"\x89HDF": "h5netcdf", b"CDF\x01": "scipy", b"CDF\x02": "scipy"}
_CHUNK_BYTES = 2**20
_PACKING = ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned")


@validated
def save_dataset(data: xr.Dataset, path: FilePath) -> Path:
    """Write a dataset to a netCDF file: all of it, or nothing at all.

    Args:
        data: a dataset in romkit's schema, a rollout run, or any other Dataset of numbers and text. Attributes are
            text, numbers, or lists of either; what `data` was read from (its xarray encoding) is ignored.
        path: the file; an earlier one is replaced once the new one is complete.

    Returns:
        The path. `open_dataset` gives back the same values, bit by bit, with dtypes, coordinates and their order, and
        attributes, in plain Python types; netCDF makes a list of one attribute value that value, and True 1.

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
    whole = prepared(data)
    encoding = {name: _encoding(variable) for name, variable in whole.variables.items()}
    with sealed(path, whole.nbytes + _CHUNK_BYTES * len(encoding)) as temporary:
        whole.to_netcdf(temporary, engine="h5netcdf", encoding=encoding)
    return expanded(path)


@validated
def open_dataset(path: FilePath) -> xr.Dataset:
    """Read a netCDF file, romkit's or the user's own, into memory; the file is closed again.

    A file by `save_dataset` is verified first. Times stay numbers, as romkit needs them, whatever their unit.

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
    with readable(path):
        engine = _engine(file)
        check_seal(file)
        with xr.open_dataset(file, engine=engine, decode_times=False) as data:
            data.load()
    return plain(data)


@contextlib.contextmanager
def sealed(path: str | os.PathLike, size: int) -> Iterator[Path]:
    """A temporary file of up to about `size` bytes that becomes `path`, with the seal behind it, after the block.

    Raises:
        InputError: the block writes what netCDF cannot hold.
        FileError: the file cannot be written.
    """
    with atomic(path) as temporary:
        reserve(temporary, size)
        try:
            yield temporary
        except (TypeError, ValueError, NotImplementedError) as error:
            got = f"an error: {reason(error)}"
            raise InputError("data", expected="what netCDF can hold", got=got, fix="convert or drop it") from error
        seal = _SEAL + _sha256(temporary, temporary.stat().st_size) + b"\n"
        with temporary.open("ab") as file:
            file.write(seal)


@contextlib.contextmanager
def readable(path: str | os.PathLike) -> Iterator[None]:
    """Whatever goes wrong in the block while a file is read is a `FileError`."""
    try:
        yield
    except FileError:
        raise
    except Exception as error:  # a damaged file of somebody else's can make HDF5 and xarray raise nearly anything
        _let_go(error)
        problem = f"cannot be read as netCDF ({reason(error)})"
        raise FileError(path, problem=problem, fix="restore it from a copy or remake it") from error


def _let_go(error: Exception) -> None:
    """Let the destructors of what was being read run now, in silence: they fail too, and say so on stderr."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        traceback.clear_frames(error.__traceback__)
        gc.collect()
    finally:
        sys.unraisablehook = hook


def prepared(data: xr.Dataset) -> xr.Dataset:
    """A shallow copy of `data` that netCDF can hold without changing a value."""
    if not isinstance(data, xr.Dataset):
        got = type(data).__name__
        raise InputError("data", expected="an xarray.Dataset", got=got, fix="call save_dataset(data, path)")
    # Packing or a dtype left over from another file would round the values.
    whole = _numpy_text(data).drop_encoding()
    whole.attrs = {key: _attribute(f"data.attrs[{key!r}]", value) for key, value in data.attrs.items()}
    for name, variable in whole.variables.items():
        _check_variable(name, variable)
        owner = f"data[{name!r}].attrs"
        variable.attrs = {key: _attribute(f"{owner}[{key!r}]", value) for key, value in variable.attrs.items()}
    return whole


def _check_variable(name: str, variable: xr.Variable) -> None:
    if variable.dtype.kind not in "fiubU":
        fix = "convert it, for example dates to numbers of seconds"
        raise InputError(f"data[{name!r}]", expected="numbers or text", got=f"dtype {variable.dtype}", fix=fix)
    for key in _PACKING:
        if key in variable.attrs:
            fix = "apply it to the values (xarray.decode_cf) or drop it: readers would change the values"
            raise InputError(f"data[{name!r}].attrs", expected="values that are not packed", got=repr(key), fix=fix)


def _is_text(variable: xr.Variable) -> bool:
    """Whether this is an array of Python strings; xarray would write None among them as ""."""
    return variable.dtype.kind == "O" and all(isinstance(text, str) for text in variable.values.flat)


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
    expected, fix = "text, a number, or a list of either", "store it as text, for example by json.dumps"
    raise InputError(argument, expected=expected, got=repr(value)[:80], fix=fix)


def _encoding(variable: xr.Variable) -> dict[str, object]:
    """No fill value, which would make missing values of them; checksums where HDF5 has them: numbers, in chunks."""
    encoding: dict[str, object] = {"_FillValue": None}
    if variable.dtype.kind in "fiub" and variable.ndim > 0 and variable.size > 0:
        encoding |= {"fletcher32": True, "chunksizes": _chunks(variable.shape, variable.dtype.itemsize)}
    return encoding


def _chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Whole last axes up to about `_CHUNK_BYTES`: contiguous on disk, which is three times faster than HDF5's guess."""
    room, chunks = _CHUNK_BYTES // itemsize, []
    for size in reversed(shape):
        chunks.append(min(size, max(1, room)))
        room //= size
    return tuple(reversed(chunks))


def _sha256(file: Path, size: int) -> bytes:
    """Hexadecimal digest of the first `size` bytes of a file."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while size > 0 and (block := stream.read(min(size, _CHUNK_BYTES))):
            digest.update(block)
            size -= len(block)
    return digest.hexdigest().encode()


def _engine(file: Path) -> str:
    with file.open("rb") as stream:
        magic = stream.read(4)
    if magic not in _ENGINES:
        problem = "is empty" if not magic else "is not a netCDF file, or its first bytes are damaged"
        raise FileError(file, problem=problem, fix="give a file by romkit.data.save_dataset or xarray's to_netcdf")
    return _ENGINES[magic]


def check_seal(file: Path, *, needed: bool = False) -> None:
    """Raise if the seal of a file does not fit, or is absent where it is `needed`: files of others have none."""
    content = max(file.stat().st_size - _SEAL_BYTES, 0)
    with file.open("rb") as stream:
        stream.seek(content)
        seal = stream.read()
    fits = seal[len(_SEAL) :].strip() == _sha256(file, content) if seal.startswith(_SEAL) else not needed
    if not fits:
        problem, fix = "has changed since romkit wrote it (checksum)", "restore it from a copy or remake it"
        raise FileError(file, problem=problem, fix=fix)


def plain(data: xr.Dataset) -> xr.Dataset:
    """Attributes in plain Python types, and text as numpy text in every version of xarray."""
    for holder in (data, *data.variables.values()):
        holder.attrs = {
            key: value.tolist() if isinstance(value, np.ndarray | np.generic) else value
            for key, value in holder.attrs.items()
        }
    return _numpy_text(data)


def _numpy_text(data: xr.Dataset) -> xr.Dataset:
    """Arrays of Python strings as arrays of numpy's."""
    text = {name: variable for name, variable in data.variables.items() if _is_text(variable)}
    return data.assign({name: (v.dims, v.values.astype(str), v.attrs) for name, v in text.items()})
