"""Roles of the variables and dimensions of a dataset: time, runs, state, rates, inputs, context."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import xarray as xr

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.data.clocks import (
    check_clock,
    seconds_since_first,
    shared_clock,
    with_missing_times,
)
from romkit.data.layout import Layout
from romkit.data.names import RATES, TIMES, TRAJECTORIES, described, guessed_time
from romkit.data.rates import disagreement, sampled
from romkit.data.schema import check_own_names

LEAD = ("trajectory", "time")


@dataclass(frozen=True)
class Declared:
    """Roles that the user has named; None is found.

    Attributes:
        context, state, control, velocity, acceleration: names of variables.
        trajectory, time: a dimension or coordinate.
    """

    context: tuple[str, ...] | None = None
    state: tuple[str, ...] | None = None
    control: tuple[str, ...] = ()
    velocity: tuple[str, ...] | None = None
    acceleration: tuple[str, ...] | None = None
    trajectory: str | None = None
    time: str | None = None


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
    runs: tuple[str, ...]
    states: tuple[str, ...]
    rates: Mapping[str, tuple[str, ...]]
    controls: tuple[str, ...]
    context: tuple[str, ...] | None
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def roles_of(data: xr.Dataset, declared: Declared) -> tuple[xr.Dataset, Roles]:
    """The roles in a dataset, and the dataset with dimensions `trajectory` and `time`.

    Raises:
        InputError: a name that is not there, or data without times or states.
    """
    data = _without_levels(data)
    data, own_time, notes = _with_time(data, declared)
    _check_context_names(data, declared.context or ())
    runs = _runs(data, declared)
    data = _with_trajectories(data, runs)
    taken = {*declared.control, *(declared.context or ())}
    descriptions = described(data)
    states, rates, guesses = _states_and_rates(data, declared, taken, descriptions)
    controls = tuple(_along_time(data, "control", name) for name in declared.control)
    if not controls and "control" in data.data_vars and "control" not in states:
        controls = ("control",)
    used = {*taken, *controls, *states, *(name for names in rates.values() for name in names)}
    roles = Roles(
        own_time,
        runs,
        states,
        rates,
        controls,
        declared.context,
        _left_out(data, used, descriptions),
        (*notes, *guesses),
    )
    return data, roles


def _without_levels(data: xr.Dataset) -> xr.Dataset:
    """Data without an index of several levels: those of time get a dimension, others stay labels."""
    for dim in list(data.dims):
        index = data.indexes.get(dim)
        if index is None or index.nlevels == 1:
            continue
        if any(name in TIMES for name in index.names):
            if not index.is_unique:
                fix = f"keep one of each: data.drop_duplicates({dim!r})"
                expected = f"one entry for each {', '.join(map(str, index.names))}"
                raise InputError("data", expected=expected, got="several", fix=fix)
            data = data.unstack(dim)
        else:
            data = data.reset_index(dim)
    return data


def _with_time(data: xr.Dataset, declared: Declared) -> tuple[xr.Dataset, str, list[str]]:
    """Data with times as increasing numbers along `time`, own name of time, and warnings."""
    name, notes = _time_name(data, declared.time)
    if name not in data.variables:
        fix = f"add the times: data.assign_coords({name}=dt * numpy.arange({data.sizes[name]}))"
        expected = f"values of {name!r}"
        raise InputError("data", expected=expected, got="a dimension without", fix=fix)
    data = data.set_coords(name)
    times = data[name]
    if times.dtype.kind not in "fiu":
        seconds, since = seconds_since_first(times.values)
        about = {**times.attrs, "units": "s"} | ({"since": since} if since else {})
        data = data.assign_coords({name: (times.dims, seconds, about)})
    if data[name].ndim == 2:
        data, clock = _on_one_clock(data, name)
        notes = [*notes, *clock]
    dim = str(data[name].dims[0])
    if dim != name:  # the dimension gets the name of its times
        if dim in data.variables:
            notes = [*notes, f"times are those of {name!r}; the numbers of {dim!r} are left out"]
            data = data.drop_vars(dim)
        data = data.swap_dims({dim: name})
    if name != "time" and "time" in data.variables:
        notes = [*notes, f"times are those of {name!r}; 'time' is left out"]
        data = data.drop_vars("time")
    values = data[name].values.astype(np.float64)
    if values.size:
        check_clock(name, values)
    data, missing = with_missing_times(data, name)
    if missing:
        notes = [*notes, f"{missing} times are missing from an even grid; they are NaN"]
    return data.rename({name: "time"}) if name != "time" else data, name, notes


def _time_name(data: xr.Dataset, declared: str | None) -> tuple[str, list[str]]:
    """Name of the variable or dimension of time, and a warning where it is a guess."""
    variables = {
        str(name): values
        for name, values in data.variables.items()
        if values.ndim in (1, 2) and values.dtype.kind in "fiumMO"
    }
    if declared is not None:
        checks.one_of("time", declared, list(map(str, {**variables, **data.sizes})))
        return declared, []
    for name in TIMES:
        if (name in variables and name in data.coords) or name in data.dims:
            return name, []
    facts = {
        name: (values.dtype.kind == "M", values.attrs)
        for name, values in variables.items()
        if values.ndim == 1 or name in TIMES
    }
    name, notes = guessed_time(facts)
    if name is not None:
        return name, notes
    dims = ", ".join(map(str, data.dims)) or "none"
    fix = "name it: time='...'"
    if "time" in data.variables:
        fix = "data of one time have none: join several, xarray.concat(..., 'time')"
    expected = "a dimension 'time' or 't'"
    raise InputError("data", expected=expected, got=f"dims {dims}", fix=fix)


def _on_one_clock(data: xr.Dataset, name: str) -> tuple[xr.Dataset, list[str]]:
    """Data of runs with times (run, step) of their own along one dimension of time."""
    first, second = map(str, data[name].dims)
    run, step = (second, first) if second in TRAJECTORIES else (first, second)
    is_fixed = [key for key, values in data.variables.items() if step not in values.dims]
    moving = data.drop_vars(is_fixed)
    parts, times = [], []
    for k in range(data.sizes[run]):
        own = data[name].isel({run: k}).values.astype(np.float64)
        is_known = np.isfinite(own)  # shorter runs have no times at the end
        check_clock(name, own[is_known])
        parts.append(
            moving.isel({run: k}).drop_vars([name, step], errors="ignore").isel({step: is_known})
        )
        times.append(own[is_known])
    times, notes = shared_clock(times)
    clocked = []
    for part, own in zip(parts, times, strict=True):
        part = part.rename_dims({step: name})
        clocked.append(part.assign_coords({name: (name, own, data[name].attrs)}))
    joined = xr.concat(clocked, dim=run, join="outer", data_vars="all", coords="different")
    fixed = {key: data.variables[key] for key in is_fixed}
    joined = joined.assign(fixed).set_coords([key for key in is_fixed if key in data.coords])
    return joined.assign_attrs(data.attrs), notes


def _check_context_names(data: xr.Dataset, context: Sequence[str]) -> None:
    for name in context:
        if name not in data.variables and name not in data.attrs:
            fix = "give the dimension values" if name in data.dims else "check the spelling"
            expected = f"names among {', '.join(map(str, data.variables))}"
            raise InputError("context", expected=expected, got=repr(name), fix=fix)
    check_own_names("context", context)


def _runs(data: xr.Dataset, declared: Declared) -> tuple[str, ...]:
    """Dimensions of which each entry is a run: that of the runs, and those of the context."""
    runs: list[str] = []
    if declared.trajectory is not None:
        names = [str(name) for name, values in data.coords.items() if values.ndim == 1]
        checks.one_of("trajectory", declared.trajectory, [*map(str, data.dims), *names])
        is_dim = declared.trajectory in data.dims
        runs.append(declared.trajectory if is_dim else str(data[declared.trajectory].dims[0]))
    else:
        runs.extend([name for name in TRAJECTORIES if name in data.dims][:1])
    for name in declared.context or ():
        if name in data.variables:
            runs.extend(str(dim) for dim in data[name].dims if dim != "time")
    return tuple(dict.fromkeys(runs))


def _with_trajectories(data: xr.Dataset, runs: Sequence[str]) -> xr.Dataset:
    """Stack the dimensions of runs into `trajectory`."""
    if list(runs) == ["trajectory"]:
        return data
    if not runs:
        return data.expand_dims("trajectory")
    if len(runs) == 1:
        renamed = data.rename_dims({runs[0]: "trajectory"})
        return renamed.drop_indexes(runs[0]) if runs[0] in renamed.xindexes else renamed
    numbers = {dim: np.arange(data.sizes[dim]) for dim in runs if dim not in data.coords}
    return data.assign_coords(numbers).stack(trajectory=runs, create_index=False)


def _along_time(data: xr.Dataset, argument: str, name: str) -> str:
    """The name of a variable along time that holds real numbers."""
    if name not in data.data_vars or "time" not in data[name].dims:
        known = [str(key) for key, values in data.data_vars.items() if "time" in values.dims]
        parts = [f"{name}_real", f"{name}_imag"]
        fix = "check the spelling"
        if all(part in known for part in parts):
            fix = f"name its parts, {', '.join(parts)}"
        expected = f"variables along time, among {', '.join(known)}"
        raise InputError(argument, expected=expected, got=repr(name), fix=fix)
    if data[name].dtype.kind not in "fiu":
        got = f"{name} of dtype {data[name].dtype}"
        fix = f"convert it: data.assign({name}=data[{name!r}].astype(float))"
        raise InputError(argument, expected="real numbers", got=got, fix=fix)
    return name


def _states_and_rates(
    data: xr.Dataset, declared: Declared, taken: set[str], descriptions: Mapping[str, str]
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]], list[str]]:
    """Variables of the state, those of its rates, and sentences for warnings."""
    named = {"velocity": declared.velocity, "acceleration": declared.acceleration}
    rates = {}
    for rate, names in named.items():
        if names:
            rates[rate] = tuple(_along_time(data, rate, name) for name in names)
    taken = {*taken, "control", *(name for names in rates.values() for name in names)}
    notes: list[str] = []
    if declared.state is not None:
        states = tuple(_along_time(data, "state", name) for name in declared.state)
        if not states:
            fix = "name one: state=['u'], say"
            raise InputError("state", expected="a variable or several", got="none", fix=fix)
        taken |= set(states)
    else:
        states, notes = _found_states(data, taken, descriptions)
    for rate in RATES:
        if rate in rates:
            _check_declared_rate(data, states, rates[rate], rate)
        elif rate in data.data_vars and rate not in taken and rate not in states:
            found, note = _named_rate(data, states, rates, rate, declared)
            if found:
                rates[rate] = (rate,)
            elif declared.state is None:
                states = (*states, rate)
            notes += note
    for rate in rates:
        is_named = named[rate] is None
        notes += _doubts(data, states, rates, rate) if not is_named or "state" in states else []
    return states, rates, notes


def _found_states(
    data: xr.Dataset, taken: set[str], descriptions: Mapping[str, str]
) -> tuple[tuple[str, ...], list[str]]:
    """The variables of numbers along time that describe no other, and sentences for warnings."""
    kinds = _kinds_along_time(data, taken, descriptions)
    if kinds.get("state", "") in ("f", "i", "u"):
        return ("state",), []
    floats = [name for name, kind in kinds.items() if kind == "f"]
    states = tuple(name for name in floats if name not in RATES)
    if not states:  # a velocity alone is a state
        states = tuple(floats)
    if states:
        return states, []
    whole = tuple(name for name, kind in kinds.items() if kind in "iu")
    if whole:
        return whole, [f"whole numbers are taken for the state: {', '.join(whole)}"]
    known = ", ".join(f"{name} ({values.dtype})" for name, values in data.data_vars.items())
    expected, fix = "a variable of numbers along time", "name it: state=['u']"
    raise InputError("data", expected=expected, got=f"variables {known or 'none'}", fix=fix)


def _kinds_along_time(
    data: xr.Dataset, taken: set[str], descriptions: Mapping[str, str]
) -> dict[str, str]:
    """Kinds of dtype of the variables along time that have no role yet."""
    kinds = {}
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
        fix = "name one for each variable of the state, in its order"
        expected = f"variables like {', '.join(states)}"
        raise InputError(rate, expected=expected, got=", ".join(names), fix=fix)


def _is_like(data: xr.Dataset, states: Sequence[str], names: Sequence[str]) -> bool:
    """Whether variables have the dimensions of the states, in their order."""
    if len(states) != len(names):
        return False
    dims = [{*data[name].dims} | set(LEAD) for name in (*states, *names)]
    return dims[: len(states)] == dims[len(states) :]


def _named_rate(
    data: xr.Dataset,
    states: Sequence[str],
    rates: Mapping[str, tuple[str, ...]],
    rate: str,
    declared: Declared,
) -> tuple[bool, list[str]]:
    """Whether a variable that is called velocity is the rate of the state, and warnings."""
    if list(states) == ["state"]:  # names of romkit's schema
        _check_declared_rate(data, states, [rate], rate)
        return True, []
    if data[rate].dtype.kind not in "fiu" or "time" not in data[rate].dims:
        return False, []
    if not _is_like(data, states, [rate]):
        reason = "it has other dimensions"
    else:
        reason = _disagreement(data, states, {**rates, rate: (rate,)}, rate)
        if not reason:
            words = "difference quotients agree"
            return True, [f"{rate} is taken for the rate of {states[0]}; {words}"]
    role = "a variable of the state" if declared.state is None else "left out"
    return False, [f"{rate} is no rate of {states[0]}: {reason}; it is {role}"]


def _doubts(
    data: xr.Dataset, states: Sequence[str], rates: Mapping[str, tuple[str, ...]], rate: str
) -> list[str]:
    """A warning where rates that were declared do not agree with their states."""
    reason = _disagreement(data, states, rates, rate)
    if not reason:
        return []
    fix = "check its unit of time, or leave it out"
    return [f"{', '.join(rates[rate])} disagrees with {', '.join(states)}: {reason}; {fix}"]


def _disagreement(
    data: xr.Dataset, states: Sequence[str], rates: Mapping[str, tuple[str, ...]], rate: str
) -> str:
    """Why variables are no rates of others, "" where they may be, each compared with its own."""
    integrated = states
    order = 1
    if rate == "acceleration":
        integrated = rates.get("velocity", states)
        order = 1 if "velocity" in rates else 2
    times = data["time"].values.astype(np.float64)
    for name, derivative in zip(integrated, rates[rate], strict=True):
        pair = along_runs_and_time(data[[name, derivative]], [name, derivative])
        x, v = (sampled(pair, Layout.of(pair, [each], LEAD), LEAD) for each in (name, derivative))
        if x.shape != v.shape:
            return "other cells are missing"
        reason = disagreement(x, v, times[: x.shape[1]], order)
        if reason:
            return reason
    return ""


def along_runs_and_time(data: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
    """Data with these variables along trajectory and time, also those that all runs share."""
    wide = {}
    for name in names:
        missing = set(LEAD) - set(data[name].dims)
        if not missing:
            continue
        variable = data[name].broadcast_like(data["time"])
        wide[name] = variable.expand_dims({dim: data.sizes[dim] for dim in missing - {"time"}})
    return data.assign(wide)


def _left_out(data: xr.Dataset, used: set[str], descriptions: Mapping[str, str]) -> dict[str, str]:
    """Variables along time or runs without a role, and what they are."""
    left_out = {}
    for name, values in data.data_vars.items():
        if name in used or not set(values.dims) & set(LEAD):
            continue
        words = f"dtype {values.dtype}"
        if name in descriptions:
            words = descriptions[str(name)]
        elif values.dtype.kind in "iu" and "time" in values.dims:
            words = (
                f"whole numbers; if it is a variable of the state, name it: state=[..., {name!r}]"
            )
        elif values.dtype.kind in "fiu":
            words = "along time" if "time" in values.dims else "along runs"
            words += (
                "" if "time" in values.dims else "; if it is a parameter, name it as the context"
            )
        left_out[str(name)] = words
    return left_out
