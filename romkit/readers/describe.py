"""Data of others in the schema of romkit."""

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from romkit.core import checks
from romkit.core.boundary import validated
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.types import Array, Names
from romkit.data.context import ROLE, context_names, is_declared, merge_rounded
from romkit.data.controls import BETWEEN, INPUT_UNITS
from romkit.data.habits import warn_habits
from romkit.data.layout import AXIS, Layout, layout_of
from romkit.data.names import unit_of
from romkit.data.schema import DIMS, MIXED, check_states, shared_unit
from romkit.data.summary import summary
from romkit.readers.names import Guess, Guesses, run_columns
from romkit.readers.numbers import decoded
from romkit.readers.roles import (
    LEAD,
    Declared,
    Roles,
    assign_roles,
    broadcast_runs,
    refuse_unlike,
)
from romkit.readers.tables import convert_table, split_units


@validated
def describe(
    data: xr.Dataset | xr.DataArray | pd.DataFrame,
    *,
    context: Sequence[str] | None = None,
    state: Sequence[str] | None = None,
    control: Sequence[str] = (),
    velocity: Sequence[str] | None = None,
    acceleration: Sequence[str] | None = None,
    trajectory: str | None = None,
    time: str | None = None,
) -> xr.Dataset:
    """Return data of any origin in romkit's schema; prints what was taken as what, and what was
    left out.

    Args:
        data: any Dataset whose variables have a dimension of time; a DataArray is a state of one
            variable; a table of pandas has a row for each time of each run, with further dimensions
            in its index, `table.set_index(["run", "t", "x"])`. Cells that are always NaN, land and
            solids, are no part of the state.
        context: names of the context parameters: coordinates or variables, whole numbers or not,
            one for each trajectory or varying along it; dimensions (`Re` of `u(Re, time, x)`), of
            which each value is a trajectory; or attributes, for all trajectories. By default every
            coordinate of numbers along the trajectories.
        state: names of the variables of the state, with any further dimensions (`u(..., y, x)` and
            `v(..., y, x)`); by default every floating-point variable along time that describes no
            other, as bounds do, or the whole numbers where there is none.
        control: names of the inputs, variables (trajectory, time), and perhaps one dimension more.
            Their attribute `between`, "held" or "linear" for all, says how they are between samples.
        velocity: names of the derivatives, in the order of the state; by default the variable
            `velocity` beside one called `state`. Without, velocities are estimated where they are
            needed.
        acceleration: the same of the second derivatives; without, laws are of first order.
        trajectory: the dimension, or column, of the trajectories; by default one of that name, or
            of `run`, `case`, `member`, `realization`, `simulation`, `experiment`, and that of the
            context.
        time: the dimension, coordinate or column of time; by default "time" or "t". Times (run,
            step) are those of each run. Runs that start at different times are counted each from
            its start.

    Returns:
        `state`, perhaps `velocity`, `acceleration` and `control`, each (trajectory, time, ...), the
        context declared. `romkit.forecast` returns the variables in their own dimensions, and
        `romkit.data.fields` gives them back to any other result. NaN means missing, and stays.

    Warns:
        DataWarning: a role was guessed, a variable is left out, or times were changed.

    Raises:
        InputError: a name that is not there, data that cannot be used, or a context with one value
            in several runs.

    Example:
        >>> import numpy as np
        >>> import xarray as xr
        >>> import romkit
        >>> u = xr.DataArray(np.random.default_rng(0).normal(size=(3, 20, 8)), dims=("Re", "t", "x"), name="u")
        >>> data = romkit.data.describe(u.assign_coords(Re=[50, 80, 100], t=0.1 * np.arange(20)), context=["Re"])
        trajectories  3 of up to 20 samples, n = 8
        state         u (x 8), float64
        context       Re 50 ... 100 (whole numbers)
        time          0 ... 1.9, every 0.1
        rates         none given; estimated where needed
        >>> data.state.dims
        ('trajectory', 'time', 'component')
    """
    declared = Declared(context, state, tuple(control), velocity, acceleration, trajectory, time)
    guesses: Guesses = []
    source, declared = _dataset(data, declared, guesses)
    declared = declared.complete_names([*source.variables, *source.dims, *source.attrs])
    # before roles are looked for: packed counts are whole numbers, and would be no states
    source = decoded(source, guesses)
    for name in {*declared.control} & {*source.data_vars}:
        if source[name].dtype.kind == "b":
            source = source.assign({name: source[name].astype(np.float64)})  # a switch
    aligned, roles = assign_roles(source, declared, guesses)
    described = _build_dataset(aligned, roles)
    described, names = _assign_context(described, aligned, roles, guesses)
    described.attrs["ignored"] = _ignored(source, described, roles, names)
    check_states(described)
    if _resemble_dates(described["time"].values):
        how = "if they are dates, parse them: pandas.to_datetime(..., format='%Y%m%d')"
        guesses.append(Guess("time", roles.time, f"numbers with the digits of dates; {how}"))
    # who names the states knows what is left out
    if roles.left_out and declared.state is None:
        words = [f"{name} ({text})" for name, text in roles.left_out.items()]
        warn(f"left out: {', '.join(words)}", DataWarning)
    for guess in guesses:
        warn(str(guess), DataWarning)
    warn_habits(described, "extremes", "equal runs")
    print(summary(described))
    return described


