"""Inputs of trajectories: names, values, and functions of time."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks, tensors
from romkit.core.boundary import Count, Times, unchecked, validated
from romkit.core.clock import evaluate_time
from romkit.core.errors import InputError
from romkit.core.types import Array, Names
from romkit.data.context import check_dims
from romkit.data.contexts import varies
from romkit.data.conversions import convert_values
from romkit.data.names import unit_of
from romkit.data.times import held, stretches, times_of

T = TypeVar("T", xr.Dataset, xr.DataArray)

Control = Callable[[Tensor], Tensor]
"""u(t), (C, q) or (q,), of a scalar tensor t."""


@validated
def control_names(data: xr.Dataset) -> Names:
    """Return names of the inputs of a dataset.

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
def control_matrix(data: xr.Dataset) -> Array:
    """Return the inputs (trajectories, times, q) of a dataset; q = 0 if it has none.

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
def control_of(data: xr.Dataset, by_law: bool | None = None) -> Control | None:
    """Return the inputs of a dataset as a function of time, None where it has none.

    Between two samples they are held or linear, as the data declare. Where they do not, as those
    that a law was fitted to (`by_law`), or as `inputs_held` says.

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
    values = unchecked(control_matrix)(data)
    columns = 0
    if is_held(values, data["control"].attrs.get("between"), by_law):
        columns = values.shape[-1]
    inputs = held(torch.from_numpy(values))
    return course(times_of(data), inputs.movedim(1, 0), columns)


BETWEEN_UNITS = ", "
"""Text between the units of several inputs."""

INPUT_UNITS = "input_units"
"""Coordinate of the units of inputs that have several."""

HELD, LINEAR = BETWEEN = "held", "linear"
"""Inputs between two samples, as the attribute `between` of `control` declares them."""


def is_held(
    values: Array,
    declared: object = None,
    by_law: bool | None = None,
    *,
    still: float = 0.5,
    isolated: float = 0.8,
) -> bool:
    """Tell whether inputs (C, T, q) keep their value until the next sample.

    Those that are not declared are taken as a law takes them (`by_law`). Where it does not say, they
    are held if they look like a staircase: values that stay, and jump at single samples.

    `still`, `isolated`: shares of samples without a change, and of changes that follow none,
    from which on inputs that are not declared count as held.

    Raises:
        InputError: declared as something else than "held" or "linear".
    """
    if declared is not None:
        return checks.one_of("between", declared, BETWEEN) == HELD
    if by_law is not None:
        return by_law
    steps = np.diff(values, axis=1)  # (C, T - 1, q)
    # behind the end of a run there are none
    is_known = np.isfinite(steps)
    changed = is_known & (steps != 0)
    number = changed.sum()
    if number == 0 or number > (1 - still) * is_known.sum():
        return False
    # a signal that is sampled coarsely rests as well, but then moves for several samples
    follows_another = changed[:, 1:] & changed[:, :-1]
    most = (1 - isolated) * number
    return bool(follows_another.sum() <= most)


@validated
def inputs_held(data: xr.Dataset) -> bool:
    """Tell whether inputs of a dataset are held between two samples; else they are straight lines.

    The attribute `between` of `control` says so, "held" or "linear". Without it, inputs that look
    like a staircase are held.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> driven = data.assign(control=(("trajectory", "time", "input"), np.ones((2, 10, 1))))
        >>> romkit.data.inputs_held(driven)
        False
        >>> driven.control.attrs["between"] = "held"
        >>> romkit.data.inputs_held(driven)
        True
    """
    if "control" not in data:
        return False
    declared = data["control"].attrs.get("between")
    return is_held(unchecked(control_matrix)(data), declared)


def smooth_stretches(data: xr.Dataset, is_complete: Array) -> Array:
    """Return the stretches of samples (C, T) in which no held input jumps, as `stretches` takes
    them.

    Rates jump with the inputs, so that no polynomial goes through the states on both sides. Where
    most stretches are too short for a polynomial, they are not cut.
    """
    if "control" not in data or not inputs_held(data):
        return is_complete
    numbers = np.where(is_complete, 1 + _jumps(data).cumsum(axis=1), 0)
    return numbers if _are_long(numbers) else is_complete


def jump_all_the_time(data: xr.Dataset) -> bool:
    """Tell whether held inputs jump so often that rates cannot be had from states."""
    if "control" not in data or not inputs_held(data):
        return False
    jumps = _jumps(data)
    return bool(jumps.any()) and not _are_long(1 + jumps.cumsum(axis=1))


