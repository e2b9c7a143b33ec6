"""Roles of the variables and dimensions of a dataset: time, runs, state, rates, inputs, context."""

import itertools
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import xarray as xr

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.types import Names
from romkit.data.clocks import check_clock, elapsed_seconds, insert_missing_times
from romkit.data.layout import AXIS
from romkit.data.names import TIMES, TRAJECTORIES
from romkit.data.rates import disagreement
from romkit.data.schema import check_own_names
from romkit.data.spelling import full_name
from romkit.readers.joining import align_clocks
from romkit.readers.names import RATES, Fact, Guess, Guesses, described, guessed_time

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

    context: Sequence[str] | None = None
    state: Sequence[str] | None = None
    control: Sequence[str] = ()
    velocity: Sequence[str] | None = None
    acceleration: Sequence[str] | None = None
    trajectory: str | None = None
    time: str | None = None

    def complete_names(self, names: Iterable[object]) -> "Declared":
        """Complete the names that the user gave without units, by the full names in the data."""
        spellings = list(dict.fromkeys(map(str, names)))
        full: dict[str, Any] = {}
        for role, value in asdict(self).items():
            if isinstance(value, str):
                full[role] = full_name(value, spellings)
            elif value is not None:
                full[role] = tuple(full_name(name, spellings) for name in value)
        return replace(self, **full)


@dataclass(frozen=True)
class Roles:
    """Roles of everything in a dataset, by names.

    Attributes:
        time: in the data; in `data` of `assign_roles` it is "time".
        runs: dimensions of which each entry is a run.
        states, controls: variables.
        rates: variables by "velocity" and "acceleration", in the order of the states.
        context: parameters, None where nobody said.
        left_out: variables along time or runs that have no role, and why.
    """

    time: str
    runs: Names
    states: Names
    rates: Mapping[str, Names]
    controls: Names
    context: Names | None
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def variables(self) -> list[str]:
        """Names of the states, the inputs and the rates."""
        return [*self.states, *self.controls, *itertools.chain(*self.rates.values())]


def assign_roles(
    data: xr.Dataset, declared: Declared, guesses: Guesses
) -> tuple[xr.Dataset, Roles]:
    """Return the roles in a dataset, and the dataset with dimensions `trajectory` and `time`.

    Raises:
        InputError: a name that is not there, or data without times or states.
    """
    data = _unstack_levels(data)
    data, time = _name_time(data, declared.time, guesses)
    context = tuple(declared.context or ())
    _check_context_names(data, context)
    runs = _runs(data, declared.trajectory, context)
    # runs may be called as romkit calls them
    variables = {*map(str, data.data_vars), *map(str, data.coords.keys() - {*runs, AXIS})}
    _check_names(variables, {AXIS, "trajectory"}, "romkit's dimensions")
    data = _stack_runs(data, runs)
    descriptions = described(data)
    rates = _declared_rates(data, declared)
    # a parameter or an input is no state, even where its numbers vary along time
    taken = {*declared.control, *context, "control"}.union(*rates.values())
    states = _states(data, declared.state, {*taken, *descriptions}, guesses)
    rates = _find_rates(data, states, rates, taken, guesses)
    taken_by_bars = {f"{bar}_{name}" for bar in BARS for name in states}
    # a single one may be that of romkit's schema
    in_forecasts = {*IN_FORECASTS, *taken_by_bars} | ({"state"} if len(states) > 1 else set())
    _check_names(states, in_forecasts, "romkit in a forecast")
    controls = _controls(data, declared, states)
    named = None if declared.context is None else context
    roles = Roles(time, runs, states, rates, controls, named)
    used = {*declared.control, *context, *roles.variables}
    return data, replace(roles, left_out=_left_out(data, used, descriptions))


def _declared_rates(data: xr.Dataset, declared: Declared) -> dict[str, Names]:
    """Return variables by "velocity" and "acceleration", as far as they are declared."""
    rates = {}
    for rate in RATES:
        names = getattr(declared, rate)
        if names:
            rates[rate] = tuple(_check_course(data, rate, name) for name in names)
    return rates


