"""Diverging members put to rest, for libraries that would stop the whole batch because of one of them."""

import torch
from torch import Tensor

from romkit.solvers.base import inside
from romkit.types import Field


def resting(field: Field, threshold: float) -> Field:
    """The field, but zero for members that are beyond the threshold, or whose derivative overflows when squared."""

    def held(t: Tensor, y: Tensor) -> Tensor:
        dy = field(t, y)
        return torch.where(_usable(y, dy, threshold), dy, 0.0)

    return held


def resting_start(y0: Tensor, threshold: float) -> Tensor:
    """y0 (..., d), but zero for members that are beyond the threshold from the start."""
    return torch.where(inside(y0, threshold), y0, 0.0)


def masked(field: Field, y0: Tensor, times: Tensor, states: Tensor, threshold: float) -> Tensor:
    """States (T, ..., d) with NaN where a member was at rest, and the start as it was given."""
    moving = torch.stack([_usable(y, field(t, y), threshold) for t, y in zip(times, states, strict=True)])
    states = torch.where(moving, states, torch.nan)
    return torch.cat([y0.unsqueeze(0), states[1:]])


def error_norm(error: Tensor) -> Tensor:
    """(...) root mean square of errors (..., d); never infinite: an overshooting step is tried again."""
    return error.square().mean(-1).sqrt().nan_to_num(nan=1e10, posinf=1e10).clamp(max=1e10)


def _usable(y: Tensor, dy: Tensor, threshold: float) -> Tensor:
    return inside(y, threshold) & inside(dy, torch.finfo(dy.dtype).max ** 0.5)
