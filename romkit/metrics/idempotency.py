"""How far a projection operator is from being one."""

import torch
from torch import Tensor

from romkit.boundary import Count, checked
from romkit.types import ProjectionOperator


@checked
def idempotency_error(P: ProjectionOperator, x: Tensor, *, steps: Count = 1) -> Tensor:
    """(steps, ...) norms ‖Pᵏ⁺¹(x) - Pᵏ(x)‖, k = 1 ... steps, of states x (..., n).

    Source: Adriaens et al. (2026), section 4.3.

    Example:
        >>> import torch
        >>> import romkit
        >>> P = romkit.load("ncae-lorenz96").double()(F=3.15)
        >>> x = 3.15 + torch.rand(10, 36, dtype=torch.float64)
        >>> errors = romkit.metrics.idempotency_error(P, x, steps=3)
        >>> errors.shape, bool(errors.max() < 1e-9)
        (torch.Size([3, 10]), True)
    """
    errors, y = [], P(x)
    for _ in range(steps):
        y, before = P(y), y
        errors.append((y - before).norm(dim=-1))
    return torch.stack(errors)
