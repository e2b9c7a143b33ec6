"""The operators of a projection along a context that varies in time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from romkit.boundary import checked
from romkit.projections.base import Operator, Projection
from romkit.types import ContextFunction

T = TypeVar("T")

STEP = 1e-5
"""Half the interval, in units of time, over which the rate of a context is taken."""


@checked
@dataclass(frozen=True)
class MovingPath:
    """P(t) = projection(c(t)), with the motion of its decoder (see `romkit.types.OperatorPath`).

    Args:
        projection: in float64, since rates are differences.
        context: t, a scalar tensor, to c (..., p) in physical units; smooth in t.
    """

    projection: Projection
    context: ContextFunction

    def at(self, t: Tensor) -> Operator:
        return self.projection.operator(self.context(t))

    def each(self, make: Callable[[Operator], T]) -> Callable[[Tensor], T]:
        return lambda t: make(self.at(t))

    def relative(self, t: Tensor, z: Tensor, rate: Tensor) -> Tensor:
        return rate - self.decoder_rate(t, z)

    def carried(self, t: Tensor, z: Tensor, rate: Tensor) -> Tensor:
        P = self.at(t)
        return rate - P.encode_jvp(P.decode(z), self.decoder_rate(t, z)).tangent

    def decoder_rate(self, t: Tensor, z: Tensor) -> Tensor:
        """∂ₜ φ(z; c(t)) = D_cφ ċ (..., n): how the decoded state moves while z (..., m) stays."""
        rate = (self.context(t + STEP) - self.context(t - STEP)) / (2 * STEP)
        return torch.func.jvp(lambda c: self.projection.operator(c).decode(z), (self.context(t),), (rate,))[1]
