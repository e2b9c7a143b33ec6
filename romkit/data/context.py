"""Contexts: named external parameters of a system, and how names become the last axis of an array."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from romkit.errors import InputError


class ContextParameter(NamedTuple):
    """One external parameter: its name, unit, training range [low, high] and meaning."""

    name: str
    units: str
    low: float
    high: float
    long_name: str


def context_array(names: Sequence[str], values: Mapping[str, object]) -> np.ndarray:
    """Named context values, broadcast against each other, as one float64 array (..., p) in the order of `names`.

    Raises:
        InputError: a name is missing or unknown, a value is not a finite number, or shapes do not broadcast.
    """
    for name in values:
        if name not in names:
            fix = f"the context is {', '.join(names)}" if names else "this system has no context parameters"
            raise InputError(name, expected="a context parameter", got="an unknown name", fix=fix)
    for name in names:
        if name not in values:
            missing = ", ".join(f"{n}=..." for n in names if n not in values)
            raise InputError(name, expected="a value for this context parameter", got="none", fix=f"add {missing}")
    arrays = [_finite(name, values[name]) for name in names]
    try:
        return np.stack(np.broadcast_arrays(*arrays), axis=-1) if arrays else np.zeros((0,))
    except ValueError as error:
        shapes = ", ".join(f"{n}: {a.shape}" for n, a in zip(names, arrays, strict=True))
        raise InputError(
            ", ".join(names), expected="shapes that broadcast", got=shapes, fix="give scalars or arrays of one length"
        ) from error


def context_path(names: Sequence[str], values: Mapping[str, object]) -> Callable[[float], np.ndarray]:
    """c(t) for named context values of which some are functions of time: t to an array (..., p), as `context_array`."""

    def at(t: float) -> np.ndarray:
        return context_array(names, {name: v(t) if callable(v) else v for name, v in values.items()})

    return at


def context_names(data: xr.Dataset) -> tuple[str, ...]:
    """Names of the context of a dataset: its floating-point coordinates along `trajectory`, or along it and `time`."""
    return tuple(
        str(name)
        for name, coord in data.coords.items()
        if coord.dims in (("trajectory",), ("trajectory", "time"))
        and name != "trajectory"
        and np.issubdtype(coord.dtype, np.floating)
    )


def _finite(name: str, value: object) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(name, expected="a number or an array of numbers", got=repr(value), fix="check it") from error
    if not np.isfinite(array).all():
        raise InputError(name, expected="finite numbers", got=repr(value), fix="remove NaN and infinities")
    return array
