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
from romkit.core.boundary import Positive, validated
from romkit.core.errors import InputError
from romkit.core.parallel import Pool, cut, mapped
from romkit.core.types import ContextFunction
from romkit.data import DIMS, Contexts, Layout, Trajectories, context_names, fields, given_control
from romkit.data.layout import component_names
from romkit.data.schema import variable_of
from romkit.data.times import times_of
from romkit.data.trajectories import check_components, check_grid, in_order
from romkit.data.units import check_units
from romkit.engine import Device, Engine
from romkit.integrators import LearnedField, Reencoded
from romkit.metrics import VALID_THRESHOLD, valid_time
from romkit.models import AtContexts, Dynamics, ReducedModel, check_match, in_double
from romkit.projections import Projection
from romkit.solvers import Adaptive, Solver
from romkit.systems import SYSTEMS, System, system_of
from romkit.systems.base import Motion

NAMES = ("initial_state", "initial_velocity")


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
    system = system if solver is None else system.using(solver)
    dt = system.dt if dt is None else dt
    duration = system.horizon if duration is None else duration
    times = torch.arange(checks.steps(duration, dt) + 1, dtype=torch.float64) * dt
    contexts = Contexts.of(system.context_names, named | (context or {}), times)
    if contexts.path is not None and not system.context_may_move:
        moving = ", ".join(contexts.moving)
        fix = "give a constant context; a mechanical system whose parameters move needs the forces that move them"
        raise InputError(
            moving, expected=f"numbers for {system.name}", got="a function of time", fix=fix
        )
    given = _initial_states(
        system, dict(zip(NAMES, (initial_state, initial_velocity), strict=True))
    )
    if len(contexts.initial) == 1:
        contexts = contexts.expanded(
            max([1, *(len(value) for value in given.values() if value.ndim == 2)])
        )
    if executor is not None and contexts.path is not None:
        fix = "leave executor out; all trajectories are computed together"
        raise InputError(
            "executor", expected="contexts that stay", got="one that moves in time", fix=fix
        )
    number = len(contexts.initial)
    given = {
        name: tensors.states(name, value, system.state_size, number)
        for name, value in given.items()
    }
    pieces = [
        (
            system,
            contexts.initial[s],
            contexts.path,
            {name: value[s] for name, value in given.items()},
            times,
        )
        for s in cut(number, executor)
    ]
    motion = _joined(
        mapped(functools.partial(_simulated, engine=engine), pieces, executor, "trajectories")
    )
    attrs = motion.cost | {"device": runtime.device_name("cpu")}
    return system.record(motion, times, contexts.over_time, attrs)


def _initial_states(system: System, values: dict[str, object]) -> dict[str, Tensor]:
    """State and velocity by name, as far as the user gave them."""
    given = {name: value for name, value in values.items() if value is not None}
    for name in given:
        if name not in NAMES[: system.order]:
            raise InputError(
                name,
                expected="nothing",
                got="a value",
                fix=f"{system.name} is first order; drop it",
            )
    return {
        name: tensors.finite(name, in_order(name, value, system.state_names, system.state_units))
        for name, value in given.items()
    }


def _simulated(
    system: System,
    contexts: Tensor,
    path: ContextFunction | None,
    given: dict[str, Tensor],
    times: Tensor,
    engine: str,
) -> Motion:
    """Motion of trajectories at contexts (C, p), or along a path of them, from states (C, n) or the
    system's own.
    """
    own = system.at_rest(contexts) if "initial_state" in given else system.start(contexts)
    parts = tuple(given.get(name, part) for name, part in zip(NAMES, own, strict=False))
    with torch.no_grad():
        return system.simulate(parts, path or contexts, times, engine=engine)


