"""Time steps of fixed length between output times."""

import math
from typing import NamedTuple

from torch import Tensor

FREE_MEMBERS = 50
"""Members of a batch whose arithmetic takes about as long as the calls to torch; more make every step longer."""


class Grid(NamedTuple):
    """Step length and number of steps between successive output times."""

    h: list[float]
    steps: list[int]

    @classmethod
    def between(cls, times: Tensor, dt: float) -> "Grid":
        """The fewest equal steps that are no longer than `dt`."""
        gaps = times.diff().tolist()
        steps = [max(1, math.ceil(gap / dt - 1e-9)) for gap in gaps]
        return cls([gap / number for gap, number in zip(gaps, steps, strict=True)], steps)

    def work(self, y0: Tensor) -> float:
        """Steps in all; those of a large batch count as many of a single member, which take as long."""
        return sum(self.steps) * (1 + math.prod(y0.shape[:-1]) / FREE_MEMBERS)