def _controls(data: xr.Dataset, declared: Declared, states: Sequence[str]) -> Names:
    """Return variables of the inputs: those that are declared, else the one of romkit's schema."""
    if not declared.control and "control" in data.data_vars and "control" not in states:
        return ("control",)
    return tuple(_check_course(data, "control", name) for name in declared.control)


def _left_out(data: xr.Dataset, used: set[str], descriptions: Mapping[str, str]) -> dict[str, str]:
    """Return variables along time or runs without a role, and what they are."""
    left_out = {}
    for key, values in data.data_vars.items():
        # what lies along space alone is no loss: no state could have taken it
        if key not in used and set(values.dims) & set(LEAD):
            name = str(key)
            left_out[name] = descriptions.get(name) or _say_role(name, values)
    return left_out


def _unstack_levels(data: xr.Dataset) -> xr.Dataset:
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
    """Return dimensions of which each entry is a run: that of the runs, as the user or its usual
    names say, and those of the context.
    """
    runs: list[Hashable] = []
    if trajectory is None:
        runs += [name for name in TRAJECTORIES if name in data.dims][:1]
    else:
        labels = [str(name) for name, coord in data.coords.items() if coord.ndim == 1]
        checks.one_of("trajectory", trajectory, [*map(str, data.dims), *labels])
        runs += [trajectory] if trajectory in data.dims else data[trajectory].dims
    for name in context:
        if name in data.variables:
            runs += [dim for dim in data[name].dims if dim != "time"]
    return tuple(dict.fromkeys(map(str, runs)))


def _check_names(names: Iterable[str], taken: Collection[str], owner: str) -> None:
    """Raise where a variable has a name that romkit has for something else.

    Raises:
        InputError: with the call that renames it.
    """
    for name in names:
        if name in taken:
            raise InputError(
                "data",
                expected=f"variables of other names than those of {owner}",
                got=repr(name),
                fix=f"rename it: data.rename({{{name!r}: '{name}_'}}), or columns={{...}} of a table",
            )


def _stack_runs(data: xr.Dataset, runs: Sequence[str]) -> xr.Dataset:
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


def _check_course(data: xr.Dataset, argument: str, name: str) -> str:
    """Return the name of a variable along time that holds real numbers."""
    if name not in data.data_vars or "time" not in data[name].dims:
        candidates = [str(key) for key, values in data.data_vars.items() if "time" in values.dims]
        fields = [f"{name}_real", f"{name}_imag"]
        fix = "check the spelling"
        if set(fields) <= set(candidates):
            fix = f"name its parts, {', '.join(fields)}"
        raise InputError(
            argument,
            expected=f"variables along time, among {', '.join(candidates)}",
            got=repr(name),
            fix=fix,
        )
    if not _is_course(data[name]):
        raise InputError(
            argument,
            expected="real numbers",
            got=f"{name} of dtype {data[name].dtype}",
            fix=f"convert it: data.assign({name}=data[{name!r}].astype(float))",
        )
    return name


def _states(
    data: xr.Dataset, declared: Sequence[str] | None, taken: set[str], guesses: Guesses
) -> Names:
    """Return the variables that are declared, else those of numbers along time that describe no
    other.

    Args:
        data: along `time`.
        declared: names.
        taken: names of variables that are no states.
        guesses: to which whole numbers are added.

    Raises:
        InputError: there is none.
    """
    if declared is not None:
        if not declared:
            fix = "name one: state=['u'], say"
            raise InputError("state", expected="a variable or several", got="none", fix=fix)
        return tuple(_check_course(data, "state", name) for name in declared)
    # in the order of the data, which becomes that of the state
    floats = _courses(data, "f", taken)
    integers = _courses(data, "iu", taken)
    if "state" in floats + integers:
        return ("state",)
    if floats:
        return floats
    # whole numbers are counts or flags as often as states: only where nothing else is
    if integers:
        guesses.append(Guess("state", ", ".join(integers), "whole numbers, as there is no other"))
        return integers
    kinds = {str(name): str(values.dtype) for name, values in data.data_vars.items()}
    raise InputError(
        "data",
        expected="a variable of numbers along time",
        got=f"variables {kinds}",
        fix="name it: state=['u']",
    )


