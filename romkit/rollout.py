"""`romkit.rollout`: a full-order trajectory and the reduced-order one beside it, with the error over time."""

import copy
import json
import time
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit import checks, provenance
from romkit.data import context_path
from romkit.engine.threads import one_thread
from romkit.errors import InputError
from romkit.integrators import DYNAMICS, Galerkin, LatentDynamics, LatentField
from romkit.metrics import VALID_THRESHOLD, idempotency_error, nrmse, valid_time
from romkit.projections import ContextPath, Operator, Projection
from romkit.solvers import RK4, Solution, Solver, Status
from romkit.systems import MechanicalSystem, Motion, System
from romkit.types import ContextFunction, Dual


def rollout(
    system: System,
    projection: Projection,
    *,
    duration: float | None = None,
    initial_state: object = None,
    initial_velocity: object = None,
    dynamics: LatentDynamics | None = None,
    solver: Solver | None = None,
    dt: float | None = None,
    **context: object,
) -> xr.Dataset:
    """Simulate the full model and the reduced model from the same initial state.

    Args:
        system: the full-order model.
        projection: trained on data of that system; a stack of seeds gives a `seed` dimension.
        duration: length of the run in the system's time units; `system.horizon` by default.
        initial_state: (n,) or (trajectories, n) in physical units; by default where the system's datasets begin.
        initial_velocity: the same for mechanical systems; at rest by default.
        dynamics: how the latent field is made; by default as in the rollouts that the projection was trained with
            (preset "dynamics"), and `Galerkin()` for one that was not.
        solver: of the latent equation; `RK4(dt)` by default.
        dt: interval of the output, and step of the default solver; `system.dt` by default.
        **context: every context parameter by name, a scalar, an array, or for first-order systems a smooth function
            of time that gives one: `F=3.15`, `F=[3.14, 3.15]`, `F=lambda t: 3.14 + 0.001 * t`.

    Returns:
        Dataset with `truth`, `rom` and `projected` (the projection P(x) of the truth), each (time, component);
        `latent` (time, latent_component); `nrmse` and `nrmse_projected` (time); `valid_time` and `status`.
        In front, `trajectory` if a context is an array and `seed` for a stack.
        A diverged member has status 1 and is NaN from there on.

    Raises:
        InputError: context, state size, duration or dt that cannot be used, or a projection of another system.
    """
    _check_match(system, projection)
    dt = system.dt if dt is None else checks.positive("dt", dt, unit=system.time_units)
    duration = system.horizon if duration is None else checks.positive("duration", duration, unit=system.time_units)
    times = torch.arange(round(duration / dt) + 1, dtype=torch.float64) * dt
    contexts, single = _contexts(system, context, times)
    dynamics = dynamics or _trained_dynamics(projection)
    solver = _solver(solver, dynamics, dt)
    start = _start(system, contexts.initial, initial_state, initial_velocity)
    double = copy.deepcopy(projection).cpu().double()  # so that the laws of exact projections hold to rounding
    with torch.no_grad():
        truth, full_seconds = _timed(lambda: _full_model(system, start, contexts, times))
        with one_thread():
            latent, reduced_seconds = _timed(
                lambda: _reduced_model(system, double, start, contexts, times, dynamics, solver)
            )
        run = _assemble(system, double, _operator(double, contexts.over_time), truth, latent, times)
    run = _label(run, system, contexts)
    run.attrs |= _provenance(system, projection, dynamics, dt) | {
        "seconds_full_model": full_seconds,
        "seconds_reduced_model": reduced_seconds,
    }
    return run.squeeze("trajectory") if single else run


class Contexts(NamedTuple):
    """What the context is.

    Attributes:
        initial: (C, p) at time 0.
        over_time: (C, T, p) if it varies in time, else `initial`.
        path: c(t), None if it does not vary.
    """

    initial: Tensor
    over_time: Tensor
    path: ContextFunction | None


class Start(NamedTuple):
    """Initial state and, for mechanical systems, velocity, each (C, n)."""

    state: Tensor
    velocity: Tensor | None


