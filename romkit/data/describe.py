"""Foreign data and arrays in the schema of romkit, and a dataset in words."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import xarray as xr

from romkit.core import checks, tensors
from romkit.core.boundary import validated
from romkit.core.display import with_unit
from romkit.core.errors import InputError
from romkit.data.context import ROLE, context_names, control_names, even_step, is_declared
from romkit.data.layout import Layout, layout_of
from romkit.data.schema import DIMS, check_own_names, check_states, complete


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
    layout = layout_of(data)
    parts = []
    for variable in layout.variables:
        sizes = ", ".join(
            f"{dim} {size}" for dim, size in zip(variable.dims, variable.shape, strict=True)
        )
        common = str(data["state"].attrs.get("units", ""))
        unit = with_unit(variable.units or ("" if common.startswith("mixed") else common)).strip()
        sizes += (
            f"; {masked} masked" if (masked := math.prod(variable.shape) - variable.size) else ""
        )
        parts.append(
            f"{variable.name}{f' ({sizes})' if sizes else ''}{f' [{unit}]' if unit else ''}"
        )
    return f"{', '.join(parts)}, {data['state'].dtype}"


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


LEAD = DIMS[:2]
RATES = ("velocity", "acceleration")
TIMES = ("time", "t")
TRAJECTORIES = ("trajectory", "run", "case", "member", "realization", "simulation", "experiment")
"""Usual names of the dimension of trajectories."""


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
            `v(..., y, x)`); by default every floating-point variable along time.
        control: names of the inputs, variables (trajectory, time), and perhaps one dimension more.
        velocity: names of the derivatives, in the order of the state; by default the variable
            `velocity`. Without, velocities are estimated where they are needed.
        acceleration: the same of the second derivatives; without, laws are of first order.
        trajectory: the dimension, or column, of the trajectories; by default one of that name, or
            of `run`, `case`, `member`, `realization`, `simulation`, `experiment`, and that of the
            context.
        time: the dimension, or column, of time; by default "time" or "t".

    Returns:
        `state`, perhaps `velocity`, `acceleration` and `control`, each (trajectory, time, ...), the
        context declared. `romkit.forecast` returns the variables in their own dimensions, and
        `romkit.data.fields` gives them back to any other result. NaN means missing, and stays.

    Raises:
        InputError: a name that is not there, or data that cannot be used.

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
    if isinstance(data, pd.DataFrame):
        data = _of_table(data, tuple(context or ()), trajectory, time)
    given = (
        data.to_dataset(name=str(data.name or "state")) if isinstance(data, xr.DataArray) else data
    )
    own_time = _time_of(given, time)
    data = _numeric_time(given.rename({own_time: "time"}))
    runs = _runs_of(data, tuple(context or ()), trajectory)
    data = _with_trajectories(data, runs)
    controls = [_named(data, "control", name) for name in control]
    rates = {
        name: _rates(data, name, own)
        for name, own in zip(RATES, (velocity, acceleration), strict=True)
    }
    taken = {*controls, *(context or ()), *(own for names in rates.values() for own in names)}
    states = (
        [_named(data, "state", name) for name in state]
        if state is not None
        else _states(data, taken)
    )
    if not states:
        fix = "name one: state=['u'], say"
        raise InputError("state", expected="a variable or several", got="none", fix=fix)
    found = _in_schema(data, states, rates, controls, runs, own_time)
    found = _with_context(found, data, context)
    held = layout_of(found).coords
    unused = given.variables.keys() - {*states, *taken, *found.variables, *given.dims, *held}
    left = [
        f"{name}{_parameter(values)}" for name, values in given.variables.items() if name in unused
    ]
    left += [
        name
        for name in found.coords
        if found[name].attrs.get(ROLE) == "label" and name not in (*left, *runs)
    ]
    found.attrs |= {"ignored": ", ".join(left)}
    check_states(found)
    print(summary(found))
    return found


def _parameter(values: xr.Variable) -> str:
    """Advice about a coordinate of numbers that may be a parameter."""
    alone = values.ndim == 1 and values.dims[0] not in TIMES and values.dtype.kind in "iuf"
    return (
        f" (along {values.dims[0]}; if it is a parameter, name it as the context)" if alone else ""
    )


def _of_table(
    table: pd.DataFrame, context: Sequence[str], run: str | None, time: str | None
) -> xr.Dataset:
    """A table as a dataset; a column that stays within each run is a coordinate of the runs."""
    space = [str(name) for name in table.index.names if name is not None]
    table = (table.reset_index() if space else table).rename(columns=str)
    columns = list(table.columns)
    time = next((name for name in TIMES if name in columns), None) if time is None else time
    run = next((name for name in TRAJECTORIES if name in columns), None) if run is None else run
    named = [
        ("time", time),
        *(("context", name) for name in context),
        *([("trajectory", run)] if run else []),
    ]
    for argument, name in named:
        checks.one_of(argument, name, columns)
    space = [name for name in space if name not in (run, time)]
    alone = run is None and not table.duplicated([time, *space]).any()
    if run is None:
        run = context[0] if len(context) == 1 and not alone else "trajectory"
        table = table.assign(
            trajectory=table.groupby(list(context)).ngroup() if context and not alone else 0
        )
    steps = table.groupby(run)[time].diff()
    if (
        table[time].dtype.kind == "f" and (steps > 0).any()
    ):  # runs whose times differ by rounding share them
        table[time] = table.groupby((table[time] / steps[steps > 0].median() * 1e4).round())[
            time
        ].transform("first")
    keys = [run, time, *space]
    if (twice := table.duplicated(keys)).any():
        got = ", ".join(
            f"{name}={value:g}" for name, value in table.loc[twice, keys[1:]].iloc[0].items()
        )
        fix = "name the runs, trajectory='...', or put dimensions into the index, data.set_index(['run', 't', 'x'])"
        keys = [name for name in keys if name in columns]
        raise InputError(
            "data",
            expected=f"one row for each {', '.join(keys)}",
            got=f"several for {got}",
            fix=fix,
        )
    data = table.set_index(keys).to_xarray()
    for name in columns:
        if name not in keys and (within := table.groupby(run)[name]).nunique().max() <= 1:
            data = data.drop_vars(name).assign_coords({name: (run, within.first().values)})
    return (data.isel(trajectory=0) if alone else data).drop_vars("trajectory", errors="ignore")


def _time_of(data: xr.Dataset, name: str | None) -> str:
    """Name of the dimension of time."""
    if name is not None:
        checks.one_of("time", name, list(map(str, data.dims)))
    names = [name] if name is not None else [each for each in TIMES if each in data.dims]
    if not names:
        fix = "name it: time='...'"
        raise InputError(
            "data", expected="a dimension 'time' or 't'", got=f"dims {tuple(data.dims)}", fix=fix
        )
    if names[0] not in data.coords:
        fix = f"add the times: data.assign_coords({names[0]}=dt * numpy.arange({data.sizes[names[0]]}))"
        raise InputError(
            "data", expected=f"values of {names[0]!r}", got="a dimension without", fix=fix
        )
    return names[0]


def _numeric_time(data: xr.Dataset) -> xr.Dataset:
    """Convert dates and durations to seconds since the first."""
    time = data["time"]
    if time.dtype.kind not in "mM":
        if time.dtype.kind not in "fiu":
            fix = (
                "give numbers, or dates of numpy: ds.convert_calendar('standard', use_cftime=False)"
            )
            raise InputError(
                "time", expected="numbers or dates", got=f"dtype {time.dtype}", fix=fix
            )
        return data
    seconds, about = (
        (time.values - time.values[:1]) / np.timedelta64(1, "s"),
        {**time.attrs, "units": "s"},
    )
    if time.dtype.kind == "M" and time.size:
        about["since"] = str(time.values[0])
    return data.assign_coords(time=("time", seconds, about))


def _runs_of(data: xr.Dataset, context: Sequence[str], name: str | None) -> list[str]:
    """Names of the dimensions of which each entry is a trajectory: the given one and those of the
    context.
    """
    for parameter in context:
        if parameter not in data.variables and parameter not in data.attrs:
            known = ", ".join(str(each) for each in data.variables)
            fix = "give the dimension values" if parameter in data.dims else "check the spelling"
            raise InputError(
                "context", expected=f"names among {known}", got=repr(parameter), fix=fix
            )
    if name is not None:
        checks.one_of("trajectory", name, list(map(str, data.dims)))
    named = [name] if name is not None else [each for each in TRAJECTORIES if each in data.dims][:1]
    along = [
        dim
        for each in context
        if each in data.variables
        for dim in data[each].dims
        if dim != "time"
    ]
    return list(dict.fromkeys([*named, *map(str, along)]))


def _with_trajectories(data: xr.Dataset, dims: Sequence[str]) -> xr.Dataset:
    """Stack dimensions into `trajectory`."""
    if dims == ["trajectory"]:
        return data
    if not dims:
        return data.expand_dims("trajectory")
    if len(dims) == 1:
        renamed = data.rename_dims({dims[0]: "trajectory"})
        return renamed.drop_indexes(dims[0]) if dims[0] in renamed.xindexes else renamed
    numbers = {dim: np.arange(data.sizes[dim]) for dim in dims if dim not in data.coords}
    return data.assign_coords(numbers).stack(trajectory=dims, create_index=False)


def _named(data: xr.Dataset, argument: str, name: str) -> str:
    if name in data.data_vars and "time" in data[name].dims:
        return name
    known = ", ".join(str(each) for each, values in data.data_vars.items() if "time" in values.dims)
    expected, fix = f"variables along time, among {known}", "check the spelling"
    raise InputError(argument, expected=expected, got=repr(name), fix=fix)


def _rates(data: xr.Dataset, name: str, given: Sequence[str] | None) -> list[str]:
    if given is not None:
        return [_named(data, name, each) for each in given]
    return [name] if name in data.data_vars else []


def _states(data: xr.Dataset, taken: set[str]) -> list[str]:
    names = [
        str(name)
        for name, values in data.data_vars.items()
        if name not in taken
        and "time" in values.dims
        and values.dtype.kind == "f"
        and name != "control"
    ]
    if names:
        return ["state"] if "state" in names else names
    got = f"variables {sorted(map(str, data.data_vars))}"
    raise InputError(
        "data", expected="a floating-point variable along time", got=got, fix="name it: state=['u']"
    )


def _in_schema(
    data: xr.Dataset,
    states: Sequence[str],
    rates: Mapping[str, Sequence[str]],
    controls: Sequence[str],
    runs: Sequence[str],
    own_time: str,
) -> xr.Dataset:
    time, inputs = data["time"], controls or (["control"] if "control" in data.data_vars else [])
    data = _along_runs_and_time(
        data, [*states, *(each for own in rates.values() for each in own), *inputs]
    )
    time_units = str(time.attrs.get("units", ""))
    layout = replace(
        Layout.of(data, states, LEAD), runs=tuple(runs), time=own_time, time_units=time_units
    )
    coords = {
        "time": ("time", time.values.astype(np.float64), {"units": time_units, **time.attrs}),
        "component": ("component", list(layout.names)),
    }
    units = "".join(set(layout.units))
    if len(set(layout.units)) > 1:
        units, coords["component_units"] = (
            "mixed, see component_units",
            ("component", list(layout.units)),
        )
    variables = {"state": (DIMS, layout.gather(data, LEAD), {"units": units} if units else {})}
    for name, own in rates.items():
        if own:
            if [v.shape for v in Layout.of(data, own, LEAD).variables] != [
                v.shape for v in layout.variables
            ]:
                got, fix = ", ".join(own), "name one for each variable of the state, in its order"
                raise InputError(
                    name, expected=f"variables like {', '.join(states)}", got=got, fix=fix
                )
            like = tuple(
                replace(each, name=rate) for each, rate in zip(layout.variables, own, strict=True)
            )
            variables[name] = (DIMS, replace(layout, variables=like).gather(data, LEAD))
    if inputs:
        like = Layout.of(data, inputs, LEAD)
        like = replace(like, variables=tuple(replace(each, mask="") for each in like.variables))
        known = inputs == ["control"] and "input" in data.coords
        coords["input"] = ("input", [*map(str, data["input"].values if known else like.names)])
        variables["control"] = ((*LEAD, "input"), like.gather(data, LEAD).astype(np.float64))
    found = xr.Dataset(variables, coords, dict(data.attrs))
    if layout.is_plain:
        return found.assign_coords(
            {k: c for k, c in data.coords.items() if c.dims == ("component",)}
        )
    return found.assign_attrs(layout=layout.to_json())


def _along_runs_and_time(data: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
    """Data with these variables along trajectory and time, also those that all trajectories share."""
    wide = {}
    for name in names:
        if missing := {*LEAD} - {*data[name].dims}:
            each = data[name].broadcast_like(data["time"])
            wide[name] = each.expand_dims({dim: data.sizes[dim] for dim in missing - {"time"}})
    return data.assign(wide)


def _with_context(found: xr.Dataset, data: xr.Dataset, context: Sequence[str] | None) -> xr.Dataset:
    """Add coordinates along trajectories; those of the context are declared, in its order, others
    are labels.
    """
    along = (("trajectory",), LEAD, LEAD[::-1])
    coords = {
        n: c
        for n, c in data.coords.items()
        if c.dims in along and n not in ("trajectory", *(context or ()))
    }
    check_own_names("context", context or ())
    for name in context or ():
        value = data[name] if name in data.variables else xr.DataArray(data.attrs[name])
        if not set(value.dims) <= set(LEAD) or value.dtype.kind not in "iufb":
            got, fix = f"{name} of dims {value.dims}, dtype {value.dtype}", "convert it to numbers"
            raise InputError(
                "context", expected="numbers along trajectory (and time)", got=got, fix=fix
            )
        wide = (
            value
            if "trajectory" in value.dims
            else value.expand_dims(trajectory=data.sizes["trajectory"])
        )
        coords[name] = wide.astype(float) if wide.dtype.kind == "b" else wide
    found = found.assign_coords(
        {n: c.transpose(*LEAD, missing_dims="ignore").variable for n, c in coords.items()}
    )
    names = (
        [n for n in context_names(found) if n not in TRAJECTORIES] if context is None else context
    )
    for name in coords:
        found[name].attrs[ROLE] = "context" if name in names else "label"
    return found


@validated
def from_arrays(
    states: np.ndarray | Sequence[np.ndarray],
    times: np.ndarray | Sequence[np.ndarray],
    *,
    context: Mapping[str, object] | None = None,
    control: np.ndarray | Sequence[np.ndarray] | None = None,
    velocity: np.ndarray | Sequence[np.ndarray] | None = None,
    names: Sequence[str] | None = None,
) -> xr.Dataset:
    """A dataset of arrays or tensors, as pysindy takes them; prints what was taken as what, as
    `describe` does.

    Args:
        states: (trajectories, times, n), or a list of (timesₖ, n), whose shorter ones end before
            the others; (times, n) is a single trajectory.
        times: the interval; or (T,) of the longest trajectory; or those of each, which begin as the
            longest do.
        context: parameters by name, a number for each trajectory.
        control: inputs, as the states; without the last axis where there is one input.
        velocity: as the states.
        names: of the n components.

    Raises:
        InputError: shapes or times that do not match.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> t = 0.1 * np.arange(50)
        >>> runs = [np.stack([np.cos(w * t), np.sin(w * t)], axis=-1) for w in (1.0, 1.5)]
        >>> data = romkit.data.from_arrays([runs[0], runs[1][:30]], 0.1, context={"w": [1.0, 1.5]})
        trajectories  2 of up to 50 samples, n = 2
        state         state (component 2), float64
        context       w 1 ... 1.5 (float)
        time          0 ... 4.9, every 0.1
        velocity      none; estimated where it is needed
        missing       20.0% of the snapshots, in 1 trajectories (1); left out, never filled
    """
    given = {"states": states, "velocity": velocity, "control": control}
    given = {name: each for name, each in given.items() if each is not None}
    if isinstance(states, np.ndarray) and states.ndim == 2:
        given = {name: [each] for name, each in given.items()}
    times = _common_times(times, [len(each) for each in _each("states", given["states"])])
    arrays = {name: _padded(_each(name, each)) for name, each in given.items()}
    number, _, n = arrays["states"].shape
    for name, values in arrays.items():
        shape = (number, len(times)) if name == "control" else (number, len(times), n)
        if values.shape[: len(shape)] != shape:
            expected = f"shape {shape}, as the {'times' if name == 'states' else 'states'}"
            raise InputError(
                name, expected=expected, got=f"shape {values.shape}", fix="give one for each state"
            )
    arrays["state"] = arrays.pop("states")
    variables = {
        name: (DIMS if name != "control" else (*LEAD, "input"), values)
        for name, values in arrays.items()
    }
    coords: dict[str, object] = {"time": times}
    if names is not None:
        if len(names) != n:
            expected, fix = f"{n}, one for each component", "name each component"
            raise InputError("names", expected=expected, got=len(names), fix=fix)
        coords["component"] = list(names)
    if control is not None:
        coords["input"] = [f"u{k}" for k in range(arrays["control"].shape[2])]
    check_own_names("context", context or ())
    for name, values in (context or {}).items():
        values = np.atleast_1d(np.asarray(values))
        if values.shape != (number,):
            got, fix = f"shape {values.shape}", f"give {number} of them"
            raise InputError(name, expected="one number for each trajectory", got=got, fix=fix)
        coords[name] = ("trajectory", values)
    return describe(xr.Dataset(variables, coords), context=tuple(context or ()))


def _common_times(times: np.ndarray | Sequence[np.ndarray], lengths: Sequence[int]) -> np.ndarray:
    """(T,) of the longest of trajectories that have these lengths."""
    if isinstance(times, np.ndarray) and times.ndim == 0:
        if not 0 < times < np.inf:
            raise InputError(
                "times",
                expected="a positive interval, or times",
                got=times,
                fix="give times=0.1, say",
            )
        return times * np.arange(max(lengths), dtype=np.float64)
    if isinstance(times, np.ndarray) and times.ndim == 1:
        return tensors.times("times", times).double().numpy()
    each = [tensors.times("times", own).double().numpy() for own in times]
    longest = max(each, key=len)
    near = {"rtol": 0.0, "atol": 1e-3 * np.diff(longest).min() if len(longest) > 1 else 0.0}
    for k, own in enumerate(each):
        if not np.allclose(own, longest[: len(own)], **near):
            got, fix = (
                f"{own[0]:g} ... {own[-1]:g} for trajectory {k}",
                "count each from its start, or interpolate",
            )
            raise InputError(
                "times",
                expected=f"times from {longest[0]:g} on, as of the longest",
                got=got,
                fix=fix,
            )
    if [*map(len, each)] != [*lengths]:
        expected, got = (
            f"as many times as states, {', '.join(map(str, lengths))}",
            ", ".join(str(len(t)) for t in each),
        )
        raise InputError(
            "times", expected=expected, got=got, fix="give one list of times for each trajectory"
        )
    return longest


def _each(name: str, given: np.ndarray | Sequence[np.ndarray]) -> list[np.ndarray]:
    """The array (times, k) of each trajectory."""
    each = [*given] if not isinstance(given, np.ndarray) or given.ndim else []
    each = [array[:, None] if name == "control" and array.ndim == 1 else array for array in each]
    if (
        not each
        or any(array.ndim != 2 for array in each)
        or len({array.shape[1] for array in each}) != 1
    ):
        got = ", ".join(str(array.shape) for array in each[:4]) or "none"
        fix = "put time on the first axis, and one size on the last"
        raise InputError(name, expected="arrays (times, n)", got=got, fix=fix)
    return each


def _padded(each: Sequence[np.ndarray]) -> np.ndarray:
    """(C, T, k) with NaN behind the end of shorter ones."""
    shape = (len(each), max(map(len, each)), each[0].shape[1])
    padded = np.full(shape, np.nan, dtype=np.result_type(*each, np.float32))
    for row, array in zip(padded, each, strict=True):
        row[: len(array)] = array
    return padded
