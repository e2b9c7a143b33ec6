"""Forecasts of a reduced model from a state."""

import numpy as np
import pandas as pd
import xarray as xr
from torch import Tensor

from romkit.core import checks, tensors
from romkit.core.boundary import Positive, unchecked, validated
from romkit.core.errors import ExtrapolationWarning, InputError, warn
from romkit.core.tensors import divisor
from romkit.core.types import Array, Entries, NameSequence, Settings
from romkit.data import Contexts, Layout, fields
from romkit.data.controls import convert_inputs, given_control
from romkit.data.trajectories import check_grid, order_state
from romkit.engine import Device, Engine
from romkit.integrators import LearnedField
from romkit.models import AtContexts, Dynamics, ReducedModel, check_match
from romkit.models.record import rebase_times
from romkit.projections import Frame, Projection
from romkit.readers.first_states import row_columns
from romkit.solvers import Solver
from romkit.systems import System
from romkit.verbs.follow import tolerance_solver
from romkit.verbs.simulate import check_start_time, output_times


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
    context: Entries | None = None,
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
            or samples at the output times, (times, inputs) or (trajectories, times, inputs); between
            them they are as those that the law was fitted with, held or straight lines.
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

    Warns:
        ExtrapolationWarning: the model leaves what it was trained on, or begins far from the state,
            which is none that it can have.

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
    contexts = unchecked(Contexts.build)(frame.context_names, values, times, frame.context_units)
    control = _input_names(control)
    if system is not None and not isinstance(dynamics, LearnedField):
        check_start_time(system, contexts, initial_state, frame.fields.time, start)
    number = _count_forecasts(start["initial_state"], contexts, control, frame.context_names)
    solver = tolerance_solver(solver, rtol)
    model = ReducedModel.build(projection, dynamics, system, device)
    law = model.dynamics
    if isinstance(control, xr.DataArray) and law.control_unit:
        control = convert_inputs("control", control, law.control_names, law.control_unit)
    inputs = unchecked(given_control)(control, times, number, law.control_names, law.held)
    model = model.at(unchecked(contexts.expanded)(number), inputs)
    latent = _latent_start(model, start, times[0], number)
    run = rebase_times(model.follow(latent, times, solver=solver, engine=engine))
    if _is_full(projection, start):
        warn_distant_start(run, start["initial_state"], frame)
    if number == 1:
        run = run.squeeze("trajectory")
    if on_components:
        return run
    return unchecked(fields)(run)


def _input_names(control: object) -> object:
    """Return the inputs of a dataset; what is none, as it is."""
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
        start[name] = order_state(name, value, frame.state_names, frame.state_units)
    start["initial_state"] = tensors.finite("initial_state", start["initial_state"])
    shape = start["initial_state"].shape
    latent_dim = projection.latent_dim
    if shape[-1:] != (latent_dim,):
        meaning = f"the components of the state, or (..., {latent_dim}), latent coordinates"
        checks.last_axis("initial_state", shape, len(frame.state_names), meaning)
    return start


def _count_forecasts(
    states: Tensor, contexts: Contexts, control: object, names: NameSequence
) -> int:
    """Return trajectories of states (n,) or (C, n), of contexts, and of inputs (C, T, q)."""
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


def _latent_start(model: AtContexts, start: Settings, t: Tensor, number: int) -> Tensor:
    """Return the latent state of `number` trajectories, from full or latent states and velocities."""
    names = _checked_names(start, model.problem.order)
    size = np.shape(start["initial_state"])[-1]
    states = tuple(tensors.states(name, start[name], size, number) for name in names)
    if _is_full(model.model.projection, start):
        return model.start(t, states)
    return model.problem.join(*states).expand(*model.lead, -1)


def _is_full(projection: Projection, start: Settings) -> bool:
    """Tell whether a state is a full one, which it is where both have one size."""
    size = np.shape(start["initial_state"])[-1]
    return size == len(projection.frame.state_names) or size != projection.latent_dim


def _checked_names(start: Settings, order: int) -> list[str]:
    """Return names of the states that dynamics of an order start from: the state, and the velocity
    of order two.
    """
    names = list(start)[:order]
    if order == 1:
        velocity = start["initial_velocity"]
        checks.absent("for dynamics of first order", "drop it", initial_velocity=velocity)
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
    if isinstance(state, dict):
        state = pd.Series(state)
    if isinstance(state, pd.Series):
        state = state.to_frame().T
    if isinstance(state, pd.DataFrame):  # a row of a table, or several
        state = row_columns(layout, state)
    if isinstance(state, xr.DataArray) and not layout.is_plain:
        state = _name_variable(layout, state)
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


def _name_variable(layout: Layout, state: xr.DataArray) -> xr.DataArray | xr.Dataset:
    """Return an array in the own dimensions of the only variable of a layout, as this variable."""
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


def warn_distant_start(
    run: xr.Dataset, given: Tensor, frame: Frame, *, distant: float = 0.5
) -> None:
    """Warn where a run begins far from the states that were given.

    Args:
        run: of the reduced model, with `state` at the first time.
        given: (n,) or (C, n).
        frame: of the projection, with the deviations of the training data.
        distant: distance of the start from the state that was given, in deviations of the data,
            from which on it is warned of: half of what moves in them is missing.
    """
    begins = run["state"].isel(time=0).transpose("trajectory", ..., "component").values
    states = given.detach().double().numpy().reshape(-1, begins.shape[-1])  # (C, n)
    if begins.ndim == 3:  # a stack of seeds
        states = states[:, None]
    # root mean square of differences (..., n), each group of components in its deviation
    std = frame.state_std.double().numpy()  # (n,)
    squares = []
    for cells in _groups(frame):
        deviation = divisor(np.square(std[cells]).mean())
        squares.append(np.square((begins - states)[..., cells]).mean(-1) / deviation)
    distance = np.sqrt(np.mean(squares, axis=0))
    worst = float(np.nanmax(distance, initial=0.0))
    if worst <= distant:
        return
    number = int((distance.reshape(len(distance), -1) > distant).any(1).sum())
    which = f" in {number} of {len(distance)} forecasts" if len(distance) > 1 else ""
    warn(
        f"initial_state: expected one that the model can have, got one that is {worst:.2g} deviations of "
        f"the data from where the forecast begins{which}; check units and the order of components, or "
        "take more latents",
        ExtrapolationWarning,
    )


def _groups(frame: Frame) -> list[slice] | list[Array]:
    """Components of each variable, or of each unit where the state is a plain vector."""
    layout = frame.fields
    if not layout.is_plain:
        return layout.slices
    _, unit = np.unique(frame.state_units, return_inverse=True)  # (n,)
    return [np.flatnonzero(unit == number) for number in range(unit.max() + 1)]
