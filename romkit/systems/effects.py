"""Refusal of right-hand sides that mix trajectories, write into their arguments, remember what they
were called with, or do not depend on a context parameter; and a warning of steps that are too long.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from romkit.core import tensors
from romkit.core.boundary import unchecked
from romkit.core.broadcast import align
from romkit.core.errors import InputError, warn
from romkit.core.types import Pair, TensorFunction, TensorTuple
from romkit.data import ContextParameter
from romkit.data.contexts import ends_of
from romkit.engine.threads import one_thread
from romkit.solvers import RK4

System = Any
"""A `romkit.systems.System`, whose module imports this one."""

Motion = Any
"""A `romkit.systems.Motion`."""

Points = list[Pair]
"""Times and states (k, order · n) there."""


def check_motion(system: System, motion: Motion, times: Tensor, contexts: Tensor) -> None:
    """Refuse right-hand sides that are no functions of time, state and context alone, and warn of
    steps that are too long for the motion.

    Args:
        system: with a field.
        motion: (..., T, n), one of its own.
        times: (T,) of the motion.
        contexts: (..., p), or (C, T, p).

    Raises:
        InputError: names the right-hand side, or a parameter without effect.
    """
    parts = (motion.state, motion.velocity)[: system.order]
    points = _points(parts, times, system.horizon)
    c = torch.atleast_2d(contexts).flatten(0, -2)[:1]  # (1, p)
    # beside the motion too: some write where a state is negative, say
    for t, x in points[:8]:
        _check_writes(system, t, x, c)
    _check_members(system, parts, times[0], contexts)
    _check_memory(system, points[::4], c)
    _check_effects(system, points)
    _check_steps(system, motion, times, contexts)


def _check_effects(system: System, points: Points) -> None:
    """Raise where a parameter of the context enters neither the equations nor the start.

    The equations are compared at both ends of its range, along the motion and beside it. A NaN in
    place of the parameter tells a value that is read from one that is not, so that a parameter
    which acts elsewhere, at a threshold that the motion does not reach, say, is not refused.
    """

    def values(c: Tensor) -> Iterator[Tensor]:
        yield from (_rate(system.rhs, t, x, c) for t, x in points)
        yield from system._initial_parts(c, None)

    for k, parameter in enumerate(system.context):
        stays = parameter.low == parameter.high
        if stays or not points or _depends(values, *_contexts(system.context, k)):
            continue
        raise InputError(
            parameter.name,
            expected=f"a parameter that the equations of {system.name} depend on",
            got=f"one that is read nowhere, from {parameter.low:g} to {parameter.high:g}",
            fix=f"use c[..., {k}] in the right-hand side or the initial state, or drop it",
        )


def _check_members(
    system: System, parts: TensorTuple, t: Tensor, contexts: Tensor, *, mixing: float = 1e-6
) -> None:
    """Raise where the rate of a trajectory depends on the others, by more than `mixing` of it, which
    rounding stays below.

    A right-hand side that is written for one state, x[0], takes members of a batch for components,
    and the shapes agree where there are as many of them.
    """
    if parts[0].ndim != 3 or len(parts[0]) == 1:
        return
    c = contexts
    if contexts.ndim == 3:
        c = contexts[:, 0]  # (C, p)
    x = torch.cat([state[:, 0] for state in parts], dim=-1)  # (C, order · n)
    together = _rate(system.rhs, t, x, c)[[0, -1]]
    # the last alone could be the one of largest context, say, which all others took
    alone = torch.stack([_rate(system.rhs, t, x[k], c[k]) for k in (0, -1)])  # (2, order · n)
    error = (together - alone).abs().max()
    size = alone.abs().max().clamp(min=mixing)
    if bool(error <= mixing * size) or not bool(alone.isfinite().all()):
        return
    raise InputError(
        _describe_rhs(system),
        expected="rates of each trajectory that do not depend on the others",
        got=f"a difference of {float(error):.2g} to one alone",
        fix="index the last axis, x[..., 0] and c[..., 0]; romkit.testing.check_system(system) tells",
    )


def _check_writes(system: System, t: Tensor, x: Tensor, c: Tensor) -> None:
    """Raise where the right-hand side writes into a state or context that it is given, which
    solvers and datasets go on to use.
    """
    given = {"x": x, "c": align(c, x)}
    copies = {name: value.clone() for name, value in given.items()}
    with torch.no_grad():
        system.rhs(t, *copies.values())
    for name, value in given.items():
        if not torch.equal(value, copies[name]):
            raise InputError(
                _describe_rhs(system),
                expected=f"a rate, and {name} unchanged",
                got=f"other numbers in {name} after the call",
                fix=f"do not write into it: begin with {name} = {name}.clone()",
            )


def _check_memory(system: System, points: Points, c: Tensor) -> None:
    """Raise where the right-hand side gives another rate when it is called again, or the memory of
    an earlier rate.

    Solvers hold several rates at once, and call at times that go back and forth. So one that
    remembers, draws random numbers, or fills one array in all calls is no function of (t, x).
    """
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


def _agree(rate: Tensor, other: Tensor, *, rounding: float = 1e-9) -> bool:
    """Tell whether rates at one time and state differ by rounding of the largest at most."""
    size = float(other.abs().nan_to_num(0.0, 0.0, 0.0).max())
    return torch.allclose(rate, other, rtol=rounding, atol=rounding * size, equal_nan=True)


def _check_steps(
    system: System,
    motion: Motion,
    times: Tensor,
    contexts: Tensor,
    *,
    inaccurate: float = 0.1,
    samples: int = 8,
    fastest: int = 4,
) -> None:
    """Warn where steps of one length are too long for the motion, by steps of half their length.

    Args:
        system: with a field.
        motion: (C, T, n).
        times: (T,) of the motion.
        contexts: (C, p) that stay.
        inaccurate: error in deviations of components, of a run or of a step relative to its length
            where it is longest, from which on a solution is no solution.
        samples: of a motion at which a step is compared with two of half its length.
        fastest: those at which it is fastest, where its steps have to resolve it.
    """
    solver = system.solver_at(contexts)
    are_runs = (contexts.ndim, motion.state.ndim) == (2, 3)
    if not isinstance(solver, RK4) or not are_runs or len(times) < 3:
        return
    parts = [step.double() for step in motion[: 1 + system.order]]
    states = torch.cat(parts[: system.order], dim=-1)  # (C, T, order · n)
    rates = torch.cat(parts[1:], dim=-1)
    alive = states.isfinite().all(-1).all(-1)
    if not bool(alive.any()):
        return
    states, rates, contexts = states[alive], rates[alive], contexts[alive]
    h = min(solver.dt, float(times[1] - times[0]))
    unit = _deviations(states)
    speed = (rates / unit.unsqueeze(1)).square().mean(-1).sqrt().nan_to_num(0.0)  # (C, T)
    is_fast = speed >= speed.amax(1, keepdim=True) / 2
    quick = speed.amax(0)[:-1].topk(min(fastest, len(times) - 1)).indices.tolist()
    # the start alone may be fast, and counts for one step
    evenly = tensors.evenly(len(times), samples + 1).tolist()[1:]
    errors, unresolved, at = [], 0.0, 0.0
    field = system.phase_field(contexts)
    with torch.no_grad(), one_thread():
        for k in evenly:
            errors.append(_step_error(solver, field, states[:, k], times[k], h, unit)[0])
        for k in sorted({0, *quick}):
            error, length = _step_error(solver, field, states[:, k], times[k], h, unit)
            # a step that is lost is none of the motion
            share = torch.where(is_fast[:, k], error / length, 0.0).nan_to_num(0.0)
            if float(share.max()) > unresolved:
                unresolved, at = float(share.max()), float(times[k])
    of_step = float(torch.stack(errors).nanmean(0).max())
    total = of_step * float(times[-1] - times[0]) / h
    if total >= inaccurate:
        text = f"steps of {h:g} err by {of_step:.1g} deviations each, {total:.2g} in all"
    elif unresolved >= inaccurate:
        text = (
            f"a step of {h:g} errs by {unresolved:.0%} of its length at t={at:g}, where it is fast"
        )
    else:
        return
    warn(f"full model of {system.name}: {text}; {system.advice(contexts)}", RuntimeWarning)


def _step_error(
    solver: RK4, field: TensorFunction, x: Tensor, t: Tensor, h: float, unit: Tensor
) -> Pair:
    """Return error of a step from states (C, d), by two of half its length, and its length, both
    (C,) in units of the components (C, d).
    """
    step = torch.stack([t, t + h]).double()
    ends = []
    for dt in (h, h / 2):
        shorter = unchecked(RK4)(dt, solver.divergence_threshold)
        solution = unchecked(shorter.__call__)(field, x, step, engine="torch")
        ends.append(solution.states[:, -1])
    at_once, in_two = ends
    error = ((at_once - in_two) / unit).square().mean(-1).sqrt()
    length = ((in_two - x) / unit).square().mean(-1).sqrt()
    return error, length


def _deviations(states: Tensor, *, rounding: float = 1e-9, of_others: float = 1e-6) -> Tensor:
    """Return deviations (C, d) of the components of a motion (C, T, d), infinite of those at rest,
    which have rounding alone, of their own size or of others that act on them.
    """
    deviation = states.std(dim=1)
    own_rounding = rounding * states.abs().amax(1)
    largest = deviation.amax(-1, keepdim=True)
    moves = (deviation > own_rounding) & (deviation > of_others * largest)
    return torch.where(moves, deviation, torch.inf)


def _describe_rhs(system: System) -> str:
    kind = {1: "rhs", 2: "acceleration"}[system.order]
    return f"{type(system).__name__}.{kind}"


def _rate(rhs: TensorFunction, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
    """Return the right-hand side at a state, which it may write into, and a context."""
    with torch.no_grad():
        return torch.as_tensor(rhs(t, x.clone(), align(c, x)))


def _points(motion: Sequence[Tensor], times: Tensor, horizon: float, *, probes: int = 16) -> Points:
    """Return states along a motion, whose parts are (..., T, n), at their times and at others, and
    states beside them.
    """
    parts = [state.double().reshape(-1, *state.shape[-2:])[0] for state in motion]  # each (T, n)
    # members that are lost have no state
    alive = int(parts[0].isfinite().all(-1).sum())
    if alive == 0:
        return []
    samples = tensors.evenly(alive, probes).tolist()
    probed = torch.linspace(0, horizon, probes, dtype=torch.float64)
    draw = torch.Generator().manual_seed(0)
    points = []
    for sample, time in zip(samples, probed, strict=False):
        # a parameter that acts across the attractor alone is seen beside it
        along, beside = [], []
        for state in parts:
            x = state[sample]
            size = 1 + x.abs()
            along.append(x)
            noise = torch.randn(x.shape, generator=draw).to(x)
            beside.append(x + size * noise)
        states = torch.stack([torch.cat(along), torch.cat(beside)])
        points.append((times[sample].double(), states))
        points.append((time, states))
    return points


def _contexts(context: Sequence[ContextParameter], k: int) -> TensorTuple:
    """Return the middle of the range, each (1, p), with the k-th parameter at both ends, and NaN."""
    ends = torch.from_numpy(np.stack(ends_of(context)))
    contexts = ends.mean(0).repeat(3, 1)
    contexts[:2, k] = ends[:, k]
    contexts[2, k] = torch.nan
    return contexts.split(1)


def _depends(values: Any, low: Tensor, high: Tensor, unknown: Tensor) -> bool:
    """Tell whether values at contexts (1, p) depend on the parameter in which these differ."""
    for at_low, at_high in zip(values(low), values(high), strict=True):
        if not torch.equal(at_low, at_high):
            return True
    try:
        with torch.no_grad():
            return any(bool(value.isnan().any()) for value in values(unknown))
    except (ValueError, RuntimeError, ArithmeticError):
        # it looked at the NaN, and refused it
        return True
