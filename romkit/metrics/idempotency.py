"""How far a projection operator is from being one."""

import torch
from torch import Tensor

from romkit.boundary import Count, checked
from romkit.types import ProjectionOperator


@checked
def idempotency_error(P: ProjectionOperator, x: Tensor, *, steps: Count = 1) -> Tensor:
    """(steps, ...) norms ‖Pᵏ⁺¹(x) - Pᵏ(x)‖, k = 1 ... steps, of states x (..., n).

    Source: Adriaens et al. (2026), section 4.3.
    """
    errors, y = [], P(x)
    for _ in range(steps):
        y, before = P(y), y
        errors.append((y - before).norm(dim=-1))
    return torch.stack(errors)