def _contexts(system: System, named: dict[str, object], times: Tensor) -> tuple[Contexts, bool]:
    """The contexts of a run, and whether it is a single one."""
    values = context_path(system.context_names, named)
    first = values(0.0)
    initial = torch.from_numpy(np.atleast_2d(first))
    moving = [name for name, value in named.items() if callable(value)]
    if not moving:
        return Contexts(initial, initial, None), first.ndim == 1
    if isinstance(system, MechanicalSystem):
        fix = "give a constant context; a mechanical system whose parameters move needs the forces that move them"
        raise InputError(", ".join(moving), expected=f"numbers for {system.name}", got="a function of time", fix=fix)

    def path(t: Tensor) -> Tensor:
        return torch.from_numpy(np.atleast_2d(values(float(t))))

    over_time = torch.stack([path(t) for t in times], dim=-2)
    return Contexts(initial, over_time, path), first.ndim == 1


def _solver(solver: Solver | None, dynamics: LatentDynamics, dt: float) -> Solver:
    if solver is not None and not isinstance(dynamics, LatentField):
        name = type(dynamics).__name__
        fix = f"set its step, {name}(dt=...)"
        raise InputError("solver", expected=f"none: {name} steps in time by itself", got="a solver", fix=fix)
    return solver or RK4(dt, label="reduced model")


def _trained_dynamics(projection: Projection) -> LatentDynamics:
    """The latent dynamics that training followed; Galerkin where it followed none."""
    first = projection.report.get("seeds", [projection.report])[0]
    recipe = first.get("recipe", {})
    refined = recipe.get("rollout_steps") or recipe.get("clock_steps")
    return DYNAMICS[recipe["rollout_dynamics"]]() if refined else Galerkin()


def _check_match(system: System, projection: Projection) -> None:
    signature = projection.normalization.signature
    for what, own, given in (
        ("state components", signature.state_names, tuple(system.state_names)),
        ("context parameters", signature.context_names, system.context_names),
    ):
        if own != given:
            raise InputError(
                "projection",
                expected=f"one of {system.name!r}, with {what} {_short(given)}",
                got=f"one of {signature.system or 'other data'!r}, with {_short(own)}",
                fix="load or fit a projection of this system",
            )


