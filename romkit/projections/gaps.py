"""Snapshots with missing components: filled by what the modes say of those that are there, and
encoded by least squares.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from romkit.bases import decompose
from romkit.core.broadcast import linear_solve
from romkit.core.types import Dual

ROUNDS = 4
"""Rounds in which snapshots are filled by modes, and modes made of the filled snapshots."""

STEPS = 10
"""Steps of Gauss-Newton of an encoder."""

MODES = 64
"""Most modes by which snapshots are filled."""


def filled(y: Tensor) -> Tensor:
    """Snapshots (N, n) without NaN: the expectation of what is missing, given what is there, of a
    normal distribution along the leading modes.

    Raises:
        IndexError: no complete snapshot to begin with.
    """
    missing = y.isnan()
    complete = ~missing.any(1)
    if bool(complete.all()):
        return y
    whole = torch.where(missing, 0.0, y)
    seen = y[complete]
    for _ in range(ROUNDS):
        modes, sigma, energy = decompose(seen, min(MODES, *seen.shape))
        variance = sigma.square() / len(seen)  # along each mode
        # beside the modes, and never so small that rounding decides
        noise = (energy / len(seen) - variance.sum()).clamp(min=0) / y.shape[1]
        noise = noise.clamp(min=1e-12 * float(variance[0]))
        for rows, there in _patterns(missing):
            E = modes[there]  # (k, r)
            normal = E.mT @ E + noise * torch.diag(1 / variance)
            z = torch.linalg.solve(normal, E.mT @ whole[rows][:, there].mT).mT
            whole[rows] = torch.where(missing[rows], z @ modes.mT, whole[rows])
        seen = whole
    return whole


def _patterns(missing: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows that lack the same components, and the components that they have."""
    patterns, number = missing.unique(dim=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        if bool(pattern.any()):
            yield torch.nonzero(number == k).flatten(), torch.nonzero(~pattern).flatten()


def encoded(x: Tensor, start: Tensor, decode_jacobian: Callable[[Tensor], Dual]) -> Tensor:
    """z (..., m) that minimises ‖x - φ(z)‖ over the components of x (..., n) that are no NaN: by
    Gauss-Newton, where a step that does not bring x closer is not taken.

    Args:
        x: in units in which components weigh the same.
        start: z to begin with.
        decode_jacobian: φ(z) and Dφ(z) in these units.
    """
    there = ~x.isnan()
    x = torch.where(there, x, 0.0)
    z, best = start, None
    damping = 1e-9
    candidate = start
    for _ in range(STEPS):
        image, J = decode_jacobian(candidate)
        r = torch.where(there, x - image, 0.0)
        distance = r.square().sum(-1, keepdim=True)
        closer = torch.ones_like(distance, dtype=torch.bool) if best is None else distance < best
        z = torch.where(closer, candidate, z)
        best = distance if best is None else torch.minimum(distance, best)
        J = torch.where(there.unsqueeze(-1), J, 0.0)
        gram = J.mT @ J
        unit = torch.eye(gram.shape[-1], dtype=x.dtype)
        size = gram.diagonal(dim1=-2, dim2=-1).amax(-1)[..., None, None]
        step = linear_solve(gram + damping * size * unit, (J.mT @ r.unsqueeze(-1)).squeeze(-1))
        candidate = z + torch.where(closer, step, 0.25 * step)
    return torch.where(there.any(-1, keepdim=True), z, torch.nan)