def _courses(data: xr.Dataset, kinds: str, taken: set[str]) -> Names:
    """Return variables along time of some kinds of dtype that are not taken."""
    names = []
    for name, values in data.data_vars.items():
        if name not in taken and "time" in values.dims and values.dtype.kind in kinds:
            names.append(str(name))
    return tuple(names)


def _find_rates(
    data: xr.Dataset, states: Names, rates: dict[str, Names], taken: set[str], guesses: Guesses
) -> dict[str, Names]:
    """Return variables of the rates of the state: those that are declared, and those of romkit's
    schema. A `velocity` beside other variables is one of the state, as that of an oscillator is.
    """
    rates = dict(rates)
    for rate in RATES:
        is_free = rate in {*data.data_vars} - taken
        if rate not in rates and is_free and list(states) == ["state"]:
            rates[rate] = (rate,)
        if rate not in rates:
            continue
        if not _resembles(data, states, rates[rate]):
            refuse_unlike(states, rates[rate], rate)
        why = _disagreement(data, states, rates, rate)
        if why:
            fix = "check its unit of time, or leave it out"
            why = f"disagrees with {', '.join(states)}: {why}; {fix}"
            guesses.append(Guess(rate, ", ".join(rates[rate]), why))
    return rates


def _is_course(values: xr.DataArray) -> bool:
    """Tell whether a variable holds real numbers along time."""
    return values.dtype.kind in "fiu" and "time" in values.dims


def refuse_unlike(states: Sequence[str], names: Sequence[str], rate: str) -> NoReturn:
    """Raise InputError: variables are no rates of the states."""
    raise InputError(
        rate,
        expected=f"variables like {', '.join(states)}",
        got=", ".join(names),
        fix="name one for each variable of the state, in its order",
    )


def _resembles(data: xr.Dataset, states: Sequence[str], names: Sequence[str]) -> bool:
    """Tell whether variables have the dimensions of the states, in their order."""
    if len(states) != len(names):
        return False
    # what all runs share has neither of the leading dimensions
    for state, name in zip(states, names, strict=True):
        differing = set(data[state].dims) ^ set(data[name].dims)
        if not differing <= set(LEAD):
            return False
    return True


def _disagreement(
    data: xr.Dataset, states: Sequence[str], rates: Mapping[str, Names], rate: str
) -> str:
    """Say why variables are no rates of others, "" where they may be, each compared with its own."""
    integrated, order = states, 1
    # the rate of the velocity where there is one: a second difference amplifies noise
    if rate == "acceleration" and "velocity" in rates:
        integrated = rates["velocity"]
    elif rate == "acceleration":
        order = 2
    for pair in zip(integrated, rates[rate], strict=True):
        variables = broadcast_runs(data[[*pair]], pair)
        x, v = (variables[name].transpose(*LEAD, ...) for name in pair)
        reason = disagreement(x, v, data["time"].values, order)
        if reason:
            return reason
    return ""


