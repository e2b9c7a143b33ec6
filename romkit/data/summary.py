"""A dataset in words."""

import math

import numpy as np
import xarray as xr

from romkit.core.boundary import validated
from romkit.core.display import with_unit
from romkit.data.context import context_names, is_declared
from romkit.data.controls import control_names
from romkit.data.layout import Variable, layout_of
from romkit.data.schema import DIMS, check_states, complete
from romkit.data.times import even_step


@validated
def summary(data: xr.Dataset) -> str:
    """Summary of a dataset as romkit reads it: state, context, sampling, missing samples, ignored
    variables.

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
        velocity      given
    """
    check_states(data)
    whole = complete(data, ("state",))
    count, times, n = (data.sizes[dim] for dim in DIMS)
    lines = {
        "trajectories": f"{count} of up to {times} samples, n = {n}",
        "state": _states_in_words(data),
        "context": _context_in_words(data),
        "time": _time_in_words(data),
        "velocity": "given" if "velocity" in data else "none; estimated where it is needed",
        "control": ", ".join(control_names(data)),
        "missing": "" if whole.all() else _missing_in_words(whole),
        "ignored": str(data.attrs.get("ignored", "")),
    }
    return "\n".join(f"{name:<13} {text}" for name, text in lines.items() if text)


def _states_in_words(data: xr.Dataset) -> str:
    unit = str(data["state"].attrs.get("units", ""))
    common = "" if unit.startswith("mixed") else unit
    parts = [_variable_in_words(variable, common) for variable in layout_of(data).variables]
    return f"{', '.join(parts)}, {data['state'].dtype}"


def _variable_in_words(variable: Variable, common_unit: str) -> str:
    dims = zip(variable.dims, variable.shape, strict=True)
    sizes = ", ".join(f"{dim} {size}" for dim, size in dims)
    masked = math.prod(variable.shape) - variable.size
    if masked:
        sizes += f"; {masked} masked"
    unit = with_unit(variable.units or common_unit).strip()
    words = variable.name
    if sizes:
        words += f" ({sizes})"
    if unit:
        words += f" [{unit}]"
    return words


def _context_in_words(data: xr.Dataset) -> str:
    parts = []
    for name in context_names(data):
        values = data[name].values
        kind = "whole numbers" if values.dtype.kind in "iu" else "float"
        along = "" if values.ndim == 1 else ", along time"
        span = f"{np.nanmin(values):g} ... {np.nanmax(values):g}{_unit(data[name])}"
        parts.append(f"{name} {span} ({kind}{along})")
    how = "" if is_declared(data) else "; found, not declared"
    return ", ".join(parts) + how if parts else "none"


def _time_in_words(data: xr.Dataset) -> str:
    times = data["time"].values
    unit = _unit(data["time"])
    if len(times) == 1:
        return f"{times[0]:g}{unit}, a single one"
    step = even_step(times)
    steps = f"every {step:g}{unit}" if step else "uneven steps"
    return f"{times[0]:g} ... {times[-1]:g}{unit}, {steps}"


def _unit(variable: xr.DataArray) -> str:
    return with_unit(str(variable.attrs.get("units", "")))


def _missing_in_words(whole: np.ndarray) -> str:
    short = [k for k, row in enumerate(whole) if not row.all()]
    which = ", ".join(map(str, short[:8])) + (", ..." if len(short) > 8 else "")
    return f"{(~whole).mean():.1%} of the snapshots, in {len(short)} trajectories ({which}); left out, never filled"
