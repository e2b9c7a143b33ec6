"""Roles of the variables and dimensions of a dataset: time, runs, state, rates, inputs, context."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import xarray as xr

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.types import Names
from romkit.data.layout import AXIS, Layout
from romkit.data.names import TIMES, TRAJECTORIES
from romkit.data.rates import disagreement, sampled
from romkit.data.schema import check_own_names
from romkit.data.spelling import full_name
from romkit.readers.names import RATES, described
from romkit.readers.timeline import with_time

LEAD = ("trajectory", "time")

IN_FORECASTS = ("latent", "status", "context_distance", "state_distance", "lost")
"""Variables that forecasts have beside those of the state."""

BARS = ("lower", "upper", "spread")
"""Beginnings of the names of the bars of a variable."""


@dataclass(frozen=True)
class Declared:
    """Roles that the user has named; None is found.

    Attributes:
        context, state, control, velocity, acceleration: names of variables.
        trajectory, time: a dimension or coordinate.
    """

    context: Names | None = None
    state: Names | None = None
    control: Names = ()
    velocity: Names | None = None
    acceleration: Names | None = None
    trajectory: str | None = None
    time: str | None = None

    def in_full(self, names: Iterable[object]) -> "Declared":
        """Roles of these names, of which the user may have left units out."""
        known = list(dict.fromkeys(map(str, names)))
        full: dict[str, Any] = {}
        for role, value in asdict(self).items():
            if isinstance(value, str):
                full[role] = full_name(value, known)
            elif value is not None:
                full[role] = tuple(full_name(name, known) for name in value)
        return replace(self, **full)


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
    """Return the roles in a dataset, and the dataset with dimensions `trajectory` and `time`.

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
    states, rates, guesses = _states_and_rates(data, declared, taken, descriptions)
    _check_names_in_results(states)
    controls = _controls(data, declared, states)
    used = {*taken, *controls, *states}
    for names in rates.values():
        used.update(names)
    left_out = _left_out(data, used, descriptions)
    said = (*notes, *guesses)
    return data, Roles(time, runs, states, rates, controls, declared.context, left_out, said)


def _controls(data: xr.Dataset, declared: Declared, states: Sequence[str]) -> Names:
    """Return variables of the inputs: those that are declared, else the one of romkit's schema."""
    names = declared.control
    if not names and "control" in data.data_vars and "control" not in states:
        return ("control",)
    return tuple(_along_time(data, "control", name) for name in names)


def _without_levels(data: xr.Dataset) -> xr.Dataset:
    """Return data without an index of several levels: those of time get a dimension, others stay
    labels.
    """
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
        data = data.unstack([dim])
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
    """Return dimensions of which each entry is a run: that of the runs, and those of the context."""
    runs = []
    dim = _dim_of_runs(data, trajectory)
    if dim is not None:
        runs.append(dim)
    for name in context:
        if name in data.variables:
            runs.extend(str(dim) for dim in data[name].dims if dim != "time")
    return tuple(dict.fromkeys(runs))


def _dim_of_runs(data: xr.Dataset, trajectory: str | None) -> str | None:
    """Return the dimension of the runs, as the user or its usual names say; None where there is
    none.
    """
    if trajectory is None:
        for name in TRAJECTORIES:
            if name in data.dims:
                return name
        return None
    names = [str(dim) for dim in data.dims]
    for coord in data.coords.values():
        if coord.ndim == 1:
            names.append(str(coord.name))
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


def _along_time(data: xr.Dataset, argument: str, name: str) -> str:
    """Return the name of a variable along time that holds real numbers."""
    if name not in data.data_vars or "time" not in data[name].dims:
        known = [str(key) for key, values in data.data_vars.items() if "time" in values.dims]
        fields = [f"{name}_real", f"{name}_imag"]
        fix = "check the spelling"
        if set(fields) <= set(known):
            fix = f"name its parts, {', '.join(fields)}"
        raise InputError(
            argument,
            expected=f"variables along time, among {', '.join(known)}",
            got=repr(name),
            fix=fix,
        )
    if data[name].dtype.kind not in "fiu":
        raise InputError(
            argument,
            expected="real numbers",
            got=f"{name} of dtype {data[name].dtype}",
            fix=f"convert it: data.assign({name}=data[{name!r}].astype(float))",
        )
    return name


