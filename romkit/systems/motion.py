"""A simulated motion, and what is said of trajectories that are lost in it."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit import arrays
from romkit.boundary import Codes, hook
from romkit.broadcast import align
from romkit.data.context import one_context
from romkit.errors import DivergenceWarning, warn
from romkit.problem import Parts
from romkit.solvers import Status
from romkit.types import ContextFunction, Field

NAMED = 5
"""How many lost trajectories are named."""

LARGEST = 1e12
"""Magnitude of a component from which on a trajectory of a full model is lost: in pascal, 10⁶ is an ordinary one."""


@hook
class Motion(NamedTuple):
    """A simulated motion: state and velocity (..., T, n), acceleration too if mechanical, status (...).

    `cost` says what computed it and how long that took: solver, engine, seconds_compiling, seconds_computing.

    Example:
        >>> import torch
        >>> import romkit
        >>> system = romkit.systems.Lorenz96(transient=0.0)
        >>> c = torch.tensor([[3.14], [3.18]], dtype=torch.float64)
        >>> motion = system.simulate(system.start(c), c, torch.linspace(0, 0.1, 11))
        >>> motion.state.shape, motion.acceleration is None, motion.cost["engine"]
        (torch.Size([2, 11, 36]), True, 'torch (too short a run to compile)')
    """

    state: Tensor
    velocity: Tensor
    acceleration: Tensor | None
    status: Codes
    cost: dict[str, object]


def starting(
    parts: Parts, context: Tensor | ContextFunction, order: int, size: int, names: Sequence[str]
) -> tuple[Parts, Tensor | ContextFunction]:
    """The start and the context (..., p) of a motion in float64, each with all leading axes of both, if they fit."""
    arrays.parts("parts", parts, order, size)
    parts = tuple(part.double() for part in parts)
    if callable(context):
        return parts, context
    found = one_context(context, names).double()
    for part in parts:
        arrays.fits("parts", part.shape[:-1], found.shape[:-1], "the contexts")
    rows = [*parts, found]
    axes = max(each.ndim for each in rows)
    rows = [align(each, each.new_empty((1,) * axes)) for each in rows]
    lead = torch.broadcast_shapes(*(each.shape[:-1] for each in rows))
    *parts, found = (each.expand(*lead, -1) for each in rows)
    return tuple(parts), found


def rounded(motion: Motion, precision: torch.dtype) -> Motion:
    """The same numbers in another precision."""
    return Motion(*(part if part is None else part.to(precision) for part in motion[:3]), *motion[3:])


def warn_of_divergence(
    motion: Motion, parts: Parts, times: Tensor, label: str, names: Sequence[str], context: Tensor | ContextFunction
) -> None:
    """Name the trajectories that are lost, with time, and the context where it stays; not those that started so."""
    started = torch.cat(parts, dim=-1).isfinite().all(-1)
    lost = ((motion.status == Status.DIVERGED) & started).reshape(-1).nonzero().flatten().tolist()
    if not lost:
        return
    count = motion.status.numel()
    ends = motion.state.isfinite().all(-1).reshape(count, -1).sum(-1)
    rows = None if callable(context) else context.expand(*motion.status.shape, -1).reshape(count, -1)
    said = []
    for k in lost[:NAMED]:
        values = () if rows is None else zip(names, rows[k].tolist(), strict=True)
        at = ", ".join([*(f"{name}={value:.4g}" for name, value in values), f"t={float(times[ends[k]]):.4g}"])
        said.append(f"{k} ({at})")
    more = ", ..." if len(lost) > NAMED else ""
    text = f"{label}: {len(lost)} of {count} trajectories are lost: {', '.join(said)}{more}, and NaN from there on"
    fix = "shorten the step, or take another solver: system.using(romkit.solvers.SciPy('BDF'))"
    if int(ends[lost].min()) == 0:
        fix = "they begin beyond the solver's divergence_threshold: raise it"
    warn(f"{text}; {fix}", DivergenceWarning)


def along(f: Field, times: Tensor, *states: Tensor) -> Tensor:
    """The field along a motion, at states (..., T, n): at all times at once, where it broadcasts over (T, 1) of them.

    It has to know one time only, so the first, a middle and the last one are asked for alone and compared; where that
    fails, all are asked for alone.
    """
    some = [0, len(times) // 2, len(times) - 1]
    try:
        found = f(times.unsqueeze(-1), *states)
        alone = at_each_time(f, times[some], *(x[..., some, :] for x in states))
        if found.shape == states[0].shape and all(map(_alike, found[..., some, :].unbind(-2), alone.unbind(-2))):
            return found
    except Exception:  # whatever it says of several times: what it says of one it says again below
        pass
    return at_each_time(f, times, *states)


def _alike(a: Tensor, b: Tensor) -> bool:
    """Whether rates are the same but for rounding, which is large where they are differences of large numbers."""
    size = float(b.abs().nan_to_num(posinf=0.0).max()) if b.numel() else 0.0
    return torch.allclose(a, b, rtol=0, atol=1e-4 * size, equal_nan=True)


def at_each_time(f: Field, times: Tensor, *states: Tensor) -> Tensor:
    """The field at states (..., T, n), asked time by time: each may have a context of its own."""
    return torch.stack([f(*now) for now in zip(times, *(x.unbind(-2) for x in states), strict=True)], dim=-2)
