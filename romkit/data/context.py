"""Context and inputs of trajectories, their times, and the stretches between missing samples."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks, tensors
from romkit.core.boundary import Count, Finite, Mask, Times, validated
from romkit.core.clock import at_time
from romkit.core.errors import InputError
from romkit.core.types import ContextFunction

T = TypeVar("T", xr.Dataset, xr.DataArray)

EVEN = 1e-3
"""Largest deviation of a step from the mean one, relative to it, of times that count as even: some
were rounded.
"""


@validated
def even_step(times: np.ndarray) -> float | None:
    """The step of evenly spaced times (T,); None where they are not.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> romkit.data.even_step(np.array([0.0, 0.5, 1.0]))
        0.5
        >>> romkit.data.even_step(np.array([0.0, 0.5, 2.0])) is None
        True
    """
    steps = np.diff(np.atleast_1d(times).astype(np.float64))
    if len(steps) == 0:
        return None
    mean = float(steps.mean())
    return mean if mean > 0 and np.abs(steps - mean).max() <= EVEN * mean else None


@validated
def pieces(observed: Mask) -> list[slice]:
    """Stretches of a trajectory (T,) without a missing sample.

    Raises:
        InputError: more or fewer axes than one.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> romkit.data.pieces(np.array([True, True, False, True, True, True]))
        [slice(0, 2, None), slice(3, 6, None)]
    """
    observed = np.asarray(observed)
    if observed.ndim != 1:
        got, fix = f"shape {observed.shape}", "give those of one trajectory"
        raise InputError("observed", expected="shape (times,)", got=got, fix=fix)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], observed, [False]]).astype(np.int8)))
    return [
        slice(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True)
    ]


def held(values: Tensor) -> Tensor:
    """(C, T, k) with the last finite value of each trajectory in place of the NaN behind it."""
    finite = values.isfinite().all(-1)
    last = (finite * torch.arange(1, finite.shape[1] + 1)).amax(1, keepdim=True).clamp(min=1) - 1
    index = torch.minimum(torch.arange(finite.shape[1]).expand_as(finite), last)
    return values.gather(1, index.unsqueeze(-1).expand_as(values))


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


@validated
def context_array(names: Sequence[str], values: Mapping[str, object]) -> np.ndarray:
    """Named context values, broadcast against each other, as one float64 array (..., p) in the
    order of `names`.

    Raises:
        InputError: a name is missing or unknown, a value is not a finite number, or shapes do not
            broadcast.

    Example:
        >>> import romkit
        >>> romkit.data.context_array(["Re", "Ma"], {"Ma": 0.3, "Re": [50.0, 100.0]})
        array([[ 50. ,   0.3],
               [100. ,   0.3]])
    """
    for name in values:
        if name not in names:
            fix = (
                f"the context is {', '.join(names)}"
                if names
                else "this system has no context parameters"
            )
            raise InputError(name, expected="a context parameter", got="an unknown name", fix=fix)
    if missing := [name for name in names if name not in values]:
        fix = f"add {', '.join(f'{name}=...' for name in missing)}"
        raise InputError(
            missing[0], expected="a value for this context parameter", got="none", fix=fix
        )
    columns = [_finite(name, values[name]) for name in names]
    try:
        return np.stack(np.broadcast_arrays(*columns), axis=-1) if columns else np.zeros((0,))
    except ValueError as error:
        got = ", ".join(
            f"{name}: {column.shape}" for name, column in zip(names, columns, strict=True)
        )
        fix = "give scalars or arrays of one length"
        raise InputError(
            ", ".join(names), expected="shapes that broadcast", got=got, fix=fix
        ) from error


ROLE = "role"
"""Attribute of a coordinate: what it was declared as."""


@validated
def context_names(data: xr.Dataset) -> tuple[str, ...]:
    """Names of the context of a dataset: coordinates along `trajectory`, or along it and `time`.

    Those that are declared (`romkit.data.describe`, and systems, do that); where none is, every one
    that holds numbers.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> romkit.data.context_names(data)
        ('F',)
    """
    found = {
        str(name): coord for name, coord in data.coords.items() if _may_be_context(str(name), coord)
    }
    return (
        tuple(found)
        if not is_declared(data)
        else tuple(name for name in found if _declared(found[name]))
    )


@validated
def is_declared(data: xr.Dataset) -> bool:
    """Whether somebody said what the context of a dataset is.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.1)
        >>> romkit.data.is_declared(data), romkit.data.is_declared(data.drop_vars("F"))
        (True, False)
    """
    return any(
        ROLE in coord.attrs or "training_range" in coord.attrs for coord in data.coords.values()
    )


def _may_be_context(name: str, coord: xr.DataArray) -> bool:
    along = "trajectory" in coord.dims and set(coord.dims) <= {"trajectory", "time"}
    return along and name != "trajectory" and coord.dtype.kind in "iuf"


def _declared(coord: xr.DataArray) -> bool:
    return coord.attrs.get(ROLE, "context" if "training_range" in coord.attrs else "") == "context"


@validated
def context_matrix(data: xr.Dataset) -> np.ndarray:
    """Context (trajectories, p) of a dataset, columns in the order of `context_names`.

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
    return context_columns(data, context_names(data))