def _states_and_rates(
    data: xr.Dataset, declared: Declared, taken: set[str], descriptions: Mapping[str, str]
) -> tuple[Names, dict[str, Names], list[str]]:
    """Return variables of the state, those of its rates, and sentences for warnings."""
    rates = _declared_rates(data, declared)
    taken = {*taken, "control"}
    for names in rates.values():
        taken.update(names)
    states, notes = _states(data, declared.state, taken, descriptions)
    doubtful = list(rates)
    for rate in RATES:
        if rate in rates:
            _check_declared_rate(data, states, rates[rate], rate)
        if rate in {*rates, *taken, *states} or rate not in data.data_vars:
            continue
        is_rate, rate_notes = _named_rate(data, states, rates, rate, declared)
        notes += rate_notes
        if is_rate:
            rates[rate] = (rate,)
        elif declared.state is None:
            states = (*states, rate)
    # rates that were found by their name have been compared; those of the schema have not
    if "state" in states:
        doubtful = list(rates)
    for rate in doubtful:
        notes += _doubts(data, states, rates, rate)
    return states, rates, notes


def _declared_rates(data: xr.Dataset, declared: Declared) -> dict[str, Names]:
    """Return variables by "velocity" and "acceleration", as far as they are declared."""
    rates = {}
    for rate, names in (
        ("velocity", declared.velocity),
        ("acceleration", declared.acceleration),
    ):
        if names:
            rates[rate] = tuple(_along_time(data, rate, name) for name in names)
    return rates


def _states(
    data: xr.Dataset,
    declared: Sequence[str] | None,
    taken: set[str],
    descriptions: Mapping[str, str],
) -> tuple[Names, list[str]]:
    """Return variables of the state, declared or not, and sentences for warnings."""
    if declared is None:
        return _undeclared_states(data, taken, descriptions)
    if not declared:
        raise InputError(
            "state", expected="a variable or several", got="none", fix="name one: state=['u'], say"
        )
    return tuple(_along_time(data, "state", name) for name in declared), []


def _undeclared_states(
    data: xr.Dataset, taken: set[str], descriptions: Mapping[str, str]
) -> tuple[Names, list[str]]:
    """Return the variables of numbers along time that describe no other, and sentences for
    warnings.

    Raises:
        InputError: there is none.
    """
    kinds = _kinds_along_time(data, taken, descriptions)
    if kinds.get("state", "") in ("f", "i", "u"):
        return ("state",), []
    floats = _of_kind(kinds, "f")
    states = tuple(name for name in floats if name not in RATES)
    if states:
        return states, []
    if floats:  # a velocity alone is a state
        return floats, []
    # whole numbers are counts or flags as often as states: only where nothing else is
    integers = _of_kind(kinds, "iu")
    if integers:
        return integers, [f"whole numbers are taken for the state: {', '.join(integers)}"]
    variables = [f"{name} ({values.dtype})" for name, values in data.data_vars.items()]
    raise InputError(
        "data",
        expected="a variable of numbers along time",
        got=f"variables {', '.join(variables) or 'none'}",
        fix="name it: state=['u']",
    )


def _of_kind(kinds: Mapping[str, str], wanted: str) -> Names:
    """Return names of the variables whose kind of dtype is among the letters that are wanted."""
    return tuple(name for name, kind in kinds.items() if kind in wanted)


def _kinds_along_time(
    data: xr.Dataset, taken: set[str], descriptions: Mapping[str, str]
) -> dict[str, str]:
    """Kinds of dtype of the variables along time that have no role yet."""
    kinds: dict[str, str] = {}
    # in the order of the data, which becomes that of the state
    for name, values in data.data_vars.items():
        is_free = name not in taken and name not in descriptions
        if is_free and "time" in values.dims:
            kinds[str(name)] = values.dtype.kind
    return kinds


def _check_declared_rate(
    data: xr.Dataset, states: Sequence[str], names: Sequence[str], rate: str
) -> None:
    """Raise where declared rates have other dimensions than the states."""
    if not _is_like(data, states, names):
        refuse_unlike(states, names, rate)


