"""Activations that invert each other: branches of a hyperbola of bounded slope."""

from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.broadcast import align
from romkit.core.types import TensorTuple


class Hyperbola(NamedTuple):
    """σ(x) = gain · x + offset + bend · √((2x + shift)² + floor), one branch of a hyperbola, with
    bound slope α.

    Each coefficient is (..., r), leading axes matching those of x from the left.
    """

    gain: Tensor
    offset: Tensor
    bend: Tensor
    shift: Tensor
    floor: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return self.derivatives(x, 0)[0]

    def derivatives(self, x: Tensor, order: int) -> TensorTuple:
        """σ(x) and its derivatives up to this order, at most two."""
        gain, offset, bend, shift, floor = (align(coefficient, x) for coefficient in self)
        u = torch.add(shift, x, alpha=2)
        root = torch.sqrt(torch.addcmul(floor, u, u))
        value = torch.addcmul(torch.addcmul(offset, gain, x), bend, root)
        if order == 0:
            return (value,)
        slope = torch.addcmul(gain, 2 * bend, u / root)
        if order == 1:
            return value, slope
        return value, slope, 4 * bend * floor / root**3


def inverse_pair(alpha: Tensor) -> tuple[Hyperbola, Hyperbola]:
    """(σ₋, σ₊) for slopes α in (-π/4, π/4); both are the identity at α = 0, and σ₋ ∘ σ₊ = id.

    With s = sin α, c = cos α: σ±(x) = [x ∓ √2 s c² ± s c √((2x ∓ √2 s)² + 2 cos 2α)] / cos 2α,
    whose slopes run from tan(π/4 - α) to tan(π/4 + α). This is the pair of Otto et al. (2023)
    (Adriaens et al. 2026, appendix "Activation functions") multiplied through by s² c², so that
    nothing is divided by sin α.
    """
    s = torch.sin(alpha)
    c = torch.cos(alpha)
    floor = 2 * torch.cos(2 * alpha)
    gain = 2 / floor
    offset = 2**0.5 * s * c * c * gain
    bend = s * c * gain
    shift = 2**0.5 * s
    minus = Hyperbola(gain, offset, -bend, shift, floor)
    return minus, Hyperbola(gain, -offset, bend, -shift, floor)
