"""Contexts as a user gives them, or as a dataset has them: values at constant parameters and over time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks, tensors
from romkit.core.boundary import Count, Times, unchecked, validated
from romkit.core.clock import evaluate_time
from romkit.core.errors import InputError
from romkit.core.types import Array, ContextFunction, Names
from romkit.data.context import ContextParameter, context_matrix
from romkit.data.conversions import convert_parameters
from romkit.data.spelling import complete_keys
from romkit.data.times import held


@validated
def context_array(names: Sequence[str], values: Mapping[str, object]) -> Array:
    """Return named context values, broadcast against each other, as one float64 array (..., p) in
    the order of `names`.

    Raises:
        InputError: a name is missing or unknown, a value is not a finite number, or shapes do not
            broadcast.

    Example:
        >>> import romkit
        >>> romkit.data.contexts.context_array(["Re", "Ma"], {"Ma": 0.3, "Re": [50.0, 100.0]})
        array([[ 50. ,   0.3],
               [100. ,   0.3]])
    """
    values = complete_keys(values, names)
    _check_given(names, values)
    if not names:
        return np.zeros((0,))
    columns = [_finite(name, values[name]) for name in names]
    try:
        return np.stack(np.broadcast_arrays(*columns), axis=-1)
    except ValueError as error:
        pairs = zip(names, columns, strict=True)
        raise InputError(
            ", ".join(names),
            expected="shapes that broadcast",
            got=", ".join(f"{name}: {column.shape}" for name, column in pairs),
            fix="give scalars or arrays of one length",
        ) from error


def ends_of(context: Sequence[ContextParameter]) -> tuple[Array, Array]:
    """Return low and high ends (p,) of the training ranges."""
    ends = np.array([(parameter.low, parameter.high) for parameter in context], dtype=np.float64)
    low, high = ends.reshape(-1, 2).T
    return low, high


def _check_given(names: Sequence[str], values: Mapping[str, object]) -> None:
    """Raise where a parameter is unknown, or has no value."""
    for name in values:
        if name not in names:
            fix = "this system has no context parameters"
            if names:
                fix = f"the context is {', '.join(names)}"
            raise InputError(name, expected="a context parameter", got="an unknown name", fix=fix)
    missing = [name for name in names if name not in values]
    if missing:
        raise InputError(
            missing[0],
            expected="a value for this context parameter",
            got="none",
            fix=(
                f"add {', '.join(f'{name}=...' for name in missing)}; of a parameter that is called "
                f"like an argument, context={{'{missing[0]}': ...}}"
            ),
        )


@validated
class Contexts(NamedTuple):
    """Contexts of some trajectories, constant or functions of time.

    Attributes:
        initial: (C, p) at the first time.
        over_time: (C, T, p) if it varies in time, else `initial`.
        path: c(t) (C, p), None if it does not vary.
        moving: names of the parameters that vary.
        times: (T,) where it is known, None if it does not vary.

    Example:
        >>> import torch
        >>> from romkit.data import Contexts
        >>> times = torch.linspace(0, 1, 5)
        >>> contexts = Contexts.build(["F"], {"F": lambda t: 3.14 + 0.01 * t}, times)
        >>> contexts.over_time.shape, contexts.moving
        (torch.Size([1, 5, 1]), ('F',))
    """

    initial: Tensor
    over_time: Tensor
    path: ContextFunction | None = None
    moving: Names = ()
    times: Tensor | None = None

    @classmethod
    @validated
    def build(
        cls,
        names: Sequence[str],
        values: Mapping[str, object],
        times: Times,
        units: Sequence[str] = (),
    ) -> "Contexts":
        """Return named values, each a number, an array, or a function of time.

        Labelled values are converted to `units`, one for each name, where these are given.

        Raises:
            InputError: a name is missing or unknown, a value is no number, or has a unit that
                cannot be converted.
        """
        values = complete_keys(values, names)
        if units:
            values = convert_parameters(values, names, units)
        functions = {name: value for name, value in values.items() if varies(value)}
        moving = tuple(functions)

        def path(t: Tensor) -> Tensor:
            values_at_t = dict(values)
            for name in moving:
                values_at_t[name] = evaluate_time(functions[name], t, name)
            return torch.from_numpy(context_rows(names, values_at_t))  # (C, p)

        initial = path(times[0])
        if not moving:
            # maps of a constant context are set up once, not at every evaluation
            return unchecked(cls)(initial, initial)
        rows = [path(t) for t in times]
        _check_number(", ".join(moving), times, rows)
        over_time = torch.stack(rows, dim=-2)  # (C, T, p)
        return unchecked(cls)(initial, over_time, path, moving, times)

    @validated
    def expanded(self, number: Count) -> "Contexts":
        """Repeat a single context for `number` trajectories."""
        if len(self.initial) == number:
            return self
        initial = self.initial.expand(number, -1)
        over_time = self.over_time.expand(number, *self.over_time.shape[1:])
        return self._replace(initial=initial, over_time=over_time)

    @classmethod
    @validated
    def read(cls, data: xr.Dataset) -> "Contexts":
        """Return the context of a dataset; splines go through one that was recorded over time."""
        from scipy.interpolate import CubicSpline  # slow to import, and seldom needed

        values = torch.from_numpy(unchecked(context_matrix)(data))
        if values.ndim == 2:
            return unchecked(cls)(values, values)
        times = tensors.times("time", data["time"].values)
        values = _checked_course(values, times)
        # smooth, since the manifold moves with its rate
        spline = CubicSpline(times.numpy(), values.numpy(), axis=1)

        def path(t: Tensor) -> Tensor:
            return torch.from_numpy(spline(float(t)))

        return unchecked(cls)(values[:, 0], values, path, times=times)


def _check_number(argument: str, times: Tensor, rows: Sequence[Tensor]) -> None:
    """Raise where contexts (C, p) are of another number of trajectories than at first."""
    number = len(rows[0])
    for t, c in zip(times, rows, strict=True):
        if len(c) != number:
            raise InputError(
                argument,
                expected="one number of trajectories",
                got=f"{number} at first, {len(c)} at t = {t:g}",
                fix="give as many values at all times",
            )


def _checked_course(values: Tensor, times: Tensor) -> Tensor:
    """Return contexts (C, T, p), the last known one where shorter trajectories have ended.

    Raises:
        InputError: a single time, or a context that is missing while a trajectory lasts.
    """
    if len(times) < 2:
        raise InputError(
            "data", expected="two times or more", got="one", fix="give a constant context"
        )
    values = held(values)
    if not bool(values.isfinite().all()):
        raise InputError(
            "data",
            expected="a context that is known while a trajectory lasts",
            got="gaps",
            fix="record it at these times, or drop the trajectories",
        )
    return values


def context_rows(names: Sequence[str], values: Mapping[str, object]) -> Array:
    """Return named context values as (trajectories, p), of which there is one at least."""
    rows = np.atleast_2d(unchecked(context_array)(names, values))
    if rows.ndim != 2:
        raise InputError(
            ", ".join(names),
            expected="a number, or a list of numbers",
            got=f"shape {rows.shape[:-1]}",
            fix="give one value for each trajectory",
        )
    return rows


def varies(value: object) -> TypeGuard[Callable[[Any], object]]:
    """Tell whether this is a context that is a function of time."""
    return callable(value) and not isinstance(value, type)


def one_context(context: object, names: Sequence[str]) -> Tensor:
    """Return a context (..., p) that came without names."""
    c = tensors.finite("context", context)
    meaning = ", ".join(names)
    checks.last_axis("context", c.shape, len(names), f"({meaning})")
    return c


def bound_context(
    names: Sequence[str], context: object, named: Mapping[str, object] | None = None
) -> Tensor:
    """Return a context (..., p) that came by names, or without them."""
    if named is None:  # a graph of torch cannot tell that a mapping of another kind is empty
        named = {}
    if context is None:
        return torch.from_numpy(context_array(names, named))
    only_one(context, named)
    return one_context(context, names)


def only_one(context: object, named: Mapping[str, object]) -> None:
    """Raise where a context is given twice, as such and by names."""
    if context is not None and named:
        raise InputError(
            "context",
            expected="one context",
            got=f"one and {', '.join(named)}",
            fix="drop one of them",
        )


def _finite(name: str, value: object) -> Array:
    # by a list: in derivatives, tensors have no memory
    array = np.array(tensors.finite(name, value).tolist(), dtype=np.float64)
    if array.size == 0:
        raise InputError(name, expected="a number or several", got="none", fix="give at least one")
    return array
