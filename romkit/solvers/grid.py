"""Time steps of fixed length between output times."""

import math
from typing import NamedTuple

from torch import Tensor


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
