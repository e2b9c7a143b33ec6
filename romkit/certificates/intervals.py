"""Interval arithmetic of functions of a few numbers with their first and second derivatives, over
boxes.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.types import TensorMap

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
        low = self.low + other.low
        high = self.high + other.high
        return Range(low, high)

    def __mul__(self, other: "Range") -> "Range":
        products = []
        for a in self.ends:
            for b in other.ends:
                products.append(a * b)
        product = _hull_of(products)
        if bool(product.low.sum().isnan()):
            # NaN is 0 · ∞ here: a bound of zero times one that is missing
            product = _hull_of([_zero_for_nan(end) for end in products])
        return product

    def __neg__(self) -> "Range":
        return Range(-self.high, -self.low)

    def times(self, number: float) -> "Range":
        if number < 0:
            return -self.times(-number)
        # NaN is ∞ · 0
        return self.map(lambda end: _zero_for_nan(end * number))

    def plus(self, number: float) -> "Range":
        return Range(self.low + number, self.high + number)

    def map(self, function: TensorMap) -> "Range":
        """Image under a function of tensors that does not decrease, or moves entries only."""
        ends = [function(end) for end in self.ends]
        return Range(ends[0], ends[-1])

    def entry(self, *at: int) -> "Range":
        """Component with these numbers along the last axes."""
        places = (..., *at)
        return Range(self.low[places], self.high[places])

    def hull(self, other: "Range") -> "Range":
        """Smallest range that holds both."""
        low = torch.minimum(self.low, other.low)
        high = torch.maximum(self.high, other.high)
        return Range(low, high)

    @property
    def ends(self) -> tuple[Tensor, ...]:
        """Both ends, or the one of an exact number."""
        if self.low is self.high:
            return (self.low,)
        return (self.low, self.high)

    @property
    def middle(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def radius(self) -> Tensor:
        return (self.high - self.low) / 2

    @property
    def largest(self) -> Tensor:
        """Largest absolute value."""
        low = self.low.abs()
        high = self.high.abs()
        return torch.maximum(low, high)


def _hull_of(values: Sequence[Tensor]) -> Range:
    """Smallest range of each entry that holds all values."""
    low = reduce(torch.minimum, values)
    high = reduce(torch.maximum, values)
    return Range(low, high)


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
        value = self.value + other.value
        first = self.first + other.first
        second = None
        if self.second and other.second:
            second = self.second + other.second
        return Jet(value, first, second)

    def __mul__(self, other: "Jet") -> "Jet":
        # the range of x² is that of no product of two numbers
        if other is self:
            return _power(self, 2)
        value = self.value * other.value
        # (f g)' = f' g + f g'
        f = self.value.map(_wide)  # (..., 1)
        g = other.value.map(_wide)
        first = self.first * g + f * other.first
        second = None
        if self.second and other.second:
            # (f g)'' = f'' g + f' ⊗ g' + g' ⊗ f' + f g''
            mixed = _outer(self.first, other.first)  # (..., k, k)
            bend_of_f = self.second * g.map(_wide)
            bend_of_g = f.map(_wide) * other.second
            transposed = mixed.map(_transposed)
            second = bend_of_f + mixed + transposed + bend_of_g
        return Jet(value, first, second)

    def through(self, value: Range, slope: Range, bend: Range) -> "Jet":
        """Compose with a function of one number, from its value and its derivatives."""
        slope = slope.map(_wide)  # (..., 1)
        first = slope * self.first
        second = None
        if self.second:
            bend = bend.map(_wide).map(_wide)  # (..., 1, 1)
            square = _outer(self.first, self.first)
            by_bend = bend * square
            by_slope = slope.map(_wide) * self.second
            second = by_bend + by_slope
        return Jet(value, first, second)

    def times(self, number: float) -> "Jet":
        value = self.value.times(number)
        first = self.first.times(number)
        second = None
        if self.second:
            second = self.second.times(number)
        return Jet(value, first, second)


def _wide(x: Tensor) -> Tensor:
    return x.unsqueeze(-1)


def _along_rows(x: Tensor) -> Tensor:
    return x.unsqueeze(-2)


def _transposed(x: Tensor) -> Tensor:
    return x.mT


def _outer(a: Range, b: Range) -> Range:
    """Ranges (..., k, k) of the products of two gradients (..., k)."""
    column = a.map(_wide)
    row = b.map(_along_rows)
    return column * row


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
    first = Range(slope, slope)
    return Jet(Range(value, value), first, second)


def power(x: Range, p: float) -> Range:
    """xᵖ; entries of x are not negative unless p is an integer."""
    if p < 0:
        return _inverse(power(x, -p))
    if p % 2 == 0 and p > 0:
        low = _smallest(x) ** p
        high = x.largest**p
        return Range(low, high)
    if p % 1 == 0:
        return x.map(lambda end: end**p)
    return x.map(lambda end: end.clamp(min=0) ** p)


def _inverse(x: Range) -> Range:
    """1 / x; no bound where x may be zero."""
    apart = (x.low > 0) | (x.high < 0)
    low = (1 / x.high).where(apart, -math.inf)
    high = (1 / x.low).where(apart, math.inf)
    return Range(low, high)


def _smallest(x: Range) -> Tensor:
    """Smallest absolute value."""
    positive = x.low.clamp(min=0)
    negative = x.high.clamp(max=0)
    return positive - negative


def cosine(x: Range) -> Range:
    """Range of the cosine."""
    at_low = x.low.cos()
    at_high = x.high.cos()
    lowest = torch.minimum(at_low, at_high)
    highest = torch.maximum(at_low, at_high)
    valley = _passes(x, math.pi)
    peak = _passes(x, 0.0)
    low = lowest.where(~valley, -1.0)
    high = highest.where(~peak, 1.0)
    return Range(low, high)


def _passes(x: Range, angle: float) -> Tensor:
    """Whether a range has the angle in it, up to whole turns."""
    turn = 2 * math.pi
    turns = ((x.low - angle) / turn).ceil()
    following = turns * turn + angle
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
    turned = x.value.plus(-math.pi / 2)
    sine = cosine(turned)
    return x.through(value, -sine, -value)


def _tanh(x: Jet) -> Jet:
    value = x.value.map(torch.tanh)
    square = power(value, 2)
    slope = (-square).plus(1)
    bend = (value * slope).times(-2)
    return x.through(value, slope, bend)


def _sigmoid(x: Jet) -> Jet:
    value = x.value.map(torch.sigmoid)
    complement = (-value).plus(1)
    slope = value * complement
    factor = value.times(-2).plus(1)
    bend = slope * factor
    return x.through(value, slope, bend)


def _softplus(x: Jet, beta: float = 1, threshold: float = 20) -> Jet:
    def softplus(end: Tensor) -> Tensor:
        return torch.nn.functional.softplus(end, beta, threshold)

    value = x.value.map(softplus)
    slope = x.value.times(beta).map(torch.sigmoid)
    complement = (-slope).plus(1)
    bend = (slope * complement).times(beta)
    return x.through(value, slope, bend)


def _erf(x: Jet) -> Jet:
    value = x.value.map(torch.erf)
    square = power(x.value, 2)
    gaussian = (-square).map(torch.exp)
    factor = 2 / math.sqrt(math.pi)
    slope = gaussian.times(factor)
    bend = (x.value * slope).times(-2)
    return x.through(value, slope, bend)


def _leaky_relu(x: Jet, slope: float = 0.01) -> Jet:
    """Second derivatives are zero, or, on a piece with the kink, any number that is not negative."""
    # the kink bends down
    if slope > 1:
        mirror = x.times(-1)
        mirrored = _leaky_relu(mirror, 1 / slope)
        return mirrored.times(-slope)

    def leaky_relu(end: Tensor) -> Tensor:
        return torch.nn.functional.leaky_relu(end, slope)

    value = x.value.map(leaky_relu)
    low, high = x.value
    kink = (low <= 0) & (high >= 0)
    smallest = (low > 0) * (1 - slope) + slope
    largest = (high >= 0) * (1 - slope) + slope
    zero = torch.zeros_like(low)
    most = zero.where(~kink, math.inf)
    bend = Range(zero, most)
    return x.through(value, Range(smallest, largest), bend)


def _abs(x: Jet) -> Jet:
    # |x| does not increase, which `_leaky_relu` takes for granted of its value
    value = Range(_smallest(x.value), x.value.largest)
    return _leaky_relu(x, -1.0)._replace(value=value)


def _clamp(x: Jet, low: float | None = None, high: float | None = None) -> Jet:
    if low is not None:
        # low + max(x - low, 0)
        above = x + constant(-low, x)
        x = _leaky_relu(above, 0.0) + constant(low, x)
    if high is not None:
        # high - max(high - x, 0)
        bound = constant(high, x)
        gap = bound + x.times(-1)
        below = _leaky_relu(gap, 0.0)
        x = bound + below.times(-1)
    return x


def _root_of_sum(u: Jet, f: Jet) -> Jet:
    """√(u² + f): its slope u / √(u² + f) increases with u where f ≥ 0, which operations one by one
    do not show.
    """
    if bool((f.value.low < 0).any()):
        return _power(u * u + f, 0.5)
    total = power(u.value, 2) + f.value
    value = total.map(torch.sqrt)
    inverse = power(value, -1)
    cube = power(inverse, 3)
    slope = _slope_of_root(u.value, f.value)
    bend = f.value * cube
    by_u = u.through(value, slope, bend)
    slope_by_f = inverse.times(0.5)
    bend_by_f = cube.times(-0.25)
    by_f = f.through(value, slope_by_f, bend_by_f)
    second = None
    if by_u.second:
        # ∂²/∂u∂f = -u / 2 (u² + f)^(3/2)
        mixed_bend = (slope * power(inverse, 2)).times(-0.5)
        mixed_bend = mixed_bend.map(_wide).map(_wide)
        mixed = mixed_bend * _outer(u.first, f.first)
        transposed = mixed.map(_transposed)
        second = by_u.second + by_f.second + mixed + transposed
    return Jet(value, by_u.first + by_f.first, second)


def _slope_of_root(u: Range, f: Range) -> Range:
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
    "root_of_sum": _root_of_sum,
}
"""Jets of elementwise operations by the names of ATen (√(u² + f) has none); arguments in the order
of torch.
"""


def gains(function: Function, boxes: list[Range]) -> tuple[Range, list[Range]]:
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
        loose = _loose(bounds, attained)  # (..., pieces)
        if cuts == CUTS:
            loose = torch.zeros_like(loose)
        total = total.hull(_of_pieces(bounds, ~loose))
        number = int(loose.sum(-1).max())
        if number == 0:
            break
        pieces = _cut(pieces, loose, number)
    derivatives = []
    for k in range(len(boxes)):
        derivatives.append(total.entry(1 + k))
    return total.entry(0), derivatives


def _cut(pieces: list[Range], loose: Tensor, number: int) -> list[Range]:
    """Halves of halves of this number of pieces of each entry, the loose ones of (..., pieces).

    Entries with fewer loose pieces halve others again.
    """
    order = loose.byte().argsort(dim=-1, descending=True)
    chosen = order[..., :number]

    def of_chosen(end: Tensor) -> Tensor:
        return end.expand(loose.shape).gather(-1, chosen)

    pieces = [piece.map(of_chosen) for piece in pieces]
    for _ in range(HALVINGS):
        pieces = _halves(pieces)
    return pieces


def _as_exact(box: Range) -> Range:
    """The box; with one end if all its numbers are exact, so that nothing is done twice."""
    if bool((box.low == box.high).all()):
        return Range(box.low, box.low)
    return box


def _loose(bounds: Range, attained: Range) -> Tensor:
    """Pieces (..., pieces) whose bounds exceed what points have attained by more than a slack."""
    width = attained.high - attained.low
    rows = attained.largest.flatten(0, -2)
    size = rows.amax(0)
    slack = SLACK * width + SMALL * size
    slack = slack.nan_to_num(0, 0)
    highest = attained.high + slack  # (..., 1 + numbers)
    lowest = attained.low - slack
    above = bounds.high > highest.unsqueeze(-2)
    below = bounds.low < lowest.unsqueeze(-2)
    return (above | below).any(-1)


def _of_pieces(bounds: Range, done: Tensor) -> Range:
    """Range (..., 1 + numbers) over the pieces that are done."""
    done = done.unsqueeze(-1)
    low = bounds.low.where(done, math.inf)
    high = bounds.high.where(done, -math.inf)
    lowest = low.amin(-2)
    highest = high.amax(-2)
    return Range(lowest, highest)


def _bounds(function: Function, pieces: list[Range]) -> tuple[Range, Range]:
    """Ranges (..., pieces, 1 + numbers) of a function and its derivatives; the hull (..., 1 +
    numbers) of some values.

    Where one of them is monotone in a number, its extremes are at the ends of the piece; else it
    differs from its value in the middle by at most its derivative times half the width.
    """
    k = len(pieces)
    jet = function(*_arguments(pieces, twice=True))
    shapes = [piece.low.shape for piece in pieces]
    shape = torch.broadcast_shapes(*shapes, jet.value.low.shape)  # (..., pieces)
    value = jet.value.map(_wide)
    direct = _joined(value, jet.first, (*shape, k), -1)  # (..., pieces, 1 + k)
    # derivatives of the value and of each derivative by each number
    gradient = jet.first.map(_along_rows)
    slopes = _joined(gradient, jet.second, (*shape, k, k), -2)  # (..., pieces, 1 + k, k)
    rising = slopes.low >= 0
    falling = slopes.high <= 0
    radii = [piece.radius.expand(shape) for piece in pieces]
    radii = torch.stack(radii, -1).unsqueeze(-2)  # (..., pieces, 1, k)
    change = _zero_for_nan(slopes.largest * radii)
    monotone = rising | falling
    beyond_middle = change.where(~monotone, 0.0)
    beyond_middle = beyond_middle.sum(-1)  # (..., pieces, 1 + k)
    values = _at_extremes(function, pieces, rising, falling)

    # the value and each derivative have points of their own, where they are largest and smallest
    def of_its_points(end: Tensor) -> Tensor:
        points = end.unflatten(-2, (-1, 2, 1 + k))
        return points.diagonal(0, -2, -1)  # (..., pieces, 2, 1 + k)

    largest = of_its_points(values.high)[..., 0, :]
    smallest = of_its_points(values.low)[..., 1, :]
    high = torch.minimum(largest + beyond_middle, direct.high)
    low = torch.maximum(smallest - beyond_middle, direct.low)
    # NaN is no bound
    high = high.nan_to_num(math.inf, math.inf)
    low = low.nan_to_num(-math.inf, None, -math.inf)
    # an exact derivative stays so
    low = torch.minimum(low, high)
    lowest = values.low.nan_to_num(math.inf).amin(-2)
    highest = values.high.nan_to_num(-math.inf).amax(-2)
    attained = Range(lowest, highest)
    return Range(low, high), attained


def _at_extremes(function: Function, pieces: list[Range], rising: Tensor, falling: Tensor) -> Range:
    """Values (..., points, 1 + numbers) of a function and its derivatives where they may be
    extreme.
    """
    points = []
    for j, piece in enumerate(pieces):
        points.append(_extreme_points(piece, rising[..., j], falling[..., j]))
    jet = function(*_arguments(points, twice=False))
    shape = (*points[0].low.shape, len(pieces))
    value = jet.value.map(_wide)
    return _joined(value, jet.first, shape, -1)


def _extreme_points(piece: Range, rising: Tensor, falling: Tensor) -> Range:
    """Places where functions (..., pieces, functions) are largest and smallest as far as a number decides:
    at its ends if they are monotone in it, else at the middle.
    """
    low = piece.low.unsqueeze(-1)
    middle = piece.middle.unsqueeze(-1)
    high = piece.high.unsqueeze(-1)
    largest = low.where(falling, middle)
    largest = high.where(rising, largest)
    smallest = high.where(falling, middle)
    smallest = low.where(rising, smallest)
    points = torch.cat([largest, smallest], -1)
    points = points.flatten(-2)
    return Range(points, points)


def _joined(value: Range, slopes: Range, shape: Sequence[int], axis: int) -> Range:
    """Ranges next to each other along an axis, the first of which has size one there."""
    single = [*shape]
    single[axis] = 1

    def joined(end: Tensor, slope_end: Tensor) -> Tensor:
        end = end.expand(single)
        slope_end = slope_end.expand(shape)
        return torch.cat([end, slope_end], axis)

    low = joined(value.low, slopes.low)
    high = joined(value.high, slopes.high)
    return Range(low, high)


def _arguments(boxes: list[Range], *, twice: bool) -> list[Jet]:
    """Jets of the numbers themselves over boxes, with second derivatives or without."""
    count = len(boxes)
    identity = torch.eye(count, dtype=torch.float64)
    second = None
    if twice:
        zero = torch.zeros(count, count, dtype=torch.float64)
        second = Range(zero, zero)
    jets = []
    for box, row in zip(boxes, identity, strict=True):
        slope = Range(row, row)
        jets.append(Jet(box, slope, second))
    return jets


def _halves(pieces: list[Range]) -> list[Range]:
    """Both halves of each piece, cut along its widest number.

    Widths are those of asinh of the numbers: functions hardly bend where numbers are larger than
    one.
    """
    scales = [piece.map(torch.asinh) for piece in pieces]
    widths = torch.stack([scale.radius for scale in scales])
    widest = widths.argmax(0)
    halves = []
    for k, (piece, scale) in enumerate(zip(pieces, scales, strict=True)):
        is_widest = widest == k
        halves.append(_halved(piece, scale.middle, is_widest))
    return halves


def _halved(piece: Range, middle: Tensor, cut: Tensor) -> Range:
    """Lower and upper halves of a number, where it is cut, at the middle of its asinh."""
    if len(piece.ends) == 1:
        return piece.map(lambda end: torch.cat([end, end], -1))
    middle = middle.sinh().clamp(piece.low, piece.high)
    low = middle.where(cut, piece.low)  # of the upper half
    high = middle.where(cut, piece.high)  # of the lower half
    lower_ends = torch.cat([piece.low, low], -1)
    upper_ends = torch.cat([high, piece.high], -1)
    return Range(lower_ends, upper_ends)
