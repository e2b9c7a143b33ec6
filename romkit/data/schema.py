"""The schema of every dataset: dims `trajectory, time, component`, context as coordinates; and the
checks of it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from romkit.core import checks, runtime, tensors
from romkit.core.boundary import unchecked, validated
from romkit.core.errors import InputError
from romkit.core.files import plain
from romkit.core.types import Array, Chunked
from romkit.data.context import (
    ContextParameter,
    check_has,
    context_columns,
    context_names,
)
from romkit.data.times import times_of

DIMS = ("trajectory", "time", "component")
_MEANING = {
    "state": ("state", 0),
    "velocity": ("time derivative of the state", 1),
    "acceleration": ("second time derivative of the state", 2),
}
"""Long name of each variable, and how often it is differentiated by time."""

MIXED = "mixed, see component_units"
"""Unit of a state whose components have several."""

RESERVED = {
    "state", "velocity", "acceleration", "control", "latent", "status", "truth", "rom", "projected", "nrmse",
    "nrmse_projected", "valid_time", "state_std", "seed", "trajectory", "time", "component", "component_units",
    "input", "latent_component",
}  # fmt: skip
"""Names in datasets and runs, which no context parameter can have."""


@validated
def make_dataset(
    variables: Mapping[str, Array],
    *,
    times: Array,
    time_units: str,
    state_names: Sequence[str],
    state_units: Sequence[str],
    contexts: Array,
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
        contexts: (trajectories, p), or (trajectories, T, p), in physical units, columns in the
            order of `context`.
        context: the parameters that the columns belong to.
        attrs: provenance; values that netCDF cannot hold are stored as JSON.

    Raises:
        InputError: shapes or numbers of names that do not go together, or attributes that are no
            plain values.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> x = np.random.default_rng(0).normal(size=(3, 20, 2))  # trajectories, times, components
        >>> mass = romkit.data.ContextParameter("mass", "kg", 1.0, 3.0, "mass of the body")
        >>> data = romkit.data.make_dataset(
        ...     {"state": x, "velocity": np.gradient(x, 0.1, axis=1)},
        ...     times=0.1 * np.arange(20),
        ...     time_units="s",
        ...     state_names=["q", "p"],
        ...     state_units=["m", "kg m/s"],
        ...     contexts=np.array([[1.0], [2.0], [3.0]]),
        ...     context=[mass],
        ...     attrs={"system": "mine"},
        ... )
        >>> data.state.dims, data.mass.attrs["units"]
        (('trajectory', 'time', 'component'), 'kg')
    """
    _check_parts(variables, times, state_names, state_units, contexts, len(context))
    check_own_names("context", [parameter.name for parameter in context])
    common = shared_unit(state_units, MIXED)
    unit_of_each = {"long_name": "unit of each state component"}
    coords: dict[str, Any] = {
        "time": ("time", times, {"units": time_units, "long_name": "time"}),
        "component": ("component", list(state_names), {"long_name": "state component"}),
        "component_units": ("component", list(state_units), unit_of_each),
    }
    # the declared range is that of training, whatever runs happen to be in the data
    for column, parameter in zip(np.moveaxis(contexts, -1, 0), context, strict=True):
        about: dict[str, object] = {"units": parameter.units, "long_name": parameter.long_name}
        about["training_range"] = [parameter.low, parameter.high]
        coords[parameter.name] = (DIMS[: column.ndim], column, about)
    described = {}
    for name, values in variables.items():
        described[name] = (DIMS, values, _describe(name, common, time_units))
    facts = {}
    for key, value in plain("attrs", dict(attrs)).items():
        if not isinstance(value, str | int | float):
            value = json.dumps(value)  # netCDF has neither lists of lists nor dictionaries
        facts[key] = value
    return xr.Dataset(described, coords, facts)


def _check_parts(
    variables: Mapping[str, Array],
    times: Array,
    state_names: Sequence[str],
    state_units: Sequence[str],
    contexts: Array,
    parameters: int,
) -> None:
    """Raise where shapes and numbers of names do not go together."""
    tensors.times("times", times)
    count = len(times)
    n = len(state_names)
    number = 0
    for name, values in variables.items():
        checks.one_of("variables", name, _MEANING)
        if values.ndim != 3 or values.shape[1:] != (count, n) or len(values) == 0:
            raise InputError(
                "variables",
                expected=f"shape (trajectories, {count}, {n})",
                got=f"{name} {values.shape}",
                fix="give one entry for each time and each name",
            )
        number = len(values)
    # constant contexts, and varying ones
    shapes = ((number, parameters), (number, count, parameters))
    if contexts.shape not in shapes:
        raise InputError(
            "contexts",
            expected=f"shape ({number}, {parameters}), or with times",
            got=f"shape {contexts.shape}",
            fix="give one row for each trajectory",
        )
    if len(state_units) != n:
        raise InputError(
            "state_units",
            expected=f"{n} units, one for each component",
            got=f"{len(state_units)}",
            fix="name the unit of each",
        )


def shared_unit(units: Sequence[str], several: str) -> str:
    """Return the unit of all components; `several` where they have more than one."""
    if len(set(units)) == 1:
        return units[0]
    return several


