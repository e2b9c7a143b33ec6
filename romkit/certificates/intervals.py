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
        products = [a * b for a in self.ends for b in other.ends]
        low, high = reduce(torch.minimum, products), reduce(torch.maximum, products)
        # NaN is 0 · ∞ here: a bound of zero times one that is missing
        if bool(low.sum().isnan()):
            products = [_zero_for_nan(product) for product in products]
            low, high = reduce(torch.minimum, products), reduce(torch.maximum, products)
        return Range(low, high)

    def __neg__(self) -> "Range":
        return Range(-self.high, -self.low)

    def times(self, number: float) -> "Range":
        if number < 0:
            return -self.times(-number)
        # NaN is ∞ · 0
        return self.map(lambda end: _zero_for_nan(end * number))

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


def _zero_for_nan(x: Tensor) -> Tensor:
    return x.nan_to_num(0, math.inf, -math.inf)


class Jet(NamedTuple):
    """Ranges of a function over pieces, its gradient with a further axis, and its Hessian with two
    more, or None.

    The last axis of the value is that of pieces.
    """

    value: Range
    first: Range
    second: Range | None

    def __add__(self, other: "Jet") -> "Jet":
        second = None
        if self.second and other.second:
            second = self.second + other.second
        return Jet(self.value + other.value, self.first + other.first, second)

    def __mul__(self, other: "Jet") -> "Jet":
        # the range of x² is that of no product of two numbers
        if other is self:
            return _power(self, 2)
        f, g = self.value.map(_wide), other.value.map(_wide)
        first = self.first * g + f * other.first
        second = None
        if self.second and other.second:
            mixed = _outer(self.first, other.first)
            bends = self.second * g.map(_wide) + mixed + mixed.map(_transposed)
            second = bends + f.map(_wide) * other.second
        return Jet(self.value * other.value, first, second)

    def through(self, value: Range, slope: Range, bend: Range) -> "Jet":
        """Compose with a function of one number, from its value and its derivatives."""
        first = slope.map(_wide) * self.first
        second = None
        if self.second:
            by_bend = bend.map(_wide).map(_wide) * _outer(self.first, self.first)
            by_slope = slope.map(_wide).map(_wide) * self.second
            second = by_bend + by_slope
        return Jet(value, first, second)

    def times(self, number: float) -> "Jet":
        second = None
        if self.second:
            second = self.second.times(number)
        return Jet(self.value.times(number), self.first.times(number), second)


def _wide(x: Tensor) -> Tensor:
    return x.unsqueeze(-1)


def _along_rows(x: Tensor) -> Tensor:
    return x.unsqueeze(-2)


def _transposed(x: Tensor) -> Tensor:
    return x.mT


def _outer(a: Range, b: Range) -> Range:
    """Ranges (..., k, k) of the products of two gradients (..., k)."""
    return a.map(_wide) * b.map(_along_rows)


def constant(value: Tensor | float, like: Jet) -> Jet:
    """Jet of a tensor that is constant."""
    value = torch.as_tensor(value, dtype=torch.float64).unsqueeze(-1)
    slope = value.new_zeros(like.first.low.shape[-1:])
    second = None
    if like.second:
        bend = value.new_zeros(like.second.low.shape[-2:])
        second = Range(bend, bend)
    return Jet(Range(value, value), Range(slope, slope), second)


def power(x: Range, p: float) -> Range:
    """xᵖ; entries of x are not negative unless p is an integer."""
    if p < 0:
        denominator = power(x, -p)
        # no bound where the denominator may be zero
        apart = (denominator.low > 0) | (denominator.high < 0)
        low = (1 / denominator.high).where(apart, -math.inf)
        high = (1 / denominator.low).where(apart, math.inf)
        return Range(low, high)
    if p % 2 == 0 and p > 0:
        return Range(_smallest(x) ** p, x.largest**p)
    if p % 1 == 0:
        return x.map(lambda end: end**p)
    return x.map(lambda end: end.clamp(min=0) ** p)


def _smallest(x: Range) -> Tensor:
    """Smallest absolute value."""
    return x.low.clamp(min=0) - x.high.clamp(max=0)


def cosine(x: Range) -> Range:
    """Range of the cosine."""
    ends = torch.stack([x.low.cos(), x.high.cos()])
    low = ends.amin(0).where(~_passes(x, math.pi), -1.0)
    high = ends.amax(0).where(~_passes(x, 0.0), 1.0)
    return Range(low, high)


def _passes(x: Range, angle: float) -> Tensor:
    """Whether a range has the angle in it, up to whole turns."""
    turn = 2 * math.pi
    following = ((x.low - angle) / turn).ceil() * turn + angle
    return following <= x.high


def _power(x: Jet, p: float) -> Jet:
    value = power(x.value, p)
    slope = power(x.value, p - 1).times(p)
    bend = power(x.value, p - 2).times(p * (p - 1))
    return x.through(value, slope, bend)


