"""Time steps of fixed length between output times."""

from typing import NamedTuple

from torch import Tensor

from romkit.errors import InputError

MOST_STEPS = 10**12
"""Steps of a run, which take days even where they are compiled."""

ROUNDING = 1e-3
"""Of an interval, in steps: times in single precision would else take one step more in every other interval."""


class Grid(NamedTuple):
    """Step length h (K,), float64, and number of steps (K,), int64, between successive output times, on the CPU."""

    h: Tensor
    steps: Tensor

    @classmethod
    def between(cls, times: Tensor, dt: float) -> "Grid":
        """The fewest equal steps that are no longer than `dt`, but for rounding of the times."""
        gaps = times.diff().double().cpu()
        if float(gaps.sum()) / dt > MOST_STEPS:
            got = f"{float(gaps.sum()):g} in steps of {dt:g}"
            raise InputError("dt", expected=f"at most {MOST_STEPS:g} steps", got=got, fix="raise it")
        steps = (gaps / dt - ROUNDING).ceil().clamp(min=1).long()
        return cls(gaps / steps, steps)

    @property
    def count(self) -> int:
        """Steps in all."""
        return int(self.steps.sum())

    def intervals(self) -> list[tuple[float, int]]:
        """Length and number of the steps of each interval."""
        return list(zip(self.h.tolist(), self.steps.tolist(), strict=True))
