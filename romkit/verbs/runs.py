"""The verbs of one run: simulate, follow, forecast, score, and their composition, rollout."""

import functools
from collections.abc import Mapping, Sequence

import dask.array as da
import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks, runtime, tensors
from romkit.core.boundary import Positive, unchecked, validated
from romkit.core.errors import InputError
from romkit.core.parallel import Pool, cut, mapped
from romkit.core.types import Array, ContextFunction, Names, Tensors
from romkit.data import DIMS, Contexts, Layout, context_names, fields
from romkit.data.controls import given_control
from romkit.data.layout import component_names
from romkit.data.schema import variable_of, with_trajectories
from romkit.data.times import times_of
from romkit.data.trajectories import (
    Trajectories,
    check_components,
    check_grid,
    in_order,
    matched,
)
from romkit.data.units import check_units, parameters_in_units
from romkit.engine import Device, Engine
from romkit.integrators import LatentDynamics, LearnedField, Reencoded
from romkit.metrics import VALID_THRESHOLD, valid_time
from romkit.models import AtContexts, Dynamics, ReducedModel, check_match, in_double
from romkit.projections import Projection
from romkit.solvers import Adaptive, Solver
from romkit.systems import SYSTEMS, System, system_of
from romkit.systems.motion import Motion

NAMES = ("initial_state", "initial_velocity")

SAME_RATE = 1e-9
"""Relative difference of rates at two times that counts as rounding."""

SAME_TRUTH = "follow this very truth"


@validated
def simulate(
    system: System,
    *,
    duration: Positive | None = None,
    initial_state: object = None,
    initial_velocity: object = None,
    dt: Positive | None = None,
    solver: Solver | None = None,
    engine: Engine = "auto",
    executor: Pool | None = None,
    context: dict[str, object] | None = None,
    **named: object,
) -> xr.Dataset:
    """Simulate the full model.

    Args:
        system: the full-order model.
        duration: length of the run in the system's time units; `system.horizon` by default.
        initial_state: (n,) or (trajectories, n) in physical units, each at a context of its own or
            all at a single one; by default where the system's datasets begin.
        initial_velocity: the same for mechanical systems; at rest by default.
        dt: interval of the output; `system.dt` by default.
        solver: in place of the system's own, `romkit.solvers.SciPy("BDF")` for a stiff one.
        engine: "auto", "torch" or "compiled" (see `romkit.engine`).
        executor: computes pieces of the trajectories in other processes; `concurrent.futures`,
            submitit and dask have some.
        context: parameters by name where one is called like an argument, `context={"dt": 0.1}`.
        **named: the other context parameters: a scalar, an array, or a smooth function of time that
            gives one.

    Returns:
        Dataset in romkit's schema (`romkit.data.schema`): `state`, `velocity` and, if mechanical,
        `acceleration`. A context that varies in time has the dimensions (trajectory, time).
        Attributes record system, solver, engine, and seconds of compiling and of computing.

    Raises:
        InputError: context, state, duration or dt that cannot be used.

    Example:
        >>> import romkit
        >>> motion = romkit.simulate(romkit.systems.Pendulum(), duration=0.01, l1=0.4, l2=0.5, l3=0.5, l4=0.6)
        >>> list(motion.data_vars)
        ['state', 'velocity', 'acceleration']
        >>> dict(motion.state.sizes)
        {'trajectory': 1, 'time': 11, 'component': 16}
    """
    if solver is not None:
        system = system.using(solver)
    if dt is None:
        dt = system.dt
    if duration is None:
        duration = system.horizon
    times = output_times(duration, dt)
    names, values = system.context_names, named | (context or {})
    contexts = unchecked(Contexts.of)(names, values, times, system.known_units.context)
    _check_moving(system, contexts, executor)
    start = _initial_states(system, initial_state, initial_velocity)
    if "initial_state" in start:
        _check_time_of_start(system, contexts, initial_state, "time", start)
    contexts, start = _matched(contexts, start, system.state_size)
    pieces = []
    for rows in cut(len(contexts.initial), executor):
        states = {name: value[rows] for name, value in start.items()}
        pieces.append((system, contexts.initial[rows], contexts.path, states, times))
    simulated = functools.partial(_simulated, engine=engine)
    motion = _joined(mapped(simulated, pieces, executor, "trajectories"))
    attrs = motion.cost | {"device": runtime.device_name("cpu")}
    return system.record(motion, times, contexts.over_time, attrs)


