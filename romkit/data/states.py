"""States among the variables of a dataset, and their rates."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np
import xarray as xr

from romkit.core.errors import InputError
from romkit.core.types import Names
from romkit.data.declared import Declared
from romkit.data.layout import Layout
from romkit.data.names import RATES
from romkit.data.rates import disagreement, sampled
from romkit.data.variables import LEAD


def along_time(data: xr.Dataset, argument: str, name: str) -> str:
    """The name of a variable along time that holds real numbers."""
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


def states_and_rates(
    data: xr.Dataset, declared: Declared, taken: set[str], descriptions: Mapping[str, str]
) -> tuple[Names, dict[str, Names], list[str]]:
    """Variables of the state, those of its rates, and sentences for warnings."""
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
    """Variables by "velocity" and "acceleration", as far as they are declared."""
    rates = {}
    for rate, names in (
        ("velocity", declared.velocity),
        ("acceleration", declared.acceleration),
    ):
        if names:
            rates[rate] = tuple(along_time(data, rate, name) for name in names)
    return rates


def _states(
    data: xr.Dataset,
    declared: Sequence[str] | None,
    taken: set[str],
    descriptions: Mapping[str, str],
) -> tuple[Names, list[str]]:
    """Variables of the state, declared or not, and sentences for warnings."""
    if declared is None:
        return _undeclared_states(data, taken, descriptions)
    if not declared:
        raise InputError(
            "state", expected="a variable or several", got="none", fix="name one: state=['u'], say"
        )
    return tuple(along_time(data, "state", name) for name in declared), []


def _undeclared_states(
    data: xr.Dataset, taken: set[str], descriptions: Mapping[str, str]
) -> tuple[Names, list[str]]:
    """The variables of numbers along time that describe no other, and sentences for warnings.

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
    """Names of the variables whose kind of dtype is among the letters that are wanted."""
    return tuple(name for name, kind in kinds.items() if kind in wanted)


def _kinds_along_time(
    data: xr.Dataset, taken: set[str], descriptions: Mapping[str, str]
) -> dict[str, str]:
    """Kinds of dtype of the variables along time that have no role yet."""
    kinds = {}
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
    """Whether variables have the dimensions of the states, in their order."""
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
    """Whether a variable that is called velocity is the rate of the state, and warnings."""
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
    """A warning where rates that were declared do not agree with their states."""
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
    """Data with these variables along trajectory and time, also those that all runs share."""
    wide = {}
    for name in names:
        missing = set(LEAD) - set(data[name].dims)
        if not missing:
            continue
        variable = data[name].broadcast_like(data["time"])
        sizes = {dim: data.sizes[dim] for dim in missing - {"time"}}
        wide[name] = variable.expand_dims(sizes)
    return data.assign(wide)
