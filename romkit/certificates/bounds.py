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


def product(links: Links, *, rate: float = 0.05) -> float:
    """Return smallest sum over all paths of the products of norms that weights of the units give;
    any weights give a bound.

    ‖C S A‖ = ‖C D⁻¹ S D A‖ for diagonal S and D: gradient steps on log D, of each block. A chain
    has one path.

    `rate`: length of these steps.
    """
    logs = []
    for block in links.blocks:
        log = torch.zeros_like(block.gains[0].low, requires_grad=True)
        logs.append(log)
    best = _by_paths(links, logs)
    if not logs:
        return best.item()
    optimizer = torch.optim.Adam(logs, lr=rate)
    with torch.enable_grad():
        for _ in range(BALANCING):
            optimizer.zero_grad()
            bound = _by_paths(links, logs)
            best = torch.minimum(best, bound.detach())
            bound.log().backward()
            optimizer.step()
    return best.item()


def _by_paths(links: Links, logs: Sequence[Tensor]) -> Tensor:
    """Return bound with these logarithms of the weights of units."""
    # of the input and of each block: size, inverse weights, and the bound of its signal
    sizes = [links.size]
    balance = [torch.ones(links.size, dtype=torch.float64)]
    ends = [torch.ones((), dtype=torch.float64)]
    for log in logs:
        sizes.append(len(log))
        balance.append((-log).exp())
    for k, (block, log) in enumerate(zip(links.blocks, logs, strict=True)):
        before = sizes[: k + 1]
        weights = log.exp()
        end = torch.zeros((), dtype=torch.float64)
        for matrix, gain in zip(block.matrices, block.gains, strict=True):
            weighed = gain.largest * weights
            rows = weighed.unsqueeze(1) * matrix
            end = end + _sum_of_norms(rows, before, balance, ends)
        ends.append(end)
    return _sum_of_norms(links.last, sizes, balance, ends)


def _sum_of_norms(
    rows: Tensor, sizes: Sequence[int], balance: Sequence[Tensor], ends: Sequence[Tensor]
) -> Tensor:
    """Return sum over origins (the input, each block) of the norm of the columns of one times the
    bound of its signals.
    """
    total = rows.new_zeros(())
    columns = rows.split(list(sizes), dim=1)
    for matrix, weight, end in zip(columns, balance, ends, strict=False):
        if bool((matrix != 0).any()):
            total = total + _norm(matrix * weight) * end
    return total


def sampled(
    jacobian: Jacobian, centers: Sequence[Tensor], radii: Sequence[float], spread: float
) -> float:
    """Return largest norm of a Jacobian that gradient ascent finds on the balls: a lower bound.

    Args:
        jacobian: (points, r, k) at states or latent states (points, n) and contexts (points, p).
        centers: of the balls of both.
        radii: of the balls of both.
        spread: a tenth of the largest distance of a start from the center, where the first ball is
            the whole space.
    """
    radii = [min(radius, ANYWHERE) for radius in radii]
    offsets, optimizer = _starts(centers, radii, spread)
    best = 0.0
    for _ in range(STEPS):
        with torch.enable_grad():
            points = []
            for center, offset in zip(centers, offsets, strict=True):
                points.append(center + offset)
            norms = _norm(jacobian(*points))
            logs = norms.clamp(min=SMALLEST).log()
            descent = -logs.sum()
        best = max(best, norms.max().item())
        # norms may be zero, and the slopes of ReLU are constant between its kinks
        if best == 0 or not descent.requires_grad:
            break
        optimizer.zero_grad()
        descent.backward()
        optimizer.step()
        _hold(offsets, radii)
    return best


def _starts(
    centers: Sequence[Tensor], radii: Sequence[float], spread: float
) -> tuple[list[Tensor], torch.optim.Adam]:
    """Return points of the balls, as offsets (POINTS, k) from the centers, and what moves them."""
    draw = torch.Generator().manual_seed(0)
    radius, context_radius = radii
    reach = [min(radius, 10 * spread), context_radius]
    offsets, settings = [], []
    for center, size in zip(centers, reach, strict=True):
        # points (POINTS, size) of a ball
        directions = torch.randn(POINTS, len(center), generator=draw, dtype=torch.float64)
        shares = torch.rand(POINTS, 1, generator=draw, dtype=torch.float64)
        lengths = size * shares
        offset = lengths * directions / directions.norm(dim=1, keepdim=True)
        offset.requires_grad_()
        offsets.append(offset)
        settings.append({"params": [offset], "lr": size / 20})
    return offsets, torch.optim.Adam(settings)


@torch.no_grad()
def _hold(offsets: Sequence[Tensor], radii: Sequence[float]) -> None:
    """Bring offsets (points, k) back into their balls."""
    for offset, radius in zip(offsets, radii, strict=True):
        length = offset.norm(dim=1, keepdim=True)
        share = (radius / length).clamp(max=1.0)
        offset *= share.nan_to_num(1.0)


def _norm(matrix: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(matrix, 2)