def _resemble_dates(times: Array) -> bool:
    """Tell whether all numbers (T,) are years, months and days, 20250331 say."""
    if len(times) < 2 or not (times.min() > 1e7 and times.max() < 1e8):
        return False
    texts = pd.Series(times).astype(str).str.removesuffix(".0")
    return bool(pd.to_datetime(texts, format="%Y%m%d", errors="coerce").notna().all())


def _dataset(
    data: xr.Dataset | xr.DataArray | pd.DataFrame, declared: Declared, guesses: Guesses
) -> tuple[xr.Dataset, Declared]:
    """Return the data as a dataset, and roles that are known by now."""
    if isinstance(data, xr.DataArray):
        return data.to_dataset(name="state" if data.name is None else str(data.name)), declared
    if isinstance(data, xr.Dataset):
        return data, declared
    data = split_units(data)
    declared = declared.complete_names([*data.columns, *data.index.names])
    run = declared.trajectory
    source, time = convert_table(data, declared.context or (), run, declared.time, guesses)
    if run not in source.dims:
        # a column `run id` is none of the usual names of dimensions
        run = next(iter(run_columns(map(str, source.dims))), None)
    return source, replace(declared, time=time, trajectory=run)


def _ignored(
    source: xr.Dataset, described: xr.Dataset, roles: Roles, context: Sequence[str]
) -> str:
    """Return variables that have no role, as text."""
    used = {*roles.variables, *context, *source.dims, roles.time}
    used.update(described.variables, layout_of(described).coords)
    words = []
    for name in source.variables:
        if name not in used:
            why = roles.left_out.get(str(name))
            words.append(f"{name} ({why})" if why else str(name))
    # labels along the runs stay with the data, and are no context
    for name, values in described.coords.items():
        is_label = values.attrs.get(ROLE) == "label" and name in source.variables
        if is_label and name not in roles.runs:
            words.append(str(name))
    return ", ".join(dict.fromkeys(words))


