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
        initial_state: (n,) or (trajectories, n) in physical units; by default where the system's datasets begin.
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
    parts = _start(system, contexts.initial, initial_state, initial_velocity)
    with torch.no_grad():
        motion = system.simulate(parts, contexts.path or contexts.initial, times, engine=engine)
    attrs = motion.cost | {"device": provenance.device_name("cpu")}
    return system.record(motion, times, contexts.over_time, attrs)


def _start(system: System, contexts: Tensor, state: object, velocity: object) -> Parts:
    """The state, or state and velocity, that all trajectories start from, each (C, n)."""
    given = {"initial_state": state, "initial_velocity": velocity}
    names = list(given)[: system.order]
    for name, value in given.items():
        if value is not None and name not in names:
            raise InputError(name, expected="nothing", got="a value", fix=f"{system.name} is first order; drop it")
    own = dict(zip(names, system.start(contexts) if state is None else system.at_rest(contexts), strict=True))
    size, number = system.state_size, len(contexts)
    given = {name: in_order(name, given[name], system.state_names) for name in names if given[name] is not None}
    own |= {name: arrays.states(name, value, size, number) for name, value in given.items()}
    return tuple(own.values())
