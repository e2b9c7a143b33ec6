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


def with_named_axes(name: object, data: xr.Dataset, fix: str = WITH_NAMES) -> xr.Dataset:
    """Return data of a file with names for the axes that have none.

    An array of increasing numbers called t, time or times is the time of arrays that are as long
    along their first axis. Another array of one axis is a coordinate of its own. Other axes are
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
        dims = [str(dim) for dim in variable.dims]
        if dims and all(dim.startswith(WITHOUT_NAME) for dim in dims):
            nameless[str(key)] = variable
    if not nameless:
        return data
    time = _clock(name, nameless, fix)
    names = _names_of_axes(nameless, time)
    _warn_of_squares(name, nameless, time)
    variables = {}
    for key, variable in data.variables.items():
        if key == time:
            continue
        variables[key] = (names.get(str(key), variable.dims), variable.data, variable.attrs)
    dim = _name_of_time(time)
    clock = (dim, nameless[time].values, nameless[time].attrs)
    named = xr.Dataset(variables, {dim: clock}, data.attrs)
    named.set_close(data.close)
    return named


def _name_of_time(clock: str) -> str:
    return clock if clock in TIMES else TIMES[0]


def _clock(name: object, variables: Mapping[str, xr.Variable], fix: str) -> str:
    """Return the array that holds the times.

    Raises:
        FileError: there is none, or several.
    """
    clocks = []
    for key in CLOCKS:
        if key in variables and _is_clock(variables, key):
            clocks.append(key)
    if len(clocks) == 1:
        return clocks[0]
    problem = "has no names of axes, and no increasing t, time or times as long as the first axes"
    if clocks:
        problem = f"has no names of axes, and several times, {', '.join(clocks)}"
    raise FileError(name, problem=problem, fix=fix)


def _is_clock(variables: Mapping[str, xr.Variable], key: str) -> bool:
    """Tell whether an array holds increasing numbers, as many as another is long along its first
    axis.
    """
    clock = variables[key]
    if clock.ndim != 1 or clock.dtype.kind not in "iuf" or clock.size < 2:
        return False
    lengths = [variable.shape[0] for other, variable in variables.items() if other != key]
    return clock.size in lengths and bool((np.diff(clock.values) > 0).all())


def _warn_of_squares(name: object, variables: Mapping[str, xr.Variable], time: str) -> None:
    """Warn of arrays of one axis that may lie along the time, or along another axis as long."""
    length = variables[time].size
    is_square = any(length in variable.shape[1:] for variable in variables.values())
    if not is_square:
        return
    for key, variable in variables.items():
        if variable.ndim == 1 and variable.size == length and key != time:
            warn(
                f"{name}: {key} is taken to lie along {time}, though another axis has {length} entries, "
                f"too; if it is a coordinate in space, {WITH_NAMES}",
                DataWarning,
            )


def _names_of_axes(
    variables: Mapping[str, xr.Variable], time: str
) -> dict[str, tuple[Hashable, ...]]:
    """Return names of the axes of each array but that of the times."""
    length = variables[time].size
    lengths: dict[str, int] = {}
    names: dict[str, tuple[Hashable, ...]] = {}
    for key, variable in variables.items():
        if key == time:
            continue
        has_time = variable.shape[0] == length
        if variable.ndim == 1 and not has_time:
            names[key] = (key,)
            continue
        dims = []
        for place, size in enumerate(variable.shape):
            dim = f"axis_{place}"
            if place == 0 and has_time:
                dim = _name_of_time(time)
            elif lengths.setdefault(dim, size) != size:
                dim = f"{key}_{dim}"
            dims.append(dim)
        names[key] = tuple(dims)
    return names
