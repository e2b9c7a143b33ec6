"""Ranges of functions of a few numbers with their first and second derivatives: interval arithmetic."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from romkit.certificates.ranges import Range, cosine, power


@dataclass(frozen=True)
class Jet:
    """Ranges of a function over pieces, its gradient with a further axis, and its Hessian with two
    more, or None.

    The last axis of the value is that of pieces.
    """

    value: Range
    first: Range
    second: Range | None

    def __add__(self, other: "Jet") -> "Jet":
        second = self.second and other.second and self.second + other.second
        return Jet(self.value + other.value, self.first + other.first, second)

    def __mul__(self, other: "Jet") -> "Jet":
        # the range of x² is that of no product of two numbers
        if other is self:
            return _power(self, 2)
        value = self.value * other.value
        # (f g)' = f' g + f g'
        f = self.value.map(wide)  # (..., 1)
        g = other.value.map(wide)
        first = self.first * g + f * other.first
        second = None
        if self.second and other.second:
            # (f g)'' = f'' g + f' ⊗ g' + g' ⊗ f' + f g''
            mixed = _outer(self.first, other.first)  # (..., k, k)
            bend_of_f = self.second * g.map(wide)
            bend_of_g = f.map(wide) * other.second
            second = bend_of_f + mixed + mixed.map(_transposed) + bend_of_g
        return Jet(value, first, second)

    def through(self, value: Range, slope: Range, bend: Range) -> "Jet":
        """Compose with a function of one number, from its value and its derivatives."""
        slope = slope.map(wide)  # (..., 1)
        second = None
        if self.second:
            by_bend = bend.map(wide).map(wide) * _outer(self.first, self.first)  # (..., k, k)
            second = by_bend + slope.map(wide) * self.second
        return Jet(value, slope * self.first, second)

    def times(self, number: float) -> "Jet":
        second = self.second and self.second.times(number)
        return Jet(self.value.times(number), self.first.times(number), second)


def wide(x: Tensor) -> Tensor:
    return x.unsqueeze(-1)


def rowwise(x: Tensor) -> Tensor:
    return x.unsqueeze(-2)


def _transposed(x: Tensor) -> Tensor:
    return x.mT


def _outer(a: Range, b: Range) -> Range:
    """Ranges (..., k, k) of the products of two gradients (..., k)."""
    return a.map(wide) * b.map(rowwise)


def constant(value: Tensor | float, like: Jet) -> Jet:
    """Jet of a tensor that is constant."""
    value = torch.as_tensor(value, dtype=torch.float64)
    value = value.unsqueeze(-1)  # one piece
    numbers = like.first.low.shape[-1]
    slope = value.new_zeros(numbers)
    second = None
    if like.second:
        bend = value.new_zeros(numbers, numbers)
        second = Range(bend, bend)
    return Jet(Range(value, value), Range(slope, slope), second)


def _power(x: Jet, p: float) -> Jet:
    value = power(x.value, p)
    slope = power(x.value, p - 1).times(p)
    bend = power(x.value, p - 2).times(p * (p - 1))
    return x.through(value, slope, bend)


def _exp(x: Jet) -> Jet:
    value = x.value.map(torch.exp)
    return x.through(value, value, value)


def _log(x: Jet) -> Jet:
    return x.through(x.value.map(torch.log), power(x.value, -1), -power(x.value, -2))


def _cos(x: Jet) -> Jet:
    value = cosine(x.value)
    turned = x.value.plus(-math.pi / 2)
    return x.through(value, -cosine(turned), -value)


def _tanh(x: Jet) -> Jet:
    value = x.value.map(torch.tanh)
    slope = (-power(value, 2)).plus(1)
    return x.through(value, slope, (value * slope).times(-2))


def _sigmoid(x: Jet) -> Jet:
    value = x.value.map(torch.sigmoid)
    slope = value * (-value).plus(1)
    bend = slope * value.times(-2).plus(1)
    return x.through(value, slope, bend)


def _softplus(x: Jet, beta: float = 1, threshold: float = 20) -> Jet:
    def softplus(end: Tensor) -> Tensor:
        return torch.nn.functional.softplus(end, beta, threshold)

    value = x.value.map(softplus)
    slope = x.value.times(beta).map(torch.sigmoid)
    bend = (slope * (-slope).plus(1)).times(beta)
    return x.through(value, slope, bend)


def _erf(x: Jet) -> Jet:
    value = x.value.map(torch.erf)
    gaussian = (-power(x.value, 2)).map(torch.exp)
    slope = gaussian.times(2 / math.sqrt(math.pi))
    return x.through(value, slope, (x.value * slope).times(-2))


def _leaky_relu(x: Jet, slope: float = 0.01) -> Jet:
    """Second derivatives are zero, or, on a piece with the kink, any number that is not negative."""
    # the kink bends down
    if slope > 1:
        mirrored = _leaky_relu(x.times(-1), 1 / slope)
        return mirrored.times(-slope)

    def leaky_relu(end: Tensor) -> Tensor:
        return torch.nn.functional.leaky_relu(end, slope)

    value = x.value.map(leaky_relu)
    low, high = x.value.low, x.value.high
    kink = (low <= 0) & (high >= 0)
    smallest = (low > 0) * (1 - slope) + slope
    largest = (high >= 0) * (1 - slope) + slope
    zero = torch.zeros_like(low)
    bend = Range(zero, zero.where(~kink, math.inf))
    return x.through(value, Range(smallest, largest), bend)


def _abs(x: Jet) -> Jet:
    # |x| does not increase, which `_leaky_relu` takes for granted of its value
    value = Range(x.value.smallest, x.value.largest)
    return replace(_leaky_relu(x, -1.0), value=value)


def _clamp(x: Jet, low: float | None = None, high: float | None = None) -> Jet:
    if low is not None:
        # low + max(x - low, 0)
        above = x + constant(-low, x)
        x = _leaky_relu(above, 0.0) + constant(low, x)
    if high is not None:
        # high - max(high - x, 0)
        bound = constant(high, x)
        below = _leaky_relu(bound + x.times(-1), 0.0)
        x = bound + below.times(-1)
    return x


def _sum_root(u: Jet, f: Jet) -> Jet:
    """√(u² + f): its slope u / √(u² + f) increases with u where f ≥ 0, which operations one by one
    do not show.
    """
    if bool((f.value.low < 0).any()):
        return _power(u * u + f, 0.5)
    value = (power(u.value, 2) + f.value).map(torch.sqrt)
    inverse = power(value, -1)
    cube = power(inverse, 3)
    slope = _root_slope(u.value, f.value)
    by_u = u.through(value, slope, f.value * cube)
    slope_by_f = inverse.times(0.5)
    by_f = f.through(value, slope_by_f, cube.times(-0.25))
    second = None
    if by_u.second and by_f.second:
        # ∂²/∂u∂f = -u / 2 (u² + f)^(3/2)
        mixed_bend = (slope * power(inverse, 2)).times(-0.5)
        mixed_bend = mixed_bend.map(wide).map(wide)
        mixed = mixed_bend * _outer(u.first, f.first)
        second = by_u.second + by_f.second + mixed + mixed.map(_transposed)
    return Jet(value, by_u.first + by_f.first, second)


def _root_slope(u: Range, f: Range) -> Range:
    """Range of u / √(u² + f), from the ends of both."""
    lowest, highest = [], []
    for end in f.ends:
        root_low = (u.low**2 + end).sqrt()
        root_high = (u.high**2 + end).sqrt()
        lowest.append(u.low / root_low)
        highest.append(u.high / root_high)
    low = torch.stack(lowest).amin(0)
    high = torch.stack(highest).amax(0)
    # NaN is 0 / 0
    low = low.nan_to_num(-1)
    high = high.nan_to_num(1)
    return Range(low, high)


Function = Callable[..., Jet]
"""Jets of one or two numbers -> the jet of a function of them."""

OPERATIONS: dict[str, Function] = {
    "add": lambda a, b, alpha=1: a + b.times(alpha),
    "sub": lambda a, b, alpha=1: a + b.times(-alpha),
    "rsub": lambda a, b, alpha=1: b + a.times(-alpha),
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a * _power(b, -1),
    "neg": lambda a: a.times(-1),
    "pow": _power,
    "square": lambda a: _power(a, 2),
    "sqrt": lambda a: _power(a, 0.5),
    "rsqrt": lambda a: _power(a, -0.5),
    "reciprocal": lambda a: _power(a, -1),
    "exp": _exp,
    "expm1": lambda a: _exp(a) + constant(-1.0, a),
    "log": _log,
    "log1p": lambda a: _log(a + constant(1.0, a)),
    "sin": lambda a: _cos(a + constant(-math.pi / 2, a)),
    "cos": _cos,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "silu": lambda a: a * _sigmoid(a),
    "softplus": _softplus,
    "erf": _erf,
    "abs": _abs,
    "relu": lambda a: _leaky_relu(a, 0.0),
    "leaky_relu": _leaky_relu,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": lambda a, high: _clamp(a, None, high),
    "root_of_sum": _sum_root,
}
"""Jets of elementwise operations by the names of ATen (√(u² + f) has none); arguments in the order
of torch.
"""
