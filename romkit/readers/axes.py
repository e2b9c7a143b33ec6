"""Axes of HDF5 files that are not netCDF, whose arrays have no names of dimensions."""

from collections.abc import Hashable, Mapping

import numpy as np
import xarray as xr

from romkit.core.errors import DataWarning, FileError, warn
from romkit.data.names import TIMES
from romkit.data.storage import WITHOUT_NAME

CLOCKS = (*TIMES, "times", "tout")
"""Names of the array that holds the times; `tout` is that of Simulink."""

WITH_NAMES = (
    "name its axes: with h5py.File(path) as file: data = xarray.Dataset({'u': (('time', 'x'), "
    "file['u'][:])}, {'time': file['clock'][:]})"
)


def name_axes(name: object, data: xr.Dataset, fix: str = WITH_NAMES) -> xr.Dataset:
    """Return data of a file with names for the axes that have none.

    An array of increasing numbers called t, time or times is the time of arrays that are as long
    along their first axis. Another array of one axis is a coordinate of its own, and that of the one
    axis of its length where its numbers rise or fall and no other has the length. Other axes are
    called axis_1, axis_2 and so on by their place, and with the name of the array in front where
    another is of another length.

    Args:
        name: of the file.
        data: as read by h5netcdf with `phony_dims`.
        fix: the lines that name the axes of such a file.

    Raises:
        FileError: nothing is called time, or it is not the first axis of another array.
    """
    nameless = {}
    for key, variable in data.variables.items():
        if variable.dims and all(str(dim).startswith(WITHOUT_NAME) for dim in variable.dims):
            nameless[str(key)] = variable
    if not nameless:
        return data
    time = _clock(name, nameless, fix)
    clock = nameless.pop(time)
    dim = time if time in TIMES else TIMES[0]
    _warn_squares(name, nameless, time, clock.size)
    variables: dict[Hashable, xr.Variable] = {}
    places = _places(nameless, clock.size)
    lengths: dict[str, int] = {}
    for key, variable in data.variables.items():
        dims = variable.dims
        if key in nameless:
            dims = _axis_names(str(key), variable, dim, clock.size, places, lengths)
        if key != time:
            variables[key] = xr.Variable(dims, variable.data, variable.attrs)
    coords = {dim: (dim, clock.values, clock.attrs)}
    named = xr.Dataset(variables, coords, data.attrs)
    named.set_close(data.close)
    return named


def _clock(name: object, variables: Mapping[str, xr.Variable], fix: str) -> str:
    """Return the array that holds the times: increasing numbers, as many as another is long along its
    first axis.

    Raises:
        FileError: there is none, or several.
    """
    clocks = []
    for key in variables.keys() & {*CLOCKS}:
        clock = variables[key]
        lengths = [variable.shape[0] for label, variable in variables.items() if label != key]
        is_clock = clock.ndim == 1 and clock.dtype.kind in "iuf" and 2 <= clock.size in lengths
        if is_clock and (np.diff(clock.values) > 0).all():
            clocks.append(key)
    if len(clocks) == 1:
        return clocks[0]
    problem = "has no names of axes, and no increasing t, time or times as long as the first axes"
    if clocks:
        problem = f"has no names of axes, and several times, {', '.join(sorted(clocks))}"
    raise FileError(name, problem=problem, fix=fix)


def _warn_squares(
    name: object, variables: Mapping[str, xr.Variable], time: str, length: int
) -> None:
    """Warn of arrays of one axis that may lie along the time, or along another axis as long."""
    if not any(length in variable.shape[1:] for variable in variables.values()):
        return
    for key, variable in variables.items():
        if variable.shape == (length,):
            warn(
                f"{name}: {key} is taken to lie along {time}, though another axis has {length} entries, "
                f"too; if it is a coordinate in space, {WITH_NAMES}",
                DataWarning,
            )


def _places(variables: Mapping[str, xr.Variable], length: int) -> dict[int, str]:
    """Return the coordinate of axes by their length, but for that of the time: rising or falling
    numbers, the only array of one axis that has this length.
    """
    of_length: dict[int, list[str]] = {}
    for key, variable in variables.items():
        if variable.ndim == 1 and variable.size not in (1, length):
            of_length.setdefault(variable.size, []).append(key)
    places = {}
    for size, keys in of_length.items():
        numbers = variables[keys[0]]
        if len(keys) > 1 or numbers.dtype.kind not in "iuf":
            continue
        steps = np.diff(numbers.values)
        if (steps > 0).all() or (steps < 0).all():
            places[size] = keys[0]
    return places


def _axis_names(
    key: str,
    variable: xr.Variable,
    time: str,
    length: int,
    places: Mapping[int, str],
    lengths: dict[str, int],
) -> tuple[Hashable, ...]:
    """Return names of the axes of an array, and keep the lengths of those that have no own name."""
    has_time = variable.shape[0] == length
    if variable.ndim == 1 and not has_time:
        return (key,)
    dims = []
    for place, size in enumerate(variable.shape):
        dim = f"axis_{place}"
        if place == 0 and has_time:
            dim = time
        elif size in places and variable.shape.count(size) == 1:
            dim = places[size]
        elif lengths.setdefault(dim, size) != size:
            dim = f"{key}_{dim}"
        dims.append(dim)
    return tuple(dims)
