"""Contexts of trajectories: named parameters, constant or functions of time."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from romkit.core import tensors
from romkit.core.boundary import Finite, unchecked, validated
from romkit.core.errors import InputError
from romkit.core.types import Array, Names
from romkit.numerics.folds import find_interior as find_interior


@validated
class ContextParameter(NamedTuple):
    """One external parameter: its name, unit, training range [low, high] and meaning.

    Example:
        >>> from romkit.data import ContextParameter
        >>> ContextParameter("Re", "1", 30.0, 150.0, "Reynolds number").name
        'Re'
        >>> ContextParameter("Re", "1", 30.0, float("inf"), "Reynolds number")
        Traceback (most recent call last):
            ...
        romkit.core.errors.InputError: high: expected a finite number, got inf; give high=1.5, say
    """

    name: str
    units: str
    low: Finite
    high: Finite
    long_name: str


SAME = 1e-7
"""Difference of two values of a parameter, relative to both its range and itself, that is rounding:
of text in a table, or of single precision.
"""


def merge_rounded(values: Array) -> Array:
    """Return values (C,) of a parameter of which those that differ by rounding alone are equal, so
    that repeats of one context are known as such.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order].astype(np.float64)
    finite = ordered[np.isfinite(ordered)]
    if len(finite) < 2:
        return values
    size = np.minimum(np.abs(ordered[1:]), np.ptp(finite))
    # a value belongs to the one before it, and that to the first of its group
    begins = np.concatenate([[True], ~(np.diff(ordered) <= SAME * size)])
    origin = np.maximum.accumulate(np.where(begins, np.arange(len(values)), 0))
    rounded = np.empty_like(values)
    rounded[order] = values[order][origin]
    return rounded


ROLE = "role"
"""Attribute of a coordinate: what it was declared as."""


@validated
def context_names(data: xr.Dataset) -> Names:
    """Return names of the context of a dataset: coordinates along `trajectory`, or along it and
    `time`.

    Those that are declared (`romkit.data.describe`, and systems, do that); where none is, every one
    that holds numbers.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> romkit.data.context_names(data)
        ('F',)
    """
    coords = _coordinates(data)
    is_any_declared = unchecked(is_declared)(data)
    names = []
    for name, coord in coords.items():
        is_along = "trajectory" in coord.dims and set(coord.dims) <= {"trajectory", "time"}
        # systems give a range to each of their parameters; numbers along the runs that somebody left
        # out are labels
        is_parameter = coord.attrs.get(ROLE, "context") == "context" and (
            ROLE in coord.attrs or "training_range" in coord.attrs
        )
        if is_along and name != "trajectory" and coord.dtype.kind in "iuf":
            names += [str(name)] if is_parameter or not is_any_declared else []
    return tuple(names)


@validated
def is_declared(data: xr.Dataset) -> bool:
    """Tell whether somebody said what the context of a dataset is.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.1)
        >>> romkit.data.context.is_declared(data), romkit.data.context.is_declared(data.drop_vars("F"))
        (True, False)
    """
    return any(
        ROLE in coord.attrs or "training_range" in coord.attrs
        for coord in _coordinates(data).values()
    )


def _coordinates(data: xr.Dataset) -> dict[Hashable, xr.Variable]:
    """Return coordinates by their names, without their own coordinates, which take longer to
    collect.
    """
    return {name: data.variables[name] for name in data.coords}


@validated
def context_matrix(data: xr.Dataset) -> Array:
    """Return the context (trajectories, p) of a dataset, columns in the order of `context_names`.

    (trajectories, times, p) where a parameter varies in time.

    Raises:
        InputError: there are no trajectories.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> romkit.data.context_matrix(data)
        array([[3.14],
               [3.18]])
    """
    check_dims(data, "trajectory")
    return context_columns(data, unchecked(context_names)(data))


def contexts_of(data: xr.Dataset) -> Array:
    """Return contexts (C, p), the means over time of those that move."""
    contexts = unchecked(context_matrix)(data)
    if contexts.ndim == 3:
        return contexts.mean(1)
    return contexts


def context_columns(data: xr.Dataset, names: Sequence[str]) -> Array:
    """Return the context (..., p) by these names; in front trajectories, then times, as far as the
    data have them.
    """
    if not names:
        return np.zeros((data.sizes.get("trajectory", 1), 0))
    for name in names:
        if data[name].chunks:
            raise InputError(
                "data",
                expected=f"context {name} in memory",
                got="chunks of dask",
                fix=f"read it: data = data.assign_coords({name}=data[{name!r}].compute())",
            )
    parameters = [data[name] for name in names]
    if len({column.dims for column in parameters}) > 1:
        parameters = list(xr.broadcast(*parameters))
    columns = []
    for column in parameters:
        column = column.transpose("trajectory", "time", ..., missing_dims="ignore")
        columns.append(column.values.astype(np.float64))
    return np.stack(columns, axis=-1)  # (C, p) or (C, T, p)


@validated
def context_ranges(data: xr.Dataset) -> Array:
    """(2, p) low and high ends of the training range of each parameter, or of its values where none
    is given.

    Raises:
        InputError: no trajectories, or an attribute `training_range` that is no pair of numbers.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> romkit.data.context.context_ranges(data)
        array([[3.133],
               [3.193]])
    """
    check_dims(data, "trajectory")
    names = unchecked(context_names)(data)
    ranges = [_range(data[name]) for name in names]
    return np.array(ranges, dtype=np.float64).reshape(-1, 2).T


def _range(column: xr.DataArray) -> object:
    """Return two ends of a parameter, declared or those of its values.

    Raises:
        InputError: declared as something else than two numbers.
    """
    if "training_range" not in column.attrs:
        return np.nanmin(column), np.nanmax(column)
    ends = column.attrs["training_range"]
    if tensors.finite("data", ends).shape != (2,):
        raise InputError(
            "data",
            expected="a range of two numbers",
            got=str(ends),
            fix=f"mend the attribute training_range of {column.name}",
        )
    return ends


def check_dims(data: xr.Dataset, *dims: str) -> None:
    """Raise unless a dataset has entries along these dimensions."""
    for dim in dims:
        if data.sizes.get(dim, 0) == 0:
            raise InputError(
                "data",
                expected=f"a dimension {dim!r} with entries",
                got=f"dimensions {dict(data.sizes)}",
                fix=f"add it: data.expand_dims({dim!r}), or romkit.data.describe",
            )


def check_has(
    data: xr.Dataset, name: str, *, fix: str = "give data like those of the training"
) -> None:
    """Raise unless a dataset has a variable of this name."""
    if name not in data.data_vars:
        raise InputError(
            "data",
            expected=f"a variable {name!r}",
            got=f"variables {sorted(map(str, data.data_vars))}",
            fix=fix,
        )


def check_number(data: xr.Dataset, fewest: int) -> None:
    """Refuse runs at fewer contexts."""
    names = context_names(data)
    number = len(np.unique(contexts_of(data), axis=0)) if names else 0
    if number < fewest:
        got = f"{number} in {', '.join(names) or 'no parameter'}"
        fix = "name the parameters, context=[...], or give more runs"
        raise InputError("context", expected=f"{fewest} contexts or more", got=got, fix=fix)