def context_columns(data: xr.Dataset, names: Sequence[str]) -> np.ndarray:
    """Context (..., p) by these names; in front trajectories, then times, as far as the data have
    them.
    """
    if not names:
        return np.zeros((data.sizes.get("trajectory", 1), 0))
    for name in names:
        if data[name].chunks:
            fix = f"read it: data = data.assign_coords({name}=data[{name!r}].compute())"
            raise InputError(
                "data", expected=f"context {name} in memory", got="chunks of dask", fix=fix
            )
    columns = xr.broadcast(*(data[name] for name in names))
    ordered = (
        column.transpose("trajectory", "time", ..., missing_dims="ignore") for column in columns
    )
    return np.stack([column.values.astype(np.float64) for column in ordered], axis=-1)


@validated
def context_ranges(data: xr.Dataset) -> np.ndarray:
    """(2, p) low and high ends of the training range of each parameter, or of its values where none
    is given.

    Raises:
        InputError: no trajectories, or an attribute `training_range` that is no pair of numbers.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> romkit.data.context_ranges(data)
        array([[3.133],
               [3.193]])
    """
    check_dims(data, "trajectory")
    columns = [data[name] for name in context_names(data)]
    ranges = [
        column.attrs.get("training_range", (np.nanmin(column), np.nanmax(column)))
        for column in columns
    ]
    for column, each in zip(columns, ranges, strict=True):
        if tensors.finite("data", each).shape != (2,):
            fix = f"mend the attribute training_range of {column.name}"
            raise InputError("data", expected="a range of two numbers", got=str(each), fix=fix)
    return np.array(ranges, dtype=np.float64).reshape(-1, 2).T


def check_dims(data: xr.Dataset, *dims: str) -> None:
    """Raise unless a dataset has entries along these dimensions."""
    for dim in dims:
        if data.sizes.get(dim, 0) == 0:
            got, fix = (
                f"dimensions {dict(data.sizes)}",
                f"add it: data.expand_dims({dim!r}), or romkit.data.describe",
            )
            raise InputError("data", expected=f"a dimension {dim!r} with entries", got=got, fix=fix)


def check_has(
    data: xr.Dataset, name: str, *, fix: str = "give data like those of the training"
) -> None:
    """Raise unless a dataset has a variable of this name."""
    if name not in data.data_vars:
        got = f"variables {sorted(map(str, data.data_vars))}"
        raise InputError("data", expected=f"a variable {name!r}", got=got, fix=fix)


