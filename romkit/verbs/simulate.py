"""Simulation of a full model."""

import functools
from collections.abc import Sequence

import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks, runtime, tensors
from romkit.core.boundary import Positive, unchecked, validated
from romkit.core.errors import InputError
from romkit.core.parallel import Pool, cut, mapped
from romkit.core.types import ContextFunction, Entries, Settings, Tensors
from romkit.data import Contexts
from romkit.data.trajectories import order_state
from romkit.engine import Engine
from romkit.solvers import Solver
from romkit.systems import System
from romkit.systems.motion import Motion

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
    context: Entries | None = None,
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
    contexts = unchecked(Contexts.build)(names, values, times, system.known_units.context)
    _check_moving(system, contexts, executor)
    start = _initial_states(system, initial_state, initial_velocity)
    if "initial_state" in start:
        check_start_time(system, contexts, initial_state, "time", start)
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
    """Return contexts and states of as many trajectories: a single one of either stands for all."""
    number = len(contexts.initial)
    if number == 1:
        for states in start.values():
            if states.ndim == 2:
                number = max(number, len(states))
        contexts = unchecked(contexts.expanded)(number)
    matched = {name: tensors.states(name, states, size, number) for name, states in start.items()}
    return contexts, matched


def output_times(duration: float, dt: float) -> Tensor:
    """Return times of the output since the start."""
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
            expected="constant contexts",
            got="one that moves in time",
            fix="leave executor out; all trajectories are computed together",
        )


def _initial_states(system: System, state: object, velocity: object) -> Tensors:
    """State and velocity by name, as far as the user gave them."""
    given = {"initial_state": state, "initial_velocity": velocity}
    if system.order == 1:
        checks.absent(f"for {system.name}, of first order", "drop it", initial_velocity=velocity)
    start = {}
    for name, value in given.items():
        if value is not None:
            ordered = order_state(name, value, system.state_names, system.state_units)
            start[name] = tensors.finite(name, ordered)
    return start


def check_start_time(
    system: System,
    contexts: Contexts,
    state: object,
    label: str,
    start: Settings,
    *,
    same_rate: float = 1e-9,
) -> None:
    """Raise where a state is labelled with a time at which the field is not that of time 0, where
    runs begin.

    `same_rate`: relative difference of rates at two times that counts as rounding.
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
    if torch.allclose(*rates, rtol=same_rate, atol=0.0, equal_nan=True):
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
    state = tuple(named.values())
    with torch.no_grad():
        return unchecked(system.simulate)(state, path or contexts, times, engine=engine)


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
