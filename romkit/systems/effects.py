"""Refusal of right-hand sides that mix trajectories, or do not depend on a context parameter."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from romkit.core.broadcast import align
from romkit.core.errors import InputError

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
    varied = [k for k, p in enumerate(system.context) if p.low < p.high]
    if not varied:
        return
    points = _points(system, motion, times)
    for k in varied:
        parameter = system.context[k]
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
    if motion.state.ndim != 3 or len(motion.state) < 2:
        return
    c = contexts if contexts.ndim == 2 else contexts[:, 0]
    x = torch.cat([part[:, 0] for part in (motion.state, motion.velocity)[: system.order]], dim=-1)
    with torch.no_grad():
        together = torch.as_tensor(system.rhs(times[0], x.clone(), align(c, x)))
        alone = torch.as_tensor(system.rhs(times[0], x[-1].clone(), align(c[-1], x[-1])))
    if not bool(alone.isfinite().all()):
        return
    error = (together[-1] - alone).abs().max()
    if bool(error <= MIXING * alone.abs().max().clamp(min=MIXING)):
        return
    kind = "rhs" if system.order == 1 else "acceleration"
    expected = "rates of each trajectory that do not depend on the others"
    fix = "index the last axis, x[..., 0] and c[..., 0]; romkit.testing.check_system(system) tells"
    got = f"a difference of {float(error):.2g} to one alone"
    raise InputError(f"{type(system).__name__}.{kind}", expected=expected, got=got, fix=fix)


Points = list[tuple[Tensor, Tensor]]
"""Times and states (k, order · n) there."""


def _points(system: System, motion: Motion, times: Tensor) -> Points:
    """States along the motion, at their times and at others, and states beside them."""
    parts = (motion.state, motion.velocity)[: system.order]
    # (..., T, n): members that are lost have no state
    rows = [
        part.double().flatten(0, -3) if part.ndim > 2 else part.double()[None] for part in parts
    ]
    member = rows[0][0]
    alive = int(member.isfinite().all(-1).sum())
    if alive == 0:
        return []
    taken = torch.linspace(0, alive - 1, min(PROBES, alive)).round().long().tolist()
    draw = torch.Generator().manual_seed(0)
    span = torch.linspace(0, system.horizon, PROBES, dtype=torch.float64)
    points = []
    for number, k in enumerate(taken):
        along = [row[0, k] for row in rows]
        beside = [x + (1 + x.abs()) * torch.randn(x.shape, generator=draw).to(x) for x in along]
        states = torch.stack([torch.cat(along), torch.cat(beside)])
        points += [(times[k].double(), states), (span[number], states)]
    return points


def _contexts(system: System, k: int) -> Tensor:
    """(3, p): the middle of the range, with the k-th parameter at both ends and NaN."""
    middle = torch.tensor([(p.low + p.high) / 2 for p in system.context], dtype=torch.float64)
    contexts = middle.repeat(3, 1)
    parameter = system.context[k]
    contexts[:, k] = torch.tensor([parameter.low, parameter.high, torch.nan])
    return contexts


def _enters_field(system: System, k: int, points: Points) -> bool:
    low, high, unknown = _contexts(system, k)

    def rate(t: Tensor, x: Tensor, c: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.as_tensor(system.rhs(t, x.clone(), align(c, x)))

    if any(not torch.equal(rate(t, x, low), rate(t, x, high)) for t, x in points):
        return True
    return not points or _reads(lambda: [rate(t, x, unknown) for t, x in points])


def _enters_start(system: System, k: int) -> bool:
    contexts = _contexts(system, k)
    low, high = (system._initial_parts(contexts[i : i + 1], None) for i in (0, 1))
    if any(not torch.equal(a, b) for a, b in zip(low, high, strict=True)):
        return True
    return _reads(lambda: system._initial_parts(contexts[2:], None))


def _reads(evaluate: Callable[[], Iterable[Tensor]]) -> bool:
    """Whether values, of which an argument is NaN, show it."""
    try:
        with torch.no_grad():
            return any(bool(value.isnan().any()) for value in evaluate())
    except (ValueError, RuntimeError, ArithmeticError):
        return True  # it looked at the NaN, and refused it
