"""How well a projection reproduces states and velocities."""

import torch
from torch import Tensor

from romkit.projections.base import Operator


def rmse(reference: Tensor, value: Tensor, *, dims: int | tuple[int, ...] | None = None) -> Tensor:
    """Root mean square of reference - value, over all axes or over `dims`."""
    square = (reference - value).square()
    return (square.mean() if dims is None else square.mean(dims)).sqrt()
