"""Ranges of the derivatives of activations, over intervals of their arguments."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.projections.layers import SLOPE_RANGE, ReLU, SiLU, inverse_pair


class Range(NamedTuple):
    """Smallest and largest value of each unit."""

    low: Tensor
    high: Tensor

    def __mul__(self, other: "Range") -> "Range":
        """That of the products."""
        ends = torch.stack([a * b for a in self for b in other])
        return Range(ends.amin(0), ends.amax(0))

    def __neg__(self) -> "Range":
        return Range(-self.high, -self.low)

    @property
    def middle(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def radius(self) -> Tensor:
        return (self.high - self.low) / 2

    @property
    def largest(self) -> Tensor:
        """The largest absolute value."""
        return torch.maximum(self.low.abs(), self.high.abs())


STEEPEST = 2.399357280520547
"""SiLU's slope is largest at this number and smallest at its negative."""


def slope_of(activation: SiLU | ReLU, x: Range) -> Range:
    """The slope of SiLU or ReLU over intervals."""
    turns = (STEEPEST, -STEEPEST) if isinstance(activation, SiLU) else ()
    return _over(lambda at: activation.value_and_slope(at)[1], x, turns)


def log_scale(g: Range, sign: float) -> tuple[Range, Range]:
    """exp(±tanh g) and its derivative by g; the latter is largest in size where tanh g = ±(√2 - 1)."""
    turn = sign * math.atanh(math.sqrt(2) - 1)
    factor = _over(lambda at: (sign * at.tanh()).exp(), g)
    return factor, _over(lambda at: sign * (sign * at.tanh()).exp() * (1 - at.tanh() ** 2), g, (turn,))


def modulated_slope(q: Range) -> tuple[Range, Range]:
    """α of `ModulatedSlope` at Wᵀ s = q, and its derivative by q."""
    low, high = SLOPE_RANGE
    alpha = Range(*(low + (high - low) * torch.sigmoid(at) for at in q))
    return alpha, _over(lambda at: (high - low) * torch.sigmoid(at) * torch.sigmoid(-at), q, (0.0,))


def hyperbola(x: Range, alpha: Range, sign: float) -> tuple[Range, Range]:
    """∂σ/∂x and ∂σ/∂α of σ₊ (sign 1) or σ₋ (sign -1), over intervals of both arguments.

    In the coordinates p = (x + y)/√2 and r = (y - x)/√2, turned by 45°, the graph of y = σ₊(x) is
    r = √(tan²α p² + sin²α) - sin α, and that of σ₋ is its reflection through the origin, σ₋(x) = -σ₊(-x). So

        ∂σ/∂x = (1 + r') / (1 - r'),   ∂σ/∂α = (1 + ∂σ/∂x) ∂r/∂α / √2,   r' = tan α p / √(p² + cos²α),
        ∂r/∂α = √w / cos²α - sin²α / √w - cos α   with w = p² + cos²α,

    where p grows with x and α, |r'| and ∂r/∂α ≥ 0 with |p| and α, and ∂σ/∂α with |p| on either side of zero:
    with q = |p| / √w and v = √(1 - q²) it is √2 (1 - v) (1 + v sin²α) / (v cos α (1 ∓ q tan α)).
    """
    if sign < 0:
        slope, bend = hyperbola(-x, alpha, 1.0)
        return slope, -bend
    p = Range(*((at + inverse_pair(a)[1](at)) / math.sqrt(2) for at, a in zip(x, alpha, strict=True)))
    ends = [_bend(at, alpha) for at in p]
    low = torch.where((p.low < 0) & (p.high > 0), 0.0, torch.minimum(ends[0].low, ends[1].low))
    return _slope(p, alpha), Range(low, torch.maximum(ends[0].high, ends[1].high))


def _slope(p: Range, alpha: Range) -> Range:
    tilts = [torch.stack([a.tan() * at / (at**2 + a.cos() ** 2).sqrt() for a in alpha]) for at in p]
    low, high = tilts[0].amin(0), tilts[1].amax(0)
    return Range((1 + low) / (1 - low), (1 + high) / (1 - high))


def _bend(p: Tensor, alpha: Range) -> Range:
    """∂σ₊/∂α at a point."""
    slope = _slope(Range(p, p), alpha)
    return Range(*(_rise(p, a) * (1 + end) / math.sqrt(2) for a, end in zip(alpha, slope, strict=True)))


def _rise(p: Tensor, alpha: Tensor) -> Tensor:
    """∂r/∂α."""
    cos = alpha.cos()
    root = (p**2 + cos**2).sqrt()
    return root / cos**2 - alpha.sin() ** 2 / root - cos


def _over(function, x: Range, turns: tuple[float, ...] = ()) -> Range:
    """Of a function that is monotone between its turning points."""
    inside = [torch.full_like(x.low, turn).clamp(*x) for turn in turns]
    values = torch.stack([function(at) for at in (*x, *inside)])
    return Range(values.amin(0), values.amax(0))