def refuse_unlike(states: Sequence[str], names: Sequence[str], rate: str) -> NoReturn:
    """Raise InputError: variables are no rates of the states."""
    raise InputError(
        rate,
        expected=f"variables like {', '.join(states)}",
        got=", ".join(names),
        fix="name one for each variable of the state, in its order",
    )


def _is_like(data: xr.Dataset, states: Sequence[str], names: Sequence[str]) -> bool:
    """Tell whether variables have the dimensions of the states, in their order."""
    if len(states) != len(names):
        return False
    # what all runs share has neither of the leading dimensions
    for state, name in zip(states, names, strict=True):
        differing = set(data[state].dims) ^ set(data[name].dims)
        if not differing <= set(LEAD):
            return False
    return True


def _named_rate(
    data: xr.Dataset,
    states: Sequence[str],
    rates: Mapping[str, Names],
    rate: str,
    declared: Declared,
) -> tuple[bool, list[str]]:
    """Tell whether a variable that is called velocity is the rate of the state, and warnings."""
    if list(states) == ["state"]:  # names of romkit's schema
        _check_declared_rate(data, states, [rate], rate)
        return True, []
    if data[rate].dtype.kind not in "fiu" or "time" not in data[rate].dims:
        return False, []
    reason = "it has other dimensions"
    if _is_like(data, states, [rate]):
        # a flow has a variable `velocity` that is no derivative: numbers decide, and no name
        reason = _disagreement(data, states, {**rates, rate: (rate,)}, rate)
    if not reason:
        note = f"{rate} is taken for the rate of {states[0]}; difference quotients agree"
        return True, [note]
    role = "a variable of the state" if declared.state is None else "left out"
    return False, [f"{rate} is no rate of {states[0]}: {reason}; it is {role}"]


def _doubts(
    data: xr.Dataset, states: Sequence[str], rates: Mapping[str, Names], rate: str
) -> list[str]:
    """Return a warning where rates that were declared do not agree with their states."""
    reason = _disagreement(data, states, rates, rate)
    if not reason:
        return []
    fix = "check its unit of time, or leave it out"
    names = ", ".join(rates[rate])
    integrated = ", ".join(states)
    return [f"{names} disagrees with {integrated}: {reason}; {fix}"]


def _disagreement(
    data: xr.Dataset, states: Sequence[str], rates: Mapping[str, Names], rate: str
) -> str:
    """Why variables are no rates of others, "" where they may be, each compared with its own."""
    integrated, order = states, 1
    # the rate of the velocity where there is one: a second difference amplifies noise
    if rate == "acceleration" and "velocity" in rates:
        integrated = rates["velocity"]
    elif rate == "acceleration":
        order = 2
    times = data["time"].values.astype(np.float64)
    for pair in zip(integrated, rates[rate], strict=True):
        variables = along_runs_and_time(data[[*pair]], pair)
        samples = []
        for name in pair:
            layout = Layout.of(variables, [name], LEAD)
            samples.append(sampled(variables, layout, LEAD))
        x, v = samples  # (C, T, k)
        if x.shape != v.shape:
            return "other cells are missing"
        reason = disagreement(x, v, times[: x.shape[1]], order)
        if reason:
            return reason
    return ""


def along_runs_and_time(data: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
    """Return data with these variables along trajectory and time, also those that all runs share."""
    wide = {}
    for name in names:
        missing = set(LEAD) - set(data[name].dims)
        if not missing:
            continue
        variable = data[name].broadcast_like(data["time"])
        sizes = {dim: data.sizes[dim] for dim in missing - {"time"}}
        wide[name] = variable.expand_dims(sizes)
    return data.assign(wide)


def _left_out(data: xr.Dataset, used: set[str], descriptions: Mapping[str, str]) -> dict[str, str]:
    """Return variables along time or runs without a role, and what they are."""
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
    if values.dtype.kind == "b" and "time" in values.dims:
        return f"a switch; if it is an input, name it: control=[{name!r}]"
    if values.dtype.kind not in "fiu":
        return f"dtype {values.dtype}"
    if "time" not in values.dims:
        return "along runs; if it is a parameter, name it as the context"
    if values.dtype.kind == "f":
        return "along time"
    return f"whole numbers; if it is a variable of the state, name it: state=[..., {name!r}]"
