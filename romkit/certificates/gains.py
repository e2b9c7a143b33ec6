"""Ranges of functions and of their derivatives over boxes, which are cut into pieces where bounds are
loose.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from romkit.certificates.jets import Function, Jet, rowwise, wide
from romkit.certificates.ranges import Range, replace_nan

CUTS = 4
"""Number of times that loose pieces of a box are cut."""


def gains(function: Function, boxes: list[Range]) -> tuple[Range, list[Range]]:
    """Ranges of a function (...) of one or two numbers and of its derivatives, with each number in
    its box (..., 1).

    Branch and bound: pieces of the boxes are halved while their bounds exceed the extremes that
    points have attained, `CUTS` times at most: into 4096 pieces.
    """
    # with one end if all numbers of a box are exact, so that nothing is done twice
    pieces = [
        Range(box.low, box.low) if bool((box.low == box.high).all()) else box for box in boxes
    ]
    empty = torch.full((), math.inf, dtype=torch.float64)
    total = attained = Range(empty, -empty)
    for cuts in range(CUTS + 1):
        bounds, values = _bounds(function, pieces)
        attained = attained.hull(values)
        loose = _loose(bounds, attained)  # (..., pieces)
        if cuts == CUTS:
            loose = torch.zeros_like(loose)
        total = total.hull(_join_pieces(bounds, ~loose))
        number = int(loose.sum(-1).max())
        if number == 0:
            break
        pieces = _cut(pieces, loose, number)
    derivatives = [total.entry(1 + k) for k in range(len(boxes))]
    return total.entry(0), derivatives


def _cut(pieces: list[Range], loose: Tensor, number: int, *, halvings: int = 3) -> list[Range]:
    """Halves of halves of this number of pieces of each entry, the loose ones of (..., pieces).

    Entries with fewer loose pieces halve others again.
    """
    order = loose.byte().argsort(dim=-1, descending=True)
    chosen = order[..., :number]

    pieces = [piece.map(lambda end: end.expand(loose.shape).gather(-1, chosen)) for piece in pieces]
    for _ in range(halvings):
        pieces = _halves(pieces)
    return pieces


def _loose(
    bounds: Range, attained: Range, *, of_width: float = 1e-4, of_size: float = 1e-7
) -> Tensor:
    """Return pieces (..., pieces) whose bounds exceed what points have attained by more than a
    slack, as a share of the width of the range and of the largest of all entries.
    """
    width = attained.high - attained.low
    size = attained.largest.flatten(0, -2).amax(0)
    slack = of_width * width + of_size * size
    slack = slack.nan_to_num(0, 0)
    highest = attained.high + slack  # (..., 1 + numbers)
    lowest = attained.low - slack
    above = bounds.high > highest.unsqueeze(-2)
    below = bounds.low < lowest.unsqueeze(-2)
    return (above | below).any(-1)


def _join_pieces(bounds: Range, done: Tensor) -> Range:
    """Range (..., 1 + numbers) over the pieces that are done."""
    done = done.unsqueeze(-1)
    low = bounds.low.where(done, math.inf)
    high = bounds.high.where(done, -math.inf)
    return Range(low.amin(-2), high.amax(-2))


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
    value = jet.value.map(wide)
    direct = _joined(value, jet.first, (*shape, k), -1)  # (..., pieces, 1 + k)
    # derivatives of the value and of each derivative by each number
    gradient = jet.first.map(rowwise)
    assert jet.second is not None  # of arguments that are differentiated twice
    slopes = _joined(gradient, jet.second, (*shape, k, k), -2)  # (..., pieces, 1 + k, k)
    rising = slopes.low >= 0
    falling = slopes.high <= 0
    of_pieces = [piece.radius.expand(shape) for piece in pieces]
    radii = torch.stack(of_pieces, -1).unsqueeze(-2)  # (..., pieces, 1, k)
    change = replace_nan(slopes.largest * radii)
    beyond_middle = change.where(~(rising | falling), 0.0)
    beyond_middle = beyond_middle.sum(-1)  # (..., pieces, 1 + k)
    values = _extreme_values(function, pieces, rising, falling)

    # the value and each derivative have points of their own, where they are largest and smallest
    def reduce_points(end: Tensor) -> Tensor:
        points = end.unflatten(-2, (-1, 2, 1 + k))
        return points.diagonal(0, -2, -1)  # (..., pieces, 2, 1 + k)

    largest = reduce_points(values.high)[..., 0, :]
    smallest = reduce_points(values.low)[..., 1, :]
    high = torch.minimum(largest + beyond_middle, direct.high)
    low = torch.maximum(smallest - beyond_middle, direct.low)
    # NaN is no bound
    high = high.nan_to_num(math.inf, math.inf)
    low = low.nan_to_num(-math.inf, None, -math.inf)
    # an exact derivative stays so
    low = torch.minimum(low, high)
    lowest = values.low.nan_to_num(math.inf).amin(-2)
    highest = values.high.nan_to_num(-math.inf).amax(-2)
    return Range(low, high), Range(lowest, highest)


def _extreme_values(
    function: Function, pieces: list[Range], rising: Tensor, falling: Tensor
) -> Range:
    """Return values (..., points, 1 + numbers) of a function and its derivatives where they may be
    extreme.
    """
    points = []
    for j, piece in enumerate(pieces):
        points.append(_extreme_points(piece, rising[..., j], falling[..., j]))
    jet = function(*_arguments(points, twice=False))
    shape = (*points[0].low.shape, len(pieces))
    return _joined(jet.value.map(wide), jet.first, shape, -1)


def _extreme_points(piece: Range, rising: Tensor, falling: Tensor) -> Range:
    """Return places where functions (..., pieces, functions) are largest and smallest as far as a
    number decides: at its ends if they are monotone in it, else at the middle.
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
    return Range(low, joined(value.high, slopes.high))


def _arguments(boxes: list[Range], *, twice: bool) -> list[Jet]:
    """Jets of the numbers themselves over boxes, with second derivatives or without."""
    count = len(boxes)
    identity = torch.eye(count, dtype=torch.float64)
    second = None
    if twice:
        zero = torch.zeros(count, count, dtype=torch.float64)
        second = Range(zero, zero)
    return [Jet(box, Range(row, row), second) for box, row in zip(boxes, identity, strict=True)]


def _halves(pieces: list[Range]) -> list[Range]:
    """Return both halves of each piece, cut along its widest number.

    Widths are those of asinh of the numbers: functions hardly bend where numbers are larger than
    one.
    """
    scales = [piece.map(torch.asinh) for piece in pieces]
    widths = torch.stack([scale.radius for scale in scales])
    widest = widths.argmax(0)
    halves = []
    for k, (piece, scale) in enumerate(zip(pieces, scales, strict=True)):
        halves.append(_halved(piece, scale.middle, widest == k))
    return halves


def _halved(piece: Range, middle: Tensor, cut: Tensor) -> Range:
    """Lower and upper halves of a number, where it is cut, at the middle of its asinh."""
    if len(piece.ends) == 1:
        return piece.map(lambda end: torch.cat([end, end], -1))
    middle = middle.sinh().clamp(piece.low, piece.high)
    low = middle.where(cut, piece.low)  # of the upper half
    high = middle.where(cut, piece.high)  # of the lower half
    return Range(torch.cat([piece.low, low], -1), torch.cat([high, piece.high], -1))
