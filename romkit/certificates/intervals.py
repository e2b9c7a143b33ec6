"""Interval arithmetic of functions of a few numbers with their first and second derivatives, over
boxes.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

CUTS, HALVINGS = 4, 3
"""Number of times that loose pieces of a box are cut, and halvings at a time: at most 4096 pieces."""

SLACK, SMALL = 1e-4, 1e-7
"""Excess of a bound over what points attain, as a share of the width of the range and of the
largest of all entries.
"""


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
        return self.map(
            lambda end: (end * number).nan_to_num(0, math.inf, -math.inf)
        )  # NaN is ∞ · 0

    def plus(self, number: float) -> "Range":
        return Range(self.low + number, self.high + number)

    def map(self, function: Callable[[Tensor], Tensor]) -> "Range":
        """Image under a function of tensors that does not decrease, or moves entries only."""
        ends = [function(end) for end in self.ends]
        return Range(ends[0], ends[-1])

    def entry(self, *at: int) -> "Range":
        """Component with these numbers along the last axes."""
        return Range(self.low[(..., *at)], self.high[(..., *at)])

    def hull(self, other: "Range") -> "Range":
        """Smallest range that holds both."""
        return Range(torch.minimum(self.low, other.low), torch.maximum(self.high, other.high))

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
    """Ranges of a function over pieces, its gradient with a further axis, and its Hessian with two
    more, or None.

    The last axis of the value is that of pieces.
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
            second = (
                self.second * g.map(_wide)
                + mixed
                + mixed.map(lambda x: x.mT)
                + f.map(_wide) * other.second
            )
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
    value = value.unsqueeze(-1)
    parts = [
        value,
        *(
            value.new_zeros(part.low.shape[-k:])
            for k, part in ((1, like.first), (2, like.second))
            if part
        ),
    ]
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
    return x.through(
        power(value, p), power(value, p - 1).times(p), power(value, p - 2).times(p * (p - 1))
    )


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
    slopes = Range(
        (x.value.low > 0) * (1 - slope) + slope, (x.value.high >= 0) * (1 - slope) + slope
    )
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


def _root_of_sum(u: Jet, f: Jet) -> Jet:
    """√(u² + f): its slope u / √(u² + f) increases with u where f ≥ 0, which operations one by one
    do not show.
    """
    if bool((f.value.low < 0).any()):
        return _power(u * u + f, 0.5)
    value = (power(u.value, 2) + f.value).map(torch.sqrt)
    inverse = power(value, -1)
    cube = power(inverse, 3)
    slopes = [
        torch.stack([end / (end**2 + g).sqrt() for g in f.value.ends])
        for end in (u.value.low, u.value.high)
    ]
    slope = Range(slopes[0].amin(0).nan_to_num(-1), slopes[1].amax(0).nan_to_num(1))  # NaN is 0 / 0
    by_u, by_f = (
        u.through(value, slope, f.value * cube),
        f.through(value, inverse.times(0.5), cube.times(-0.25)),
    )
    second = None
    if by_u.second:
        bend = (slope * power(inverse, 2)).times(-0.5).map(_wide).map(_wide)
        mixed = bend * (u.first.map(_wide) * f.first.map(_along_rows))
        second = by_u.second + by_f.second + mixed + mixed.map(lambda x: x.mT)
    return Jet(value, by_u.first + by_f.first, second)


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
    "root_of_sum": _root_of_sum,
}
"""Jets of elementwise operations by the names of ATen (√(u² + f) has none); arguments in the order
of torch.
"""


def gains(function: Callable[..., Jet], boxes: list[Range]) -> tuple[Range, list[Range]]:
    """Ranges of a function (...) of one or two numbers and of its derivatives, with each number in
    its box (..., 1).

    Branch and bound: pieces of the boxes are halved while their bounds exceed the extremes that
    points have attained.
    """
    pieces = [
        Range(box.low, box.low) if bool((box.low == box.high).all()) else box for box in boxes
    ]  # exact numbers
    empty = torch.full((), math.inf, dtype=torch.float64)
    found = attained = Range(empty, -empty)
    for cuts in range(CUTS + 1):
        bounds, values = _bounds(function, pieces)
        attained = attained.hull(values)
        width, size = attained.high - attained.low, attained.largest.flatten(0, -2).amax(0)
        slack = (SLACK * width + SMALL * size).nan_to_num(0, 0)
        beyond = bounds.high > (attained.high + slack).unsqueeze(-2)
        loose = (beyond | (bounds.low < (attained.low - slack).unsqueeze(-2))).any(-1) & (
            cuts < CUTS
        )
        done = ~loose.unsqueeze(-1)
        found = found.hull(
            Range(
                bounds.low.where(done, math.inf).amin(-2),
                bounds.high.where(done, -math.inf).amax(-2),
            )
        )
        number = int(loose.sum(-1).max())
        if number == 0:
            break
        rest = loose.byte().argsort(dim=-1, descending=True)[
            ..., :number
        ]  # entries with fewer halve others again
        pieces = [
            piece.map(lambda end, at=rest, to=loose.shape: end.expand(to).gather(-1, at))
            for piece in pieces
        ]
        for _ in range(HALVINGS):
            pieces = _halves(pieces)
    return found.entry(0), [found.entry(1 + k) for k in range(len(boxes))]