def _joined(pieces: Sequence[Motion]) -> Motion:
    """Motions one behind the other; seconds add up over the processes."""
    *parts, cost = zip(*pieces, strict=True)
    seconds = {
        name: sum(each[name] for each in cost) for name in cost[0] if name.startswith("seconds")
    }
    return Motion(
        *(None if part[0] is None else torch.cat(part) for part in parts), cost[0] | seconds
    )


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
        dynamics: how the latent state moves; by default as in the rollouts that the projection was
            trained with, and `Galerkin()` for one that was not.
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
    frame, inputs = projection.frame, dynamics.control_names if dynamics else ()
    known = (frame.context_names, frame.state_names, frame.fields)
    given = Trajectories.of(data, *known, control=inputs, contexts=contexts, units=frame.units)
    # a law needs no system, which the data may name although they lack its context, say
    law = dynamics.dynamics if isinstance(dynamics, Reencoded) else dynamics
    if system is None and not isinstance(law, LearnedField):
        system = system_of(data)
        named = data.attrs.get("system")
        if system is None and named and (law is None or law.needs != "nothing"):
            fix = "give system=..., or a law as dynamics=...; on the command line, --import FILE.py defines systems"
            raise InputError(
                "system",
                expected=f"one of {', '.join(SYSTEMS)}",
                got=f"{named!r} of the data",
                fix=fix,
            )
    if system is not None:
        check_match(system, projection)
    solver = _to_tolerance(solver, rtol)
    model = ReducedModel.of(projection, dynamics, system, device)
    model = model.at(given.contexts, given.control)
    start = model.start(given.times[0], given.start(model.problem.order, complete=contexts is None))
    chunks = given.data["state"].transpose(*DIMS).chunks
    return model.follow(
        start, given.times, solver=solver, engine=engine, chunks=chunks and chunks[:2]
    )


def _to_tolerance(solver: Solver | None, rtol: float | None) -> Solver | None:
    """The default solver to a tolerance, where one is given."""
    if rtol is None:
        return solver
    if solver is not None:
        fix = "give the solver its own tolerance, or leave it out"
        raise InputError("rtol", expected="nothing beside a solver", got=f"{rtol:g}", fix=fix)
    return Adaptive(rtol=rtol)


