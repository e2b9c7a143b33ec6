"""Latents of states with missing components, by least squares on those that are there."""

from collections.abc import Callable

import torch
from torch import Tensor

from romkit.core.broadcast import linear_solve
from romkit.core.types import Dual

STEPS = 10
"""Steps of Gauss-Newton of an encoder."""


def encoded(x: Tensor, start: Tensor, decode_jacobian: Callable[[Tensor], Dual]) -> Tensor:
    """z (..., m) that minimises ‖x - φ(z)‖ over the components of x (..., n) that are no NaN: by
    Gauss-Newton, where a step that does not bring x closer is not taken. NaN where fewer components
    than latents are there.

    Args:
        x: in units in which components weigh the same.
        start: z to begin with.
        decode_jacobian: φ(z) and Dφ(z) in these units.
    """
    present = ~x.isnan()
    x = torch.where(present, x, 0.0)
    z, best = start, None
    damping = 1e-9
    candidate = start
    for _ in range(STEPS):
        image, J = decode_jacobian(candidate)
        r = torch.where(present, x - image, 0.0)
        distance = r.square().sum(-1, keepdim=True)
        closer = torch.ones_like(distance, dtype=torch.bool) if best is None else distance < best
        z = torch.where(closer, candidate, z)
        best = distance if best is None else torch.minimum(distance, best)
        J = torch.where(present.unsqueeze(-1), J, 0.0)
        gram = J.mT @ J
        unit = torch.eye(gram.shape[-1], dtype=x.dtype)
        size = gram.diagonal(dim1=-2, dim2=-1).amax(-1)[..., None, None]
        step = linear_solve(gram + damping * size * unit, (J.mT @ r.unsqueeze(-1)).squeeze(-1))
        candidate = z + torch.where(closer, step, 0.25 * step)
    # fewer equations than unknowns have many solutions, of which none is preferred
    determined = present.sum(-1, keepdim=True) >= z.shape[-1]
    return torch.where(determined, z, torch.nan)