def _short(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{names[0]} ... {names[-1]} ({len(names)})"


def _start(system: System, contexts: Tensor, initial_state: object, initial_velocity: object) -> Start:
    if initial_state is None:
        state = system.settled_state(contexts)
    else:
        state = _per_trajectory("initial_state", initial_state, system, contexts)
    if not isinstance(system, MechanicalSystem):
        if initial_velocity is not None:
            raise InputError(
                "initial_velocity", expected="nothing", got="a value", fix=f"{system.name} is first order; drop it"
            )
        return Start(state, None)
    if initial_velocity is None:
        return Start(state, system.initial_velocity(contexts, None))
    return Start(state, _per_trajectory("initial_velocity", initial_velocity, system, contexts))


def _per_trajectory(argument: str, value: object, system: System, contexts: Tensor) -> Tensor:
    array = torch.as_tensor(np.asarray(value, dtype=np.float64))
    checks.last_axis(argument, array.shape, system.state_size, f"the state of {system.name}")
    if not bool(array.isfinite().all()):
        raise InputError(argument, expected="finite numbers", got="NaN or infinity", fix="check the state")
    try:
        return array.expand(len(contexts), -1).clone()
    except RuntimeError as error:
        raise InputError(
            argument,
            expected=f"one state or {len(contexts)}",
            got=f"shape {tuple(array.shape)}",
            fix="match the contexts",
        ) from error


def _full_model(system: System, start: Start, contexts: Contexts, times: Tensor) -> Motion:
    if isinstance(system, MechanicalSystem):
        return system.simulate(start.state, contexts.initial, times, initial_velocity=start.velocity)
    return system.simulate(start.state, contexts.path or contexts.initial, times)


def _operator(projection: Projection, contexts: Tensor) -> Operator:
    return projection(contexts if projection.seeds is None else contexts.unsqueeze(0))


def _reduced_model(
    system: System,
    projection: Projection,
    start: Start,
    contexts: Contexts,
    times: Tensor,
    dynamics: LatentDynamics,
    solver: Solver,
) -> Solution:
    """Latent states z (..., T, m)."""
    P = _operator(projection, contexts.initial)
    lead = (*(() if projection.seeds is None else (projection.seeds,)), len(contexts.initial))
    x0, c = start.state.expand(*lead, -1), contexts.initial.expand(*lead, -1)
    if isinstance(system, MechanicalSystem):
        motion = Dual(x0, start.velocity.expand(*lead, -1))
        solution = dynamics.solve_motion(P, system.field(c), system.mass_matrix(c), motion, times, solver)
        return solution._replace(states=solution.states[..., : P.latent_dim])
    if contexts.path is None:
        return dynamics.solve(P, system.field(c), x0, times, solver)
    # contiguous, because derivatives along the path need numbers with memory of their own
    along = lambda t: contexts.path(t).expand(*lead, -1).contiguous()  # noqa: E731
    return dynamics.solve_along(ContextPath(projection, along), system.field(along), x0, times, solver)


def _assemble(
    system: System, projection: Projection, P: Operator, truth: Motion, latent: Solution, times: Tensor
) -> xr.Dataset:
    stacked = projection.seeds is not None
    lead = ("seed", "trajectory") if stacked else ("trajectory",)
    x = truth.state.unsqueeze(0) if stacked else truth.state
    rom, projected = P.decode(latent.states), P(x)
    std = projection.normalization.state_std
    errors, floor = nrmse(x, rom, std), nrmse(x, projected, std)
    units, clock = system.state_units[0] if len(set(system.state_units)) == 1 else "mixed", system.time_units
    full, coded = (*lead, "time", "component"), (*lead, "time", "latent_component")

    def variable(dims: tuple[str, ...], tensor: Tensor, unit: str, long_name: str, **more: object) -> tuple:
        return dims, tensor.numpy(), {"units": unit, "long_name": long_name, **more}

    return xr.Dataset(
        {
            "truth": variable(full[-3:], truth.state, units, "full model"),
            "rom": variable(full, rom, units, "reduced model"),
            "projected": variable(full, projected, units, "projection of the full model"),
            "latent": variable(coded, latent.states, "1", "latent state"),
            "nrmse": variable(full[:-1], errors, "1", "normalised error of the reduced model"),
            "nrmse_projected": variable(full[:-1], floor, "1", "normalised error of the projection"),
            "valid_time": variable(
                lead, valid_time(times, errors), clock, f"time until NRMSE exceeds {VALID_THRESHOLD}"
            ),
            "status": variable(
                lead,
                latent.status,
                "1",
                "status of the reduced model",
                flag_values=[int(s) for s in Status],
                flag_meanings=" ".join(s.name.lower() for s in Status),
            ),
        },
        coords={"time": ("time", times.numpy(), {"units": clock, "long_name": "time"})},
        attrs={"idempotency_error": idempotency_error(P, x).max().item()},
    )


def _label(run: xr.Dataset, system: System, contexts: Contexts) -> xr.Dataset:
    run = run.assign_coords(component=list(system.state_names))
    dims = ("trajectory",) if contexts.path is None else ("trajectory", "time")
    for k, parameter in enumerate(system.context):
        attrs = {"units": parameter.units, "long_name": parameter.long_name}
        run = run.assign_coords({parameter.name: (dims, contexts.over_time[..., k].numpy(), attrs)})
    return run


def _provenance(system: System, projection: Projection, dynamics: LatentDynamics, dt: float) -> dict[str, object]:
    record = {
        **system.provenance(),
        "projection": projection.name,
        "projection_config": projection.config,
        "training": {key: value for key, value in projection.report.items() if key != "losses"},
        "dynamics": type(dynamics).__name__,
        "dt_reduced_model": dt,
        "device": provenance.device_name("cpu"),
    }
    return {key: value if isinstance(value, str | int | float) else json.dumps(value) for key, value in record.items()}


def _timed(run: callable) -> tuple[object, float]:
    started = time.perf_counter()
    return run(), time.perf_counter() - started
