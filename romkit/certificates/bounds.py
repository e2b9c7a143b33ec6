"""Bounds of the Lipschitz constant of a chain on a ball: slopes, rebalanced product, lower bound."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.certificates.chain import Chain, slope_range

ANYWHERE = 1e9
"""A ball of this radius is the whole space: slopes have reached their limits there, to rounding."""


class Slopes(NamedTuple):
    """Smallest and largest slope of each unit of a layer on the ball."""

    low: Tensor
    high: Tensor


def slopes(chain: Chain, center: Tensor, radius: float) -> list[Slopes]:
    """Slope intervals of each layer that hold on the ball of a radius about a center (n,).

    A unit's input stays within radius · ‖its gradient‖ of that at the center. Gradients are enclosed by a midpoint and
    a radius for each entry, and, where that is tighter, by the intervals of the layer before.
    """
    middle = torch.eye(len(center), dtype=center.dtype)
    spread, before, found, x = torch.zeros_like(middle), None, [], center
    for matrix, bias, activation in chain.layers:
        x, middle, spread = matrix @ x + bias, matrix @ middle, matrix.abs() @ spread
        reach = radius * (middle.norm(dim=1) + spread.norm(dim=1))
        if before is not None:
            reach = reach.minimum(matrix.abs() @ before)
        found.append(Slopes(*slope_range(activation, x - reach, x + reach)))
        half, mid = (found[-1].high - found[-1].low) / 2, (found[-1].high + found[-1].low) / 2
        spread = mid.abs().unsqueeze(1) * spread + half.unsqueeze(1) * (middle.abs() + spread)
        middle = mid.unsqueeze(1) * middle
        before, x = torch.maximum(found[-1].low.abs(), found[-1].high.abs()) * reach, activation(x)
    return found


def product(chain: Chain, ranges: list[Slopes], *, steps: int = 200) -> float:
    """The product of the layers' norms, each unit weighed so that it becomes small; a bound for any weights.

    ‖C S A‖ = ‖C D⁻¹ S D A‖ for diagonal S and D: gradient steps on log D, of each layer.
    """
    largest = [torch.maximum(low.abs(), high.abs()) for low, high in ranges]
    logs = [torch.zeros_like(slope, requires_grad=True) for slope in largest]
    optimizer = torch.optim.Adam(logs, lr=0.05) if logs else None

    def log_bound() -> Tensor:
        total, before = torch.zeros((), dtype=torch.float64), None
        for (matrix, _, _), slope, log in zip(chain.layers, largest, logs, strict=True):
            balanced = (slope * log.exp()).unsqueeze(1) * matrix
            total = total + _norm(balanced if before is None else balanced * before).log()
            before = (-log).exp()
        return total + _norm(chain.last.matrix if before is None else chain.last.matrix * before).log()

    best = log_bound().item()
    with torch.enable_grad():
        for _ in range(steps if logs else 0):
            optimizer.zero_grad()
            bound = log_bound()
            best = min(best, bound.item())
            bound.backward()
            optimizer.step()
    return math.exp(best)


def sampled(chain: Chain, center: Tensor, radius: float, *, spread: float, points: int = 64, steps: int = 100) -> float:
    """The largest norm of the Jacobian that gradient ascent finds on the ball: a lower bound.

    Args:
        chain: the map.
        center: (n,) of the ball.
        radius: of the ball.
        spread: how far from the center it starts at most, where the ball is the whole space.
        points: that ascend at once.
        steps: of ascent.
    """
    draw = torch.Generator().manual_seed(0)
    radius, reach = min(radius, ANYWHERE), min(radius, 10 * spread)
    direction = torch.randn(points, len(center), generator=draw, dtype=torch.float64)
    direction = direction / direction.norm(dim=1, keepdim=True)
    lengths = reach * torch.rand(points, 1, generator=draw, dtype=torch.float64)
    offset = (lengths * direction).requires_grad_()
    optimizer, best = torch.optim.Adam([offset], lr=reach / 20), 0.0
    for _ in range(steps):
        with torch.enable_grad():
            norms = _norm(chain.value_and_jacobian(center + offset)[1])
            descent = -norms.log().sum()
        best = max(best, norms.max().item())
        if not descent.requires_grad:  # the slopes of ReLU are constant between its kinks
            break
        optimizer.zero_grad()
        descent.backward()
        optimizer.step()
        with torch.no_grad():
            offset *= (radius / offset.norm(dim=1, keepdim=True)).clamp(max=1.0)
    return best


def _norm(matrix: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(matrix, 2)