def replace_states(
    data: xr.Dataset,
    values: Mapping[str, Array | Chunked],
    names: Sequence[str],
    units: Sequence[str],
) -> xr.Dataset:
    """Return a dataset of other coordinates of the states, with the contexts and inputs of `data`.

    Args:
        data: of the states.
        values: of each of its variables, (trajectories, times, r).
        names: of the r coordinates.
        units: of each.
    """
    variables: dict[str, Any] = {}
    for name, array in values.items():
        about = dict(data[name].attrs)
        if name == "state":
            about["units"] = shared_unit(units, MIXED)
        variables[name] = (DIMS, array, about)
    if "control" in data:
        variables["control"] = data["control"]
    # labels of the components, of space say, are no labels of the other coordinates
    of_components = [name for name, coord in data.coords.items() if "component" in coord.dims]
    labels = {"component": list(names), "component_units": ("component", list(units))}
    coords = data.drop_vars(of_components).coords
    return xr.Dataset(variables, coords).assign_coords(labels)


def add_trajectories(run: xr.Dataset) -> xr.Dataset:
    """Return data with a dimension of trajectories, which runs of a single one leave out."""
    if "trajectory" in run.dims:
        return run
    return run.expand_dims("trajectory")


def check_dataset(data: xr.Dataset) -> xr.Dataset:
    """Return `data`, if a projection can be trained on it.

    Raises:
        InputError: not a Dataset, a dimension or variable is missing, or no snapshot is complete.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.1)
        >>> romkit.data.check_dataset(data) is data
        True
        >>> romkit.data.check_dataset(data.drop_vars("velocity"))
        Traceback (most recent call last):
            ...
        romkit.core.errors.InputError: data: expected a variable 'velocity', got variables ['state', 'wave_number'];
        estimate it: data = romkit.data.with_velocity(data)
    """
    has_state, has_velocity = _checked(data, velocity=True)
    if not (has_state & has_velocity).any():
        raise InputError(
            "data",
            expected="snapshots without NaN",
            got="a NaN in every one",
            fix="give data with complete snapshots",
        )
    return data


@validated
def check_states(data: xr.Dataset, *, whole: bool = True) -> xr.Dataset:
    """Return `data`, if it holds trajectories. Samples may be missing, as NaN.

    Args:
        data: in romkit's schema.
        whole: each trajectory needs a complete snapshot; without, one of which some components
            are there.

    Raises:
        InputError: not a Dataset, a dimension or the variable `state` is missing, times do not
            increase, values are infinite, a trajectory has no complete snapshot, or the context of
            a snapshot is missing or not in memory.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.1)
        >>> romkit.data.check_states(data.drop_vars("velocity")).sizes["time"]
        10
        >>> romkit.data.check_states(data.rename(state="u"))
        Traceback (most recent call last):
            ...
        romkit.core.errors.InputError: data: expected a variable 'state', got variables ['u', 'velocity',
        'wave_number']; name it: romkit.data.describe(data, state=[...]), or `romkit check FILE --state ... --out NEW`
    """
    _checked(data, whole=whole)
    return data


VELOCITY = "estimate it: data = romkit.data.with_velocity(data)"
STATE = (
    "name it: romkit.data.describe(data, state=[...]), or `romkit check FILE --state ... --out NEW`"
)


def _checked(data: xr.Dataset, *, velocity: bool = False, whole: bool = True) -> list[Array]:
    """Tell whether snapshots (trajectories, times) of the state, and of velocities, are complete;
    data are read once.

    Raises:
        InputError: as `check_states`.
    """
    if not isinstance(data, xr.Dataset):
        raise InputError(
            "data",
            expected="an xarray.Dataset",
            got=checks.shown(data),
            fix="see the guide, 'Your own data'",
        )
    fixes = {"state": STATE}
    if velocity:
        fixes["velocity"] = VELOCITY
    variables = [variable_of(data, name, fix=fix).data for name, fix in fixes.items()]
    unchecked(times_of)(data)
    _check_component_names(data)
    looks = []
    for x in variables:
        is_number = np.isfinite(x)
        # (C, T) whether all, and whether some, components are numbers; (C,) whether one is infinite
        looks.append(((is_number.all(-1), is_number.any(-1)), np.isinf(x).any((1, 2))))
    # one pass over data that may be larger than memory
    results = runtime.computed("check of the data", *looks)
    is_complete = []
    for name, ((has_all, has_some), infinite) in zip(fixes, results, strict=True):
        check_finite("data", name, infinite)
        is_complete.append(has_all)
        if name == "state":
            is_known = has_all if whole else has_some
            check_known("data", is_known, whole)
    _check_context(data, is_known)
    if "control" in data:
        _check_control(data, is_known)
    return is_complete


def _check_component_names(data: xr.Dataset) -> None:
    """Raise where two components have one name: by it they are found in other data."""
    names = data.indexes.get("component")
    if names is None or names.is_unique:
        return
    double = names[names.duplicated()][0]
    raise InputError(
        "data",
        expected="components of different names",
        got=f"{double!r} twice",
        fix="name them apart: data.assign_coords(component=[...])",
    )