def broadcast_runs(data: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
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


def _say_role(name: str, values: xr.DataArray) -> str:
    """Say why a variable has no role, and how to name it."""
    if values.dtype.kind == "b" and "time" in values.dims:
        return f"a switch; if it is an input, name it: control=[{name!r}]"
    if values.dtype.kind not in "fiu":
        return f"dtype {values.dtype}"
    if "time" not in values.dims:
        return "along runs; if it is a parameter, name it as the context"
    if values.dtype.kind == "f":
        return "along time"
    return f"whole numbers; if it is a variable of the state, name it: state=[..., {name!r}]"


def _name_time(data: xr.Dataset, declared: str | None, guesses: Guesses) -> tuple[xr.Dataset, str]:
    """Return data with times as increasing numbers along `time`, and the name of time in the data."""
    name = _time_name(data, declared, guesses)
    if name not in data.variables:
        raise InputError(
            "data",
            expected=f"values of {name!r}",
            got="a dimension without",
            fix=f"add the times: data.assign_coords({name}=dt * numpy.arange({data.sizes[name]}))",
        )
    data = data.set_coords(name)
    if data[name].dtype.kind not in "fiu":
        seconds, since = elapsed_seconds(data[name].values)
        about = data[name].attrs | {"units": "s"} | ({"since": since} if since else {})
        data = data.assign_coords({name: (data[name].dims, seconds, about)})
    if data[name].ndim == 2:
        data = _share_clock(data, name, guesses)
    dim = str(data[name].dims[0])
    for rival in sorted(({dim, "time"} - {name}).intersection(map(str, data.variables))):
        guesses.append(Guess("time", name, f"the numbers of {rival!r} are left out"))
        data = data.drop_vars(rival)
    if dim != name:
        data = data.swap_dims({dim: name})
    # checked before the grid is filled: an interval of zero or of NaN has no grid
    check_clock(name, data[name].values.astype(np.float64))
    data, missing = insert_missing_times(data, name)
    if missing:
        guesses.append(Guess("time", name, f"{missing} times of an even grid are missing: NaN"))
    return data.rename({name: "time"}) if name != "time" else data, name


def _time_name(data: xr.Dataset, declared: str | None, guesses: Guesses) -> str:
    """Return name of the variable or dimension of time.

    Raises:
        InputError: there is none, or another than declared.
    """
    candidates = _candidates(data)
    if declared is not None:
        checks.one_of("time", declared, list(dict.fromkeys([*candidates, *map(str, data.sizes)])))
        return declared
    for name in TIMES:
        if name in data.dims or name in candidates.keys() & {*data.coords}:
            return name
    # times (run, step) are taken by their usual names alone
    facts = {key: fact for key, fact in candidates.items() if fact.ndim == 1 or key in TIMES}
    guess = guessed_time(facts, guesses)
    if guess is None:
        fix = "name it: time='...'; where each file is one time: 'u_{time}.nc'"
        if "time" in data.variables:
            fix = "data of one time have none: join several, xarray.concat(..., 'time')"
        got = f"dims {', '.join(map(str, data.dims)) or 'none'}"
        raise InputError("data", expected="a dimension 'time' or 't'", got=got, fix=fix)
    return guess


def _candidates(data: xr.Dataset) -> dict[str, Fact]:
    """Return what is known of numbers, dates and objects that may be dates, along one axis or two."""
    candidates = {}
    for name, values in data.variables.items():
        if values.ndim in (1, 2) and values.dtype.kind in "fiumMO":
            candidates[str(name)] = Fact(values.dtype.kind == "M", values.attrs, values.ndim)
    return candidates


def _share_clock(data: xr.Dataset, name: str, guesses: Guesses) -> xr.Dataset:
    """Return data of runs with times (run, step) of their own along one dimension of time."""
    run, step = map(str, data[name].dims)
    if step in TRAJECTORIES:
        run, step = step, run
    fixed = data.drop_dims(step)
    moving = data.drop_vars([*fixed.variables, step], errors="ignore")
    runs = []
    for k in range(data.sizes[run]):
        run_data = moving.isel({run: k})
        # shorter runs have no times at the end
        runs.append(
            run_data.isel({step: np.isfinite(run_data[name].values)}).swap_dims({step: name})
        )
    runs, notes = align_clocks(runs, name)
    guesses += [Guess("time", name, note) for note in notes]
    joined = xr.concat(runs, dim=run, join="outer", data_vars="all", coords="different")
    return joined.assign(fixed.variables).set_coords([*fixed.coords]).assign_attrs(data.attrs)
