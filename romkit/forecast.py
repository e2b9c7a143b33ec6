"""`romkit.forecast`: the reduced model alone, from a state and a context, with no truth beside it."""

from collections.abc import Mapping

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit import arrays, checks
from romkit.boundary import Positive, checked
from romkit.data import Contexts, Layout, given_control
from romkit.data.matching import check_grid, in_order
from romkit.engine import Engine
from romkit.engine.devices import Device
from romkit.errors import InputError
from romkit.projections import Projection
from romkit.reduced import Dynamics, ReducedModel, check_match
from romkit.solvers import Solver
from romkit.systems import System


@checked
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
    engine: Engine = "auto",
    device: Device | None = None,
    context: dict[str, object] | None = None,
    **named: object,
) -> xr.Dataset:
    """Follow the reduced model from a state.

    Args:
        projection: a single one; a stack of seeds gives a `seed` dimension.
        initial_state: full (n,) or (trajectories, n) in physical units, or, of another size m, latent (m,) or
            (trajectories, m); or a dataset with the variables of the state in their own dimensions.
        duration: length of the forecast, in the time unit of the data.
        dt: interval of the output, and step of the default solver.
        dynamics: a law that was fitted to data; or one that looks at the full-order model, with `system`.
        initial_velocity: for dynamics of order two, full or latent as the state.
        control: inputs of a law that was fitted with some: a function of time that gives (inputs,), or samples at the
            output times, (times, inputs) or (trajectories, times, inputs), with straight lines between them.
        system: the full-order model, for dynamics that look at it.
        solver: of the latent equation; `RK4(dt)` by default.
        engine: "auto", "torch" or "compiled" (see `romkit.engine`).
        device: "cpu" (default), or "cuda", which pays for thousands of trajectories.
        context: parameters by name where one is called like an argument, `context={"dt": 0.1}`.
        **named: the other context parameters: a number, an array, or a smooth function of time that gives one.

    Returns:
        As `romkit.follow`, without the `trajectory` dimension for a single state and context.

    Raises:
        InputError: state, context, duration or dt that cannot be used, or dynamics that need a system and get none.

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
    signature, latent = projection.normalization.signature, (projection.latent_dim,)
    given = {"initial_state": _flattened(signature.fields, initial_state), "initial_velocity": initial_velocity}
    given = {name: in_order(name, value, signature.state_names) for name, value in given.items()}
    initial_state = given["initial_state"] = arrays.finite("initial_state", given["initial_state"])
    if np.shape(initial_state)[-1:] != latent:
        meaning = f"the components of the state, or (..., {latent[0]}), latent coordinates"
        checks.last_axis("initial_state", np.shape(initial_state), len(signature.state_names), meaning)
    contexts = Contexts.of(signature.context_names, named | (context or {}), times)
    several = [np.shape(control)[0]] if np.ndim(control) == 3 else []
    number = max(len(np.atleast_2d(initial_state)), len(contexts.initial), *several)
    _check_number(contexts, signature.context_names, number)
    inputs = given_control(control, times, number, getattr(dynamics, "control_names", ()))
    model = ReducedModel(projection, dynamics, contexts.expanded(number), system, inputs, device)
    run = model.follow(_start(model, given, times[0], number), times, solver=solver, engine=engine)
    return run.squeeze("trajectory") if number == 1 else run


def _check_number(contexts: Contexts, names: tuple[str, ...], number: int) -> None:
    """Raise unless there is one context, or one for each of so many states."""
    if len(contexts.initial) not in (1, number):
        expected, fix = f"one value, or {number} as there are states", "give as many of both, or one"
        raise InputError(", ".join(names), expected=expected, got=len(contexts.initial), fix=fix)


def _start(model: ReducedModel, given: Mapping[str, object], t: Tensor, number: int) -> Tensor:
    """The latent state of `number` trajectories, from full or latent states and velocities."""
    names = list(given)[: model.problem.order]
    if len(names) == 1 and given["initial_velocity"] is not None:
        fix = "drop it: the dynamics are of first order"
        raise InputError("initial_velocity", expected="nothing", got="a value", fix=fix)
    for name in names:
        if given[name] is None:
            raise InputError(name, expected="a value for dynamics of order two", got="none", fix=f"add {name}=...")
    shape = np.shape(given["initial_state"])[-1:]
    parts = tuple(arrays.states(name, given[name], *shape, number) for name in names)
    if shape == (model.projection.latent_dim,) != (len(model.projection.normalization.signature.state_names),):
        return model.problem.join(*parts).expand(*model.lead, -1)
    return model.start(t, parts)


def _flattened(layout: Layout, state: object) -> object:
    """The state as an array, where it came as variables with dimensions of their own."""
    if not isinstance(state, xr.Dataset):
        return state
    if "state" in state:
        check_grid(state, layout)
        return state["state"]
    own = {dim for variable in layout.variables for dim in variable.dims}
    lead = [str(dim) for dim in state.sizes if dim not in own]
    return layout.gather(state, lead)
