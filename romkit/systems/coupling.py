"""The twelve coupled angles of the pendulum, q₅ ... q₁₆ from q₁ ... q₄, with exact velocities and accelerations.

Source: Adriaens et al. (2026), appendix "16-DoF pendulum", table "Context-dependent coupling"; at l = 0.5 m it is
the coupling of Friedl et al. (2025). The power q^(2·2l) is not real for q < 0 and is read as |q|^(4l).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

DRIVING = 4
"""How many angles drive the others."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity x(t) with ẋ and ẍ, stacked as (3, ...). Sums, products and functions carry all three along."""

    parts: Tensor

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.parts + other.parts)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.parts - other.parts)

    def __rmul__(self, constant: Tensor | float) -> "Quantity":
        return Quantity(constant * self.parts)

    def __mul__(self, other: "Quantity") -> "Quantity":
        (x, v, a), (y, w, b) = self.parts, other.parts
        return Quantity(torch.stack([x * y, v * y + x * w, a * y + 2 * v * w + x * b]))

    def through(self, value: Tensor, slope: Tensor, curvature: Tensor) -> "Quantity":
        """f(x), given f, f′ and f″ at x."""
        _, v, a = self.parts
        return Quantity(torch.stack([value, slope * v, slope * a + curvature * v.square()]))


def couple(q: Tensor, v: Tensor, a: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All sixteen angles, velocities and accelerations from the first four.

    Args:
        q: (..., 4) driving angles in rad.
        v: (..., 4) their velocities in rad/s.
        a: (..., 4) their accelerations in rad/s².
        lengths: (..., 4) link lengths in m, broadcastable against the angles.

    Returns:
        q, q̇ and q̈, each (..., 16): the given ones, then h(q), Dh q̇ and Dh q̈ + D²h(q̇, q̇).
    """
    driving = torch.stack([q, v, a] if a.shape == q.shape else torch.broadcast_tensors(q, v, a))
    coupled = _table(*map(Quantity, driving.unbind(-1)), *lengths.unbind(-1))
    return torch.cat([driving, torch.stack([jet.parts for jet in coupled], dim=-1)], dim=-1).unbind()


def _table(
    q1: Quantity, q2: Quantity, q3: Quantity, q4: Quantity, l1: Tensor, l2: Tensor, l3: Tensor, l4: Tensor
) -> tuple[Quantity, ...]:
    wave = 2 * l2 * q2
    q1_power, q3_power, q4_power = _power(q1, 4 * l1), _power(q3, 4 * l3), _power(q4, 4 * l4)
    return (
        q3 - _cos(wave),
        q1 + 0.2 * l1 * _sin(wave),
        q4 * _cos(2 * l4 * q2),
        q1 + q3_power,
        3 * l2 * _sin(q2),
        -(l4 + l1) * (q4 * q1),
        _sin(2 * l1 * q1),
        0.8 * l3 * (q3 * q4),
        -1.8 * l1 * q1 - q2 + q3 - 2 * q4_power,
        -6 * l3 * _sin(q3),
        -2 * q3_power,
        -0.9 * q1_power,
    )


def _sin(q: Quantity) -> Quantity:
    sine, cosine = q.parts[0].sin(), q.parts[0].cos()
    return q.through(sine, cosine, -sine)


def _cos(q: Quantity) -> Quantity:
    sine, cosine = q.parts[0].sin(), q.parts[0].cos()
    return q.through(cosine, -sine, -cosine)


def _power(q: Quantity, p: Tensor) -> Quantity:
    """|q|ᵖ.

    For p < 2 (l < 0.5 m) the second derivative p(p-1)|q|ᵖ⁻² is unbounded at q = 0, so accelerations peak where an
    angle changes sign; at exactly 0 it is set to 0, and so is the first derivative for p < 1.
    """
    x = q.parts[0]
    zero = x == 0
    size = torch.where(zero, 1.0, x.abs())  # not 0, so that gradients through the branch not taken are finite
    value = torch.where(zero, 0.0, size**p)
    slope = p * size ** (p - 1) * x.sign()
    curvature = torch.where(zero & (p != 2), 0.0, p * (p - 1) * size ** (p - 2))
    return q.through(value, slope, curvature)