def _jumps(data: xr.Dataset) -> Array:
    """(C, T) where inputs have another value than before."""
    inputs = control_matrix(data)  # (C, T, q)
    jumps = np.zeros(inputs.shape[:2], dtype=bool)
    is_known = np.isfinite(inputs).all(-1)
    changes = (inputs[:, 1:] != inputs[:, :-1]).any(-1)
    jumps[:, 1:] = changes & is_known[:, 1:]
    return jumps


def _are_long(numbers: Array, *, fewest: int = 5, enough: float = 0.5) -> bool:
    """Tell whether most samples are in stretches (C, T), by number, that a polynomial can be fitted
    to.

    `fewest`: samples of a stretch that a polynomial can be fitted to, at least.

    `enough`: share of the samples in such stretches from which on these are taken one by one.
    """
    usable = sum(piece.stop - piece.start for _, piece in stretches(numbers, fewest))
    return usable >= enough * np.count_nonzero(numbers)


def held_if_told(data: xr.Dataset) -> bool | None:
    """Tell whether inputs of a dataset are held; None where nothing tells, since they never change."""
    if "control" not in data:
        return None
    # NaN behind the end of a run is a change, and then the samples tell
    spans = np.ptp(control_matrix(data), axis=1)
    is_constant = not spans.any()
    if is_constant and "between" not in data["control"].attrs:
        return None
    return inputs_held(data)


def course(times: Tensor, values: Tensor, held: int = 0) -> Callable[[Tensor], Tensor]:
    """Return values (T, ..., k) over times (T,): straight lines, but for the last `held` columns,
    which keep their value until the next sample. Behind the end the last one stays.
    """
    if len(times) == 1:
        return lambda t: values[0]
    times = times.double()
    columns = values.shape[-1]
    is_held = torch.arange(columns, device=values.device) >= columns - held

    def at(t: Tensor) -> Tensor:
        t = t.detach().to(times)  # an index has no derivative
        # a solver's stage at a jump belongs to the interval that begins there
        later = torch.searchsorted(times, t, right=True)
        after = int(later.clamp(1, len(times) - 1))
        before = after - 1
        elapsed = t - times[before]
        share = elapsed / (times[after] - times[before])
        share = share.clamp(0, 1).to(values)
        line = torch.lerp(values[before], values[after], share)
        return torch.where(is_held & (share < 1), values[before], line) if held else line

    return at


def reorder_inputs(inputs: T, names: Sequence[str]) -> T:
    """Reorder inputs to these names; inputs without names stay as they are.

    Raises:
        InputError: inputs of other names.
    """
    if not names or "input" not in inputs.coords:
        return inputs
    labels = [str(name) for name in inputs["input"].values]
    if labels == list(names):
        return inputs
    if sorted(labels) != sorted(names):
        raise InputError(
            "control",
            expected=f"inputs {', '.join(names)}",
            got=", ".join(labels),
            fix="rename them if they are the same: data.assign_coords(input=[...])",
        )
    return inputs.isel(input=[labels.index(name) for name in names])


def input_unit(control: xr.DataArray) -> str:
    """Return the unit of inputs (..., input), or those of each with commas between; "" where nobody
    said.
    """
    if INPUT_UNITS in control.coords:
        return BETWEEN_UNITS.join(map(str, control[INPUT_UNITS].values))
    return unit_of(control)


def convert_inputs(
    argument: str, control: xr.DataArray, names: Sequence[str], unit: str
) -> xr.DataArray:
    """Return labelled inputs in the order and the units of a law.

    Args:
        argument: for errors.
        control: (..., input), or of a single input without this axis.
        names: of the inputs of the law.
        unit: of these, as `input_unit` has it.

    Raises:
        InputError: inputs of other names, or a unit that cannot be converted.
    """
    control = reorder_inputs(control, names)
    targets = unit.split(BETWEEN_UNITS)
    sources = input_unit(control).split(BETWEEN_UNITS)
    if len(targets) == len(sources) == 1 or "input" not in control.dims:
        return convert_values(argument, "control", control, targets[0])
    number = control.sizes["input"]
    targets, sources = (list(np.resize(units, number)) for units in (targets, sources))
    labels, columns = control_names(control.to_dataset(name="control")), []
    for k, (label, source, target) in enumerate(zip(labels, sources, targets, strict=True)):
        column = control.isel(input=[k]).assign_attrs(units=str(source))
        columns.append(convert_values(argument, label, column, str(target)))
    converted = xr.concat(columns, dim="input", combine_attrs="drop_conflicts")
    units = ("input", targets)
    return converted.transpose(*control.dims).assign_coords({INPUT_UNITS: units})