def _matched(contexts: Contexts, start: Tensors, size: int) -> tuple[Contexts, Tensors]:
    """Contexts and states of as many trajectories: a single one of either stands for all."""
    number = len(contexts.initial)
    if number == 1:
        for states in start.values():
            if states.ndim == 2:
                number = max(number, len(states))
        contexts = unchecked(contexts.expanded)(number)
    matched = {}
    for name, states in start.items():
        matched[name] = tensors.states(name, states, size, number)
    return contexts, matched


def output_times(duration: float, dt: float) -> Tensor:
    """Times of the output since the start."""
    count = checks.steps(duration, dt) + 1
    return dt * torch.arange(count, dtype=torch.float64)


def _check_moving(system: System, contexts: Contexts, executor: Pool | None) -> None:
    """Raise InputError where a context moves that has to stay."""
    if contexts.path is None:
        return
    if not system.context_may_move:
        raise InputError(
            ", ".join(contexts.moving),
            expected=f"numbers for {system.name}",
            got="a function of time",
            fix="give a constant context; a mechanical system whose parameters move needs the "
            "forces that move them",
        )
    if executor is not None:
        raise InputError(
            "executor",
            expected="contexts that stay",
            got="one that moves in time",
            fix="leave executor out; all trajectories are computed together",
        )


def _initial_states(system: System, state: object, velocity: object) -> Tensors:
    """State and velocity by name, as far as the user gave them."""
    start = {}
    for name, value in zip(NAMES, (state, velocity), strict=True):
        if value is None:
            continue
        if name not in NAMES[: system.order]:
            raise InputError(
                name,
                expected="nothing",
                got="a value",
                fix=f"{system.name} is first order; drop it",
            )
        ordered = in_order(name, value, system.state_names, system.state_units)
        start[name] = tensors.finite(name, ordered)
    return start


def _check_time_of_start(
    system: System,
    contexts: Contexts,
    state: object,
    label: str,
    start: Mapping[str, object],
) -> None:
    """Raise where a state is labelled with a time at which the field is not that of time 0, where
    runs begin.
    """
    if not isinstance(state, xr.DataArray | xr.Dataset) or system.only_solver is not None:
        return
    time = state.coords.get(label)
    if time is None or time.ndim or time.dtype.kind not in "iuf" or float(time) == 0:
        return
    q = start["initial_state"].reshape(-1, start["initial_state"].shape[-1])[:1]
    if q.shape[-1] != system.state_size:
        return  # latent
    parts = (q.double(), torch.zeros_like(q).double())
    y = torch.cat(parts[: system.order], dim=-1)  # (1, order · n)
    field = system.phase_field(contexts.initial[:1])
    with torch.no_grad():
        rates = [field(torch.tensor(t, dtype=torch.float64), y) for t in (0.0, float(time))]
    if torch.allclose(*rates, rtol=SAME_RATE, atol=0.0, equal_nan=True):
        return
    raise InputError(
        "initial_state",
        expected=f"a state at time 0, since the field of {system.name} depends on the time",
        got=f"one at {float(time):g}",
        fix="follow data from that time on, romkit.follow(projection, data.isel(time=slice(k, None)))",
    )


def _simulated(
    system: System,
    contexts: Tensor,
    path: ContextFunction | None,
    start: Tensors,
    times: Tensor,
    engine: str,
) -> Motion:
    """Motion of trajectories at contexts (C, p), or along a path of them, from states (C, n) or the
    system's own.
    """
    # a start by default costs a transient, which a given state does not need
    if "initial_state" in start:
        default = system.at_rest(contexts)
    else:
        default = system.start(contexts)
    named = dict(zip(NAMES, default, strict=False)) | start
    parts = tuple(named.values())
    with torch.no_grad():
        return unchecked(system.simulate)(parts, path or contexts, times, engine=engine)


def _joined(pieces: Sequence[Motion]) -> Motion:
    """Motions one behind the other; seconds add up over the processes."""
    *fields_of_pieces, costs = zip(*pieces, strict=True)
    cost = dict(costs[0])
    for name in costs[0]:
        # engine and solver are those of all pieces
        if name.startswith("seconds"):
            cost[name] = sum(cost_of_piece[name] for cost_of_piece in costs)
    joined = []
    for values in fields_of_pieces:
        # a system of first order has no accelerations
        if values[0] is None:
            joined.append(None)
        else:
            joined.append(torch.cat(values))
    return Motion(*joined, cost)


