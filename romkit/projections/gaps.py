"""Latents of states with missing components, by least squares on those that are there."""

from collections.abc import Callable

import torch
from torch import Tensor

from romkit.core.broadcast import linear_solve
from romkit.core.types import Dual


def encoded(
    x: Tensor,
    start: Tensor,
    decode_jacobian: Callable[[Tensor], Dual],
    *,
    steps: int = 10,
    damping: float = 1e-9,
) -> Tensor:
    """Find z (..., m) that minimises ‖x - φ(z)‖ over the components of x (..., n) that are no NaN: by
    Gauss-Newton, where a step that does not bring x closer is not taken. NaN where fewer components
    than latents are there.

    Args:
        x: in units in which components weigh the same.
        start: z to begin with.
        decode_jacobian: φ(z) and Dφ(z) in these units.
        steps: of Gauss-Newton, which converges in fewer from the projection of what is there.
        damping: share of the largest diagonal entry that is added to the normal equations, to bound
            steps where components that are there do not tell latents apart.
    """
    present = ~x.isnan()
    x = torch.where(present, x, 0.0)
    z = candidate = start
    smallest = torch.full_like(x[..., :1], torch.inf)
    unit = torch.eye(start.shape[-1], dtype=x.dtype)
    for _ in range(steps):
        image, J = decode_jacobian(candidate)  # (..., n), (..., n, m)
        r = torch.where(present, x - image, 0.0)
        J = torch.where(present.unsqueeze(-1), J, 0.0)
        distance = r.square().sum(-1, keepdim=True)  # (..., 1)
        closer = distance < smallest
        z = torch.where(closer, candidate, z)
        smallest = torch.minimum(distance, smallest)
        gram = J.mT @ J  # (..., m, m)
        size = gram.diagonal(dim1=-2, dim2=-1).amax(-1)[..., None, None]
        gradient = (J.mT @ r.unsqueeze(-1)).squeeze(-1)
        step = linear_solve(gram + damping * size * unit, gradient)
        candidate = z + torch.where(closer, step, 0.25 * step)
    # fewer equations than unknowns have many solutions, of which none is preferred
    determined = present.sum(-1, keepdim=True) >= z.shape[-1]
    return torch.where(determined, z, torch.nan)
