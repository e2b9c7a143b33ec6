"""Refusal of right-hand sides that mix trajectories, or do not depend on a context parameter."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from romkit.core import tensors
from romkit.core.broadcast import align
from romkit.core.errors import InputError
from romkit.core.types import Pair

System = Any
"""A `romkit.systems.System`, whose module imports this one."""

Motion = Any
"""A `romkit.systems.Motion`."""

PROBES = 16
"""States, and times, at which the equations are compared."""

MIXING = 1e-6
"""Relative difference of the rate of a trajectory alone and in a batch, which rounding stays below."""


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
    points = _points(system, motion, times)
    for k, parameter in enumerate(system.context):
        if parameter.low == parameter.high:
            continue
        if _enters_field(system, k, points) or _enters_start(system, k):
            continue
        expected = f"a parameter that the equations of {system.name} depend on"
        got = f"one that is read nowhere, from {parameter.low:g} to {parameter.high:g}"
        fix = f"use c[..., {k}] in the right-hand side or the initial state, or drop it"
        raise InputError(parameter.name, expected=expected, got=got, fix=fix)


def check_members(system: System, motion: Motion, times: Tensor, contexts: Tensor) -> None:
    """Raise where the rate of a trajectory depends on the others.

    A right-hand side that is written for one state, x[0], takes members of a batch for components,
    and the shapes agree where there are as many of them.

    Args:
        system: with a field.
        motion: (C, T, n).
        times: (T,) of the motion.
        contexts: (C, p), or (C, T, p).

    Raises:
        InputError: names the right-hand side.
    """
    is_batch = motion.state.ndim == 3 and len(motion.state) > 1
    if not is_batch:
        return
    c = contexts
    if contexts.ndim == 3:
        c = contexts[:, 0]  # (C, p)
    starts = [part[:, 0] for part in _parts(system, motion)]
    x = torch.cat(starts, dim=-1)  # (C, order · n)
    together = _rate(system, times[0], x, c)[-1]
    alone = _rate(system, times[0], x[-1], c[-1])
    if not bool(alone.isfinite().all()):
        return
    error = (together - alone).abs().max()
    size = alone.abs().max().clamp(min=MIXING)
    if bool(error <= MIXING * size):
        return
    kind = {1: "rhs", 2: "acceleration"}[system.order]
    expected = "rates of each trajectory that do not depend on the others"
    fix = "index the last axis, x[..., 0] and c[..., 0]; romkit.testing.check_system(system) tells"
    got = f"a difference of {float(error):.2g} to one alone"
    raise InputError(f"{type(system).__name__}.{kind}", expected=expected, got=got, fix=fix)


def _parts(system: System, motion: Motion) -> tuple[Tensor, ...]:
    """(x,), or (q, q̇), each (..., T, n)."""
    return (motion.state, motion.velocity)[: system.order]


def _rate(system: System, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
    """The right-hand side at a state, which it may write into, and a context."""
    with torch.no_grad():
        rate = system.rhs(t, x.clone(), align(c, x))
        return torch.as_tensor(rate)


Points = list[Pair]
"""Times and states (k, order · n) there."""


def _points(system: System, motion: Motion, times: Tensor) -> Points:
    """States along the motion, at their times and at others, and states beside them."""
    parts = [_first_member(part) for part in _parts(system, motion)]  # each (T, n)
    # members that are lost have no state
    is_alive = parts[0].isfinite().all(-1)
    alive = int(is_alive.sum())
    if alive == 0:
        return []
    samples = tensors.evenly(alive, PROBES)
    probed = torch.linspace(0, system.horizon, PROBES, dtype=torch.float64)
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


def _contexts(system: System, k: int) -> Tensor:
    """(3, p): the middle of the range, with the k-th parameter at both ends and NaN."""
    middles = [(parameter.low + parameter.high) / 2 for parameter in system.context]
    contexts = torch.tensor(middles, dtype=torch.float64).repeat(3, 1)
    parameter = system.context[k]
    contexts[:, k] = torch.tensor([parameter.low, parameter.high, torch.nan])
    return contexts


def _enters_field(system: System, k: int, points: Points) -> bool:
    if not points:
        return True
    low, high, unknown = _contexts(system, k)
    for t, x in points:
        at_low = _rate(system, t, x, low)
        at_high = _rate(system, t, x, high)
        if not torch.equal(at_low, at_high):
            return True
    return _reads(lambda: [_rate(system, t, x, unknown) for t, x in points])


def _enters_start(system: System, k: int) -> bool:
    contexts = _contexts(system, k)
    low = system._initial_parts(contexts[0:1], None)
    high = system._initial_parts(contexts[1:2], None)
    for at_low, at_high in zip(low, high, strict=True):
        if not torch.equal(at_low, at_high):
            return True
    return _reads(lambda: system._initial_parts(contexts[2:], None))


def _reads(evaluate: Callable[[], Iterable[Tensor]]) -> bool:
    """Whether values, of which an argument is NaN, show it."""
    try:
        with torch.no_grad():
            return any(bool(value.isnan().any()) for value in evaluate())
    except (ValueError, RuntimeError, ArithmeticError):
        # it looked at the NaN, and refused it
        return True