def _exp(x: Jet) -> Jet:
    value = x.value.map(torch.exp)
    return x.through(value, value, value)


def _log(x: Jet) -> Jet:
    value = x.value.map(torch.log)
    slope = power(x.value, -1)
    bend = -power(x.value, -2)
    return x.through(value, slope, bend)


def _cos(x: Jet) -> Jet:
    value = cosine(x.value)
    sine = cosine(x.value.plus(-math.pi / 2))
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
    value = x.value.map(lambda end: torch.nn.functional.softplus(end, beta, threshold))
    slope = x.value.times(beta).map(torch.sigmoid)
    bend = (slope * (-slope).plus(1)).times(beta)
    return x.through(value, slope, bend)


def _erf(x: Jet) -> Jet:
    value = x.value.map(torch.erf)
    gaussian = (-power(x.value, 2)).map(torch.exp)
    slope = gaussian.times(2 / math.sqrt(math.pi))
    bend = (x.value * slope).times(-2)
    return x.through(value, slope, bend)


def _leaky_relu(x: Jet, slope: float = 0.01) -> Jet:
    """Second derivatives are zero, or, on a piece with the kink, any number that is not negative."""
    # the kink bends down
    if slope > 1:
        return _leaky_relu(x.times(-1), 1 / slope).times(-slope)
    value = x.value.map(lambda end: torch.nn.functional.leaky_relu(end, slope))
    low, high = x.value
    kink = (low <= 0) & (high >= 0)
    slopes = Range((low > 0) * (1 - slope) + slope, (high >= 0) * (1 - slope) + slope)
    zero = torch.zeros_like(low)
    bend = Range(zero, zero.where(~kink, math.inf))
    return x.through(value, slopes, bend)


def _abs(x: Jet) -> Jet:
    # |x| does not increase, which `_leaky_relu` takes for granted of its value
    value = Range(_smallest(x.value), x.value.largest)
    return _leaky_relu(x, -1.0)._replace(value=value)


def _clamp(x: Jet, low: float | None = None, high: float | None = None) -> Jet:
    if low is not None:
        above = _leaky_relu(x + constant(-low, x), 0.0)
        x = above + constant(low, x)
    if high is not None:
        below = _leaky_relu(constant(high, x) + x.times(-1), 0.0)
        x = constant(high, x) + below.times(-1)
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
    slope = _slope_of_root(u.value, f.value)
    by_u = u.through(value, slope, f.value * cube)
    by_f = f.through(value, inverse.times(0.5), cube.times(-0.25))
    second = None
    if by_u.second:
        bend = (slope * power(inverse, 2)).times(-0.5).map(_wide).map(_wide)
        mixed = bend * _outer(u.first, f.first)
        second = by_u.second + by_f.second + mixed + mixed.map(_transposed)
    return Jet(value, by_u.first + by_f.first, second)


def _slope_of_root(u: Range, f: Range) -> Range:
    """Range of u / √(u² + f), from the ends of both."""
    lowest = [u.low / (u.low**2 + end).sqrt() for end in f.ends]
    highest = [u.high / (u.high**2 + end).sqrt() for end in f.ends]
    low, high = torch.stack(lowest).amin(0), torch.stack(highest).amax(0)
    # NaN is 0 / 0
    return Range(low.nan_to_num(-1), high.nan_to_num(1))


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
    pieces = [_as_exact(box) for box in boxes]
    empty = torch.full((), math.inf, dtype=torch.float64)
    total = attained = Range(empty, -empty)
    for cuts in range(CUTS + 1):
        bounds, values = _bounds(function, pieces)
        attained = attained.hull(values)
        loose = _loose(bounds, attained)
        if cuts == CUTS:
            loose = torch.zeros_like(loose)
        total = total.hull(_of_pieces(bounds, ~loose))
        number = int(loose.sum(-1).max())
        if number == 0:
            break
        # entries with fewer loose pieces halve others again
        chosen = loose.byte().argsort(dim=-1, descending=True)[..., :number]
        pieces = [_chosen(piece, chosen, loose.shape) for piece in pieces]
        for _ in range(HALVINGS):
            pieces = _halves(pieces)
    derivatives = [total.entry(1 + k) for k in range(len(boxes))]
    return total.entry(0), derivatives


def _as_exact(box: Range) -> Range:
    """The box; with one end if all its numbers are exact, so that nothing is done twice."""
    if bool((box.low == box.high).all()):
        return Range(box.low, box.low)
    return box


def _loose(bounds: Range, attained: Range) -> Tensor:
    """Pieces (..., pieces) whose bounds exceed what points have attained by more than a slack."""
    width = attained.high - attained.low
    size = attained.largest.flatten(0, -2).amax(0)
    slack = (SLACK * width + SMALL * size).nan_to_num(0, 0)
    above = bounds.high > (attained.high + slack).unsqueeze(-2)
    below = bounds.low < (attained.low - slack).unsqueeze(-2)
    return (above | below).any(-1)