@validated
def follow(
    projection: Projection,
    data: xr.Dataset,
    *,
    dynamics: Dynamics | None = None,
    system: System | None = None,
    solver: Solver | None = None,
    rtol: Positive | None = None,
    engine: Engine = "auto",
    device: Device | None = None,
    contexts: Contexts | None = None,
) -> xr.Dataset:
    """Follow trajectories: start where they start, at their contexts, and integrate to their times.

    Args:
        projection: a single one; a stack of seeds gives a `seed` dimension.
        data: in romkit's schema, of which the first state counts (and velocity, where the dynamics
            are of order two), and `control`, with straight lines between its samples.
        dynamics: how the latent state moves. By default that of the rollouts that the projection
            was trained with, else `Galerkin()`.
        system: the full-order model, for dynamics that look at it; by default the one that the data
            name, if any.
        solver: of the latent equation; `Adaptive(rtol)` by default, whose error is controlled.
        rtol: tolerance of that default, 1e-6.
        engine: "auto", "torch" or "compiled" (see `romkit.engine`).
        device: "cpu" (default), or "cuda", which pays for thousands of trajectories.
        contexts: in place of those of the data, where they are known between its times as well.

    Returns:
        Dataset with `state` (decoded), `latent` and `status`, and `velocity` of dynamics of order
        two. A diverged member has status 1 and is NaN from there on. Attributes record dynamics,
        solver, engine and seconds. Of data in chunks of dask, first states are read, and decoded
        ones are in such chunks, made when they are computed.

    Raises:
        InputError: data of another shape than the projection's, or dynamics that cannot be used.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> reduced = romkit.follow(romkit.load("ncae-lorenz96"), data)
        >>> dict(reduced.latent.sizes)
        {'trajectory': 2, 'time': 10, 'latent_component': 2}
        >>> reduced.attrs["dynamics"], reduced.status.values.tolist()
        ('Galerkin', [0, 0])
    """
    frame = projection.frame
    runs = Trajectories.of(
        data,
        frame.context_names,
        frame.state_names,
        frame.fields,
        control=_inputs_of(dynamics),
        held=_held_of(dynamics),
        contexts=contexts,
        units=frame.units,
    )
    system = _system_for(dynamics, system, data)
    if system is not None:
        check_match(system, projection)
    solver = _to_tolerance(solver, rtol)
    model = ReducedModel.of(projection, dynamics, system, device)
    model = model.at(runs.contexts, runs.control)
    parts = runs.start(model.problem.order, complete=contexts is None)
    start = model.start(runs.times[0], parts)
    chunks = runs.data["state"].transpose(*DIMS).chunks
    if chunks is not None:
        chunks = chunks[:2]  # of trajectories and times; components are decoded together
    return model.follow(start, runs.times, solver=solver, engine=engine, chunks=chunks)


def _to_tolerance(solver: Solver | None, rtol: float | None) -> Solver | None:
    """The default solver to a tolerance, where one is given."""
    if rtol is None:
        return solver
    if solver is not None:
        raise InputError(
            "rtol",
            expected="nothing beside a solver",
            got=f"{rtol:g}",
            fix="give the solver its own tolerance, or leave it out",
        )
    return unchecked(Adaptive)(rtol=rtol)


def _inputs_of(dynamics: LatentDynamics | None) -> Names:
    return dynamics.control_names if dynamics is not None else ()


def _held_of(dynamics: LatentDynamics | None) -> bool | None:
    return dynamics.held if dynamics is not None else None


def _system_for(
    dynamics: LatentDynamics | None, system: System | None, data: xr.Dataset
) -> System | None:
    """The system that dynamics look at, by default the one that the data name."""
    law = dynamics
    if isinstance(dynamics, Reencoded):
        law = dynamics.dynamics
    # a law needs no system, which the data may name although they lack its context, say
    if system is not None or isinstance(law, LearnedField):
        return system
    if law is not None and law.needs == "nothing":
        return system_of(data)
    system = system_of(data)
    name = data.attrs.get("system")
    if system is None and name:
        raise InputError(
            "system",
            expected=f"one of {', '.join(SYSTEMS)}",
            got=f"{name!r} of the data",
            fix="give system=..., or a law as dynamics=...; on the command line, --import FILE.py "
            "defines systems",
        )
    return system


