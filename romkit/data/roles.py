"""Roles of the variables and dimensions of a dataset: time, runs, state, rates, inputs, context."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
import xarray as xr

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.types import Names
from romkit.data.declared import Declared
from romkit.data.names import TIMES, TRAJECTORIES, described
from romkit.data.schema import check_own_names
from romkit.data.states import along_time, states_and_rates
from romkit.data.timeline import with_time
from romkit.data.variables import AXIS, LEAD

IN_FORECASTS = ("latent", "status", "context_distance", "state_distance", "lost")
"""Variables that forecasts have beside those of the state."""

BARS = ("lower", "upper", "spread")
"""Beginnings of the names of the bars of a variable."""


@dataclass(frozen=True)
class Roles:
    """Roles of everything in a dataset, by names.

    Attributes:
        time: in the data; in `data` of `roles_of` it is "time".
        runs: dimensions of which each entry is a run.
        states, controls: variables.
        rates: variables by "velocity" and "acceleration", in the order of the states.
        context: parameters, None where nobody said.
        left_out: variables along time or runs that have no role, and why.
        notes: sentences for warnings.
    """

    time: str
    runs: Names
    states: Names
    rates: Mapping[str, Names]
    controls: Names
    context: Names | None
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: Names = ()


def roles_of(data: xr.Dataset, declared: Declared) -> tuple[xr.Dataset, Roles]:
    """The roles in a dataset, and the dataset with dimensions `trajectory` and `time`.

    Raises:
        InputError: a name that is not there, or data without times or states.
    """
    data = _without_levels(data)
    data, time, notes = with_time(data, declared.time)
    context = declared.context
    if context is None:
        context = ()
    _check_context_names(data, context)
    runs = _runs(data, declared.trajectory, context)
    _check_names_of_schema(data, runs)
    data = _with_trajectories(data, runs)
    descriptions = described(data)
    # a parameter or an input is no state, even where its numbers vary along time
    taken = {*declared.control, *context}
    states, rates, guesses = states_and_rates(data, declared, taken, descriptions)
    _check_names_in_results(states)
    controls = _controls(data, declared, states)
    used = {*taken, *controls, *states}
    for names in rates.values():
        used.update(names)
    left_out = _left_out(data, used, descriptions)
    notes = (*notes, *guesses)
    return data, Roles(time, runs, states, rates, controls, declared.context, left_out, notes)


def _controls(data: xr.Dataset, declared: Declared, states: Sequence[str]) -> Names:
    """Variables of the inputs: those that are declared, else the one of romkit's schema."""
    names = declared.control
    if not names and "control" in data.data_vars and "control" not in states:
        return ("control",)
    return tuple(along_time(data, "control", name) for name in names)


def _without_levels(data: xr.Dataset) -> xr.Dataset:
    """Data without an index of several levels: those of time get a dimension, others stay labels."""
    for dim in list(data.dims):
        index = data.indexes.get(dim)
        if index is None or index.nlevels == 1:
            continue
        if not set(TIMES).intersection(index.names):
            data = data.reset_index(dim)
            continue
        if not index.is_unique:
            raise InputError(
                "data",
                expected=f"one entry for each {', '.join(map(str, index.names))}",
                got="several",
                fix=f"keep one of each: data.drop_duplicates({dim!r})",
            )
        data = data.unstack(dim)
    return data


def _check_context_names(data: xr.Dataset, context: Sequence[str]) -> None:
    for name in context:
        if name not in data.variables and name not in data.attrs:
            raise InputError(
                "context",
                expected=f"names among {', '.join(map(str, data.variables))}",
                got=repr(name),
                fix="give the dimension values" if name in data.dims else "check the spelling",
            )
    check_own_names("context", context)