def _build_dataset(data: xr.Dataset, roles: Roles) -> xr.Dataset:
    """Return the state, rates and inputs along (trajectory, time, ...), with the layout of the
    state.
    """
    data = broadcast_runs(data, roles.variables)
    layout = Layout.build(data, roles.states, LEAD)
    time_units = unit_of(data["time"])
    layout = replace(layout, runs=roles.runs, time=roles.time, time_units=time_units)
    coords, about = _labels(data, layout)
    variables: dict[str, tuple[Any, ...]] = {"state": (DIMS, layout.gather(data, LEAD), about)}
    for rate, names in roles.rates.items():
        of_rate = Layout.build(data, names, LEAD).variables
        if [v.shape for v in of_rate] != [v.shape for v in layout.variables]:
            refuse_unlike(roles.states, names, rate)
        # in the order of the components of the states; the unit of a rate is another
        pairs = zip(layout.variables, names, strict=True)
        like = tuple(replace(variable, name=name, units="") for variable, name in pairs)
        variables[rate] = (DIMS, replace(layout, variables=like).gather(data, LEAD))
    if roles.controls:
        coords |= _inputs(data, roles.controls)
        variables["control"] = coords.pop("control")
    described = xr.Dataset(variables, coords, dict(data.attrs))
    if not layout.is_plain:
        return described.assign_attrs(layout=layout.to_json())
    labels = {name: coord for name, coord in data.coords.items() if coord.dims == (AXIS,)}
    return described.assign_coords(labels)


def _labels(data: xr.Dataset, layout: Layout) -> tuple[dict[str, tuple[Any, ...]], dict[str, str]]:
    """Return coordinates of time and components, and attributes of the state: its unit."""
    time = data["time"]
    times = time.values.astype(np.float64)
    about_time = {"units": layout.time_units, **time.attrs}
    coords = {"time": ("time", times, about_time), AXIS: (AXIS, list(layout.names))}
    if len({*layout.units}) > 1:
        coords["component_units"] = (AXIS, list(layout.units))
    unit = shared_unit(layout.units, MIXED)
    return coords, {"units": unit} if unit else {}