@validated
def forecast(
    projection: Projection,
    *,
    initial_state: object,
    duration: Positive,
    dt: Positive,
    dynamics: Dynamics | None = None,
    initial_velocity: object = None,
    control: object = None,
    system: System | None = None,
    solver: Solver | None = None,
    rtol: Positive | None = None,
    engine: Engine = "auto",
    device: Device | None = None,
    on_components: bool = False,
    context: dict[str, object] | None = None,
    **named: object,
) -> xr.Dataset:
    """Follow the reduced model from a state.

    Args:
        projection: a single one; a stack of seeds gives a `seed` dimension.
        initial_state: full (n,) or (trajectories, n) in physical units, or, of another size m,
            latent (m,) or (trajectories, m); or a dataset with the variables of the state in their
            own dimensions, or a row of a table with these columns.
        duration: length of the forecast, in the time unit of the data.
        dt: interval of the output.
        dynamics: a law that was fitted to data; or one that looks at the full-order model, with
            `system`.
        initial_velocity: for dynamics of order two, full or latent as the state.
        control: inputs of a law that was fitted with some: a function of time that gives (inputs,),
            or samples at the output times, (times, inputs) or (trajectories, times, inputs), with
            straight lines between them.
        system: the full-order model, for dynamics that look at it.
        solver: of the latent equation; `Adaptive(rtol)` by default, whose error is controlled.
        rtol: tolerance of that default, 1e-6.
        engine: "auto", "torch" or "compiled" (see `romkit.engine`).
        device: "cpu" (default), or "cuda", which pays for thousands of trajectories.
        on_components: leave the state on `component`, as `romkit.follow` does.
        context: parameters by name where one is called like an argument, `context={"dt": 0.1}`.
        **named: the other context parameters: a number, an array, or a smooth function of time that
            gives one.

    Returns:
        As `romkit.follow`, without the `trajectory` dimension for a single state and context; the
        state in the variables and dimensions that the data had before `romkit.data.describe`, as of
        `romkit.data.fields`.

    Raises:
        InputError: state, context, duration or dt that cannot be used, or dynamics that need a
            system and get none.

    Example:
        >>> import romkit
        >>> ncae, system = romkit.load("ncae-lorenz96"), romkit.systems.Lorenz96()
        >>> ahead = romkit.forecast(ncae, initial_state=[0.1, 0.2], system=system, duration=0.2, dt=0.02, F=3.15)
        >>> dict(ahead.state.sizes)
        {'time': 11, 'component': 36}
    """
    frame = projection.frame
    if system is not None:
        check_match(system, projection)
    times = output_times(duration, dt)
    start = forecast_start(projection, initial_state, initial_velocity)
    values = named | (context or {})
    contexts = unchecked(Contexts.of)(frame.context_names, values, times, frame.context_units)
    control = _inputs_in(control)
    if system is not None and not isinstance(dynamics, LearnedField):
        _check_time_of_start(system, contexts, initial_state, frame.fields.time, start)
    number = _number_of_forecasts(start["initial_state"], contexts, control, frame.context_names)
    inputs = given_control(control, times, number, _inputs_of(dynamics), _held_of(dynamics))
    solver = _to_tolerance(solver, rtol)
    model = ReducedModel.of(projection, dynamics, system, device)
    model = model.at(unchecked(contexts.expanded)(number), inputs)
    latent = _latent_start(model, start, times[0], number)
    run = model.follow(latent, times, solver=solver, engine=engine)
    if number == 1:
        run = run.squeeze("trajectory")
    if on_components:
        return run
    return unchecked(fields)(run)


def _inputs_in(control: object) -> object:
    """The inputs of a dataset; what is none, as it is."""
    if not isinstance(control, xr.Dataset):
        return control
    if "control" in control:
        return control["control"]
    raise InputError(
        "control",
        expected="a dataset with the variable control",
        got=f"variables {sorted(map(str, control.data_vars))}",
        fix="describe it, romkit.data.describe(data, control=[...]), or give an array",
    )


