"""`romkit.simulate`: the full model at contexts and from states of the user's choice, as a dataset."""

import torch
import xarray as xr
from torch import Tensor

from romkit import arrays, checks, provenance
from romkit.boundary import Positive, checked
from romkit.data import Contexts
from romkit.data.matching import in_order
from romkit.engine import Engine
from romkit.errors import InputError
from romkit.problem import Parts
from romkit.solvers import Solver
from romkit.systems import System

NAMES = ("initial_state", "initial_velocity")


@checked
def simulate(
    system: System,
    *,
    duration: Positive | None = None,
    initial_state: object = None,
    initial_velocity: object = None,
    dt: Positive | None = None,
    solver: Solver | None = None,
    engine: Engine = "auto",
    context: dict[str, object] | None = None,
    **named: object,
) -> xr.Dataset:
    """Simulate the full model.

    Args:
        system: the full-order model.
        duration: length of the run in the system's time units; `system.horizon` by default.
        initial_state: (n,) or (trajectories, n) in physical units, each at a context of its own or all at a single one;
            by default where the system's datasets begin.
        initial_velocity: the same for mechanical systems; at rest by default.
        dt: interval of the output; `system.dt` by default.
        solver: in place of the system's own, `romkit.solvers.SciPy("BDF")` for a stiff one.
        engine: "auto", "torch" or "compiled" (see `romkit.engine`).
        context: parameters by name where one is called like an argument, `context={"dt": 0.1}`.
        **named: the other context parameters: a scalar, an array, or a smooth function of time that gives one.

    Returns:
        Dataset in romkit's schema (`romkit.data.schema`): `state`, `velocity` and, if mechanical, `acceleration`. A
        context that varies in time has the dimensions (trajectory, time). Attributes record system, solver, engine,
        and seconds of compiling and of computing.

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
        raise InputError(moving, expected=f"numbers for {system.name}", got="a function of time", fix=fix)
    given = _given(system, dict(zip(NAMES, (initial_state, initial_velocity), strict=True)))
    if len(contexts.initial) == 1:
        contexts = contexts.expanded(max([1, *(len(value) for value in given.values() if value.ndim == 2)]))
    parts = _start(system, contexts.initial, given)
    with torch.no_grad():
        motion = system.simulate(parts, contexts.path or contexts.initial, times, engine=engine)
    attrs = motion.cost | {"device": provenance.device_name("cpu")}
    return system.record(motion, times, contexts.over_time, attrs)


def _given(system: System, values: dict[str, object]) -> dict[str, Tensor]:
    """What the user gave of state and velocity, by name."""
    given = {name: value for name, value in values.items() if value is not None}
    for name in given:
        if name not in NAMES[: system.order]:
            raise InputError(name, expected="nothing", got="a value", fix=f"{system.name} is first order; drop it")
    return {name: arrays.finite(name, in_order(name, value, system.state_names)) for name, value in given.items()}


def _start(system: System, contexts: Tensor, given: dict[str, Tensor]) -> Parts:
    """The state, or state and velocity, that all trajectories start from, each (C, n)."""
    own = system.at_rest(contexts) if "initial_state" in given else system.start(contexts)
    size, number = system.state_size, len(contexts)
    found = {name: arrays.states(name, value, size, number) for name, value in given.items()}
    return tuple(found.get(name, part) for name, part in zip(NAMES, own, strict=False))
