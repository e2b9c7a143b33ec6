"""Bounds of the norm of a derivative: the rebalanced product of norms, and what gradient ascent
finds.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from romkit.certificates.links import ANYWHERE, Links

BALANCING = 200
"""Gradient steps that choose the weights of units."""

SMALLEST = torch.finfo(torch.float64).tiny

Jacobian = Callable[[Tensor, Tensor], Tensor]
"""Derivative of a map at states (points, n) and contexts (points, p): (points, r, k)."""

POINTS, STEPS = 64, 100
"""Points of gradient ascent, and its steps."""


def product(links: Links) -> float:
    """Smallest sum over all paths of the products of norms that weights of the units give; any
    weights give a bound.

    ‖C S A‖ = ‖C D⁻¹ S D A‖ for diagonal S and D: gradient steps on log D, of each block. A chain
    has one path.
    """
    logs = [torch.zeros_like(block.gains[0].low, requires_grad=True) for block in links.blocks]
    optimizer = torch.optim.Adam(logs, lr=0.05) if logs else None
    best = _by_paths(links, logs)
    with torch.enable_grad():
        for _ in range(BALANCING if logs else 0):
            optimizer.zero_grad()
            bound = _by_paths(links, logs)
            best = torch.minimum(best, bound.detach())
            bound.log().backward()
            optimizer.step()
    return best.item()


def _by_paths(links: Links, logs: Sequence[Tensor]) -> Tensor:
    ends, sizes = [torch.ones((), dtype=torch.float64)], [links.size, *(len(log) for log in logs)]
    balance = [torch.ones(links.size, dtype=torch.float64), *((-log).exp() for log in logs)]
    for k, (block, log) in enumerate(zip(links.blocks, logs, strict=True)):
        rows = [
            (gain.largest * log.exp()).unsqueeze(1) * A
            for A, gain in zip(block.matrices, block.gains, strict=True)
        ]
        ends.append(sum(_sum_of_norms(row, sizes[: k + 1], balance, ends) for row in rows))
    return _sum_of_norms(links.last, sizes, balance, ends)


def _sum_of_norms(
    rows: Tensor, sizes: Sequence[int], balance: Sequence[Tensor], ends: Sequence[Tensor]
) -> Tensor:
    """Sum over origins (the input, each block) of the norm of the columns of one times the bound of
    its signals.
    """
    parts = zip(rows.split(list(sizes), dim=1), balance, ends, strict=False)
    terms = [_norm(part * weight) * end for part, weight, end in parts if bool((part != 0).any())]
    return sum(terms, rows.new_zeros(()))


def sampled(
    jacobian: Jacobian, centers: Sequence[Tensor], radii: Sequence[float], spread: float
) -> float:
    """Largest norm of a Jacobian that gradient ascent finds on the balls: a lower bound.

    Args:
        jacobian: (points, r, k) at states or latent states (points, n) and contexts (points, p).
        centers: of the balls of both.
        radii: of the balls of both.
        spread: a tenth of the largest distance of a start from the center, where the first ball is
            the whole space.
    """
    draw = torch.Generator().manual_seed(0)
    radii = [min(radius, ANYWHERE) for radius in radii]
    reach = [min(radii[0], 10 * spread), radii[1]]
    offsets = [
        _ball(len(at), size, draw).requires_grad_() for at, size in zip(centers, reach, strict=True)
    ]
    rates = [
        {"params": [offset], "lr": size / 20} for offset, size in zip(offsets, reach, strict=True)
    ]
    optimizer, best = torch.optim.Adam(rates), 0.0
    for _ in range(STEPS):
        with torch.enable_grad():
            norms = _norm(
                jacobian(*(at + offset for at, offset in zip(centers, offsets, strict=True)))
            )
            descent = -norms.clamp(min=SMALLEST).log().sum()  # some may be zero
        best = max(best, norms.max().item())
        if (
            best == 0 or not descent.requires_grad
        ):  # the slopes of ReLU are constant between its kinks
            break
        optimizer.zero_grad()
        descent.backward()
        optimizer.step()
        with torch.no_grad():
            for offset, radius in zip(offsets, radii, strict=True):
                offset *= (radius / offset.norm(dim=1, keepdim=True)).clamp(max=1.0).nan_to_num(1.0)
    return best


def _ball(size: int, radius: float, draw: torch.Generator) -> Tensor:
    directions = torch.randn(POINTS, size, generator=draw, dtype=torch.float64)
    lengths = radius * torch.rand(POINTS, 1, generator=draw, dtype=torch.float64)
    return lengths * directions / directions.norm(dim=1, keepdim=True)


def _norm(matrix: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(matrix, 2)
