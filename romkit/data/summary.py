"""A dataset in words."""

import math

import numpy as np
import xarray as xr

from romkit.core.boundary import validated
from romkit.core.display import append_unit, listed
from romkit.core.types import Array
from romkit.data.context import context_names, is_declared
from romkit.data.controls import HELD, INPUT_UNITS, LINEAR, control_names, inputs_held
from romkit.data.layout import Variable, layout_of
from romkit.data.names import unit_of
from romkit.data.schema import DIMS, check_states, complete
from romkit.data.times import even_step
from romkit.data.units import common_unit, strip_origin


@validated
def summary(data: xr.Dataset) -> str:
    """Return summary of a dataset as romkit reads it: state, context, sampling, missing samples,
    ignored variables.

    Raises:
        InputError: data without states, see `check_states`.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> print(romkit.data.summary(data))
        trajectories  2 of up to 10 samples, n = 36
        state         state (component 36), float64
        context       F 3.14 ... 3.18 (float)
        time          0 ... 0.09, every 0.01
        rates         given
    """
    check_states(data)
    count, times, n = (data.sizes[dim] for dim in DIMS)
    lines = {
        "trajectories": f"{count} of up to {times} samples, n = {n}",
        "state": _describe_states(data),
        "context": _describe_context(data),
        "time": _describe_time(data),
        "rates": "none given; estimated where needed",
    }
    if "velocity" in data:
        lines["rates"] = "given"
    if "control" in data:
        lines["control"] = _describe_inputs(data)
    is_complete = complete(data, ("state",))
    if not is_complete.all():
        lines["missing"] = _describe_missing(is_complete)
    if data.attrs.get("ignored"):
        lines["ignored"] = str(data.attrs["ignored"])
    return "\n".join(f"{name:<13} {text}" for name, text in lines.items())


def _describe_states(data: xr.Dataset, *, named: int = 8) -> str:
    """Say variables of the state, of which so many are named, at most."""
    variables = layout_of(data).variables
    words = [_describe_variable(variable, common_unit(data["state"])) for variable in variables]
    if len(words) > named:
        words[named:] = [f"... {len(words)} variables in all"]
    return f"{', '.join(words)}, {data['state'].dtype}"


def _describe_variable(variable: Variable, common_unit: str) -> str:
    dims = zip(variable.dims, variable.shape, strict=True)
    sizes = ", ".join(f"{dim} {size}" for dim, size in dims)
    masked = math.prod(variable.shape) - variable.size
    if masked:
        sizes += f"; {masked} masked"
    words = f"{variable.name} ({sizes})" if sizes else variable.name
    return words + append_unit(variable.units or common_unit, " [{}]")


def _describe_context(data: xr.Dataset) -> str:
    parameters = []
    for name in context_names(data):
        column = data[name]
        kind = "whole numbers" if column.dtype.kind in "iu" else "float"
        if column.ndim > 1:
            kind += ", along time"
        low, high = np.nanmin(column), np.nanmax(column)
        parameters.append(f"{name} {low:g} ... {high:g}{append_unit(unit_of(column))} ({kind})")
    words = ", ".join(parameters) or "none"
    return words if is_declared(data) or not parameters else f"{words}; found, not declared"


def _describe_inputs(data: xr.Dataset) -> str:
    names = control_names(data)
    units = data.get(INPUT_UNITS, xr.DataArray([unit_of(data["control"])] * len(names))).values
    pairs = zip(names, units, strict=True)
    words = ", ".join(f"{name}{append_unit(unit, ' [{}]')}" for name, unit in pairs)
    between = HELD if inputs_held(data) else LINEAR
    if "between" in data["control"].attrs:
        return f"{words}; {between} between samples"
    other = LINEAR if between == HELD else HELD
    return f"{words}; {between} between samples by its looks, or attrs['between'] = '{other}'"


def _describe_time(data: xr.Dataset) -> str:
    times = data["time"].values
    unit = append_unit(unit_of(data["time"]))
    if len(times) == 1:
        return f"{times[0]:g}{unit}, a single one"
    step = even_step(times)
    steps = f"every {step:g}{strip_origin(unit)}" if step else "uneven steps"
    return f"{times[0]:g} ... {times[-1]:g}{unit}, {steps}"


def _describe_missing(whole: Array) -> str:
    """Return share of snapshots (C, T) that are missing, or the number of samples of runs with own
    times.
    """
    if _have_own_times(whole):
        samples = np.median(whole.sum(1))
        times = whole.shape[1]
        words = f"runs have times of their own, each about {samples:.0f} of {times}"
        return f"{words}; learn and romkit.data.resampled give common ones"
    incomplete = np.flatnonzero(~whole.all(1))
    numbers = listed(incomplete, 8)
    share = (~whole).mean()
    count = len(incomplete)
    words = f"{share:.1%} of the snapshots, in {count} trajectories ({numbers})"
    return f"{words}; left out of fits, learn fills gaps of two at most"


def _have_own_times(whole: Array, *, minority: float = 0.5) -> bool:
    """Tell whether most times within several runs (C, T) are those of a minority of them.

    `minority`: share of the runs that have a time, up to which it is one of their own.
    """
    runs = whole[whole.any(1)]
    if len(runs) < 2:
        return False
    begun = np.maximum.accumulate(runs, axis=1)
    continues = np.maximum.accumulate(runs[:, ::-1], axis=1)[:, ::-1]
    within = (begun & continues).sum(0)  # (T,) runs that have begun and go on
    present = runs.sum(0)
    return bool(np.median(present / np.maximum(within, 1)) <= minority)
