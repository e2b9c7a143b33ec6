"""One contestant trains for a number of steps, and is judged on the way."""

import itertools
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.optimizers.method import Method
from benchmarks.optimizers.problem import Problem
from romkit.training.batches import Batch, FlatParameters, batches, batches_per_epoch
from romkit.training.optimizers import State
from romkit.training.schedules import Cosine, Plateaus, Schedule

COSINE = Cosine()
WARM_UP = 12
"""Steps before anything is timed, in which everything is compiled that will be."""


@dataclass(frozen=True)
class Contestant:
    """An optimizer with its settings.

    Attributes:
        optimizer: what makes the steps.
        learning_rates: the trials.
        schedule: over the steps of the run.
        batch_size: None for the quick recipe's; larger than the data for the whole training set.
        penalty_weight: of ‖Φ - Ψ‖².
    """

    optimizer: Method
    learning_rates: tuple[float, ...]
    schedule: Schedule = COSINE
    batch_size: int | None = None
    penalty_weight: float = 1e-3


class Race:
    """A contestant on one problem, compiled and warm.

    Attributes:
        start_seconds: CPU seconds that compiling and the first steps took.
    """

    def __init__(self, problem: Problem, contestant: Contestant, *, compiled: bool):
        self.problem, self.contestant = problem, contestant
        stacked, plan = problem.stack(), problem.plan.snapshots
        self.flat = FlatParameters(stacked)
        self.initial = self.flat.read()
        objective = problem.objective(stacked, contestant.penalty_weight)
        step = contestant.optimizer.make_step(self.flat.function(objective), self.flat)
        self.compiled = torch.compile(step, dynamic=False) if compiled else step
        self.batch_size = min(contestant.batch_size or plan.batch_size, len(problem.rows.y))
        self.start_seconds = Rehearsal(self).seconds(WARM_UP)

    def run(self, learning_rate: float, steps: int, samples: int) -> dict[str, object]:
        """Train from scratch; judge at the start and `samples` times evenly on the way."""
        schedule, per_epoch = self.contestant.schedule, batches_per_epoch(len(self.problem.rows.y), self.batch_size)
        judged = {round(steps * k / samples) for k in range(1, samples + 1)}
        torch.manual_seed(0)
        state = self.start()
        plateaus = Plateaus.start(state.theta)
        curve, total = [self._sample(state)], torch.zeros_like(plateaus.best)
        for index, batch in zip(range(steps), self.batches(), strict=False):
            rates = learning_rate * schedule.factors(index / steps, plateaus)
            state, loss = self.step(state, index, rates, *batch)
            total = total + loss
            if (index + 1) % per_epoch == 0:
                plateaus, total = schedule.observe(plateaus, total / per_epoch), torch.zeros_like(total)
            if index + 1 in judged:
                curve.append(self._sample(state))
        return {"curve": curve, "diverged": (~state.alive.squeeze(1)).tolist()}

    def step(self, state: State, taken: int, rates: Tensor, *batch: Tensor) -> tuple[State, Tensor]:
        """The next state and the losses (S,), after as many steps as `taken`."""
        return self.compiled(self.contestant.optimizer.between(state, taken), rates, *batch)

    def start(self) -> State:
        """The state before the first step."""
        return self.contestant.optimizer.start(self.initial, self.flat)

    def batches(self) -> Iterator[Batch]:
        """Batches (S, B, ...) without end, in the order of romkit's pipeline."""
        for epoch in itertools.count():
            yield from batches(self.problem.rows, self.problem.seeds, epoch, self.batch_size, None)

    def _sample(self, state: State) -> dict[str, object]:
        return {"steps": int(state.count), **self.problem.judge(self.flat, state.theta)}


class Rehearsal:
    """A run of a race whose steps are only timed."""

    def __init__(self, race: Race):
        self.race, self.state, self.taken, self.batches = race, race.start(), 0, race.batches()
        self.rate = torch.full((len(race.initial), 1), race.contestant.learning_rates[0])

    def seconds(self, steps: int) -> float:
        """CPU seconds that these next steps take, the choice of the data included."""
        started = time.process_time()
        for batch in itertools.islice(self.batches, steps):
            self.state, _ = self.race.step(self.state, self.taken, self.rate, *batch)
            self.taken += 1
        return time.process_time() - started


def paces(races: list[Race], window: float, windows: int) -> list[float]:
    """CPU seconds per step of each race: medians over `windows` of about `window` seconds, taken in turns.

    What else runs on the machine slows all of them alike, so their ratios hold.
    """
    rehearsals = [Rehearsal(race) for race in races]
    steps = [max(1, round(window / (r.seconds(3) / 3))) for r in rehearsals]
    rounds = [[r.seconds(n) / n for r, n in zip(rehearsals, steps, strict=True)] for _ in range(windows)]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]
