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
from romkit.data import context_array
from romkit.errors import InputError
from romkit.integrators import Galerkin, LatentDynamics, tangent_bundle_field
from romkit.metrics import VALID_THRESHOLD, idempotency_error, nrmse, valid_time
from romkit.projections import Projection
from romkit.solvers import RK4, Solution, Solver, Status
from romkit.systems import MechanicalSystem, Motion, System
from romkit.threads import one_thread
from romkit.types import ProjectionOperator


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
        dynamics: how the latent field is made; `Galerkin()` by default.
        solver: of the latent equation; `RK4(dt)` by default.
        dt: interval of the output, and step of the default solver; `system.dt` by default.
        **context: every context parameter by name, a scalar or an array: `F=3.15`, `F=[3.14, 3.15]`.

    Returns:
        Dataset with `truth`, `rom` and `projected` (the projection P(x) of the truth), each (time, component);
        `latent` (time, latent_component); `nrmse` and `nrmse_projected` (time); `valid_time` and `status`.
        In front, `trajectory` if a context is an array and `seed` for a stack.
        A diverged member has status 1 and is NaN from there on.

    Raises:
        InputError: context, state size, duration or dt that cannot be used, or a projection of another system.
    """
    _check_match(system, projection)
    values = context_array(system.context_names, context)
    contexts = torch.from_numpy(np.atleast_2d(values))
    dt = system.dt if dt is None else checks.positive("dt", dt, unit=system.time_units)
    duration = system.horizon if duration is None else checks.positive("duration", duration, unit=system.time_units)
    times = torch.arange(round(duration / dt) + 1, dtype=torch.float64) * dt
    start = _start(system, contexts, initial_state, initial_velocity)
    with torch.no_grad():
        truth, full_seconds = _timed(lambda: _full_model(system, start, contexts, times))
        P = _operator(projection, contexts)
        reduced = lambda: _reduced_model(  # noqa: E731
            system, P, start, contexts, times, dynamics or Galerkin(), solver or RK4(dt, label="reduced model")
        )
        with one_thread():
            latent, reduced_seconds = _timed(reduced)
        run = _assemble(system, projection, P, truth, latent, times)
    run = _label(run, system, contexts)
    run.attrs |= _provenance(system, projection, dynamics or Galerkin(), dt) | {
        "seconds_full_model": full_seconds,
        "seconds_reduced_model": reduced_seconds,
    }
    return run if values.ndim > 1 else run.squeeze("trajectory")


class Start(NamedTuple):
    """Initial state and, for mechanical systems, velocity, each (C, n)."""

    state: Tensor
    velocity: Tensor | None


def _check_match(system: System, projection: Projection) -> None:
    signature = projection.frame.signature
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


def _full_model(system: System, start: Start, contexts: Tensor, times: Tensor) -> Motion:
    if isinstance(system, MechanicalSystem):
        return system.simulate(start.state, contexts, times, initial_velocity=start.velocity)
    return system.simulate(start.state, contexts, times)


def _operator(projection: Projection, contexts: Tensor) -> ProjectionOperator:
    """The operator at all contexts in float64, so that the laws of exact projections hold to rounding."""
    double = copy.deepcopy(projection).cpu().double()
    return double(contexts if projection.seeds is None else contexts.unsqueeze(0))


def _reduced_model(
    system: System,
    P: ProjectionOperator,
    start: Start,
    contexts: Tensor,
    times: Tensor,
    dynamics: LatentDynamics,
    solver: Solver,
) -> Solution:
    lead = P.context.shape[:-1]
    c = contexts.expand(*lead, -1)
    x0 = start.state.expand(*lead, -1)
    if not isinstance(system, MechanicalSystem):
        return solver(dynamics.latent_field(P, system.field(c)), dynamics.latent_state(P, x0), times)
    mass = system.mass_matrix(c)
    acceleration = dynamics.latent_acceleration(P, system.field(c), mass)
    w0 = torch.cat(dynamics.latent_motion(P, x0, start.velocity.expand(*lead, -1), mass), dim=-1)
    times, w, status = solver(tangent_bundle_field(acceleration), w0, times)
    return Solution(times, w[..., : P.latent_dim], status)


def _assemble(
    system: System, projection: Projection, P: ProjectionOperator, truth: Motion, latent: Solution, times: Tensor
) -> xr.Dataset:
    stacked = projection.seeds is not None
    lead = ("seed", "trajectory") if stacked else ("trajectory",)
    x = truth.state.unsqueeze(0) if stacked else truth.state
    rom, projected = P.decode(latent.states), P(x)
    std = projection.frame.state_std.double()
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
        attrs={"idempotency_error": idempotency_error(P, x[..., :: max(1, len(times) // 200), :]).max().item()},
    )


def _label(run: xr.Dataset, system: System, contexts: Tensor) -> xr.Dataset:
    run = run.assign_coords(component=list(system.state_names))
    for column, parameter in zip(contexts.T.numpy(), system.context, strict=True):
        attrs = {"units": parameter.units, "long_name": parameter.long_name}
        run = run.assign_coords({parameter.name: ("trajectory", column, attrs)})
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
