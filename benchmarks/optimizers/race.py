"""One contestant trains within a budget of CPU time, and is judged on the way."""

import itertools
import time
from dataclasses import dataclass

import torch

from benchmarks.optimizers.method import Method
from benchmarks.optimizers.problem import Problem
from romkit.training.flat import FlatParameters
from romkit.training.loss import Objective
from romkit.training.optimizers import State
from romkit.training.pipeline import batches, batches_per_epoch
from romkit.training.schedules import Cosine, Plateaus, Schedule

COSINE = Cosine()
WARM_UP = 12
"""Steps before the clock starts, in which everything is compiled that will be."""


@dataclass(frozen=True)
class Contestant:
    """An optimizer with its settings.

    Attributes:
        optimizer: what makes the steps.
        learning_rates: the trials.
        schedule: over the CPU time of the budget.
        batch_size: None for the quick recipe's; larger than the data for the whole training set.
        penalty_weight: of ‖Φ - Ψ‖².
    """

    optimizer: Method
    learning_rates: tuple[float, ...]
    schedule: Schedule = COSINE
    batch_size: int | None = None
    penalty_weight: float = 1e-3


class Clock:
    """CPU seconds of this process, less those between `pause` and `resume`."""

    def __init__(self):
        self._start = time.process_time()

    @property
    def seconds(self) -> float:
        return time.process_time() - self._start

    def pause(self) -> None:
        self._paused = time.process_time()

    def resume(self) -> None:
        self._start += time.process_time() - self._paused


class Race:
    """A contestant on one problem, compiled and ready.

    Attributes:
        start_seconds: CPU seconds that compiling and the first steps took.
    """

    def __init__(self, problem: Problem, contestant: Contestant, *, compiled: bool):
        self.problem, self.contestant = problem, contestant
        stacked, plan = problem.stack(), problem.plan
        self.flat = FlatParameters(stacked)
        self.initial = self.flat.read()
        objective = Objective(stacked, plan.velocity_weight, contestant.penalty_weight, plan.balance)
        step = contestant.optimizer.make_step(self.flat.bind(objective), self.flat)
        self.step = torch.compile(step, dynamic=False) if compiled else step
        self.batch_size = min(contestant.batch_size or plan.batch_size, len(problem.rows.y))
        clock = Clock()
        state = self._start()
        for batch in itertools.islice(batches(problem.rows, problem.seeds, 0, self.batch_size, None), 1):
            for _ in range(WARM_UP):
                state, _ = self.step(state, torch.full((len(problem.seeds), 1), 1e-4), *batch)
        self.start_seconds = clock.seconds

    def run(self, learning_rate: float, budget: float, samples: int) -> dict[str, object]:
        """Train from scratch for `budget` CPU seconds; judge at the start and `samples` times evenly on the way."""
        problem, schedule = self.problem, self.contestant.schedule
        per_epoch = batches_per_epoch(len(problem.rows.y), self.batch_size)
        torch.manual_seed(0)
        state = self._start()
        plateaus = Plateaus.start(state.theta)
        curve = [self._sample(state, 0.0)]
        clock = Clock()
        for epoch in itertools.count():
            total = torch.zeros_like(plateaus.best)
            for batch in batches(problem.rows, problem.seeds, epoch, self.batch_size, None):
                factors = schedule.factors(min(clock.seconds / budget, 1.0), plateaus)
                state, loss = self.step(state, learning_rate * factors, *batch)
                total = total + loss
                if clock.seconds >= budget * len(curve) / samples:
                    clock.pause()
                    curve.append(self._sample(state, clock.seconds))
                    clock.resume()
                    if len(curve) > samples:
                        return _finished(curve, state)
            plateaus = schedule.observe(plateaus, total / per_epoch)

    def _start(self) -> State:
        return self.contestant.optimizer.start(self.initial, self.flat)

    def _sample(self, state: State, seconds: float) -> dict[str, object]:
        return {"cpu_s": seconds, "steps": int(state.count), **self.problem.judge(self.flat, state.theta)}


def _finished(curve: list[dict[str, object]], state: State) -> dict[str, object]:
    return {"curve": curve, "diverged": (~state.alive.squeeze(1)).tolist()}
