"""The operators of a projection along a context that varies in time."""

from collections.abc import Callable

import torch
from torch import Tensor

from romkit.projections.base import Operator, Projection

STEP = 1e-5
"""Half the interval, in units of time, over which the rate of a context is taken."""


class ContextPath:
    """P(t) = projection(c(t)), with the motion of its decoder (see `romkit.types.OperatorPath`).

    Args:
        projection: in float64, since rates are differences.
        context: t, a scalar tensor, to c (..., p) in physical units; smooth in t.
    """

    def __init__(self, projection: Projection, context: Callable[[Tensor], Tensor]):
        self.projection, self.context = projection, context

    def at(self, t: Tensor) -> Operator:
        return self.projection(self.context(t))

    def decoder_rate(self, t: Tensor, z: Tensor) -> Tensor:
        rate = (self.context(t + STEP) - self.context(t - STEP)) / (2 * STEP)
        return torch.func.jvp(lambda c: self.projection(c).decode(z), (self.context(t),), (rate,))[1]
