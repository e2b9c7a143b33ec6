"""Data of others in the schema of romkit."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import xarray as xr

from romkit.core import checks
from romkit.core.boundary import validated
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.types import Array, Names
from romkit.data.context import ROLE, context_names, is_declared, without_rounding
from romkit.data.controls import BETWEEN, INPUT_UNITS
from romkit.data.dates import digits_of_dates
from romkit.data.extremes import warn_of_extremes
from romkit.data.layout import AXIS, Layout, layout_of
from romkit.data.names import TIMES, columns_of_runs, unit_of
from romkit.data.numbers import decoded
from romkit.data.roles import (
    LEAD,
    Declared,
    Roles,
    along_runs_and_time,
    refuse_unlike,
    roles_of,
)
from romkit.data.schema import DIMS, MIXED, check_states
from romkit.data.summary import summary
from romkit.data.tables import of_table

ALONG_RUNS = (("trajectory",), LEAD, LEAD[::-1])
"""Dimensions of what belongs to runs."""


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
    """Data of any origin in romkit's schema; prints what was taken as what, and what was left out.

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
            Their attribute `between`, "held" or "linear", says how they are between samples.
        velocity: names of the derivatives, in the order of the state; by default the variable
            `velocity`, if the difference quotients of the state agree with it. Without, velocities
            are estimated where they are needed.
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
        velocity      none; estimated where it is needed
        >>> data.state.dims
        ('trajectory', 'time', 'component')
    """
    declared = Declared(
        context=_names(context),
        state=_names(state),
        control=tuple(control),
        velocity=_names(velocity),
        acceleration=_names(acceleration),
        trajectory=trajectory,
        time=time,
    )
    source, declared, notes = _dataset(data, declared)
    declared = declared.in_full([*source.variables, *source.dims, *source.attrs])
    # before roles are looked for: packed counts are whole numbers, and would be no states
    source, unpacked = decoded(source)
    aligned, roles = roles_of(source, declared)
    described = _in_schema(aligned, roles)
    described, names, guesses = _with_context(described, aligned, roles)
    described.attrs["ignored"] = _ignored(source, described, roles, names)
    check_states(described)
    doubts = _doubtful_times(described)
    notes = [*notes, *unpacked, *roles.notes, *guesses, *doubts]
    # who names the states knows what is left out
    if roles.left_out and declared.state is None:
        words = [f"{name} ({text})" for name, text in roles.left_out.items()]
        notes.append(f"left out: {', '.join(words)}")
    for note in notes:
        warn(note, DataWarning)
    warn_of_extremes(described)
    print(summary(described))
    return described


def _doubtful_times(described: xr.Dataset) -> list[str]:
    """A warning where numbers that are taken for times are the digits of dates."""
    times = described["time"].values
    form = digits_of_dates(times)
    if form is None:
        return []
    how = f"if they are dates, parse them: pandas.to_datetime(..., format={form!r})"
    return [f"times like {times[0]:08.0f} are taken for numbers; {how}"]


def _names(names: Sequence[str] | None) -> Names | None:
    return None if names is None else tuple(names)


def _dataset(
    data: xr.Dataset | xr.DataArray | pd.DataFrame, declared: Declared
) -> tuple[xr.Dataset, Declared, list[str]]:
    """The data as a dataset, roles that are known by now, and sentences for warnings."""
    if isinstance(data, xr.DataArray):
        return data.to_dataset(name=str(data.name or "state")), declared, []
    if isinstance(data, xr.Dataset):
        return data, declared, []
    declared = declared.in_full([*data.columns, *data.index.names])
    context = declared.context
    if context is None:
        context = ()
    run = declared.trajectory
    source, time, notes = of_table(data, context, run, declared.time)
    if run not in source.dims:
        # a column `run id` is none of the usual names of dimensions
        columns = columns_of_runs(map(str, source.dims))
        run = columns[0] if columns else None
    return source, replace(declared, time=time, trajectory=run), notes


def _ignored(
    source: xr.Dataset, described: xr.Dataset, roles: Roles, context: Sequence[str]
) -> str:
    """Variables that have no role, as text."""
    used = {*roles.states, *roles.controls, *context, *source.dims, roles.time}
    used.update(described.variables, layout_of(described).coords)
    for names in roles.rates.values():
        used.update(names)
    words = []
    for name, values in source.variables.items():
        if name not in used:
            words.append(_ignored_in_words(str(name), values, roles))
    # labels along the runs stay with the data, and are no context
    for name, values in described.coords.items():
        is_label = values.attrs.get(ROLE) == "label" and name in source.variables
        if is_label and name not in roles.runs:
            words.append(str(name))
    return ", ".join(dict.fromkeys(words))


def _ignored_in_words(name: str, values: xr.Variable, roles: Roles) -> str:
    if name in roles.left_out:
        return f"{name} ({roles.left_out[name]})"
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        return name
    (dim,) = values.dims
    if dim in TIMES:
        return name
    return f"{name} (along {dim}; if it is a parameter, name it as the context)"


def _in_schema(data: xr.Dataset, roles: Roles) -> xr.Dataset:
    """State, rates and inputs along (trajectory, time, ...), with the layout of the state."""
    wide = [*roles.states, *roles.controls]
    for names in roles.rates.values():
        wide += names
    data = along_runs_and_time(data, wide)
    layout = Layout.of(data, roles.states, LEAD)
    time_units = unit_of(data["time"])
    layout = replace(layout, runs=roles.runs, time=roles.time, time_units=time_units)
    coords, about = _labels(data, layout)
    variables = {"state": (DIMS, layout.gather(data, LEAD), about)}
    for rate, names in roles.rates.items():
        variables[rate] = (DIMS, _gathered_like(data, layout, names, rate))
    if roles.controls:
        coords["input"], variables["control"] = _inputs(data, roles.controls)
        units = Layout.of(data, roles.controls, LEAD).units
        if len(set(units)) > 1:
            coords[INPUT_UNITS] = ("input", list(units))
    described = xr.Dataset(variables, coords, dict(data.attrs))
    if not layout.is_plain:
        return described.assign_attrs(layout=layout.to_json())
    labels = {name: coord for name, coord in data.coords.items() if coord.dims == (AXIS,)}
    return described.assign_coords(labels)


def _labels(data: xr.Dataset, layout: Layout) -> tuple[dict[str, tuple], dict[str, str]]:
    """Coordinates of time and components, and attributes of the state: its unit."""
    time = data["time"]
    times = time.values.astype(np.float64)
    about_time = {"units": layout.time_units, **time.attrs}
    coords = {
        "time": ("time", times, about_time),
        AXIS: (AXIS, list(layout.names)),
    }
    units = set(layout.units)
    if len(units) > 1:
        coords["component_units"] = (AXIS, list(layout.units))
        return coords, {"units": MIXED}
    about = {}
    if any(units):
        about["units"] = units.pop()
    return coords, about


def _gathered_like(data: xr.Dataset, layout: Layout, names: Sequence[str], rate: str) -> Array:
    """Rates (trajectories, times, n) in the order of the components of the states.

    Raises:
        InputError: variables of other sizes.
    """
    of_rates = Layout.of(data, names, LEAD).variables
    shapes = [variable.shape for variable in layout.variables]
    if [variable.shape for variable in of_rates] != shapes:
        states = [variable.name for variable in layout.variables]
        refuse_unlike(states, names, rate)
    like = []
    for variable, name in zip(layout.variables, names, strict=True):
        # the unit of a rate is not that of the state
        like.append(replace(variable, name=name, units=""))
    return replace(layout, variables=tuple(like)).gather(data, LEAD)


def _inputs(data: xr.Dataset, names: Sequence[str]) -> tuple[tuple, tuple]:
    """The coordinate of the inputs and their values (trajectories, times, q)."""
    layout = Layout.of(data, names, LEAD)
    # an input that is never known is refused later, and must not be left out as land is
    variables = tuple(replace(variable, mask="") for variable in layout.variables)
    layout = replace(layout, variables=variables)
    labels = list(layout.names)
    if list(names) == ["control"] and "input" in data.coords:
        labels = [str(label) for label in data["input"].values]
    values = layout.gather(data, LEAD).astype(np.float64)
    control = ((*LEAD, "input"), values, _about_inputs(data, names))
    return ("input", labels), control


def _about_inputs(data: xr.Dataset, names: Sequence[str]) -> dict[str, str]:
    """Course of inputs between samples, and their unit, as far as the data say."""
    about = {}
    between = _rule_between(data, names)
    if between is not None:
        about["between"] = between
    units = {unit_of(data[name]) for name in names}
    if len(units) == 1 and "" not in units:
        about["units"] = units.pop()
    return about


def _rule_between(data: xr.Dataset, names: Sequence[str]) -> str | None:
    """The attribute `between` of all inputs, None where they have none.

    Raises:
        InputError: some are held and others straight lines, or some say nothing.
    """
    rules = [data[name].attrs.get("between") for name in names]
    for rule in rules:
        if rule is not None:
            checks.one_of("between", rule, BETWEEN)
    if len(set(rules)) > 1:  # a law knows one rule for all of its inputs
        raise InputError(
            "control",
            expected="one rule between samples",
            got=", ".join(f"{name}: {rule}" for name, rule in zip(names, rules, strict=True)),
            fix="give all of them the attribute between='held', or 'linear'",
        )
    return rules[0]


def _with_context(
    described: xr.Dataset, data: xr.Dataset, roles: Roles
) -> tuple[xr.Dataset, Names, list[str]]:
    """The dataset with coordinates along trajectories, names of its context, and warnings.

    Those of the context are declared, in its order; others are labels.
    """
    columns = {}
    for name, coord in data.coords.items():
        if coord.dims in ALONG_RUNS and name != "trajectory":
            columns[str(name)] = coord
    for name in roles.context or ():
        columns.pop(name, None)  # those of the context stand behind the labels, in its order
        columns[name] = _parameter(data, name)
    coords = {}
    for name, column in columns.items():
        coords[name] = column.transpose(*LEAD, missing_dims="ignore").variable
    described = described.assign_coords(coords)
    if roles.context is None:
        names, notes = _guessed_context(described)
    else:
        names = roles.context
        notes = _constants_in_words(described, names)
    for name in coords:
        described[name].attrs[ROLE] = "context" if name in names else "label"
    return _with_equal_parameters(described, names), names, notes


def _with_equal_parameters(described: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
    """The dataset whose parameters that differ by rounding alone are equal."""
    for name in names:
        column = described[name]
        if column.dims == LEAD[:1] and column.dtype.kind == "f":
            described[name] = column.copy(data=without_rounding(column.values))
    return described


def _parameter(data: xr.Dataset, name: str) -> xr.DataArray:
    """A declared parameter as numbers along trajectory, and perhaps time.

    Raises:
        InputError: no numbers, other dimensions, or one number for several runs.
    """
    if name in data.variables:
        value = data[name]
    else:
        value = _number(data.attrs[name])
    if not set(value.dims) <= set(LEAD) or value.dtype.kind not in "iufb":
        raise InputError(
            "context",
            expected="numbers along trajectory (and time)",
            got=f"{name} of dims {value.dims}, dtype {value.dtype}",
            fix="convert it to numbers",
        )
    if value.dtype.kind == "b":
        value = value.astype(float)  # a switch is a parameter of two values
    if "trajectory" in value.dims:
        return _of_runs(value)
    number = data.sizes["trajectory"]
    if number > 1 and value.ndim == 0:  # readers keep the attribute of the first file
        raise InputError(
            "context",
            expected=f"several values of {name}",
            got=f"{float(value):g} for {number} runs",
            fix="give that of each run; romkit.open(files, along='run') keeps attributes that differ",
        )
    return value.expand_dims(trajectory=number)


def _of_runs(value: xr.DataArray) -> xr.DataArray:
    """A parameter along trajectory, and along time where it moves in a run: columns of tables repeat
    the number of a run at each time.
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


