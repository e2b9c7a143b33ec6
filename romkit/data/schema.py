"""The one schema of every dataset: dims `trajectory, time, component`, context as coordinates, units on everything.

    variables    state, velocity, and acceleration for mechanical systems   (trajectory, time, component)
    coordinates  time; component (names) with component_units; one per context parameter along trajectory
    attributes   provenance: system, parameters, solver, dt, transient, seed, versions

The last dimension is not called `state` because xarray demotes a variable named like one of its dimensions to a
coordinate, and drops it from every reduction.
Data of the user's own need the dimensions, `state` and `velocity`; everything else is optional.
"""

import json
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from romkit.data.context import ContextParameter, context_names
from romkit.errors import InputError

DIMS = ("trajectory", "time", "component")
_MEANING = {
    "state": ("state", 0),
    "velocity": ("time derivative of the state", 1),
    "acceleration": ("second time derivative of the state", 2),
}
"""Long name of each variable, and how often it is differentiated by time."""


def make_dataset(
    variables: Mapping[str, np.ndarray],
    *,
    times: np.ndarray,
    time_units: str,
    state_names: Sequence[str],
    state_units: Sequence[str],
    contexts: np.ndarray,
    context: Sequence[ContextParameter],
    attrs: Mapping[str, object],
) -> xr.Dataset:
    """Assemble a dataset in the schema.

    Args:
        variables: `state`, `velocity` and perhaps `acceleration`, each (trajectories, times, n).
        times: (T,) in `time_units`.
        time_units: unit of time.
        state_names: name of each of the n components.
        state_units: unit of each.
        contexts: (trajectories, p), or (trajectories, T, p), in physical units, columns in the order of `context`.
        context: the parameters that the columns belong to.
        attrs: provenance; values that netCDF cannot hold are stored as JSON.
    """
    common = state_units[0] if len(set(state_units)) == 1 else "mixed, see component_units"
    data = xr.Dataset(
        {name: (DIMS, values, _describe(name, common, time_units)) for name, values in variables.items()},
        coords={
            "time": ("time", times, {"units": time_units, "long_name": "time"}),
            "component": ("component", list(state_names), {"long_name": "state component"}),
            "component_units": ("component", list(state_units), {"long_name": "unit of each state component"}),
        },
        attrs={
            key: value if isinstance(value, str | int | float) else json.dumps(value) for key, value in attrs.items()
        },
    )
    for column, parameter in zip(np.moveaxis(contexts, -1, 0), context, strict=True):
        data.coords[parameter.name] = (
            DIMS[: column.ndim],
            column,
            {
                "units": parameter.units,
                "long_name": parameter.long_name,
                "training_range": [parameter.low, parameter.high],
            },
        )
    return data


def check_dataset(data: xr.Dataset) -> xr.Dataset:
    """`data`, if a projection can be trained on it.

    Raises:
        InputError: not a Dataset, a dimension or variable is missing, or values are not finite.
    """
    check_states(data)
    if "velocity" not in data.data_vars:
        fix = 'add it: data["velocity"] = data["state"].differentiate("time")'
        raise InputError("data", expected="a variable 'velocity'", got=_variables(data), fix=fix)
    _check_variable(data, "velocity")
    return data


def check_states(data: xr.Dataset) -> xr.Dataset:
    """`data`, if it holds trajectories.

    Raises:
        InputError: not a Dataset, a dimension or the variable `state` is missing, or values are not finite.
    """
    if not isinstance(data, xr.Dataset):
        got, fix = type(data).__name__, "see the guide, 'Your own data'"
        raise InputError("data", expected="an xarray.Dataset", got=got, fix=fix)
    if "state" not in data.data_vars:
        fix = "rename your state variable to 'state'"
        raise InputError("data", expected="a variable 'state'", got=_variables(data), fix=fix)
    _check_variable(data, "state")
    for name in context_names(data):
        if not np.isfinite(data[name].values).all():
            raise InputError("data", expected=f"finite context {name}", got="NaN", fix="drop those trajectories")
    return data


def _variables(data: xr.Dataset) -> str:
    return f"variables {sorted(map(str, data.data_vars))}"


def _check_variable(data: xr.Dataset, name: str) -> None:
    dims = data[name].dims
    if set(dims) != set(DIMS):
        fix = "rename or expand the dims"
        raise InputError("data", expected=f"{name} with dims {DIMS}", got=f"dims {dims}", fix=fix)
    finite = np.isfinite(data[name].values)
    if not finite.all():
        got = f"NaN or infinity in {int((~finite).any(axis=(1, 2)).sum())} trajectories"
        raise InputError("data", expected=f"finite {name}", got=got, fix="drop those trajectories")


def _describe(name: str, units: str, time_units: str) -> dict[str, str]:
    long_name, order = _MEANING[name]
    per_time = "" if order == 0 or time_units == "1" else f" {time_units}-{order}"
    return {"units": units + per_time, "long_name": long_name}