@validated
def stacked_forecast(
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
    if system is not None:
        check_match(system, projection)
    times = torch.arange(checks.steps(duration, dt) + 1, dtype=torch.float64) * dt
    frame, latent = projection.frame, (projection.latent_dim,)
    given = {
        "initial_state": _flattened(frame.fields, initial_state),
        "initial_velocity": initial_velocity,
    }
    given = {
        name: in_order(name, value, frame.state_names, frame.state_units)
        for name, value in given.items()
    }
    initial_state = given["initial_state"] = tensors.finite("initial_state", given["initial_state"])
    if np.shape(initial_state)[-1:] != latent:
        meaning = f"the components of the state, or (..., {latent[0]}), latent coordinates"
        checks.last_axis("initial_state", np.shape(initial_state), len(frame.state_names), meaning)
    contexts = Contexts.of(frame.context_names, named | (context or {}), times)
    several = [np.shape(control)[0]] if np.ndim(control) == 3 else []
    number = max([*initial_state.shape[:-1], len(contexts.initial), *several])
    if len(contexts.initial) not in (1, number):
        names, fix = ", ".join(frame.context_names), "give one context, or one for each state"
        expected = f"one value, or {number}, one for each state"
        raise InputError(names, expected=expected, got=len(contexts.initial), fix=fix)
    inputs = given_control(control, times, number, dynamics.control_names if dynamics else ())
    solver = _to_tolerance(solver, rtol)
    model = ReducedModel.of(projection, dynamics, system, device)
    model = model.at(contexts.expanded(number), inputs)
    run = model.follow(
        _starting_state(model, given, times[0], number), times, solver=solver, engine=engine
    )
    return run.squeeze("trajectory") if number == 1 else run


@functools.wraps(stacked_forecast)
def forecast(*args: object, **named: object) -> xr.Dataset:
    return fields(stacked_forecast(*args, **named))


forecast.__name__ = forecast.__qualname__ = "forecast"


def _starting_state(
    model: AtContexts, given: Mapping[str, object], t: Tensor, number: int
) -> Tensor:
    """The latent state of `number` trajectories, from full or latent states and velocities."""
    names = list(given)[: model.problem.order]
    if len(names) == 1 and given["initial_velocity"] is not None:
        fix = "drop it: the dynamics are of first order"
        raise InputError("initial_velocity", expected="nothing", got="a value", fix=fix)
    for name in names:
        if given[name] is None:
            raise InputError(
                name,
                expected="a value for dynamics of order two",
                got="none",
                fix=f"add {name}=...",
            )
    shape = np.shape(given["initial_state"])[-1:]
    parts = tuple(tensors.states(name, given[name], *shape, number) for name in names)
    projection = model.model.projection
    if shape == (projection.latent_dim,) != (len(projection.frame.state_names),):
        return model.problem.join(*parts).expand(*model.lead, -1)
    return model.start(t, parts)


def _flattened(layout: Layout, state: object) -> object:
    """State as an array; variables with dimensions of their own are put one after the other."""
    if set(getattr(state, "dims", ())) & {"time", layout.time}:
        got, fix = (
            f"one of dims {tuple(state.dims)}",
            f"select one, initial_state.isel({layout.time}=0), say",
        )
        raise InputError("initial_state", expected="a state at one time", got=got, fix=fix)
    if isinstance(state, pd.Series | pd.DataFrame):  # a row of a table, or several
        rows = state.to_frame().T if isinstance(state, pd.Series) else state
        known = [variable.name for variable in layout.variables if variable.name in rows.columns]
        state = rows[known].astype(float).to_xarray()
    if not isinstance(state, xr.Dataset):
        return state
    if "state" in state:
        check_grid(state, layout)
        return state["state"]
    own = {dim for variable in layout.variables for dim in variable.dims}
    lead = [str(dim) for dim in state.sizes if dim not in own]
    return layout.gather(state, lead)


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
    for name in ("state", "state_std"):
        if name not in reduced:
            got, fix = (
                f"variables {sorted(map(str, reduced.variables))}",
                "score what romkit.follow returned",
            )
            raise InputError("reduced", expected=f"a variable {name}", got=got, fix=fix)
    single = (
        "trajectory" not in reduced.dims
    )  # of one alone, `forecast` and `rollout` leave the dimension out
    truth, reduced = (
        x if "trajectory" in x.dims else x.expand_dims("trajectory") for x in (truth, reduced)
    )
    for dim in DIMS:
        if truth.sizes.get(dim) != reduced.sizes.get(dim):
            got = f"{reduced.sizes.get(dim)} against {truth.sizes.get(dim)} in the truth"
            raise InputError(
                "reduced",
                expected=f"the same {dim} as the truth",
                got=got,
                fix="follow this very truth",
            )
    times = times_of(truth)
    if "time" in reduced.coords and not _same_times(times_of(reduced), times):
        fix = "follow this very truth"
        raise InputError(
            "reduced", expected="the times of the truth", got="as many others", fix=fix
        )
    _check_contexts(truth, reduced)
    check_components("reduced", reduced, component_names(truth))
    check_units("reduced", reduced, truth, _common_contexts(truth, reduced))
    checks.last_axis(
        "reduced.state_std",
        reduced["state_std"].shape,
        truth.sizes["component"],
        "one for each component",
    )
    x, state = (
        variable_of(truth, "state", fix="add it").data,
        reduced["state"].transpose(..., *DIMS),
    )
    look = _nrmse_of_known(x, state.data, reduced["state_std"].values)
    errors, count = map(torch.from_numpy, runtime.computed("errors", *look))
    unit, lead = truth["time"].attrs.get("units", "1"), state.dims[:-2]
    named = {"units": "1", "long_name": "normalised error of the reduced model"}
    until = {"units": unit, "long_name": f"time until NRMSE exceeds {VALID_THRESHOLD}"}
    variables = {
        "nrmse": ((*lead, "time"), errors.numpy(), named),
        "valid_time": (lead, _valid_time(times, errors, count == 0).numpy(), until),
    }
    scores = xr.Dataset(variables, coords={"time": truth["time"].variable})
    return scores.squeeze("trajectory") if single else scores


def _same_times(times: Tensor, others: Tensor) -> bool:
    """Whether times are equal up to the precision of float32, and nearer than a step."""
    step = float(others.diff().min()) if len(others) > 1 else torch.inf
    return bool(((times - others).abs() <= torch.clamp(1e-6 * others.abs(), max=step / 100)).all())


def _common_contexts(truth: xr.Dataset, reduced: xr.Dataset) -> list[str]:
    """Parameters that both have."""
    return [name for name in context_names(truth) if name in reduced.coords]


def _check_contexts(truth: xr.Dataset, reduced: xr.Dataset) -> None:
    """Raise InputError where both name their trajectories or contexts, and these differ, as in
    another order.
    """
    for name in {*context_names(truth), "trajectory"} & {*truth.coords} & {*reduced.coords}:
        own, given = (np.atleast_1d(each[name].values) for each in (truth, reduced))
        if own.shape == given.shape and not tensors.alike(own, given):
            fix = "follow this very truth, in its order"
            raise InputError(
                "reduced",
                expected=f"the {name} of the truth",
                got=checks.shown(given.tolist()),
                fix=fix,
            )


def _nrmse_of_known(
    truth: np.ndarray | da.Array, reduced: np.ndarray | da.Array, std: np.ndarray
) -> tuple[np.ndarray | da.Array, np.ndarray | da.Array]:
    """NRMSE (..., T) over the components that are not missing in the truth, NaN where all are; and
    their number.
    """
    truth, reduced = (x.astype(np.float64, copy=False) for x in (truth, reduced))
    missing = np.isnan(truth)
    square = np.where(missing, 0.0, ((truth - reduced) / std) ** 2)
    count = (~missing).sum(-1)
    mean_square = square.sum(-1) / np.where(count > 0, count, np.nan)
    return np.sqrt(mean_square), count


def _valid_time(times: Tensor, errors: Tensor, nothing: Tensor) -> Tensor:
    """Valid time without regard to samples of which nothing is measured; at most the time of the
    last other one.
    """
    nothing = nothing.expand(errors.shape)
    last = torch.where(nothing, times[0], times).amax(-1) - times[0]
    return torch.minimum(valid_time(times, torch.where(nothing, 0.0, errors)), last)


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
            truth. Of a system seen through a basis, all states are coordinates in it, and the truth
            is that of its modes.
        projection: trained on such data; a stack of seeds gives a `seed` dimension.
        duration: of the simulation, in the system's time units; `system.horizon` by default.
        initial_state: (n,) or (trajectories, n) in physical units, each at a context of its own or
            all at a single one; by default where the system's datasets begin.
        initial_velocity: the same for mechanical systems; at rest by default.
        dynamics: how the latent state moves; by default as in the rollouts that the projection was
            trained with (preset "dynamics"), and `Galerkin()` for one that was not.
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
    values, system, contexts = named | (context or {}), None, None
    if isinstance(source, xr.Dataset):
        _refuse_for_data(simulation | values)
        truth = source
    else:
        system = source
        check_match(system, projection)
        projection = projection if system.basis is None else projection.of_coordinates()
        truth = simulate(system, **simulation, engine=engine, context=values)
        contexts = Contexts.of(
            system.context_names, values, torch.from_numpy(truth["time"].values.copy())
        )
        contexts = contexts.expanded(truth.sizes["trajectory"])
    given = {
        "dynamics": dynamics,
        "system": system,
        "solver": solver,
        "rtol": rtol,
        "engine": engine,
        "device": device,
    }
    reduced = follow(projection, truth, **given, contexts=contexts)
    run = _assembled(truth, reduced, projection)
    return run.squeeze("trajectory") if truth.sizes["trajectory"] == 1 else run


def _refuse_for_data(given: dict[str, object]) -> None:
    for name, value in given.items():
        if value is not None:
            fix = "select what you want in the dataset, data.sel(...), or roll out a system"
            raise InputError(name, expected="nothing beside a dataset", got=repr(value), fix=fix)


def _assembled(truth: xr.Dataset, reduced: xr.Dataset, projection: Projection) -> xr.Dataset:
    """The run of both models, with the projection P(x) of the true states and its idempotency error
    there.
    """
    errors, x = (
        score(truth, reduced),
        variable_of(truth, "state", fix="add it").data.astype(np.float64),
    )
    P = in_double(projection)(truth)
    image = P(x if projection.seeds is None else x[None])
    look = (
        _nrmse_of_known(x, image, reduced["state_std"].values)[0],
        np.nan_to_num(((P(image) - image) ** 2).sum(-1)).max(),
    )
    least, again = runtime.computed("projection of the truth", *look)
    dims, units = reduced["state"].dims, {"units": reduced["state"].attrs["units"]}
    whose = "full model" if "system" in truth.attrs else "data"
    floor = {"units": "1", "long_name": "normalised error of the projection"}
    parts = {
        "truth": truth["state"].transpose(*DIMS).assign_attrs(long_name=whose).variable,
        "projected": (dims, image, units | {"long_name": f"projection of the {whose}"}),
        "nrmse": errors["nrmse"].variable,
        "nrmse_projected": (dims[:-1], least, floor),
        "valid_time": errors["valid_time"].variable,
    }
    run = reduced.drop_vars("velocity", errors="ignore").rename(state="rom")
    # without coordinates, by which xarray would align them: the data may call components otherwise
    # than in training
    run = run.assign(parts).assign_coords(truth.coords)
    run.attrs = {
        key: value for key, value in (truth.attrs | reduced.attrs).items() if key not in COST
    }
    run.attrs["idempotency_error"] = float(again) ** 0.5
    for label, part in (("full_model", truth), ("reduced_model", reduced)):
        run.attrs |= {f"{key}_{label}": part.attrs[key] for key in COST if key in part.attrs}
    return run
