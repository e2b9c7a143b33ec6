"""Windows of trajectories, and the steps of Runge-Kutta through them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
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
        held: number of its last columns that keep their value until the next sample; the rest are
            straight lines.
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
    held: int = 0

    @property
    def observed(self) -> Tensor:
        """(n, T) which states are complete."""
        return self.states.isfinite().all(-1)

    def only(self, rows: Tensor) -> "Runs":
        """Select runs by their numbers."""
        runs = replace(self, states=self.states[rows], group=self.group[rows])
        if self.moving is not None:
            runs = replace(runs, moving=self.moving[rows])
        if self.drift is not None:
            runs = replace(runs, drift=self.drift[rows])
        return runs

    def between(self, first: int, last: int) -> "Runs":
        """Return the samples from one number to another one of all runs."""
        inside = slice(first, last + 1)
        runs = replace(self, states=self.states[:, inside], times=self.times[inside])
        if self.moving is not None:
            runs = replace(runs, moving=self.moving[:, inside])
        if self.drift is not None:
            runs = replace(runs, drift=self.drift[:, inside])
        return runs


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

    def only(self, rows: Tensor) -> "Course":
        """Return steps of some of the runs."""
        factors = self.factors
        drift = self.drift
        if factors is not None:
            factors = factors[:, :, rows]
        if drift is not None:
            drift = drift[:, :, rows]
        return Course(self.steps[:, rows], self.ends, factors, drift)

    def halved(self) -> "Course":
        """Return the same course by two steps in place of each; its context does not move."""
        steps = self.steps.repeat_interleave(2, 0) / 2
        return Course(steps, [2 * end for end in self.ends], None, None)

    def window_steps(self, run: int, numbers: Tensor) -> "Course":
        """Return steps of some windows (k,) of a run, as those of a single run."""
        factors = self.factors
        drift = self.drift
        if factors is not None:
            factors = factors[:, :, run, numbers].unsqueeze(2)
        if drift is not None:
            drift = drift[:, :, run, numbers].unsqueeze(2)
        steps = self.steps[:, run, numbers].unsqueeze(1)
        return Course(steps, self.ends, factors, drift)


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
    latest = len(runs.times) - 1 - length
    grid = sorted({*range(0, latest + 1, stride), latest})
    # windows are laid out on the CPU, whatever the device of the states
    observed = runs.observed.cpu()
    begin = _first_observed(observed, torch.tensor(grid), latest)  # (n, W)
    along = torch.arange(length + 1)
    sample = begin + along[:, None, None]  # (L + 1, n, W)
    run = torch.arange(len(begin))[:, None]
    seen = observed[run, sample]
    seen = (seen & seen[0]).to(runs.states.device)
    truth = runs.states[run, sample]  # (L + 1, n, W, d)
    truth = torch.where(seen.unsqueeze(-1), truth, 0.0)
    steps = course(runs, sample, longest_step)
    return Windows(truth[0], truth, seen, steps)


def _first_observed(observed: Tensor, grid: Tensor, last: int) -> Tensor:
    """Return first observed sample (n, W) from each place of a grid on, not behind the last one."""
    T = observed.shape[-1]
    place = torch.where(observed, torch.arange(T), T)
    backwards = place.flip(-1).cummin(-1).values
    following = backwards.flip(-1)  # (n, T)
    return following[:, grid].clamp(max=last)


def course(runs: Runs, sample: Tensor, longest_step: float) -> Course:
    """Return steps of RK4 along samples (L + 1, n, W) of runs, none of them longer than
    `longest_step`.
    """
    intervals = runs.times[sample].diff(dim=0)  # (L, n, W)
    # a quotient that rounding has lifted above an integer must not cost one more step
    quotients = intervals.amax((1, 2)) / longest_step - 1e-6
    counts = quotients.ceil().clamp(min=1).long()  # (L,) equal steps through each
    interval = torch.arange(len(counts)).repeat_interleave(counts)  # (M,)
    lengths = intervals / counts[:, None, None]
    steps = lengths[interval].unsqueeze(-1).to(runs.states.device)  # (M, n, W, 1)
    ends = counts.cumsum(0).tolist()
    if runs.moving is None:
        return Course(steps, ends, None, None)
    number = counts[interval]  # (M,) of steps in the interval of each
    before = torch.arange(len(interval)) - (counts.cumsum(0) - counts)[interval]
    stages = torch.tensor(STAGES, dtype=steps.dtype)
    weight = ((before[:, None] + stages) / number[:, None]).to(steps.device)  # (M, 3)
    places = Places(sample, interval, weight)
    context = places.between(runs.moving, runs.held)
    drift = runs.drift
    if drift is not None:
        drift = places.between(drift, 0)
    assert runs.factors is not None  # of a context that moves
    return Course(steps, ends, runs.factors(context), drift)


class Places(NamedTuple):
    """Places of the stages of RK4 between samples.

    Attributes:
        sample: (L + 1, n, W) numbers of the samples of each window.
        interval: (M,) which interval between two of them a step belongs to.
        part: (M, 3) how far in this interval the stages are, from 0 to 1.
    """

    sample: Tensor
    interval: Tensor
    part: Tensor

    def between(self, values: Tensor, held: int) -> Tensor:
        """Return values (n, T, k) at the stages, (M, 3, n, W, k); the last `held` columns stay as
        at the sample before, to the end of the interval.
        """
        run = torch.arange(self.sample.shape[1])[:, None]
        at_samples = values[run, self.sample].nan_to_num(0.0)  # (L + 1, n, W, k)
        before = at_samples[self.interval].unsqueeze(1)  # (M, 1, n, W, k)
        after = at_samples[self.interval + 1].unsqueeze(1)
        weight = self.part[:, :, None, None, None]
        line = before * (1 - weight) + after * weight
        if held:
            line[..., -held:] = before[..., -held:]
        return line