def _bounds(function: Callable[..., Jet], pieces: list[Range]) -> tuple[Range, Range]:
    """Ranges (..., pieces, 1 + numbers) of a function and its derivatives; the hull (..., 1 +
    numbers) of some values.

    Where one of them is monotone in a number, its extremes are at the ends of the piece; else it
    differs from its value in the middle by at most its derivative times half the width.
    """
    k, jet = len(pieces), function(*_numbers(pieces, True))
    shape = torch.broadcast_shapes(*(piece.low.shape for piece in pieces), jet.value.low.shape)
    direct = _joined(jet.value.map(_wide), jet.first, (*shape, k), -1)
    slopes = _joined(jet.first.map(_along_rows), jet.second, (*shape, k, k), -2)
    rising, falling = slopes.low >= 0, slopes.high <= 0
    radii = torch.stack([piece.radius.expand(shape) for piece in pieces], -1).unsqueeze(-2)
    rest = (slopes.largest * radii).nan_to_num(0, math.inf).where(~(rising | falling), 0.0).sum(-1)
    points = []
    for j, piece in enumerate(pieces):
        low, middle, high = (end.unsqueeze(-1) for end in (piece.low, piece.middle, piece.high))
        up, down = rising[..., j], falling[..., j]
        largest, smallest = (
            high.where(up, low.where(down, middle)),
            low.where(up, high.where(down, middle)),
        )
        at = torch.cat([largest, smallest], -1).flatten(-2)
        points.append(Range(at, at))
    there = function(*_numbers(points, False))
    values = _joined(there.value.map(_wide), there.first, (*points[0].low.shape, k), -1)
    own = values.map(lambda end: end.unflatten(-2, (-1, 2, 1 + k)).diagonal(0, -2, -1))
    high = torch.minimum(own.high[..., 0, :] + rest, direct.high).nan_to_num(
        math.inf, math.inf
    )  # NaN is no bound
    low = torch.maximum(own.low[..., 1, :] - rest, direct.low).nan_to_num(
        -math.inf, None, -math.inf
    )
    attained = Range(
        values.low.nan_to_num(math.inf).amin(-2), values.high.nan_to_num(-math.inf).amax(-2)
    )
    return Range(torch.minimum(low, high), high), attained  # an exact derivative stays so


def _joined(one: Range, other: Range, shape: Sequence[int], axis: int) -> Range:
    """Ranges next to each other along an axis, the first of which has size one there."""
    single = [*shape]
    single[axis] = 1
    ends = [
        torch.cat([a.expand(single), b.expand(shape)], axis)
        for a, b in zip(one, other, strict=True)
    ]
    return Range(*ends)


def _numbers(boxes: list[Range], twice: bool) -> list[Jet]:
    """Jets of the arguments themselves over boxes."""
    eye, zero = (
        torch.eye(len(boxes), dtype=torch.float64),
        torch.zeros(len(boxes), len(boxes), dtype=torch.float64),
    )
    return [
        Jet(box, Range(row, row), Range(zero, zero) if twice else None)
        for box, row in zip(boxes, eye, strict=True)
    ]


def _halves(pieces: list[Range]) -> list[Range]:
    """Both halves of each piece, cut along its widest number.

    Widths are those of asinh of the numbers: functions hardly bend where numbers are larger than
    one.
    """
    scales = [piece.map(torch.asinh) for piece in pieces]
    widest = torch.stack([scale.radius for scale in scales]).argmax(0)
    halves = []
    for k, (piece, scale) in enumerate(zip(pieces, scales, strict=True)):
        if len(piece.ends) == 1:
            halves.append(piece.map(lambda end: torch.cat([end, end], -1)))
            continue
        middle = scale.middle.sinh().clamp(piece.low, piece.high)
        low, high = middle.where(widest == k, piece.low), middle.where(widest == k, piece.high)
        halves.append(Range(torch.cat([piece.low, low], -1), torch.cat([high, piece.high], -1)))
    return halves