def _of_pieces(bounds: Range, done: Tensor) -> Range:
    """Range (..., 1 + numbers) over the pieces that are done."""
    done = done.unsqueeze(-1)
    low = bounds.low.where(done, math.inf).amin(-2)
    high = bounds.high.where(done, -math.inf).amax(-2)
    return Range(low, high)


def _chosen(piece: Range, chosen: Tensor, shape: Sequence[int]) -> Range:
    """Pieces of these numbers."""
    return piece.map(lambda end: end.expand(shape).gather(-1, chosen))


def _bounds(function: Callable[..., Jet], pieces: list[Range]) -> tuple[Range, Range]:
    """Ranges (..., pieces, 1 + numbers) of a function and its derivatives; the hull (..., 1 +
    numbers) of some values.

    Where one of them is monotone in a number, its extremes are at the ends of the piece; else it
    differs from its value in the middle by at most its derivative times half the width.
    """
    k = len(pieces)
    jet = function(*_numbers(pieces, True))
    shape = torch.broadcast_shapes(*(piece.low.shape for piece in pieces), jet.value.low.shape)
    direct = _joined(jet.value.map(_wide), jet.first, (*shape, k), -1)  # (..., pieces, 1 + k)
    slopes = _joined(jet.first.map(_along_rows), jet.second, (*shape, k, k), -2)
    rising, falling = slopes.low >= 0, slopes.high <= 0
    radii = torch.stack([piece.radius.expand(shape) for piece in pieces], -1)
    change = _zero_for_nan(slopes.largest * radii.unsqueeze(-2))
    beyond_middle = change.where(~(rising | falling), 0.0).sum(-1)
    points = []
    for j, piece in enumerate(pieces):
        points.append(_extreme_points(piece, rising[..., j], falling[..., j]))
    at_points = function(*_numbers(points, False))
    point_shape = points[0].low.shape
    values = _joined(at_points.value.map(_wide), at_points.first, (*point_shape, k), -1)

    # each of them has points of its own, where it is largest and where it is smallest
    def of_its_points(end: Tensor) -> Tensor:
        return end.unflatten(-2, (-1, 2, 1 + k)).diagonal(0, -2, -1)

    largest = of_its_points(values.high)[..., 0, :]
    smallest = of_its_points(values.low)[..., 1, :]
    high = torch.minimum(largest + beyond_middle, direct.high)
    low = torch.maximum(smallest - beyond_middle, direct.low)
    # NaN is no bound
    high = high.nan_to_num(math.inf, math.inf)
    low = low.nan_to_num(-math.inf, None, -math.inf)
    lowest = values.low.nan_to_num(math.inf).amin(-2)
    highest = values.high.nan_to_num(-math.inf).amax(-2)
    # an exact derivative stays so
    return Range(torch.minimum(low, high), high), Range(lowest, highest)


def _extreme_points(piece: Range, rising: Tensor, falling: Tensor) -> Range:
    """Places where functions (..., pieces, functions) are largest and smallest as far as a number decides:
    at its ends if they are monotone in it, else at the middle.
    """
    low, middle, high = (
        piece.low.unsqueeze(-1),
        piece.middle.unsqueeze(-1),
        piece.high.unsqueeze(-1),
    )
    largest = high.where(rising, low.where(falling, middle))
    smallest = low.where(rising, high.where(falling, middle))
    points = torch.cat([largest, smallest], -1).flatten(-2)
    return Range(points, points)


def _joined(one: Range, other: Range, shape: Sequence[int], axis: int) -> Range:
    """Ranges next to each other along an axis, the first of which has size one there."""
    single = [*shape]
    single[axis] = 1
    low = torch.cat([one.low.expand(single), other.low.expand(shape)], axis)
    high = torch.cat([one.high.expand(single), other.high.expand(shape)], axis)
    return Range(low, high)


def _numbers(boxes: list[Range], twice: bool) -> list[Jet]:
    """Jets of the arguments themselves over boxes."""
    count = len(boxes)
    identity = torch.eye(count, dtype=torch.float64)
    second = None
    if twice:
        zero = torch.zeros(count, count, dtype=torch.float64)
        second = Range(zero, zero)
    return [Jet(box, Range(row, row), second) for box, row in zip(boxes, identity, strict=True)]


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
        low = middle.where(widest == k, piece.low)  # of the upper half
        high = middle.where(widest == k, piece.high)  # of the lower half
        lower_ends = torch.cat([piece.low, low], -1)
        upper_ends = torch.cat([high, piece.high], -1)
        halves.append(Range(lower_ends, upper_ends))
    return halves