@validated
def times_of(data: xr.Dataset) -> Tensor:
    """The times (T,) of a dataset, in float64.

    Raises:
        InputError: there are none, or they do not increase.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.03)
        >>> romkit.data.times_of(data)
        tensor([0.0000, 0.0100, 0.0200], dtype=torch.float64)
    """
    if "time" not in data.coords or data["time"].dtype.kind not in "fiu":
        fix = "add them: data.assign_coords(time=...), or romkit.data.describe(data)"
        raise InputError("data", expected="times, as numbers", got="none", fix=fix)
    if not (np.diff(data["time"].values) > 0).all():
        raise InputError(
            "data", expected="increasing times", got="others", fix="sort them: data.sortby('time')"
        )
    return tensors.times("data's time", data["time"].values).double()


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
        >>> contexts = Contexts.of(["F"], {"F": lambda t: 3.14 + 0.01 * t}, times)
        >>> contexts.over_time.shape, contexts.moving
        (torch.Size([1, 5, 1]), ('F',))
    """

    initial: Tensor
    over_time: Tensor
    path: ContextFunction | None = None
    moving: tuple[str, ...] = ()
    times: Tensor | None = None

    @classmethod
    @validated
    def of(cls, names: Sequence[str], values: Mapping[str, object], times: Times) -> "Contexts":
        """Named values, each a number, an array, or a function of time.

        Raises:
            InputError: a name is missing or unknown, or a value is no number.
        """
        moving = tuple(name for name, value in values.items() if varies(value))

        def path(t: Tensor) -> Tensor:
            now = {
                name: at_time(value, t, name) if name in moving else value
                for name, value in values.items()
            }
            return torch.from_numpy(context_rows(names, now))

        initial = path(times[0])
        if not moving:
            return cls(initial, initial)
        each = [path(t) for t in times]
        for t, c in zip(times, each, strict=True):
            if c.shape != initial.shape:
                got, fix = (
                    f"{len(initial)} at first, {len(c)} at t = {t:g}",
                    "give as many values at all times",
                )
                raise InputError(
                    ", ".join(moving), expected="one number of trajectories", got=got, fix=fix
                )
        return cls(initial, torch.stack(each, dim=-2), path, moving, times)

    @validated
    def expanded(self, number: Count) -> "Contexts":
        """Repeat a single context for `number` trajectories."""
        if len(self.initial) == number:
            return self
        return self._replace(
            initial=self.initial.expand(number, -1),
            over_time=self.over_time.expand(number, *self.over_time.shape[1:]),
        )

    @classmethod
    @validated
    def of_dataset(cls, data: xr.Dataset) -> "Contexts":
        """The context of a dataset; splines go through one that was recorded over time."""
        from scipy.interpolate import CubicSpline  # slow to import, and seldom needed

        values = torch.from_numpy(context_matrix(data))
        if values.ndim == 2:
            return cls(values, values)
        values = held(values)  # where shorter trajectories have ended
        times = tensors.times("time", data["time"].values)
        if len(times) < 2:
            raise InputError(
                "data", expected="two times or more", got="one", fix="give a context that stays"
            )
        if not bool(values.isfinite().all()):
            fix = "record it at these times, or drop the trajectories"
            raise InputError(
                "data",
                expected="a context that is known while a trajectory lasts",
                got="gaps",
                fix=fix,
            )
        spline = CubicSpline(times.numpy(), values.numpy(), axis=1)
        return cls(values[:, 0], values, lambda t: torch.from_numpy(spline(float(t))), times=times)


def context_rows(names: Sequence[str], values: Mapping[str, object]) -> np.ndarray:
    """Named context values as (trajectories, p), of which there is one at least."""
    rows = np.atleast_2d(context_array(names, values))
    if rows.ndim != 2:
        got, fix = f"shape {rows.shape[:-1]}", "give one value for each trajectory"
        raise InputError(
            ", ".join(names), expected="a number, or a list of numbers", got=got, fix=fix
        )
    return rows


def varies(value: object) -> bool:
    """Whether this is a context that is a function of time."""
    return callable(value) and not isinstance(value, type)


def one_context(context: object, names: Sequence[str]) -> Tensor:
    """A context (..., p) that came without names."""
    found = tensors.finite("context", context)
    checks.last_axis("context", found.shape, len(names), f"({', '.join(names)})")
    return found


def bound_context(names: Sequence[str], context: object, named: Mapping[str, object]) -> Tensor:
    """A context (..., p) that came by names, or without them."""
    if context is None:
        return torch.from_numpy(context_array(names, named))
    only_one(context, named)
    return one_context(context, names)


def only_one(context: object, named: Mapping[str, object]) -> None:
    """Raise where a context is given twice, as such and by names."""
    if context is not None and named:
        fix = "drop one of them"
        raise InputError(
            "context", expected="one context", got=f"one and {', '.join(named)}", fix=fix
        )


def _finite(name: str, value: object) -> np.ndarray:
    array = np.array(
        tensors.finite(name, value).tolist(), dtype=np.float64
    )  # in derivatives, tensors have no memory
    if array.size == 0:
        raise InputError(name, expected="a number or several", got="none", fix="give at least one")
    return array


Control = Callable[[Tensor], Tensor]
"""u(t), (C, q) or (q,), of a scalar tensor t."""


@validated
def control_names(data: xr.Dataset) -> tuple[str, ...]:
    """Names of the inputs of a dataset.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> driven = data.assign(control=(("trajectory", "time", "input"), np.ones((2, 10, 1))))
        >>> romkit.data.control_names(driven), romkit.data.control_names(data)
        (('u0',), ())
    """
    if "control" not in data:
        return ()
    if "input" in data.coords:
        return tuple(map(str, data["input"].values))
    return tuple(f"u{k}" for k in range(data.sizes["input"]))


@validated
def control_matrix(data: xr.Dataset) -> np.ndarray:
    """(trajectories, times, q) inputs of a dataset, q = 0 where it has none.

    Raises:
        InputError: there are no trajectories or times.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> romkit.data.control_matrix(data).shape
        (2, 10, 0)
        >>> driven = data.assign(control=(("trajectory", "time", "input"), np.ones((2, 10, 1))))
        >>> romkit.data.control_matrix(driven).shape
        (2, 10, 1)
    """
    if "control" not in data:
        check_dims(data, "trajectory", "time")
        return np.zeros((data.sizes["trajectory"], data.sizes["time"], 0))
    return data["control"].transpose("trajectory", "time", "input").values.astype(np.float64)


@validated
def control_of(data: xr.Dataset) -> Control | None:
    """The inputs of a dataset as a function of time, None where it has none.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.03)
        >>> u = romkit.data.control_of(data.assign(control=(("trajectory", "time", "input"), [[[0.0], [1.0], [3.0]]])))
        >>> u(torch.tensor(0.015))  # a straight line between two samples
        tensor([[2.0000]], dtype=torch.float64)
    """
    if "control" not in data:
        return None
    return interpolated(times_of(data), held(torch.from_numpy(control_matrix(data))).movedim(1, 0))


def by_name(inputs: T, names: Sequence[str]) -> T:
    """Reorder inputs to these names; inputs without names stay as they are.

    Raises:
        InputError: inputs of other names.
    """
    own = [str(name) for name in inputs["input"].values] if "input" in inputs.coords else []
    if not names or not own:
        return inputs
    if sorted(own) != sorted(names):
        fix = "rename them if they are the same: data.assign_coords(input=[...])"
        raise InputError(
            "control", expected=f"inputs {', '.join(names)}", got=", ".join(own), fix=fix
        )
    return inputs if own == list(names) else inputs.isel(input=[own.index(name) for name in names])


def interpolated(times: Tensor, values: Tensor) -> Callable[[Tensor], Tensor]:
    """Straight lines between values (T, ...) at times (T,); the last one is held behind the end."""
    if len(times) == 1:
        return lambda t: values[0]
    times = times.double()

    def at(t: Tensor) -> Tensor:
        t = t.detach().to(times)
        k = int(torch.searchsorted(times, t, right=True).clamp(1, len(times) - 1))
        part = ((t - times[k - 1]) / (times[k] - times[k - 1])).clamp(0, 1)
        return torch.lerp(values[k - 1], values[k], part.to(values))

    return at


@validated
def given_control(
    control: object, times: Times, number: Count, names: tuple[str, ...]
) -> Control | None:
    """Inputs as the user gave them: a function of time, or samples (T, q) or (C, T, q) at `times`;
    None for none.

    Raises:
        InputError: missing where the law needs them, or of another shape.

    Example:
        >>> import torch
        >>> from romkit.data import given_control
        >>> times = torch.linspace(0, 1, 3)
        >>> u = given_control(lambda t: 2 * t, times, 4, ("throttle",))  # for four trajectories
        >>> u(times[1]).flatten()
        tensor([1., 1., 1., 1.], dtype=torch.float64)
    """
    q = len(names)
    if control is None:
        if q:
            fix = "add control=..., a function of time or an array (times, inputs)"
            raise InputError("control", expected=f"inputs {', '.join(names)}", got="none", fix=fix)
        return None
    if not q:
        raise InputError(
            "control", expected="none for dynamics without inputs", got="some", fix="drop it"
        )
    if varies(control):
        return _function(control, times, number, names)
    if isinstance(control, xr.DataArray) and {"time", "input"} <= {*control.dims}:
        control = by_name(control, names).transpose(..., "time", "input")
    values = tensors.tensor("control", control).double()
    values = values.unsqueeze(0) if values.ndim == 2 else values
    if (
        values.shape[1:] != (len(times), q)
        or len(values) not in (1, number)
        or not bool(values.isfinite().all())
    ):
        expected = f"finite inputs ({len(times)} times, {q}: {', '.join(names)})"
        fix = "give one row for each output time"
        raise InputError("control", expected=expected, got=f"shape {tuple(values.shape)}", fix=fix)
    return interpolated(times, values.expand(number, -1, -1).movedim(1, 0))


def _function(
    control: Callable[[float], object], times: Tensor, number: int, names: tuple[str, ...]
) -> Control:
    """Inputs (number, q) by a function of time that gives q numbers, or as many for each
    trajectory.
    """
    q, size = len(names), np.size(at_time(control, times[0], "control"))
    if size not in (q, number * q):
        got, fix = f"{size} numbers", "return one number for each input"
        raise InputError("control", expected=f"{q} inputs, ({', '.join(names)})", got=got, fix=fix)
    return lambda t: (
        torch.as_tensor(np.asarray(at_time(control, t, "control"), dtype=np.float64))
        .reshape(-1, q)
        .expand(number, q)
    )