def check_finite(argument: str, name: str, infinite: Array) -> None:
    """Raise where trajectories (C,) have infinite values."""
    if infinite.any():
        raise InputError(
            argument,
            expected=f"finite {name}, or NaN where it is missing",
            got=f"infinity in {infinite.sum()} trajectories",
            fix="drop or mask it",
        )


def check_known(argument: str, known: Array, whole: bool) -> None:
    """Raise where nothing is known of a trajectory, by snapshots (C, T)."""
    empty = np.flatnonzero(~known.any(1))
    if not len(empty):
        return
    names = ", ".join(map(str, empty[:8]))
    fix = f"drop them: {argument}.drop_isel(trajectory=[{names}])"
    expected = "a snapshot in every trajectory"
    if whole:
        expected = "a complete snapshot in every trajectory"
    raise InputError(argument, expected=expected, got=f"NaN in every snapshot of {names}", fix=fix)


def _check_context(data: xr.Dataset, known: Array) -> None:
    """Raise where a parameter has a name that is taken, or is missing at a known snapshot (C, T)."""
    names = unchecked(context_names)(data)
    check_own_names("context of the data", names)
    for name in names:
        column = context_columns(data, [name])[..., 0]  # (C,) or (C, T)
        is_missing = ~np.isfinite(column)
        if column.ndim == 2:
            is_missing &= known  # behind the end of a run nobody knows its context
        if is_missing.any():
            raise InputError(
                "data", expected=f"finite context {name}", got="NaN", fix="drop those trajectories"
            )


@validated
def complete(data: xr.Dataset, names: Sequence[str]) -> Array:
    """(trajectories, times) whether nothing of these variables is missing in a snapshot.

    Raises:
        InputError: a variable is missing, or holds no numbers along the three dimensions.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.03)
        >>> data.state[0, 1, 7] = np.nan  # one component is missing at the second time
        >>> romkit.data.schema.complete(data, ["state"])
        array([[ True, False,  True]])
    """
    fix = "record it, or see romkit.data.describe"
    variables = [variable_of(data, name, fix=fix).data for name in names]
    looks = [np.isfinite(values).all(-1) for values in variables]
    return np.logical_and.reduce(runtime.computed("check of the data", *looks))


def variable_of(data: xr.Dataset, name: str, *, fix: str) -> xr.DataArray:
    """Return a variable (trajectory, time, component), in memory or not.

    Raises:
        InputError: no such variable, or one of other dimensions or without real numbers, or chunks
            of unknown sizes.
    """
    check_has(data, name, fix=fix)
    variable = data[name]
    if set(variable.dims) != set(DIMS):
        raise InputError(
            "data",
            expected=f"{name} with dims {DIMS}",
            got=f"dims {variable.dims}",
            fix="let romkit arrange them: data = romkit.data.describe(data, trajectory=..., state=...)",
        )
    check_chunks("data", name, variable.shape)
    if variable.dtype.kind not in "fiu" or variable.size == 0:
        raise InputError(
            "data",
            expected=f"real numbers as {name}",
            got=f"dtype {variable.dtype}, sizes {dict(variable.sizes)}",
            fix="convert it, or add what is missing",
        )
    if variable.dims == DIMS:
        return variable
    return variable.transpose(*DIMS)


def check_chunks(argument: str, name: str, shape: Sequence[float]) -> None:
    """Raise where dask does not know a size."""
    if np.isnan(shape).any():
        raise InputError(
            argument,
            expected=f"chunks of known sizes of {name}",
            got="unknown ones",
            fix="let dask count them: data[...].data.compute_chunk_sizes(), "
            "before the array enters a dataset",
        )


def check_own_names(argument: str, names: Iterable[str]) -> None:
    """Raise where a parameter of the context has a name that romkit uses."""
    for name in RESERVED.intersection(names):
        raise InputError(
            argument, expected="names that no other variable has", got=repr(name), fix="rename it"
        )


def _check_control(data: xr.Dataset, whole: Array) -> None:
    control = data["control"]
    if set(control.dims) != {*DIMS[:2], "input"}:
        raise InputError(
            "data",
            expected="control with dims (trajectory, time, input)",
            got=f"dims {control.dims}",
            fix="name it: describe(data, control=[...])",
        )
    values = control.transpose(*DIMS[:2], "input").values
    is_known = np.isfinite(values).all(-1)  # (C, T)
    # inputs behind the end of a trajectory do not matter
    count = whole.shape[1]
    end = count - np.argmax(whole[:, ::-1], axis=1)
    is_behind = np.arange(count) >= end[:, None]
    if not (is_known | is_behind).all():
        raise InputError(
            "data",
            expected="control at every time of a trajectory",
            got="NaN",
            fix="record it, or cut the trajectory there",
        )


def _describe(name: str, units: str, time_units: str) -> dict[str, str]:
    long_name, order = _MEANING[name]
    if order and time_units != "1":
        units = f"{units} {time_units}-{order}"
    return {"units": units, "long_name": long_name}