@validated
def given_control(
    control: object,
    times: Times,
    number: Count,
    names: Names,
    by_law: bool | None = None,
) -> Control | None:
    """Return inputs as the user gave them: a function of time, or samples (T, q) or (C, T, q) at
    `times`; None for none.

    Samples are held or linear in between, as the attribute `between` of an `xarray.DataArray` says,
    else as those that a law was fitted to (`by_law`). Where neither says, they are held if they look
    like a staircase.

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
    if control is None and not names:
        return None
    if control is None or not names:
        expected, got, fix = "none for dynamics without inputs", "some", "drop it"
        if names:
            expected, got = f"inputs {', '.join(names)}", "none"
            fix = "add control=..., a function of time or an array (times, inputs)"
        raise InputError("control", expected=expected, got=got, fix=fix)
    if varies(control):
        return _function(control, times, number, names)
    declared = None
    if isinstance(control, pd.DataFrame):
        control = _table_inputs(control)
    # only labelled inputs can be put into the order of the law
    if isinstance(control, xr.DataArray):
        _check_times(control, times)
        declared = control.attrs.get("between")
        if {"time", "input"} <= {*control.dims}:
            control = reorder_inputs(control, names).transpose(..., "time", "input")
    values = _checked_samples(control, len(times), number, names)
    columns = 0
    if is_held(values.cpu().numpy(), declared, by_law):
        columns = len(names)
    of_all = values.expand(number, -1, -1)
    return course(times, of_all.movedim(1, 0), columns)


def _table_inputs(table: pd.DataFrame) -> xr.DataArray:
    """Return inputs (time, input) of a table with a column for each, whose index may be the time."""
    coords = {}
    # rows and columns that are numbered have no labels
    if not isinstance(table.columns, pd.RangeIndex):
        coords["input"] = [str(name) for name in table.columns]
    if not isinstance(table.index, pd.RangeIndex):
        coords["time"] = table.index.to_numpy()
    return xr.DataArray(table.to_numpy(), coords, ("time", "input"))


def _check_times(control: xr.DataArray, times: Tensor, *, same_time: float = 0.01) -> None:
    """Raise where samples have times, since the first one, that are not those of the output.

    Another number of samples is refused by its shape.

    `same_time`: difference of times that are the same, which rounding stays below, relative to
    the interval.
    """
    if "time" not in control.coords or control["time"].shape != times.shape or len(times) < 2:
        return
    since = control["time"].values - control["time"].values[0]
    if since.dtype.kind == "m":
        since = since / np.timedelta64(1, "s")
    if since.dtype.kind not in "iuf":
        return
    wanted = (times - times[0]).cpu().numpy()
    apart = np.abs(since - wanted).max()
    if apart <= same_time * np.diff(wanted).min():
        return
    raise InputError(
        "control",
        expected=f"samples at the output times, up to {wanted[-1]:g} after the first",
        got=f"times that differ by up to {apart:g}",
        fix="give them at these times, control.interp(time=...), or another dt",
    )


def _checked_samples(control: object, count: int, number: int, names: Sequence[str]) -> Tensor:
    """Return inputs (1 or C, T, q) in float64.

    Raises:
        InputError: they have another shape, or are not finite.
    """
    values = tensors.tensor("control", control).double()
    if values.ndim == 2:
        values = values.unsqueeze(0)
    q = len(names)
    if values.shape not in [(1, count, q), (number, count, q)]:
        raise InputError(
            "control",
            expected=f"inputs ({count} times, {q}: {', '.join(names)})",
            got=f"shape {tuple(values.shape)}",
            fix="give one row for each output time",
        )
    return tensors.finite("control", values)


def _function(
    control: Callable[[float], object], times: Tensor, number: int, names: Names
) -> Control:
    """Return inputs (number, q) by a function of time that gives q numbers, or as many for each
    trajectory.
    """
    q = len(names)
    begin = np.asarray(evaluate_time(control, times[0], "control"))
    size = begin.size  # of a tensor it is a method
    if size not in (q, number * q):
        raise InputError(
            "control",
            expected=f"{q} inputs, ({', '.join(names)})",
            got=f"{size} numbers",
            fix="return one number for each input",
        )

    def inputs(t: Tensor) -> Tensor:
        values = evaluate_time(control, t, "control")
        values = np.asarray(values, dtype=np.float64)
        return torch.as_tensor(values).reshape(-1, q).expand(number, q)

    return inputs
