"""Interval arithmetic of functions of a few numbers with their first and second derivatives, over boxes."""

import math
from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

PIECES = 4096
"""Number of pieces of a box."""


class Range(NamedTuple):
    """Smallest and largest value of each entry."""

    low: Tensor
    high: Tensor

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)

    def __mul__(self, other: "Range") -> "Range":
        ends = [a * b for a in self.ends for b in other.ends]
        low, high = reduce(torch.minimum, ends), reduce(torch.maximum, ends)
        if bool(low.sum().isnan()):  # NaN is 0 · ∞ here: a bound of zero times one that is missing
            ends = [end.nan_to_num(0, math.inf, -math.inf) for end in ends]
            low, high = reduce(torch.minimum, ends), reduce(torch.maximum, ends)
        return Range(low, high)

    def __neg__(self) -> "Range":
        return Range(-self.high, -self.low)

    def times(self, number: float) -> "Range":
        if number < 0:
            return -self.times(-number)
        return self.map(lambda end: (end * number).nan_to_num(0, math.inf, -math.inf))  # NaN is ∞ · 0

    def plus(self, number: float) -> "Range":
        return Range(self.low + number, self.high + number)

    def map(self, function: Callable[[Tensor], Tensor]) -> "Range":
        """Image under a function of tensors that does not decrease, or moves entries only."""
        ends = [function(end) for end in self.ends]
        return Range(ends[0], ends[-1])

    def entry(self, *at: int) -> "Range":
        """Component with these numbers along the last axes."""
        return Range(self.low[(..., *at)], self.high[(..., *at)])

    @property
    def ends(self) -> tuple[Tensor, ...]:
        """Both ends, or the one of an exact number."""
        return (self.low,) if self.low is self.high else (self.low, self.high)

    @property
    def middle(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def radius(self) -> Tensor:
        return (self.high - self.low) / 2

    @property
    def largest(self) -> Tensor:
        """Largest absolute value."""
        return torch.maximum(self.low.abs(), self.high.abs())


class Jet(NamedTuple):
    """Ranges of a function over pieces, its gradient with a further axis, and its Hessian with two more, or None.

    Each number has an axis of pieces, the last ones. Its length is one for a function that does not depend on the
    number, so that a function of one number is evaluated on the pieces of that number alone.
    """

    value: Range
    first: Range
    second: Range | None

    def __add__(self, other: "Jet") -> "Jet":
        second = self.second + other.second if self.second and other.second else None
        return Jet(self.value + other.value, self.first + other.first, second)

    def __mul__(self, other: "Jet") -> "Jet":
        if other is self:
            return _power(self, 2)
        f, g = self.value.map(_wide), other.value.map(_wide)
        second = None
        if self.second and other.second:
            mixed = self.first.map(_wide) * other.first.map(_along_rows)
            second = self.second * g.map(_wide) + mixed + mixed.map(lambda x: x.mT) + f.map(_wide) * other.second
        return Jet(self.value * other.value, self.first * g + f * other.first, second)

    def through(self, value: Range, slope: Range, bend: Range) -> "Jet":
        """Compose with a function of one number, from its value and its derivatives."""
        second = None
        if self.second:
            square = self.first.map(_wide) * self.first.map(_along_rows)
            second = bend.map(_wide).map(_wide) * square + slope.map(_wide).map(_wide) * self.second
        return Jet(value, slope.map(_wide) * self.first, second)

    def times(self, number: float) -> "Jet":
        return Jet(*(part and part.times(number) for part in self))


def _wide(x: Tensor) -> Tensor:
    return x.unsqueeze(-1)


def _along_rows(x: Tensor) -> Tensor:
    return x.unsqueeze(-2)


def constant(value: Tensor | float, like: Jet) -> Jet:
    """Jet of a tensor that is constant."""
    value = torch.as_tensor(value, dtype=torch.float64)
    value = value.reshape(*value.shape, *[1] * like.first.low.shape[-1])
    parts = [value, *(value.new_zeros(part.low.shape[-k:]) for k, part in ((1, like.first), (2, like.second)) if part)]
    return Jet(*(Range(part, part) for part in parts), *[None] * (3 - len(parts)))


def power(x: Range, p: float) -> Range:
    """xᵖ; entries of x are not negative unless p is an integer."""
    if p < 0:
        below = power(x, -p)
        apart = (below.low > 0) | (below.high < 0)
        ends = Range(1 / below.high, 1 / below.low)
        return Range(ends.low.where(apart, -math.inf), ends.high.where(apart, math.inf))
    if p % 2 == 0 and p > 0:
        smallest = x.low.clamp(min=0) - x.high.clamp(max=0)
        return Range(smallest**p, x.largest**p)
    return x.map(lambda end: (end if p % 1 == 0 else end.clamp(min=0)) ** p)


def cosine(x: Range) -> Range:
    ends, turn = torch.stack([x.low.cos(), x.high.cos()]), 2 * math.pi
    top, bottom = ((((x.low - at) / turn).ceil() * turn + at) <= x.high for at in (0.0, math.pi))
    return Range(ends.amin(0).where(~bottom, -1.0), ends.amax(0).where(~top, 1.0))


def _power(x: Jet, p: float) -> Jet:
    value = x.value
    return x.through(power(value, p), power(value, p - 1).times(p), power(value, p - 2).times(p * (p - 1)))


def _exp(x: Jet) -> Jet:
    value = x.value.map(torch.exp)
    return x.through(value, value, value)


def _log(x: Jet) -> Jet:
    return x.through(x.value.map(torch.log), power(x.value, -1), -power(x.value, -2))


def _cos(x: Jet) -> Jet:
    value, sine = cosine(x.value), cosine(x.value.plus(-math.pi / 2))
    return x.through(value, -sine, -value)


def _tanh(x: Jet) -> Jet:
    value = x.value.map(torch.tanh)
    slope = (-power(value, 2)).plus(1)
    return x.through(value, slope, (value * slope).times(-2))


def _sigmoid(x: Jet) -> Jet:
    value = x.value.map(torch.sigmoid)
    slope = value * (-value).plus(1)
    return x.through(value, slope, slope * value.times(-2).plus(1))


def _softplus(x: Jet, beta: float = 1, threshold: float = 20) -> Jet:
    slope = x.value.times(beta).map(torch.sigmoid)
    value = x.value.map(lambda end: torch.nn.functional.softplus(end, beta, threshold))
    return x.through(value, slope, (slope * (-slope).plus(1)).times(beta))


def _erf(x: Jet) -> Jet:
    slope = (-power(x.value, 2)).map(torch.exp).times(2 / math.sqrt(math.pi))
    return x.through(x.value.map(torch.erf), slope, (x.value * slope).times(-2))


def _leaky_relu(x: Jet, slope: float = 0.01) -> Jet:
    """Second derivatives are zero, or, on a piece with the kink, any number that is not negative."""
    if slope > 1:  # the kink bends down
        return _leaky_relu(x.times(-1), 1 / slope).times(-slope)
    value = x.value.map(lambda end: torch.nn.functional.leaky_relu(end, slope))
    kink = (x.value.low <= 0) & (x.value.high >= 0)
    zero = torch.zeros_like(x.value.low)
    slopes = Range((x.value.low > 0) * (1 - slope) + slope, (x.value.high >= 0) * (1 - slope) + slope)
    return x.through(value, slopes, Range(zero, zero.where(~kink, math.inf)))


def _abs(x: Jet) -> Jet:
    return _leaky_relu(x, -1.0)._replace(
        value=Range(x.value.low.clamp(min=0) - x.value.high.clamp(max=0), x.value.largest)
    )


def _clamp(x: Jet, low: float | None = None, high: float | None = None) -> Jet:
    if low is not None:
        x = _leaky_relu(x + constant(-low, x), 0.0) + constant(low, x)
    if high is not None:
        x = constant(high, x) + _leaky_relu(constant(high, x) + x.times(-1), 0.0).times(-1)
    return x


OPERATIONS: dict[str, Callable[..., Jet]] = {
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
}
"""Jets of elementwise ATen operations by name; the arguments are in the order of torch, numbers too."""


def gains(function: Callable[..., Jet], boxes: list[Range]) -> tuple[Range, list[Range]]:
    """Ranges of a function (...) of one or two numbers, and of its derivatives, where each number is in its box (...).

    Boxes have an axis of length one for each number, and are cut into pieces along it. Where a derivative is monotone
    in a number, its extremes are at the ends of the piece; else it differs from its value in the middle by at most the
    second derivative times half the width.
    """
    boxes = [Range(box.low, box.low) if bool((box.low == box.high).all()) else box for box in boxes]  # exact numbers
    whole = function(*_numbers(boxes, True))
    if bool((whole.first.low == whole.first.high).all()):
        return _hull(whole.value, boxes), [_hull(whole.first.entry(k), boxes) for k in range(len(boxes))]
    pieces = _cut(boxes)
    jet = function(*_numbers(pieces, True))
    shape = torch.broadcast_shapes(*(piece.low.shape for piece in pieces), jet.value.low.shape)
    first = jet.first.map(lambda x: x.expand(*shape, -1))
    found = []
    for k in range(len(boxes)):
        bends = [jet.second.entry(k, j) for j in range(len(boxes))]
        rising, falling = [bend.low >= 0 for bend in bends], [bend.high <= 0 for bend in bends]
        rest = sum(
            (bend.largest * piece.radius).nan_to_num(0, math.inf).where(~(up | down), 0.0)
            for bend, piece, up, down in zip(bends, pieces, rising, falling, strict=True)
        )
        ends = []
        for up, down in ((rising, falling), (falling, rising)):
            at = [
                p.low if len(p.ends) == 1 else p.high.where(u, p.low.where(d, p.middle))
                for p, u, d in zip(pieces, up, down, strict=True)
            ]
            ends.append(function(*_numbers([Range(x, x) for x in at], False)).first.entry(k))
        high = torch.minimum(ends[0].high + rest, first.high[..., k])
        low = torch.maximum(ends[1].low - rest, first.low[..., k])
        found.append(_hull(Range(low, high), boxes))
    return _hull(jet.value, boxes), found


def _hull(x: Range, boxes: list[Range]) -> Range:
    """Range over all pieces; NaN is no bound."""
    pieces = tuple(range(-len(boxes), 0))
    x = x.map(lambda end: end.expand(torch.broadcast_shapes(end.shape, [1] * len(boxes))))
    low, high = x.low.nan_to_num(-math.inf, None, -math.inf), x.high.nan_to_num(math.inf, math.inf)
    return Range(low.amin(pieces), high.amax(pieces))


def _numbers(boxes: list[Range], twice: bool) -> list[Jet]:
    """Jets of the arguments themselves over boxes."""
    eye, zero = torch.eye(len(boxes), dtype=torch.float64), torch.zeros(len(boxes), len(boxes), dtype=torch.float64)
    return [
        Jet(box, Range(row, row), Range(zero, zero) if twice else None) for box, row in zip(boxes, eye, strict=True)
    ]


def _cut(boxes: list[Range]) -> list[Range]:
    """Pieces of boxes, wider where the number is larger than one: functions hardly bend there."""
    scales = [Range(box.low.asinh(), box.high.asinh()) for box in boxes]
    widths = [max(float(scale.radius.max()), 1e-300) for scale in scales]
    first = PIECES if len(boxes) == 1 else min(PIECES, max(1, round(math.sqrt(PIECES * widths[0] / widths[1]))))
    counts = [first, PIECES // first][: len(boxes)]
    pieces = []
    for axis, box, scale, count in zip(range(-len(boxes), 0), boxes, scales, counts, strict=True):
        if len(box.ends) == 1:
            pieces.append(box)
            continue
        share = torch.linspace(0, 1, count + 1, dtype=torch.float64).reshape(-1, *[1] * (-axis - 1))
        edges = torch.sinh(scale.low + share * 2 * scale.radius)
        edges.narrow(axis, 0, 1).copy_(box.low)
        edges.narrow(axis, count, 1).copy_(box.high)
        edges = edges.clamp(box.low, box.high)
        pieces.append(Range(edges.narrow(axis, 0, count), edges.narrow(axis, 1, count)))
    return pieces
