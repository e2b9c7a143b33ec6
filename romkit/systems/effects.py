"""Refusal of right-hand sides that mix trajectories, write into their arguments, remember what they
were called with, or do not depend on a context parameter; and a warning of steps that are too long.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from romkit.core import tensors
from romkit.core.boundary import unchecked
from romkit.core.broadcast import align
from romkit.core.errors import InputError, warn
from romkit.core.types import Pair
from romkit.data import ContextParameter
from romkit.data.contexts import ends_of
from romkit.engine.threads import one_thread
from romkit.solvers import RK4

System = Any
"""A `romkit.systems.System`, whose module imports this one."""

Motion = Any
"""A `romkit.systems.Motion`."""

PROBES = 16
"""States, and times, at which the equations are compared."""

WRITES = 8
"""Times at which right-hand sides are looked at for writing into their arguments."""

SAME = 1e-9
"""Relative difference of two rates at one time and state that counts as rounding."""

FASTEST = 4
"""Samples of a motion, those at which it is fastest, at which its steps have to resolve it."""

SMALL = 1e-6
"""Deviation of a component, relative to the largest, below which it is rounding of others."""


def check_effects(system: System, motion: Motion, times: Tensor) -> None:
    """Raise where a parameter of the context enters neither the equations nor the start.

    The equations are compared at both ends of its range, along the motion and beside it. A NaN in
    place of the parameter tells a value that is read from one that is not, so that a parameter
    which acts elsewhere, at a threshold that the motion does not reach, say, is not refused.

    Args:
        system: with a field.
        motion: one of its own.
        times: (T,) of the motion.

    Raises:
        InputError: a parameter without effect.
    """
    if not any(parameter.low < parameter.high for parameter in system.context):
        return
    points = _points(_parts(motion, system.order), times, system.horizon)
    if not points:
        return

    def rates(c: Tensor) -> Iterable[Tensor]:
        return (_rate(system.rhs, t, x, c) for t, x in points)

    def starts(c: Tensor) -> Iterable[Tensor]:
        return system._initial_parts(c, None)

    for k, parameter in enumerate(system.context):
        if parameter.low == parameter.high:
            continue
        contexts = _contexts(system.context, k)
        if _depends(rates, *contexts) or _depends(starts, *contexts):
            continue
        raise InputError(
            parameter.name,
            expected=f"a parameter that the equations of {system.name} depend on",
            got=f"one that is read nowhere, from {parameter.low:g} to {parameter.high:g}",
            fix=f"use c[..., {k}] in the right-hand side or the initial state, or drop it",
        )


def check_members(
    system: System, motion: Motion, times: Tensor, contexts: Tensor, *, mixing: float = 1e-6
) -> None:
    """Raise where the rate of a trajectory depends on the others.

    A right-hand side that is written for one state, x[0], takes members of a batch for components,
    and the shapes agree where there are as many of them.

    Args:
        system: with a field.
        motion: (C, T, n).
        times: (T,) of the motion.
        contexts: (C, p), or (C, T, p).
        mixing: relative difference of the rate of a trajectory alone and in a batch, which rounding
            stays below.

    Raises:
        InputError: names the right-hand side.
    """
    is_batch = motion.state.ndim == 3 and len(motion.state) > 1
    if not is_batch:
        return
    c = contexts
    if contexts.ndim == 3:
        c = contexts[:, 0]  # (C, p)
    starts = [component[:, 0] for component in _parts(motion, system.order)]
    x = torch.cat(starts, dim=-1)  # (C, order · n)
    together = _rate(system.rhs, times[0], x, c)[[0, -1]]
    # the last alone could be the one of largest context, say, which all others took
    ends = [_rate(system.rhs, times[0], x[k], c[k]) for k in (0, -1)]
    alone = torch.stack(ends)  # (2, order · n)
    if not bool(alone.isfinite().all()):
        return
    error = (together - alone).abs().max()
    size = alone.abs().max().clamp(min=mixing)
    if bool(error <= mixing * size):
        return
    raise InputError(
        _describe_rhs(system),
        expected="rates of each trajectory that do not depend on the others",
        got=f"a difference of {float(error):.2g} to one alone",
        fix="index the last axis, x[..., 0] and c[..., 0]; romkit.testing.check_system(system) tells",
    )


def check_writes(system: System, motion: Motion, times: Tensor, contexts: Tensor) -> None:
    """Raise where the right-hand side writes into a state or context that it is given, which
    solvers and datasets go on to use.

    Args:
        system: with a field.
        motion: (..., T, n).
        times: (T,) of the motion.
        contexts: (..., p), or (C, T, p).

    Raises:
        InputError: names the right-hand side.
    """
    # beside the motion too: some write where a state is negative, say
    c, points = _call(system, motion, times, contexts)
    for t, x in points[:WRITES]:
        _check_written(system, t, {"x": x.clone(), "c": align(c, x).clone()})


def check_memory(system: System, motion: Motion, times: Tensor, contexts: Tensor) -> None:
    """Raise where the right-hand side gives another rate when it is called again, or the memory of
    an earlier rate.

    Solvers hold several rates at once, and call at times that go back and forth. So one that
    remembers, draws random numbers, or fills one array in all calls is no function of (t, x).

    Args:
        system: with a field.
        motion: (..., T, n).
        times: (T,) of the motion.
        contexts: (..., p), or (C, T, p).

    Raises:
        InputError: names the right-hand side.
    """
    c, points = _call(system, motion, times, contexts)
    points = points[:: 2 * PROBES // WRITES]
    rates = [_rate(system.rhs, t, x, c) for t, x in points]
    copies = [rate.clone() for rate in rates]
    # backwards, so that a relay or a filter is in another state
    again = [_rate(system.rhs, t, x, c).clone() for t, x in reversed(points)]
    for rate, copy, second in zip(rates, copies, reversed(again), strict=True):
        if not _agree(rate, copy):
            raise InputError(
                _describe_rhs(system),
                expected="a new array for each rate",
                got="one array that each call fills anew",
                fix="make it inside of the function, or return a copy",
            )
        if not _agree(copy, second):
            raise InputError(
                _describe_rhs(system),
                expected="equal rates at equal times and states",
                got="another one when it is called again",
                fix="what it remembers is a component of the state; draw random numbers before",
            )


def _agree(rate: Tensor, other: Tensor) -> bool:
    size = float(other.abs().nan_to_num(0.0, 0.0, 0.0).max())
    return torch.allclose(rate, other, rtol=SAME, atol=SAME * size, equal_nan=True)


def check_steps(
    system: System, motion: Motion, times: Tensor, contexts: Tensor, *, inaccurate: float = 0.1
) -> None:
    """Warn where steps of one length are too long for the motion, by steps of half their length.

    Steps that leave a close passage or a short pulse far off the solution are accurate from there
    on, so that the start and the fastest places are looked at beside places along the motion.

    Args:
        system: with a field.
        motion: (C, T, n).
        times: (T,) of the motion.
        contexts: (C, p).
        inaccurate: error of all steps of a run together, in deviations of a component, and of a
            step at the fastest places, relative to its own length, from which on they are warned
            of.
    """
    parts = _parts(motion, system.order)
    solver = system.solver_at(contexts)
    takes_equal_steps = isinstance(solver, RK4)
    if not takes_equal_steps or contexts.ndim != 2 or len(times) < 3 or parts[0].ndim != 3:
        return
    states = torch.cat([component.double() for component in parts], dim=-1)  # (C, T, order · n)
    rates = torch.cat([component.double() for component in motion[1 : 1 + system.order]], dim=-1)
    alive = states.isfinite().all(-1).all(-1)
    states, rates, contexts = states[alive], rates[alive], contexts[alive]
    interval = float(times[1] - times[0])
    h = min(solver.dt, interval)
    field = system.phase_field(contexts)
    with torch.no_grad(), one_thread():
        of_step = _step_error(solver, field, states, times, h)
        unresolved, at = _error_where_fastest(solver, field, states, rates, times, h)
    duration = float(times[-1] - times[0])
    total = of_step * duration / h
    if total >= inaccurate:
        text = f"steps of {h:g} err by {of_step:.1g} deviations each, {total:.2g} in all"
    elif unresolved >= inaccurate:
        text = (
            f"a step of {h:g} errs by {unresolved:.0%} of its length at t={at:g}, where it is fast"
        )
    else:
        return
    warn(f"full model of {system.name}: {text}; {system.advice(contexts)}", RuntimeWarning)


def _error_where_fastest(
    solver: RK4,
    field: Callable[[Tensor, Tensor], Tensor],
    states: Tensor,
    rates: Tensor,
    times: Tensor,
    h: float,
) -> tuple[float, float]:
    """Return largest error of a step, relative to its length in deviations of components, at the
    start and where motions (C, T, d) are fastest; and the time of it.
    """
    deviation = states.std(dim=1)  # (C, d)
    moves = _moves(states, deviation)
    if not bool(moves.any()):
        return 0.0, 0.0
    unit = torch.where(moves, deviation, torch.inf)
    speed = (rates / unit.unsqueeze(1)).square().mean(-1).sqrt().nan_to_num(0.0)  # (C, T)
    is_fast = speed >= speed.amax(1, keepdim=True) / 2
    fastest = speed.amax(0)[:-1].topk(min(FASTEST, len(times) - 1)).indices.tolist()
    halved = unchecked(RK4)(h / 2, solver.divergence_threshold)
    largest, at = 0.0, 0.0
    for k in sorted({0, *fastest}):
        at_once, in_two = _stepped(solver, halved, field, states[:, k], times[k], h)
        error = ((at_once - in_two) / unit).square().mean(-1).sqrt()
        length = ((in_two - states[:, k]) / unit).square().mean(-1).sqrt()
        # a step that is lost is none of the motion
        share = torch.where(is_fast[:, k], error / length, 0.0).nan_to_num(0.0)
        if float(share.max()) > largest:
            largest, at = float(share.max()), float(times[k])
    return largest, at


def _stepped(
    solver: RK4, halved: RK4, field: Callable[..., Tensor], x: Tensor, t: Tensor, h: float
) -> tuple[Tensor, Tensor]:
    """Return states (C, d) after a step, and after two of half its length."""
    step = torch.stack([t, t + h]).double()
    at_once = unchecked(solver.__call__)(field, x, step, engine="torch")
    in_two = unchecked(halved.__call__)(field, x, step, engine="torch")
    return at_once.states[:, -1], in_two.states[:, -1]


def _step_error(
    solver: RK4,
    field: Callable[[Tensor, Tensor], Tensor],
    states: Tensor,
    times: Tensor,
    h: float,
    *,
    doubled: int = 8,
) -> float:
    """Return mean error of a step along the motion (C, T, d) that errs most, in deviations of
    components.

    `doubled`: samples of a motion at which a step is compared with two of half its length.
    """
    deviation = states.std(dim=1)  # (C, d)
    moves = _moves(states, deviation)
    if not bool(moves.any()):
        return 0.0
    halved = unchecked(RK4)(h / 2, solver.divergence_threshold)
    errors = []
    # the start alone may be fast, and counts for one step
    for k in tensors.evenly(len(times), doubled + 1).tolist()[1:]:
        at_once, in_two = _stepped(solver, halved, field, states[:, k], times[k], h)
        error = (at_once - in_two).abs()
        relative = torch.where(moves, error / deviation, 0.0)
        errors.append(relative.square().mean(-1).sqrt())  # (C,)
    return float(torch.stack(errors).nanmean(0).max())


def _moves(states: Tensor, deviation: Tensor) -> Tensor:
    """Tell whether components (C, d) of a motion (C, T, d) move. Those at rest have rounding alone,
    of their own size or of others that act on them.
    """
    own_rounding = SAME * states.abs().amax(1)
    that_of_others = SMALL * deviation.amax(-1, keepdim=True)
    return (deviation > own_rounding) & (deviation > that_of_others)


def _check_written(system: System, t: Tensor, arguments: dict[str, Tensor]) -> None:
    before = {name: value.clone() for name, value in arguments.items()}
    with torch.no_grad():
        system.rhs(t, *arguments.values())
    for name, value in arguments.items():
        if torch.equal(value, before[name]):
            continue
        raise InputError(
            _describe_rhs(system),
            expected=f"a rate, and {name} unchanged",
            got=f"other numbers in {name} after the call",
            fix=f"do not write into it: begin with {name} = {name}.clone()",
        )


def _describe_rhs(system: System) -> str:
    kind = {1: "rhs", 2: "acceleration"}[system.order]
    return f"{type(system).__name__}.{kind}"


def _parts(motion: Motion, order: int) -> tuple[Tensor, ...]:
    """(x,), or (q, q̇), each (..., T, n)."""
    return (motion.state, motion.velocity)[:order]


def _rate(rhs: Callable[..., object], t: Tensor, x: Tensor, c: Tensor) -> Tensor:
    """Return the right-hand side at a state, which it may write into, and a context."""
    with torch.no_grad():
        rate = rhs(t, x.clone(), align(c, x))
        return torch.as_tensor(rate)


Points = list[Pair]
"""Times and states (k, order · n) there."""


def _call(system: System, motion: Motion, times: Tensor, contexts: Tensor) -> tuple[Tensor, Points]:
    """Return first context (1, p), and times and states at which the right-hand side is called."""
    c = torch.atleast_2d(contexts).flatten(0, -2)[:1]
    return c, _points(_parts(motion, system.order), times, system.horizon)


def _points(motion: Sequence[Tensor], times: Tensor, horizon: float) -> Points:
    """Return states along a motion, whose parts are (..., T, n), at their times and at others, and
    states beside them.
    """
    parts = [_first_member(part) for part in motion]  # each (T, n)
    # members that are lost have no state
    is_alive = parts[0].isfinite().all(-1)
    alive = int(is_alive.sum())
    if alive == 0:
        return []
    samples = tensors.evenly(alive, PROBES)
    probed = torch.linspace(0, horizon, PROBES, dtype=torch.float64)
    draw = torch.Generator().manual_seed(0)
    points = []
    for sample, time in zip(samples.tolist(), probed, strict=False):
        # a parameter that acts across the attractor alone is seen beside it
        along, beside = [], []
        for part in parts:
            x = part[sample]
            size = 1 + x.abs()
            along.append(x)
            noise = torch.randn(x.shape, generator=draw).to(x)
            beside.append(x + size * noise)
        rows = [torch.cat(along), torch.cat(beside)]
        states = torch.stack(rows)
        points.append((times[sample].double(), states))
        points.append((time, states))
    return points


def _first_member(states: Tensor) -> Tensor:
    """(T, n) of states (..., T, n)."""
    shape = states.shape[-2:]
    members = states.double().reshape(-1, *shape)
    return members[0]


def _contexts(context: Sequence[ContextParameter], k: int) -> tuple[Tensor, ...]:
    """Return the middle of the range, each (1, p), with the k-th parameter at both ends, and NaN."""
    ends = torch.from_numpy(np.stack(ends_of(context)))
    contexts = ends.mean(0).repeat(3, 1)
    contexts[:2, k] = ends[:, k]
    contexts[2, k] = torch.nan
    return contexts.split(1)


def _depends(
    evaluate: Callable[[Tensor], Iterable[Tensor]], low: Tensor, high: Tensor, unknown: Tensor
) -> bool:
    """Tell whether values at contexts (1, p) depend on the parameter in which these differ."""
    for at_low, at_high in zip(evaluate(low), evaluate(high), strict=True):
        if not torch.equal(at_low, at_high):
            return True
    try:
        with torch.no_grad():
            return any(bool(value.isnan().any()) for value in evaluate(unknown))
    except (ValueError, RuntimeError, ArithmeticError):
        # it looked at the NaN, and refused it
        return True
