"""Placing: the hidden context of new runs, by laws that hold, and their motion from there on."""

from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.types import frozen
from romkit.hidden.family import Family
from romkit.hidden.joint import (
    FINEST,
    Expanded,
    first_windows,
    fitted,
    polished,
    windows_of,
)
from romkit.laws import courses
from romkit.laws.courses import Course, Runs
from romkit.laws.sensitivities import Motion
from romkit.laws.shooting import (
    FINE,
    POLISHED,
    ROUNDING,
    SHORTEST,
    Shots,
    is_coarse,
    lengths,
)


class LastWindow(NamedTuple):
    """Last window of a run that has a start.

    Attributes:
        begin: time of its start.
        inside: (L + 1,) times of its samples since then.
        seen: (L + 1,) which of them are data.
        start: fitted state (1, 1, m) there.
        resolution: steps of RK4 in a time scale.
    """

    begin: float
    inside: Tensor
    seen: Tensor
    start: Tensor
    resolution: float

    def course(self, times: Tensor) -> tuple[Course, Tensor]:
        """Return steps through its samples and further times (T,), and the places (L + 1 + T,) of
        both among the states.
        """
        clock = torch.cat([self.inside, times - self.begin])
        order = clock.argsort(stable=True)
        along = clock[order]
        none = torch.zeros(1, dtype=torch.long)
        states = self.start.expand(1, len(along), -1)
        runs = Runs(states, along, none, along.new_ones(1, 1))
        sample = torch.arange(len(along))[:, None, None]
        return courses.course(runs, sample, 1 / self.resolution), order.argsort()


@frozen
class Placed:
    """Hidden context of one group of runs.

    Attributes:
        end: fit of the context and of the starts of windows, with the law held.
        motion, runs: of the fit.
    """

    end: Expanded
    motion: Motion
    runs: Runs

    @property
    def family(self) -> Family:
        """The law at the context."""
        return self.end.family

    def last_window(self, run: int) -> LastWindow:
        """Return the last window of a run."""
        windows = self.end.fit.shots.windows
        number = int(windows.seen[0, run].nonzero().max())
        steps = windows.course.steps[:, run, number, 0]
        elapsed = torch.cat([steps.new_zeros(1), steps.cumsum(0)])
        inside = elapsed[torch.tensor([0, *windows.course.ends])]
        start = self.end.start[run : run + 1, number : number + 1]
        begin = self._begin(run, number, len(inside) - 1)
        seen = windows.seen[:, run, number]
        return LastWindow(begin, inside, seen, start, FINEST)

    def _begin(self, run: int, number: int, length: int) -> float:
        """Time of the start of a window."""
        grid = _starts(len(self.runs.times), length)
        latest = grid[-1]
        observed = self.runs.observed[run, grid[number] :]
        start = grid[number] + int(observed.int().argmax())
        return float(self.runs.times[min(start, latest)])

    def continued(self, run: int, times: Tensor) -> Tensor:
        """Return states (T, m) of a run at times, by its last window."""
        window = self.last_window(run)
        course, places = window.course(times)
        reached = self.motion.rollout(self.family.weights, window.start, course)[:, 0, 0]
        return reached[places][len(window.inside) :]


def _starts(samples: int, length: int) -> list[int]:
    """Numbers of the samples at which windows of so many intervals start."""
    latest = samples - 1 - length
    return sorted({*range(0, latest + 1, length), latest})


def independent_numbers(windows: Shots, runs: Runs) -> float:
    """Return number of numbers in the data that say as much as those in windows, which overlap.

    Samples that are in w windows count w times: they are worth (Σ w)² / Σ w².
    """
    length = len(windows.windows.truth) - 1
    begin = torch.tensor(_starts(len(runs.times), length))
    samples = begin.unsqueeze(-1) + torch.arange(length + 1)
    counts = torch.bincount(samples.flatten()).double()
    return windows.number * float(counts.sum() / counts.square().sum())


def placed(
    family: Family, motion: Motion, runs: Runs, known: Tensor, negligible: float = ROUNDING
) -> Placed:
    """Context of one group of runs by the law of a family, and by its own known parameters (1, p).

    `negligible`: mean square change of states by shorter steps of RK4.
    """
    law = family.at(known, _nearest(family, motion, runs, known))
    stage = fitted(law, motion, runs, first_windows(runs, 2 * SHORTEST), law=False)
    end = polished(stage, motion, runs, law=False, negligible=negligible)
    return Placed(end, motion, runs)


def _nearest(family: Family, motion: Motion, runs: Runs, known: Tensor) -> Tensor:
    """Hidden context (1, r) that begins: of the mean and of those of all groups, the one whose law
    follows short windows best.
    """
    mean = family.hidden.mean(0, keepdim=True)
    candidates = torch.cat([mean, family.hidden])
    _, length = lengths(runs, 2 * SHORTEST)[0]
    resolution = POLISHED if is_coarse(runs) else FINE
    costs = []
    for hidden in candidates:
        law = family.at(known, hidden.unsqueeze(0))
        problem = windows_of(law, motion, runs, length, resolution, False)
        weights = law.weights.transpose(0, 1)
        costs.append(float(problem.cost(weights)))
    best = min(range(len(candidates)), key=costs.__getitem__)
    return candidates[best : best + 1]