def _constants_in_words(described: xr.Dataset, declared: Sequence[str]) -> list[str]:
    """Warnings of parameters that have one value in several runs, while others vary.

    Raises:
        InputError: none varies.
    """
    number = described.sizes["trajectory"]
    if number == 1:
        return []
    constant = [name for name in declared if _is_constant(described[name])]
    if not constant:
        return []
    names = ", ".join(constant)
    if len(constant) == len(declared):
        raise InputError(
            "context",
            expected=f"several values of {names}",
            got=f"one in all {number} runs",
            fix="leave it out, or give the value of each run",
        )
    return [f"{names}: one value in all runs; models know nothing of another"]


def _number(attribute: object) -> xr.DataArray:
    """An attribute as a number, also one that was written as text."""
    if not isinstance(attribute, str):
        return xr.DataArray(attribute)
    try:
        return xr.DataArray(float(attribute))
    except ValueError:
        return xr.DataArray(attribute)


def _is_constant(values: xr.DataArray) -> bool:
    numbers = np.asarray(values.values, dtype=np.float64)
    known = numbers[np.isfinite(numbers)]
    return len(np.unique(known)) == 1


def _guessed_context(described: xr.Dataset) -> tuple[Names, list[str]]:
    """Coordinates of numbers along the trajectories that vary, and sentences for warnings."""
    # the number of a run is no parameter, though it is a number along the runs
    names = context_names(described)
    numbers_of_runs = columns_of_runs(names)
    candidates = [name for name in names if name not in numbers_of_runs]
    if described.sizes["trajectory"] == 1:
        return tuple(candidates), []
    varying, constant = [], []
    for name in candidates:
        names = constant if _is_constant(described[name]) else varying
        names.append(name)
    guesses = []
    if varying and not is_declared(described):
        how = f"name it, context={varying}, or none, context=[]"
        guesses.append(f"the context is taken to be {', '.join(varying)}; {how}")
    if constant:
        guesses.append(f"{', '.join(constant)}: one value in all runs, so no context")
    return tuple(varying), guesses
