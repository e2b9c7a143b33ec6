"""Ranges of numbers: smallest and largest values, and their images."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from romkit.core.types import Args, TensorMap, TensorTuple


@dataclass(frozen=True)
class Range:
    """Smallest and largest value of each entry."""

    low: Tensor
    high: Tensor

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)

    def __mul__(self, other: "Range") -> "Range":
        products = []
        for a in self.ends:
            for b in other.ends:
                products.append(a * b)
        product = enclose(products)
        if bool(product.low.sum().isnan()):
            # NaN is 0 · ∞ here: a bound of zero times one that is missing
            product = enclose([replace_nan(end) for end in products])
        return product

    def __neg__(self) -> "Range":
        return Range(-self.high, -self.low)

    def times(self, number: float) -> "Range":
        if number < 0:
            return -self.times(-number)
        # NaN is ∞ · 0
        return self.map(lambda end: replace_nan(end * number))

    def plus(self, number: float) -> "Range":
        return Range(self.low + number, self.high + number)

    def map(self, function: TensorMap) -> "Range":
        """Image under a function of tensors that does not decrease, or moves entries only."""
        ends = [function(end) for end in self.ends]
        return Range(ends[0], ends[-1])

    def entry(self, *at: int) -> "Range":
        """Component with these numbers along the last axes."""
        places: Args = (..., *at)
        return Range(self.low[places], self.high[places])

    def hull(self, other: "Range") -> "Range":
        """Return smallest range that holds both."""
        low = torch.minimum(self.low, other.low)
        return Range(low, torch.maximum(self.high, other.high))

    @property
    def ends(self) -> TensorTuple:
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
        return torch.maximum(self.low.abs(), self.high.abs())

    @property
    def smallest(self) -> Tensor:
        """Smallest absolute value."""
        return self.low.clamp(min=0) - self.high.clamp(max=0)


def enclose(values: Sequence[Tensor]) -> Range:
    """Return smallest range of each entry that holds all values."""
    return Range(reduce(torch.minimum, values), reduce(torch.maximum, values))


def replace_nan(x: Tensor) -> Tensor:
    return x.nan_to_num(0, math.inf, -math.inf)


def power(x: Range, p: float) -> Range:
    """xᵖ; entries of x are not negative unless p is an integer."""
    if p < 0:
        return _inverse(power(x, -p))
    if p % 2 == 0 and p > 0:
        return Range(x.smallest**p, x.largest**p)
    if p % 1 == 0:
        return x.map(lambda end: end**p)
    return x.map(lambda end: end.clamp(min=0) ** p)


def _inverse(x: Range) -> Range:
    """1 / x; no bound where x may be zero."""
    apart = (x.low > 0) | (x.high < 0)
    low = (1 / x.high).where(apart, -math.inf)
    high = (1 / x.low).where(apart, math.inf)
    return Range(low, high)


def cosine(x: Range) -> Range:
    """Range of the cosine."""
    at_low = x.low.cos()
    at_high = x.high.cos()
    lowest = torch.minimum(at_low, at_high)
    highest = torch.maximum(at_low, at_high)
    valley = _passes(x, math.pi)
    peak = _passes(x, 0.0)
    low = lowest.where(~valley, -1.0)
    return Range(low, highest.where(~peak, 1.0))


def _passes(x: Range, angle: float) -> Tensor:
    """Tell whether a range has the angle in it, up to whole turns."""
    turn = 2 * math.pi
    following = ((x.low - angle) / turn).ceil() * turn + angle
    return following <= x.high
