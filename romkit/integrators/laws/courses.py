"""Windows of trajectories, and the steps of Runge-Kutta through them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

STAGES = (0.0, 0.5, 1.0)
"""Parts of a step at which RK4 asks for the rate."""


@dataclass(frozen=True, eq=False)
class Runs:
    """n trajectories of a law in scaled latents and scaled time.

    Attributes:
        states: w = z or (z, ż), (n, T, d), NaN where missing.
        times: (T,).
        group: (n,) row of `mix` of each run.
        mix: (G, q) terms of the context of each group, by which coefficients are combined.
        moving: context (n, T, p) of runs in which it moves, else None. Its terms then belong to the
            terms of the law, and `mix` is one.
        factors: context (..., p) -> its terms (..., q), where it moves.
        drift: D_cρ ċ (n, T, d), where the context moves.
    """

    states: Tensor
    times: Tensor
    group: Tensor
    mix: Tensor
    moving: Tensor | None = None
    factors: Callable[[Tensor], Tensor] | None = None
    drift: Tensor | None = None

    @property
    def observed(self) -> Tensor:
        """(n, T) which states are complete."""
        return self.states.isfinite().all(-1)

    def only(self, rows: Tensor) -> "Runs":
        """Some of the runs, by their numbers."""
        parts = {"states": self.states[rows], "group": self.group[rows]}
        for name in ("moving", "drift"):
            values = getattr(self, name)
            parts[name] = None if values is None else values[rows]
        return Runs(times=self.times, mix=self.mix, factors=self.factors, **parts)


class Course(NamedTuple):
    """Steps of RK4 through windows, M of them for all windows.

    Attributes:
        steps: (M, n, W, 1) their lengths.
        ends: numbers of steps after which a sample is reached, L of them.
        factors: (M, 3, n, W, q) terms of a context that moves, at the stages of each step.
        drift: (M, 3, n, W, d) likewise.
    """

    steps: Tensor
    ends: list[int]
    factors: Tensor | None
    drift: Tensor | None


class Windows(NamedTuple):
    """Windows of L + 1 samples, W of each run, that start at data.

    Attributes:
        start: (n, W, d).
        truth: (L + 1, n, W, d), zero where it is missing.
        seen: (L + 1, n, W) where it is not, and the window has a start.
        course: from each start through the samples of its window.
    """

    start: Tensor
    truth: Tensor
    seen: Tensor
    course: Course


def windows(runs: Runs, length: int, stride: int, longest_step: float) -> Windows:
    """Windows of `length` intervals of all runs, a stride apart, the last one at the end.

    A window whose first sample is missing starts at the next one that is not.

    Args:
        runs: whose windows.
        length: L.
        stride: samples from one start to the next.
        longest_step: of RK4, which divides the intervals between samples.
    """
    T = len(runs.times)
    grid = sorted({*range(0, T - length, stride), T - 1 - length})
    first = _first_observed(runs.observed, torch.tensor(grid), T - 1 - length)  # (n, W)
    sample = first + torch.arange(length + 1)[:, None, None]  # (L + 1, n, W)
    run = torch.arange(len(first))[None, :, None]
    truth = runs.states[run, sample]  # (L + 1, n, W, d)
    seen = runs.observed[run, sample]
    seen = seen & seen[0]
    truth = torch.where(seen.unsqueeze(-1), truth, 0.0)
    return Windows(truth[0], truth, seen, course(runs, sample, longest_step))


def _first_observed(observed: Tensor, grid: Tensor, last: int) -> Tensor:
    """First observed sample (n, W) from each place of a grid on, not behind the last one."""
    T = observed.shape[-1]
    place = torch.where(observed, torch.arange(T), T)
    following = place.flip(-1).cummin(-1).values.flip(-1)  # (n, T)
    return following[:, grid].clamp(max=last)


def course(runs: Runs, sample: Tensor, longest_step: float) -> Course:
    """Steps of RK4 along samples (L + 1, n, W) of runs, none of them longer than given."""
    times = runs.times[sample]
    gaps = times.diff(dim=0)  # (L, n, W)
    parts = [max(1, math.ceil(gap.max().item() / longest_step - 1e-6)) for gap in gaps]
    counts = torch.tensor(parts)
    interval = torch.arange(len(parts)).repeat_interleave(counts)  # (M,)
    steps = (gaps / counts[:, None, None])[interval].unsqueeze(-1)
    ends = counts.cumsum(0).tolist()
    if runs.moving is None:
        return Course(steps, ends, None, None)
    begun = torch.cat([torch.arange(part) / part for part in parts]).to(times)  # (M,)
    at = begun[:, None] + torch.tensor(STAGES).to(times) / counts[interval, None]  # (M, 3)
    run = torch.arange(sample.shape[1])[None, :, None]

    def stages(values: Tensor) -> Tensor:
        along = values[run, sample].nan_to_num(0.0)  # (L + 1, n, W, k)
        before, after = along[interval], along[interval + 1]
        part = at[:, :, None, None, None]
        return before.unsqueeze(1) * (1 - part) + after.unsqueeze(1) * part

    drift = None if runs.drift is None else stages(runs.drift)
    return Course(steps, ends, runs.factors(stages(runs.moving)), drift)
