"""Time steps of fixed length between output times."""

from typing import NamedTuple

from torch import Tensor


class Grid(NamedTuple):
    """Step length h (K,), float64, and number of steps (K,), int64, between successive output times, on the CPU."""

    h: Tensor
    steps: Tensor

    @classmethod
    def between(cls, times: Tensor, dt: float) -> "Grid":
        """The fewest equal steps that are no longer than `dt`."""
        gaps = times.diff().double().cpu()
        steps = (gaps / dt - 1e-9).ceil().clamp(min=1).long()
        return cls(gaps / steps, steps)

    @property
    def count(self) -> int:
        """Steps in all."""
        return int(self.steps.sum())

    def intervals(self) -> list[tuple[float, int]]:
        """Length and number of the steps of each interval."""
        return list(zip(self.h.tolist(), self.steps.tolist(), strict=True))
