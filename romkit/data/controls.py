"""Inputs of trajectories: names, values, and functions of time."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import tensors
from romkit.core.boundary import Count, Times, validated
from romkit.core.clock import at_time
from romkit.core.errors import InputError
from romkit.data.context import check_dims, varies
from romkit.data.times import held, times_of

T = TypeVar("T", xr.Dataset, xr.DataArray)

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
        >>> romkit.data.controls.control_matrix(data).shape
        (2, 10, 0)
        >>> driven = data.assign(control=(("trajectory", "time", "input"), np.ones((2, 10, 1))))
        >>> romkit.data.controls.control_matrix(driven).shape
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
        >>> inputs = (("trajectory", "time", "input"), [[[0.0], [1.0], [3.0]]])
        >>> u = romkit.data.controls.control_of(data.assign(control=inputs))
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
        >>> from romkit.data.controls import given_control
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