def forecast_start(
    projection: Projection, state: object, velocity: object
) -> dict[str, Tensor | None]:
    """Full or latent state, and velocity, in the order of the projection's components."""
    frame = projection.frame
    start = {"initial_state": _flattened(frame.fields, state), "initial_velocity": velocity}
    for name, value in start.items():
        start[name] = in_order(name, value, frame.state_names, frame.state_units)
    start["initial_state"] = tensors.finite("initial_state", start["initial_state"])
    shape = start["initial_state"].shape
    latent_dim = projection.latent_dim
    if shape[-1:] != (latent_dim,):
        meaning = f"the components of the state, or (..., {latent_dim}), latent coordinates"
        checks.last_axis("initial_state", shape, len(frame.state_names), meaning)
    return start


def _number_of_forecasts(
    states: Tensor, contexts: Contexts, control: object, names: Sequence[str]
) -> int:
    """Trajectories of states (n,) or (C, n), of contexts, and of inputs (C, T, q)."""
    numbers = [*states.shape[:-1], len(contexts.initial)]
    if np.ndim(control) == 3:
        numbers.append(np.shape(control)[0])
    number = max(numbers)
    if len(contexts.initial) not in (1, number):
        raise InputError(
            ", ".join(names),
            expected=f"one value, or {number}, one for each state",
            got=len(contexts.initial),
            fix="give one context, or one for each state",
        )
    return number


def _latent_start(model: AtContexts, start: Mapping[str, object], t: Tensor, number: int) -> Tensor:
    """The latent state of `number` trajectories, from full or latent states and velocities."""
    names = _checked_names(start, model.problem.order)
    size = np.shape(start["initial_state"])[-1]
    parts = tuple(tensors.states(name, start[name], size, number) for name in names)
    projection = model.model.projection
    # where both have one size, a state is a full one
    is_full = size == len(projection.frame.state_names)
    if is_full or size != projection.latent_dim:
        return model.start(t, parts)
    return model.problem.join(*parts).expand(*model.lead, -1)


def _checked_names(start: Mapping[str, object], order: int) -> list[str]:
    """Names of the states that dynamics of an order start from: the state, and the velocity of
    order two.
    """
    names = list(start)[:order]
    if order == 1 and start["initial_velocity"] is not None:
        raise InputError(
            "initial_velocity",
            expected="nothing",
            got="a value",
            fix="drop it: the dynamics are of first order",
        )
    for name in names:
        if start[name] is None:
            raise InputError(
                name,
                expected="a value for dynamics of order two",
                got="none",
                fix=f"add {name}=...",
            )
    return names


def _flattened(layout: Layout, state: object) -> object:
    """State as an array; variables with dimensions of their own are put one after the other."""
    _check_one_time(layout, state)
    if isinstance(state, pd.Series):
        state = state.to_frame().T
    if isinstance(state, pd.DataFrame):  # a row of a table, or several
        state = _of_rows(layout, state)
    if isinstance(state, xr.DataArray) and not layout.is_plain:
        state = _of_variable(layout, state)
    if not isinstance(state, xr.Dataset):
        return state
    if "state" in state:
        check_grid(state, layout)
        return state["state"]
    dims_of_state = set()
    for variable in layout.variables:
        dims_of_state |= set(variable.dims)
    lead = [str(dim) for dim in state.sizes if dim not in dims_of_state]
    return layout.gather(state, lead)


def _of_variable(layout: Layout, state: xr.DataArray) -> xr.DataArray | xr.Dataset:
    """An array in the own dimensions of the only variable of a layout, as this variable."""
    if len(layout.variables) != 1:
        return state
    variable = layout.variables[0]
    if not variable.dims or not {*variable.dims} <= {*state.dims}:
        return state
    return state.to_dataset(name=variable.name)


def _check_one_time(layout: Layout, state: object) -> None:
    dims = getattr(state, "dims", ())
    if "time" in dims or layout.time in dims:
        raise InputError(
            "initial_state",
            expected="a state at one time",
            got=f"one of dims {tuple(dims)}",
            fix=f"select one, initial_state.isel({layout.time}=0), say",
        )


def _of_rows(layout: Layout, rows: pd.DataFrame) -> xr.Dataset:
    """The columns of a table that are variables of the state."""
    names = [variable.name for variable in layout.variables if variable.name in rows.columns]
    return rows[names].astype(float).to_xarray()