def _inputs(data: xr.Dataset, names: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return the coordinates of the inputs, and their values (trajectories, times, q)."""
    layout = Layout.build(data, names, LEAD)
    # an input that is never known is refused later, and must not be left out as land is
    variables = tuple(replace(variable, mask="") for variable in layout.variables)
    layout = replace(layout, variables=variables)
    labels = list(layout.names)
    if list(names) == ["control"] and "input" in data.coords:
        labels = [str(label) for label in data["input"].values]
    values = layout.gather(data, LEAD).astype(np.float64)
    inputs = {"input": ("input", labels)}
    if len({*layout.units}) > 1:
        inputs[INPUT_UNITS] = ("input", list(layout.units))
    return inputs | {"control": ((*LEAD, "input"), values, _input_attributes(data, names))}


def _input_attributes(data: xr.Dataset, names: Sequence[str]) -> dict[str, str]:
    """Return the course of inputs between samples, and their unit, as far as the data say.

    Raises:
        InputError: some are held and others straight lines, or some say nothing.
    """
    rules = {name: data[name].attrs.get("between") for name in names}
    named = {rule for rule in rules.values() if rule is not None}
    for rule in named:
        checks.one_of("between", rule, BETWEEN)
    if len({*rules.values()}) > 1:  # a law knows one rule for all of its inputs
        raise InputError(
            "control",
            expected="one rule between samples",
            got=", ".join(f"{name}: {rule}" for name, rule in rules.items()),
            fix="give all the attribute between='held', and to smooth ones their means over each interval",
        )
    about = dict(zip(("between",), named, strict=False))
    units = {unit_of(data[name]) for name in names}
    if len(units) == 1 and "" not in units:
        about["units"] = units.pop()
    return about


ALONG_RUNS = (("trajectory",), LEAD, LEAD[::-1])
"""Dimensions of what belongs to runs."""


def _assign_context(
    described: xr.Dataset, data: xr.Dataset, roles: Roles, guesses: Guesses
) -> tuple[xr.Dataset, Names]:
    """Return the dataset with coordinates along trajectories, and the names of its context.

    Those of the context are declared, in its order; others are labels.
    """
    coords = data.coords.items()
    columns = {str(key): coord for key, coord in coords if coord.dims in ALONG_RUNS}
    columns.pop("trajectory", None)
    for name in roles.context or ():
        columns.pop(name, None)  # those of the context stand behind the labels, in its order
        columns[name] = _parameter(data, name)
    for name, coord in columns.items():
        along = coord.transpose(*LEAD, missing_dims="ignore").variable
        described = described.assign_coords({name: along})
    names = _varying(described, roles.context, guesses)
    for name in columns:
        column = described[name]
        if name in names and column.dims == LEAD[:1] and column.dtype.kind == "f":
            # parameters that differ by rounding alone are equal
            described[name] = column.copy(data=merge_rounded(column.values))
        described[name].attrs[ROLE] = "context" if name in names else "label"
    return described, names


def _varying(described: xr.Dataset, declared: Names | None, guesses: Guesses) -> Names:
    """Return the declared context; else the coordinates of numbers along the trajectories that
    vary.

    Raises:
        InputError: a declared context of one value in several runs.
    """
    names = _candidates(described) if declared is None else declared
    number = described.sizes["trajectory"]
    if number == 1:
        return names
    varying = tuple(itertools.filterfalse(lambda name: _is_constant(described[name]), names))
    text = ", ".join(name for name in names if name not in varying)
    if declared and not varying:
        raise InputError(
            "context",
            expected=f"several values of {text}",
            got=f"one in all {number} runs",
            fix="leave it out, or give the value of each run",
        )
    if text:
        why = "one value in all runs, of which models learn nothing"
        guesses.append(Guess("context", text, why))
    if declared is not None:
        return declared
    if varying and not is_declared(described):
        why = f"varies along the runs; name it, context={list(varying)}, or none, context=[]"
        guesses.append(Guess("context", ", ".join(varying), why))
    return varying


def _candidates(described: xr.Dataset) -> Names:
    """Return coordinates along trajectories; the number of a run is no parameter."""
    context = context_names(described)
    numbers_of_runs = run_columns(context)
    return tuple(name for name in context if name not in numbers_of_runs)


def _parameter(data: xr.Dataset, name: str) -> xr.DataArray:
    """Return a declared parameter as numbers along trajectory, and perhaps time.

    Raises:
        InputError: no numbers, other dimensions, or one number for several runs.
    """
    value = data[name] if name in data.variables else xr.DataArray(data.attrs[name])
    if name not in data.variables and value.dtype.kind == "U":
        with contextlib.suppress(ValueError):
            value = value.astype(float)  # a number that was written as text
    if not set(value.dims) <= set(LEAD) or value.dtype.kind not in "iufb":
        raise InputError(
            "context",
            expected="numbers along trajectory (and time)",
            got=f"{name} of dims {value.dims}, dtype {value.dtype}",
            fix=f"convert it: data.assign_coords({name}=data[{name!r}].astype(float))",
        )
    if value.dtype.kind == "b":
        value = value.astype(float)  # a switch is a parameter of two values
    if "trajectory" in value.dims:
        return _flatten_runs(value)
    number = data.sizes["trajectory"]
    if number > 1 and value.ndim == 0:  # readers keep the attribute of the first file
        raise InputError(
            "context",
            expected=f"several values of {name}",
            got=f"{float(value):g} for {number} runs",
            fix="give that of each run; romkit.open(files, along='run') keeps attributes that differ",
        )
    return value.expand_dims(trajectory=number)


def _flatten_runs(value: xr.DataArray) -> xr.DataArray:
    """Return a parameter along trajectory, and along time where it moves in a run: columns of
    tables repeat the number of a run at each time.
    """
    if "time" not in value.dims:
        return value
    numbers = value.transpose(*LEAD).values.astype(float)  # (C, T)
    # behind its end a run has no number
    largest = np.fmax.reduce(numbers, axis=1, keepdims=True)
    filled = np.where(np.isnan(numbers), largest, numbers)
    if (filled != filled[:, :1]).any():
        return value
    return xr.DataArray(filled[:, 0], dims="trajectory", attrs=value.attrs)


def _is_constant(values: xr.DataArray) -> bool:
    numbers = np.asarray(values.values, dtype=np.float64)
    finite = numbers[np.isfinite(numbers)]
    return len(np.unique(finite)) == 1