def _runs(data: xr.Dataset, trajectory: str | None, context: Sequence[str]) -> Names:
    """Dimensions of which each entry is a run: that of the runs, and those of the context."""
    runs = []
    dim = _dim_of_runs(data, trajectory)
    if dim is not None:
        runs.append(dim)
    for name in context:
        if name in data.variables:
            runs.extend(str(dim) for dim in data[name].dims if dim != "time")
    return tuple(dict.fromkeys(runs))


def _dim_of_runs(data: xr.Dataset, trajectory: str | None) -> str | None:
    """The dimension of the runs, as the user or its usual names say; None where there is none."""
    if trajectory is None:
        for name in TRAJECTORIES:
            if name in data.dims:
                return name
        return None
    names = [str(dim) for dim in data.dims]
    for name, values in data.coords.items():
        if values.ndim == 1:
            names.append(str(name))
    checks.one_of("trajectory", trajectory, names)
    if trajectory in data.dims:
        return trajectory
    (dim,) = data[trajectory].dims
    return str(dim)


def _check_names_of_schema(data: xr.Dataset, runs: Sequence[str]) -> None:
    """Raise where a variable has the name of a dimension of romkit's schema.

    Raises:
        InputError: with the call that renames it.
    """
    taken = [name for name in data.data_vars if name == AXIS]
    if "trajectory" in data.variables and "trajectory" not in runs:
        taken.append("trajectory")
    for name in taken:
        _refuse_name(name, "romkit's dimensions", f"data.rename({name}='{name}_')")


def _check_names_in_results(states: Sequence[str]) -> None:
    """Raise where a forecast has something else under the name of a variable of the state.

    Raises:
        InputError: with the call that renames it.
    """
    taken = set(IN_FORECASTS)
    if len(states) > 1:
        taken.add("state")  # alone it is that of romkit's schema
    for name in states:
        taken.update(f"{bar}_{name}" for bar in BARS)
    for name in states:
        if name in taken:
            call = f"data.rename({{{name!r}: '{name}_'}}), or columns={{...}} of a table"
            _refuse_name(name, "romkit in a forecast", call)


def _refuse_name(name: str, owner: str, call: str) -> NoReturn:
    """Refuse the name of a variable that romkit has for something else."""
    raise InputError(
        "data",
        expected=f"variables of other names than those of {owner}",
        got=repr(name),
        fix=f"rename it: {call}",
    )


def _with_trajectories(data: xr.Dataset, runs: Sequence[str]) -> xr.Dataset:
    """Stack the dimensions of runs into `trajectory`."""
    if list(runs) == ["trajectory"]:
        return data
    if not runs:
        return data.expand_dims("trajectory")
    if len(runs) == 1:
        renamed = data.rename_dims({runs[0]: "trajectory"})
        if runs[0] not in renamed.xindexes:
            return renamed
        # an index along a dimension of another name would not survive arithmetic
        return renamed.drop_indexes(runs[0])
    # without numbers of their own, dimensions leave no trace of the run's place
    numbers = {dim: np.arange(data.sizes[dim]) for dim in runs if dim not in data.coords}
    return data.assign_coords(numbers).stack(trajectory=runs, create_index=False)


def _left_out(data: xr.Dataset, used: set[str], descriptions: Mapping[str, str]) -> dict[str, str]:
    """Variables along time or runs without a role, and what they are."""
    left_out = {}
    for name, values in data.data_vars.items():
        # what lies along space alone is no loss: no state could have taken it
        if name not in used and set(values.dims) & set(LEAD):
            left_out[str(name)] = _variable_in_words(str(name), values, descriptions)
    return left_out


def _variable_in_words(name: str, values: xr.DataArray, descriptions: Mapping[str, str]) -> str:
    """Why a variable has no role."""
    if name in descriptions:
        return descriptions[name]
    if values.dtype.kind not in "fiu":
        return f"dtype {values.dtype}"
    if "time" not in values.dims:
        return "along runs; if it is a parameter, name it as the context"
    if values.dtype.kind == "f":
        return "along time"
    return f"whole numbers; if it is a variable of the state, name it: state=[..., {name!r}]"
