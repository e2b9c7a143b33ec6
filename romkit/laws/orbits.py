"""Closed orbits as polygons: the speed along them, and states in closed form."""

from dataclasses import dataclass

import torch
from torch import Tensor

from romkit.core.broadcast import align
from romkit.core.types import Field
from romkit.integrators.base import Flow
from romkit.solvers.base import Run, Solver

NODES = 256
"""Points of an orbit, between which it is a straight line."""

RETURN = 5.0
"""Decay rate of distances from the orbit, in periods. Settled data do not tell it."""

SHORTEST = 1e-3
"""Least time in which the field passes a side, relative to one of many equal sides."""


class Orbit:
    """A closed orbit at each of several contexts, a polygon.

    Args:
        nodes: (..., N, m + 1) points at even places s, and φ - s there.
        frequency: (...).
    """

    def __init__(self, nodes: Tensor, frequency: Tensor):
        points = nodes[..., :-1]
        even = torch.arange(NODES, dtype=nodes.dtype, device=nodes.device) / NODES
        # between the contexts of training the phase might run backwards
        phase = (nodes[..., -1] + even).cummax(-1).values  # (..., N)
        self.phase = torch.cat([phase, phase[..., :1] + 1], -1)
        self.points = torch.cat([points, points[..., :1, :]], -2).flatten(-2)
        self.frequency = frequency.unsqueeze(-1)

    def rate(self, z: Tensor) -> Tensor:
        """ż (..., m)."""
        z = align(z, self.points)
        phase, points = self._locate(z)
        number, share = _nearest(z, points)
        point, side = _polygon_points(points, number, share)  # (..., 1, m)
        _, lasts = _phases(number, phase)
        frequency = align(self.frequency, z)
        # a side that is passed in no time is passed in a short one
        speed = frequency / lasts.clamp(min=SHORTEST / NODES)
        return speed * side.squeeze(-2) - RETURN * frequency * (z - point.squeeze(-2))

    def states(self, z: Tensor, times: Tensor) -> Tensor:
        """Return states (..., T, m) at times (T,), from states (..., m) at the first one."""
        z = align(z, self.points)
        phase, points = self._locate(z)
        number, share = _nearest(z, points)
        start, _ = _polygon_points(points, number, share)  # (..., 1, m)
        begin, lasts = _phases(number, phase)
        turns = align(self.frequency, z) * (times - times[0])  # (..., T)
        phase0 = phase[..., :1]
        wanted = phase0 + (begin + share * lasts + turns - phase0) % 1  # (..., T)
        number = torch.searchsorted(phase, wanted, right=True) - 1
        number = number.clamp(0, NODES - 1)
        begin, lasts = _phases(number, phase)
        share = torch.where(lasts > 0, (wanted - begin) / lasts, 0.0)
        followed, _ = _polygon_points(points, number, share)
        decay = torch.exp(-RETURN * turns).unsqueeze(-1)  # (..., T, 1)
        return followed + decay * (z.unsqueeze(-2) - start)

    def _locate(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return phases (..., N + 1) and points (..., N + 1, m) of the orbit of each state (...,
        m).
        """
        lead = z.shape[:-1]
        phase = align(self.phase, z).expand(*lead, -1).contiguous()
        points = align(self.points, z).expand(*lead, -1)
        return phase, points.unflatten(-1, (NODES + 1, -1))


def _nearest(z: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """Side of a polygon (..., N + 1, m) that is nearest to z (..., m), and the share of it that lies
    before the nearest point, each (..., 1).
    """
    node = (z.unsqueeze(-2) - points[..., :-1, :]).square().sum(-1).argmin(-1, keepdim=True)
    number = torch.cat([node, (node - 1) % NODES], -1)  # (..., 2) the sides that meet there
    before, side = _polygon_points(points, number, torch.zeros_like(number).to(z))
    along = ((z.unsqueeze(-2) - before) * side).sum(-1)
    length = side.square().sum(-1)
    share = torch.where(length > 0, along / length, 0.0).clamp(0, 1)
    point = before + share.unsqueeze(-1) * side
    nearer = (z.unsqueeze(-2) - point).square().sum(-1).argmin(-1, keepdim=True)
    return number.gather(-1, nearer), share.gather(-1, nearer)


def _phases(number: Tensor, phase: Tensor) -> tuple[Tensor, Tensor]:
    """Return phase at which sides (..., K) of the orbit begin, and the phase that passes along
    each.
    """
    begin = phase.gather(-1, number)
    return begin, phase.gather(-1, number + 1) - begin


def _polygon_points(points: Tensor, number: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Return points on sides (..., K) of a polygon (..., N + 1, m), behind a share of each; and the
    sides.
    """
    rows = number.unsqueeze(-1).expand(*number.shape, points.shape[-1])
    before = points.gather(-2, rows)
    side = points.gather(-2, rows + 1) - before
    return before + share.unsqueeze(-1) * side, side


@dataclass(frozen=True)
class AlongOrbit(Solver):
    """Exact states of a law of limit cycles.

    Attributes:
        flow: from a state to states at later times.
    """

    flow: Flow
    divergence_threshold: float = 1e6

    def prepare(
        self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str
    ) -> tuple[Run, str]:
        return lambda y, times: self.flow(y, times).movedim(-2, 0), "exact"

    def __repr__(self) -> str:
        return "AlongOrbit()"