@validated
def score(truth: xr.Dataset, reduced: xr.Dataset) -> xr.Dataset:
    """Errors of a reduced model against the truth.

    Args:
        truth: `state` (trajectory, time, component), of a simulation or measured. Missing values do
            not count: errors are means over what was measured, NaN where nothing was.
        reduced: what `romkit.follow` returned for it, or any dataset with `state` and a coordinate
            `state_std` (component) by which errors are normalised.

    Returns:
        `nrmse` (..., time) and `valid_time` (...), in front `seed` and `trajectory` as in
        `reduced`.

    Raises:
        InputError: the two do not have the same trajectories, times and components.

    Example:
        >>> import romkit
        >>> truth = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> errors = romkit.score(truth, romkit.follow(romkit.load("ncae-lorenz96"), truth))
        >>> errors.nrmse.dims, errors.valid_time.dims
        (('trajectory', 'time'), ('trajectory',))
    """
    # of one trajectory, `forecast` and `rollout` leave the dimension out
    single = "trajectory" not in reduced.dims
    truth, reduced = _checked_pair(truth, reduced)
    times = unchecked(times_of)(truth)
    x = variable_of(truth, "state", fix="add it").data
    state = reduced["state"].transpose(..., *DIMS)
    look = _nrmse_of_known(x, state.data, reduced["state_std"].values)
    numbers = runtime.computed("errors", *look)
    errors, count = map(torch.from_numpy, numbers)
    lead = state.dims[:-2]
    nrmse_attrs = {"units": "1", "long_name": "normalised error of the reduced model"}
    time_attrs = {
        "units": truth["time"].attrs.get("units", "1"),
        "long_name": f"time until NRMSE exceeds {VALID_THRESHOLD}",
    }
    variables = {
        "nrmse": ((*lead, "time"), errors.numpy(), nrmse_attrs),
        "valid_time": (lead, _valid_time(times, errors, count == 0).numpy(), time_attrs),
    }
    scores = xr.Dataset(variables, coords={"time": truth["time"].variable})
    return scores.squeeze("trajectory") if single else scores


