"""Foreign data and arrays in the schema of romkit, and a dataset in words."""

from collections.abc import Mapping, Sequence

import numpy as np
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
    """Summary of a dataset as romkit reads it: state, context, sampling, missing samples, ignored variables.

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
        sizes = ", ".join(f"{dim} {size}" for dim, size in zip(variable.dims, variable.shape, strict=True))
        common = str(data["state"].attrs.get("units", ""))
        unit = with_unit(variable.units or ("" if common.startswith("mixed") else common)).strip()
        parts.append(f"{variable.name}{f' ({sizes})' if sizes else ''}{f' [{unit}]' if unit else ''}")
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
    data: xr.Dataset | xr.DataArray,
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
        data: any Dataset whose variables have a dimension of time; a DataArray is a state of one variable.
        context: names of the context parameters: coordinates or variables, whole numbers or not, one for each
            trajectory or varying along it; dimensions (`Re` of `u(Re, time, x)`), of which each value is a trajectory;
            or attributes, for all trajectories. By default every coordinate of numbers along the trajectories.
        state: names of the variables of the state, with any further dimensions (`u(..., y, x)` and `v(..., y, x)`); by
            default every floating-point variable along time.
        control: names of the inputs, variables (trajectory, time), and perhaps one dimension more.
        velocity: names of the derivatives, in the order of the state; by default the variable `velocity`. Without,
            velocities are estimated where they are needed.
        acceleration: the same of the second derivatives; without, laws are of first order.
        trajectory: the dimension of the trajectories; by default one of that name, or of `run`, `case`, `member`,
            `realization`, `simulation`, `experiment`, and that of the context.
        time: the dimension of time; by default "time" or "t".

    Returns:
        `state`, perhaps `velocity`, `acceleration` and `control`, each (trajectory, time, ...), the context declared.
        `romkit.data.fields` gives any such dataset its own dimensions back. NaN means missing, and stays.

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
    given = data.to_dataset(name=str(data.name or "state")) if isinstance(data, xr.DataArray) else data
    data = _numeric_time(_with_time(given, time))
    data = _with_trajectories(data, tuple(context or ()), trajectory)
    controls = [_named(data, "control", name) for name in control]
    rates = {name: _rates(data, name, own) for name, own in zip(RATES, (velocity, acceleration), strict=True)}
    taken = {*controls, *(context or ()), *(own for names in rates.values() for own in names)}
    states = [_named(data, "state", name) for name in state] if state is not None else _states(data, taken)
    if not states:
        fix = "name one: state=['u'], say"
        raise InputError("state", expected="a variable or several", got="none", fix=fix)
    found = _assembled(data, states, rates, controls)
    found = _with_context(found, data, context)
    unused = given.variables.keys() - {*states, *taken, *found.coords, *given.dims}
    left = [f"{name}{_parameter(values)}" for name, values in given.variables.items() if name in unused]
    left += [name for name in found.coords if found[name].attrs.get(ROLE) == "label" and name not in left]
    found.attrs |= {"ignored": ", ".join(left)}
    check_states(found)
    print(summary(found))
    return found


def _parameter(values: xr.Variable) -> str:
    """Advice about a coordinate of numbers that may be a parameter."""
    alone = values.ndim == 1 and values.dims[0] not in TIMES and values.dtype.kind in "iuf"
    return f" (along {values.dims[0]}; if it is a parameter, name it as the context)" if alone else ""


def _with_time(data: xr.Dataset, name: str | None) -> xr.Dataset:
    if name is not None:
        checks.one_of("time", name, list(map(str, data.dims)))
    names = [name] if name is not None else [each for each in TIMES if each in data.dims]
    if not names:
        fix = "name it: time='...'"
        raise InputError("data", expected="a dimension 'time' or 't'", got=f"dims {tuple(data.dims)}", fix=fix)
    if names[0] not in data.coords:
        fix = f"add the times: data.assign_coords({names[0]}=dt * numpy.arange({data.sizes[names[0]]}))"
        raise InputError("data", expected=f"values of {names[0]!r}", got="a dimension without", fix=fix)
    return data if names[0] == "time" else data.rename({names[0]: "time"})


def _numeric_time(data: xr.Dataset) -> xr.Dataset:
    """Convert dates and durations to seconds since the first."""
    time = data["time"]
    if time.dtype.kind not in "mM":
        if time.dtype.kind not in "fiu":
            fix = "give numbers, or dates of numpy: ds.convert_calendar('standard', use_cftime=False)"
            raise InputError("time", expected="numbers or dates", got=f"dtype {time.dtype}", fix=fix)
        return data
    seconds = (time.values - time.values[:1]) / np.timedelta64(1, "s")
    return data.assign_coords(time=("time", seconds, {**time.attrs, "units": "s"}))


def _with_trajectories(data: xr.Dataset, context: Sequence[str], name: str | None) -> xr.Dataset:
    """Stack the dimensions of the context and the given one into `trajectory`."""
    for parameter in context:
        if parameter not in data.variables and parameter not in data.attrs:
            known = ", ".join(str(each) for each in data.variables)
            fix = "give the dimension values" if parameter in data.dims else "check the spelling"
            raise InputError("context", expected=f"names among {known}", got=repr(parameter), fix=fix)
    if name is not None:
        checks.one_of("trajectory", name, list(map(str, data.dims)))
    named = [name] if name is not None else [each for each in TRAJECTORIES if each in data.dims][:1]
    along = [dim for each in context if each in data.variables for dim in data[each].dims if dim != "time"]
    dims = list(dict.fromkeys([*named, *map(str, along)]))
    if dims == ["trajectory"]:
        return data
    if not dims:
        return data.expand_dims("trajectory")
    if len(dims) == 1:
        renamed = data.rename_dims({dims[0]: "trajectory"})
        return renamed.drop_indexes(dims[0]) if dims[0] in renamed.xindexes else renamed
    return data.stack(trajectory=dims, create_index=False)


def _named(data: xr.Dataset, argument: str, name: str) -> str:
    if name in data.data_vars and "time" in data[name].dims:
        return name
    known = ", ".join(str(each) for each, values in data.data_vars.items() if "time" in values.dims)
    raise InputError(
        argument, expected=f"variables along time, among {known}", got=repr(name), fix="check the spelling"
    )


def _rates(data: xr.Dataset, name: str, given: Sequence[str] | None) -> list[str]:
    if given is not None:
        return [_named(data, name, each) for each in given]
    return [name] if name in data.data_vars else []


def _states(data: xr.Dataset, taken: set[str]) -> list[str]:
    names = [
        str(name)
        for name, values in data.data_vars.items()
        if name not in taken and "time" in values.dims and values.dtype.kind == "f" and name != "control"
    ]
    if names:
        return ["state"] if "state" in names else names
    got = f"variables {sorted(map(str, data.data_vars))}"
    raise InputError("data", expected="a floating-point variable along time", got=got, fix="name it: state=['u']")


def _assembled(
    data: xr.Dataset, states: Sequence[str], rates: Mapping[str, Sequence[str]], controls: Sequence[str]
) -> xr.Dataset:
    layout, values = _gathered(data, states)
    time = data["time"]
    coords = {
        "time": ("time", time.values.astype(np.float64), {"units": str(time.attrs.get("units", "")), **time.attrs}),
        "component": ("component", list(layout.names)),
    }
    units = "".join(set(layout.units))
    if len(set(layout.units)) > 1:
        units, coords["component_units"] = "mixed, see component_units", ("component", list(layout.units))
    variables = {"state": (DIMS, values, {"units": units} if units else {})}
    for name, own in rates.items():
        if own:
            like, values = _gathered(data, own)
            if [v.shape for v in like.variables] != [v.shape for v in layout.variables]:
                got, fix = ", ".join(own), "name one for each variable of the state, in its order"
                raise InputError(name, expected=f"variables like {', '.join(states)}", got=got, fix=fix)
            variables[name] = (DIMS, values)
    if inputs := controls or (["control"] if "control" in data.data_vars else []):
        like, values = _gathered(data, inputs)
        known = inputs == ["control"] and "input" in data.coords
        coords["input"] = ("input", [*map(str, data["input"].values if known else like.names)])
        variables["control"] = ((*LEAD, "input"), values.astype(np.float64))
    found = xr.Dataset(variables, coords, dict(data.attrs))
    if layout.is_plain:
        return found.assign_coords({k: c for k, c in data.coords.items() if c.dims == ("component",)})
    return found.assign_attrs(layout=layout.to_json())


def _gathered(data: xr.Dataset, names: Sequence[str]) -> tuple[Layout, np.ndarray]:
    """Variables along trajectory and time on one axis (C, T, n), also those that all trajectories share."""
    wide = {}
    for name in names:
        if missing := {*LEAD} - {*data[name].dims}:
            each = data[name].broadcast_like(data["time"])
            wide[name] = each.expand_dims({dim: data.sizes[dim] for dim in missing - {"time"}})
    data = data.assign(wide)
    layout = Layout.of(data, names, LEAD)
    return layout, layout.gather(data, LEAD)


def _with_context(found: xr.Dataset, data: xr.Dataset, context: Sequence[str] | None) -> xr.Dataset:
    """Add coordinates along trajectories; those of the context are declared, in its order, others are labels."""
    along = (("trajectory",), LEAD, LEAD[::-1])
    coords = {n: c for n, c in data.coords.items() if c.dims in along and n not in ("trajectory", *(context or ()))}
    check_own_names("context", context or ())
    for name in context or ():
        value = data[name] if name in data.variables else xr.DataArray(data.attrs[name])
        if not set(value.dims) <= set(LEAD) or value.dtype.kind not in "iufb":
            got, fix = f"{name} of dims {value.dims}, dtype {value.dtype}", "convert it to numbers"
            raise InputError("context", expected="numbers along trajectory (and time)", got=got, fix=fix)
        wide = value if "trajectory" in value.dims else value.expand_dims(trajectory=data.sizes["trajectory"])
        coords[name] = wide.astype(float) if wide.dtype.kind == "b" else wide
    found = found.assign_coords({n: c.transpose(*LEAD, missing_dims="ignore").variable for n, c in coords.items()})
    names = context_names(found) if context is None else context
    for name in coords:
        found[name].attrs[ROLE] = "context" if name in names else "label"
    return found


@validated
def from_arrays(
    states: np.ndarray | Sequence[np.ndarray],
    times: np.ndarray,
    *,
    context: Mapping[str, object] | None = None,
    control: np.ndarray | Sequence[np.ndarray] | None = None,
    velocity: np.ndarray | Sequence[np.ndarray] | None = None,
) -> xr.Dataset:
    """A dataset of arrays; prints what was taken as what, as `describe` does.

    Args:
        states: (trajectories, times, n), or a list of (timesₖ, n), whose shorter ones end before the others.
        times: (T,) of the longest trajectory.
        context: parameters by name, a number for each trajectory.
        control: inputs, as the states.
        velocity: as the states.

    Raises:
        InputError: shapes that do not match.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> t = 0.1 * np.arange(50)
        >>> runs = [np.stack([np.cos(w * t), np.sin(w * t)], axis=-1) for w in (1.0, 1.5)]
        >>> data = romkit.data.from_arrays([runs[0], runs[1][:30]], t, context={"w": [1.0, 1.5]})
        trajectories  2 of up to 50 samples, n = 2
        state         state (component 2), float64
        context       w 1 ... 1.5 (float)
        time          0 ... 4.9, every 0.1
        velocity      none; estimated where it is needed
        missing       20.0% of the snapshots, in 1 trajectories (1); left out, never filled
    """
    times = tensors.times("times", times).double().numpy()
    given = {"state": states, "velocity": velocity, "control": control}
    arrays = {name: _padded(name, each, len(times)) for name, each in given.items() if each is not None}
    like = arrays["state"].shape
    for name, values in arrays.items():
        shape = like[:2] if name == "control" else like
        if values.shape[: len(shape)] != shape:
            fix = "give one for each state"
            raise InputError(name, expected=f"shape {shape}, as the states", got=f"shape {values.shape}", fix=fix)
    variables = {name: (DIMS if name != "control" else (*LEAD, "input"), values) for name, values in arrays.items()}
    coords: dict[str, object] = {"time": times}
    check_own_names("context", context or ())
    for name, values in (context or {}).items():
        values = np.asarray(values)
        if values.shape != like[:1]:
            got, fix = f"shape {values.shape}", f"give {like[0]} of them"
            raise InputError(name, expected="one number for each trajectory", got=got, fix=fix)
        coords[name] = ("trajectory", values)
    return describe(xr.Dataset(variables, coords), context=tuple(context or ()))


def _padded(name: str, given: object, length: int) -> np.ndarray:
    """(C, T, k) with NaN behind the end of shorter ones."""
    name = "states" if name == "state" else name
    single = isinstance(given, np.ndarray) and given.ndim == 0
    each = [] if single else [np.asarray(array) for array in given]
    sizes = {array.shape[1:] for array in each}
    if not each or any(array.ndim != 2 for array in each) or len(sizes) != 1 or max(map(len, each)) != length:
        got = ", ".join(str(array.shape) for array in each[:4]) or "none"
        expected = f"arrays (times, n) of which the longest has {length} times"
        raise InputError(name, expected=expected, got=got, fix="put time on the first axis, and one size on the last")
    dtype = np.result_type(*each, np.float32)
    padded = np.full((len(each), length, each[0].shape[1]), np.nan, dtype=dtype)
    for row, array in zip(padded, each, strict=True):
        row[: len(array)] = array
    return padded
