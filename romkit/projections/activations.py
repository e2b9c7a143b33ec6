"""The mutually inverse activations σ₋, σ₊ of constrained autoencoders, and the plain ones of the others."""

from typing import NamedTuple

import torch
from torch import Tensor

from romkit.broadcast import align


class Hyperbola(NamedTuple):
    """σ(x) = gain · x + offset + bend · √((2x + shift)² + floor), one branch of a hyperbola, with bound slope α.

    Each coefficient is (..., r), leading axes matching those of x from the left.
    """

    gain: Tensor
    offset: Tensor
    bend: Tensor
    shift: Tensor
    floor: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return self._value(x)[0]

    def value_and_slope(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """σ(x) and σ'(x)."""
        value, gain, bend, _, u, root = self._value(x)
        return value, torch.addcmul(gain, 2 * bend, u / root)

    def value_slope_and_bend(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """σ(x), σ'(x) and σ''(x)."""
        value, gain, bend, floor, u, root = self._value(x)
        return value, torch.addcmul(gain, 2 * bend, u / root), 4 * bend * floor / root**3

    def _value(self, x: Tensor) -> tuple[Tensor, ...]:
        """σ(x), gain, bend, floor, u = 2x + shift and √(u² + floor)."""
        gain, offset, bend, shift, floor = (align(coefficient, x) for coefficient in self)
        u = torch.add(shift, x, alpha=2)
        root = torch.sqrt(torch.addcmul(floor, u, u))
        return torch.addcmul(torch.addcmul(offset, gain, x), bend, root), gain, bend, floor, u, root


def inverse_pair(alpha: Tensor) -> tuple[Hyperbola, Hyperbola]:
    """(σ₋, σ₊) for slopes α in (-π/4, π/4); both are the identity at α = 0, and σ₋ ∘ σ₊ = id.

    With s = sin α, c = cos α:
    σ±(x) = [x ∓ √2 s c² ± s c √((2x ∓ √2 s)² + 2 cos 2α)] / cos 2α, whose slopes run from tan(π/4 - α) to
    tan(π/4 + α). This is the pair of Otto et al. (2023) (Adriaens et al. 2026, appendix "Activation functions")
    multiplied through by s² c², so that nothing is divided by sin α.
    """
    s, c, floor = torch.sin(alpha), torch.cos(alpha), 2 * torch.cos(2 * alpha)
    gain = 2 / floor
    offset, bend, shift = 2**0.5 * s * c * c * gain, s * c * gain, 2**0.5 * s
    return Hyperbola(gain, offset, -bend, shift, floor), Hyperbola(gain, -offset, bend, -shift, floor)


class ReLU:
    """max(x, 0)."""

    def __call__(self, x: Tensor) -> Tensor:
        return torch.relu(x)

    def value_and_slope(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.relu(x), (x > 0).to(x.dtype)

    def value_slope_and_bend(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """σ(x), σ'(x) and σ''(x), which is 0 wherever it exists."""
        return *self.value_and_slope(x), torch.zeros_like(x)


class SiLU:
    """x · sigmoid(x)."""

    def __call__(self, x: Tensor) -> Tensor:
        return torch.nn.functional.silu(x)

    def value_and_slope(self, x: Tensor) -> tuple[Tensor, Tensor]:
        gate = torch.sigmoid(x)
        value = x * gate
        return value, gate + value * (1 - gate)

    def value_slope_and_bend(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """σ(x), σ'(x) and σ''(x)."""
        gate = torch.sigmoid(x)
        value = x * gate
        return value, gate + value * (1 - gate), gate * (1 - gate) * (2 + x - 2 * value)