def _checked_pair(truth: xr.Dataset, reduced: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    """Both with a dimension of trajectories; raise InputError unless they are of the same runs."""
    for name in ("state", "state_std"):
        if name not in reduced:
            got = sorted(map(str, reduced.variables))
            raise InputError(
                "reduced",
                expected=f"a variable {name}",
                got=f"variables {got}",
                fix="score what romkit.follow returned",
            )
    truth = with_trajectories(truth)
    reduced = with_trajectories(reduced)
    for dim in DIMS:
        size = reduced.sizes.get(dim)
        size_of_truth = truth.sizes.get(dim)
        if size != size_of_truth:
            raise InputError(
                "reduced",
                expected=f"the same {dim} as the truth",
                got=f"{size} against {size_of_truth} in the truth",
                fix=SAME_TRUTH,
            )
    times = unchecked(times_of)(truth)
    if "time" in reduced.coords and not _same_times(unchecked(times_of)(reduced), times):
        raise InputError(
            "reduced", expected="the times of the truth", got="as many others", fix=SAME_TRUTH
        )
    _check_contexts(truth, reduced)
    check_components("reduced", reduced, component_names(truth))
    check_units("reduced", reduced, truth, _common_contexts(truth, reduced))
    size = truth.sizes["component"]
    meaning = "one for each component"
    checks.last_axis("reduced.state_std", reduced["state_std"].shape, size, meaning)
    return truth, reduced


def _same_times(times: Tensor, others: Tensor) -> bool:
    """Whether times are equal up to the precision of float32, and nearer than a step."""
    step = torch.inf
    if len(others) > 1:
        step = float(others.diff().min())
    tolerance = torch.clamp(1e-6 * others.abs(), max=step / 100)
    is_near = (times - others).abs() <= tolerance
    return bool(is_near.all())


def _common_contexts(truth: xr.Dataset, reduced: xr.Dataset) -> list[str]:
    """Parameters that both have."""
    return [name for name in unchecked(context_names)(truth) if name in reduced.coords]


def _check_contexts(truth: xr.Dataset, reduced: xr.Dataset) -> None:
    """Raise InputError where both name their trajectories or contexts, and these differ, as in
    another order.
    """
    names = {*unchecked(context_names)(truth), "trajectory"}
    for name in names & {*truth.coords} & {*reduced.coords}:
        values_of_truth = np.atleast_1d(truth[name].values)
        values = np.atleast_1d(reduced[name].values)
        if values.shape != values_of_truth.shape or tensors.alike(values_of_truth, values):
            continue
        raise InputError(
            "reduced",
            expected=f"the {name} of the truth",
            got=checks.shown(values.tolist()),
            fix=f"{SAME_TRUTH}, in its order",
        )


def _nrmse_of_known(
    truth: Array | da.Array, reduced: Array | da.Array, std: Array
) -> tuple[Array | da.Array, Array | da.Array]:
    """NRMSE (..., T) over the components that are not missing in the truth, NaN where all are; and
    their number.
    """
    truth, reduced = (x.astype(np.float64, copy=False) for x in (truth, reduced))
    missing = np.isnan(truth)
    error = (truth - reduced) / std
    square = np.where(missing, 0.0, error**2)
    count = (~missing).sum(-1)
    divisor = np.where(count > 0, count, np.nan)
    mean_square = square.sum(-1) / divisor
    return np.sqrt(mean_square), count


def _valid_time(times: Tensor, errors: Tensor, nothing: Tensor) -> Tensor:
    """Valid time without regard to samples of which nothing is measured; at most the time of the
    last other one.
    """
    nothing = nothing.expand(errors.shape)
    known = torch.where(nothing, times[0], times)
    longest = known.amax(-1) - times[0]
    errors = torch.where(nothing, 0.0, errors)
    return torch.minimum(unchecked(valid_time)(times, errors), longest)


COST = ("solver", "engine", "seconds_compiling", "seconds_computing")


@validated
def rollout(
    source: System | xr.Dataset,
    projection: Projection,
    *,
    duration: Positive | None = None,
    initial_state: object = None,
    initial_velocity: object = None,
    dynamics: Dynamics | None = None,
    solver: Solver | None = None,
    rtol: Positive | None = None,
    dt: Positive | None = None,
    engine: Engine = "auto",
    device: Device | None = None,
    context: dict[str, object] | None = None,
    **named: object,
) -> xr.Dataset:
    """Follow the truth and the reduced model from the same initial state: `simulate`, `follow` and
    `score` in one.

    Args:
        source: the full-order model, which is simulated; or a dataset, whose trajectories are the
            truth. After `system.through(basis)`, states are coordinates in the basis, and the truth
            is POD-Galerkin.
        projection: trained on such data; a stack of seeds gives a `seed` dimension.
        duration: of the simulation, in the system's time units; `system.horizon` by default.
        initial_state: (n,) or (trajectories, n) in physical units, each at a context of its own or
            all at a single one; by default where the system's datasets begin.
        initial_velocity: the same for mechanical systems; at rest by default.
        dynamics: how the latent state moves. By default that of the rollouts that the projection
            was trained with (preset "dynamics"), else `Galerkin()`.
        solver: of the latent equation; `Adaptive(rtol)` by default, whose error is controlled.
        rtol: tolerance of that default, 1e-6.
        dt: interval of the output; `system.dt` by default.
        engine: of both models: "auto", "torch" or "compiled" (see `romkit.engine`).
        device: of the reduced model: "cpu" (default), or "cuda", which pays for thousands of
            trajectories.
        context: parameters by name where one is called like an argument, `context={"dt": 0.1}`.
        **named: every other context parameter by name, a number, an array, or for first-order
            systems a smooth function of time that gives one: `F=3.15`, `F=[3.14, 3.15]`, `F=lambda
            t: 3.14 + 0.001 * t`.

    Returns:
        Dataset with `truth`, `rom` and `projected` (the projection P(x) of the truth), each (time,
        component); `latent` (time, latent_component); `nrmse` and `nrmse_projected` (time);
        `valid_time` and `status`. In front, `trajectory` if there are several, and `seed` for a
        stack. A diverged member has status 1 and is NaN from there on.

    Raises:
        InputError: context, state size, duration or dt that cannot be used, or a projection of
            another system.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> ncae, system = romkit.load("ncae-lorenz96"), romkit.systems.Lorenz96()
        >>> start = ncae(F=3.15).decode(np.array([-0.9, 2.8]))  # on the attractor
        >>> run = romkit.rollout(system, ncae, F=3.15, initial_state=start, duration=0.2, dt=0.02)
        >>> dict(run.rom.sizes)
        {'time': 11, 'component': 36}
        >>> round(float(run.nrmse.max()), 2), float(run.valid_time), int(run.status)
        (0.02, 0.2, 0)
    """
    simulation = {
        "duration": duration,
        "initial_state": initial_state,
        "initial_velocity": initial_velocity,
        "dt": dt,
    }
    values = named | (context or {})
    if isinstance(source, xr.Dataset):
        _refuse_for_data(simulation | values)
        frame = projection.frame
        truth = matched("data", source, frame.context_names, frame.state_names, frame.units)
        system, contexts = None, None
    else:
        system = source
        check_match(system, projection)
        # here, so that a conversion is told once
        values = parameters_in_units(values, system.context_names, system.known_units.context)
        truth = unchecked(simulate)(system, **simulation, engine=engine, context=values)
        projection = projection if system.basis is None else projection.of_coordinates()
        # known at all times, while the truth has them at its samples alone
        times = torch.from_numpy(truth["time"].values.copy())
        contexts = unchecked(Contexts.of)(system.context_names, values, times)
        contexts = unchecked(contexts.expanded)(truth.sizes["trajectory"])
    reduced = unchecked(follow)(
        projection,
        truth,
        dynamics=dynamics,
        system=system,
        solver=solver,
        rtol=rtol,
        engine=engine,
        device=device,
        contexts=contexts,
    )
    run = _assembled(truth, reduced, projection)
    return run.squeeze("trajectory") if truth.sizes["trajectory"] == 1 else run


def _refuse_for_data(given: dict[str, object]) -> None:
    for name, value in given.items():
        if value is not None:
            raise InputError(
                name,
                expected="nothing beside a dataset",
                got=repr(value),
                fix="select what you want in the dataset, data.sel(...), or roll out a system",
            )


def _assembled(truth: xr.Dataset, reduced: xr.Dataset, projection: Projection) -> xr.Dataset:
    """The run of both models, with the projection P(x) of the true states and its idempotency error
    there.
    """
    errors = unchecked(score)(truth, reduced)
    x = variable_of(truth, "state", fix="add it").data.astype(np.float64)
    if projection.seeds is not None:
        x = x[None]  # (1, C, T, n), for all seeds
    # in single precision the idempotency error would be one of rounding
    P = in_double(projection)(truth)
    image = P(x)
    square = ((P(image) - image) ** 2).sum(-1)
    largest_square = np.nan_to_num(square).max()
    error, _ = _nrmse_of_known(x, image, reduced["state_std"].values)
    # in one pass, where the truth is in chunks
    nrmse_projected, idempotency_square = runtime.computed(
        "projection of the truth", error, largest_square
    )
    dims = reduced["state"].dims
    units = reduced["state"].attrs["units"]
    whose = "full model" if "system" in truth.attrs else "data"
    image_attrs = {"units": units, "long_name": f"projection of the {whose}"}
    nrmse_attrs = {"units": "1", "long_name": "normalised error of the projection"}
    variables = {
        "truth": truth["state"].transpose(*DIMS).assign_attrs(long_name=whose).variable,
        "projected": (dims, image, image_attrs),
        "nrmse": errors["nrmse"].variable,
        "nrmse_projected": (dims[:-1], nrmse_projected, nrmse_attrs),
        "valid_time": errors["valid_time"].variable,
    }
    run = reduced.drop_vars("velocity", errors="ignore").rename(state="rom")
    # without coordinates, by which xarray would align them: the data may call components otherwise
    # than in training
    run = run.assign(variables).assign_coords(truth.coords)
    run.attrs = _attrs_of_both(truth, reduced)
    run.attrs["idempotency_error"] = float(idempotency_square) ** 0.5
    return run


def _attrs_of_both(truth: xr.Dataset, reduced: xr.Dataset) -> dict[str, object]:
    """Attributes of both models, with the cost of each under a name of its own."""
    attrs = truth.attrs | reduced.attrs
    attrs = {key: value for key, value in attrs.items() if key not in COST}
    for label, run in (("full_model", truth), ("reduced_model", reduced)):
        for key in COST:
            if key in run.attrs:
                attrs[f"{key}_{label}"] = run.attrs[key]
    return attrs
