"""Race of optimizers on both systems at equal CPU time, at learning rates that short trials choose."""

import itertools
import json
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from benchmarks.harness import Parts, Result
from benchmarks.ncae import Problem, make_problem
from benchmarks.optimizers.geometry import Cayley, InvariantMetric
from romkit.metrics import reconstruction_rmse
from romkit.projections.geometry import EuclideanMetric, Fractional
from romkit.systems import SYSTEMS
from romkit.training.batches import Batch, batches_per_epoch
from romkit.training.optimizers import Adam, Optimizer, RiemannianAdam, Soap, State
from romkit.training.schedules import SCHEDULES, Cosine, Plateaus, Schedule

QUICK = "Adam, cosine"
"""Reference of the others: the quick recipe of both systems before the race, and still that of
Lorenz96.
"""
DATA_SEEDS = {"lorenz96": 15, "pendulum": 0}
"""Training sets; that of Lorenz96 has no gap at the change of wave number."""
PAPER = {"lorenz96": (0.046, 0.209), "pendulum": (0.012, 0.059)}
"""Position and velocity RMSE of NcAE in Adriaens et al. (2026)."""
SWITCH, DISTANCE, WIDE = 3.165, 0.004, 0.008
"""F at which the wave number of Lorenz96 changes from 8 to 7; distance from it at which a test
context counts as covered; width from which on an interval without a training context is a gap."""
MARGIN = 1.1
"""Ratio of training losses up to which trials count as equal."""
WARM_UP = 12
"""Steps before anything is timed, in which everything is compiled."""


@dataclass(frozen=True)
class Contestant:
    """Optimizer with its settings: learning rates of the trials, schedule over the run, weight of
    ‖Φ - Ψ‖².
    """

    optimizer: Optimizer
    learning_rates: tuple[float, ...]
    schedule: Schedule = field(default_factory=Cosine)
    penalty_weight: float = 1e-3


ADAM, ADAM_RATES, RIEMANNIAN_RATES = Adam(clip=10.0), (1e-2, 3e-2, 9e-2), (0.05, 0.15, 0.45)
CONTESTANTS: dict[str, Contestant] = {
    QUICK: Contestant(ADAM, ADAM_RATES),
    "SOAP": Contestant(Soap(clip=10.0), ADAM_RATES),
    "Riemannian Adam, Euclidean metric, fractional": Contestant(
        RiemannianAdam(metric=EuclideanMetric(), retraction=Fractional(), clip=10.0),
        RIEMANNIAN_RATES,
    ),
    "Riemannian Adam, invariant metric, Cayley": Contestant(
        RiemannianAdam(metric=InvariantMetric(), retraction=Cayley(), clip=10.0), RIEMANNIAN_RATES
    ),
    "Adam, constant rate": Contestant(ADAM, ADAM_RATES, schedule=Schedule()),
    "Adam, plateau": Contestant(ADAM, ADAM_RATES, schedule=SCHEDULES["fast-plateau"]),
    "Adam, cosine, rate of the preset": Contestant(ADAM, (1e-2,)),
    "Adam, cosine, no clipping": Contestant(Adam(clip=math.inf), ADAM_RATES),
    "Adam, cosine, no penalty": Contestant(ADAM, ADAM_RATES, penalty_weight=0.0),
}
"""Contestants by their name in the report. README.md says where the code of the others there is."""


class Task(NamedTuple):
    """Problem of one system with the covered part of its test set."""

    problem: Problem
    test: xr.Dataset

    def judge(self, theta: Tensor) -> dict[str, list[float]]:
        """Training loss without penalty, test errors and largest condition number, each per seed,
        at theta (S, P).
        """
        objective, flat = self.problem.objective(0.0)
        flat.write(theta)
        stacked, seeds = flat.stacked, len(self.problem.seeds)
        x, v = (torch.from_numpy(self.test[name].values).float() for name in ("state", "velocity"))
        with torch.no_grad():
            loss = objective(*(part.expand(seeds, *part.shape) for part in self.problem.rows))
            errors = reconstruction_rmse(
                stacked(self.test), *(a.expand(seeds, -1, -1, -1) for a in (x, v))
            )
        position, velocity = (error.square().mean(-1).sqrt().tolist() for error in errors)
        try:
            worst = [
                torch.stack([torch.linalg.cond(w) for w in weight()]).amax(0)
                for weight in stacked.weights
            ]
            condition = torch.stack(worst).amax(0).tolist()
        except torch.linalg.LinAlgError:  # the weights of one seed are not finite
            condition = [math.inf] * seeds
        return {
            "loss": loss.tolist(),
            "position_rmse": position,
            "velocity_rmse": velocity,
            "condition": condition,
        }


def make_task(name: str, config: SimpleNamespace) -> Task:
    """NcAE on a system; on Lorenz96 without test contexts near the switch or in gaps of the
    training.
    """
    settings = config.short[name]
    problem = make_problem(name, range(config.seeds), data_seed=DATA_SEEDS[name], settings=settings)
    test = (
        SYSTEMS[name](**settings)
        .dataset("test")
        .isel(time=slice(None, None, config.test_every[name]))
    )
    if name == "lorenz96":
        F, known = test.F.values, np.sort(problem.train.F.values)
        covered = np.abs(F - SWITCH) >= DISTANCE
        for low, high in itertools.pairwise(known):
            covered &= (high - low <= WIDE) | (low >= F) | (high <= F)
        test = test.isel(trajectory=np.flatnonzero(covered))
    return Task(problem, test)


class Race:
    """Contestant on one task, compiled and warm.

    Attributes:
        start_seconds: CPU seconds of compiling and the first steps.
    """

    def __init__(self, task: Task, contestant: Contestant, *, compiled: bool):
        self.task, self.contestant, plan = task, contestant, task.problem.plan.snapshots
        objective, self.flat = task.problem.objective(contestant.penalty_weight)
        self.initial = self.flat.read()
        step = contestant.optimizer.make_step(self.flat.function(objective), self.flat)
        self.compiled = torch.compile(step, dynamic=False) if compiled else step
        self.batch_size = min(plan.batch_size, len(task.problem.rows.y))
        self.start_seconds = sum(itertools.islice(self.seconds(), WARM_UP))

    def run(self, learning_rate: float, steps: int, samples: int) -> Result:
        """Train from scratch; judge at the start and `samples` times evenly on the way."""
        schedule = self.contestant.schedule
        per_epoch = batches_per_epoch(len(self.task.problem.rows.y), self.batch_size)
        judged = {round(steps * k / samples) for k in range(1, samples + 1)}
        torch.manual_seed(0)
        state = self.start()
        plateaus = Plateaus.start(state.theta)
        curve, total = [self._sample(state)], torch.zeros_like(plateaus.best)
        for index, batch in zip(
            range(steps), self.task.problem.batches(self.batch_size), strict=False
        ):
            rates = learning_rate * schedule.factors(index / steps, plateaus)
            state, loss = self.step(state, index, rates, batch)
            total = total + loss
            if (index + 1) % per_epoch == 0:
                plateaus, total = (
                    schedule.observe(plateaus, total / per_epoch),
                    torch.zeros_like(total),
                )
            if index + 1 in judged:
                curve.append(self._sample(state))
        return {"curve": curve, "diverged": (~state.alive.squeeze(1)).tolist()}

    def start(self) -> State:
        """State before the first step."""
        return self.contestant.optimizer.start(self.initial, self.flat)

    def step(self, state: State, taken: int, rates: Tensor, batch: Batch) -> tuple[State, Tensor]:
        """Next state and the losses (S,), after `taken` steps."""
        return self.compiled(self.contestant.optimizer.between(state, taken), rates, *batch)

    def seconds(self) -> Iterator[float]:
        """CPU seconds of each step of a run at the smallest rate, the choice of the data included."""
        state, batches = self.start(), self.task.problem.batches(self.batch_size)
        rates = torch.full((len(self.initial), 1), self.contestant.learning_rates[0])
        for taken in itertools.count():
            started = time.process_time()
            state, _ = self.step(state, taken, rates, next(batches))
            yield time.process_time() - started

    def _sample(self, state: State) -> Result:
        return {"steps": int(state.count), **self.task.judge(state.theta)}


def paces(races: Sequence[Race], window: float, windows: int) -> list[float]:
    """CPU seconds per step of each race: medians over `windows` of about `window` seconds, taken in
    turns.

    Other load of the machine slows all of them alike, so their ratios hold.
    """
    clocks = [race.seconds() for race in races]
    mean = lambda clock, steps: statistics.fmean(itertools.islice(clock, steps))  # noqa: E731
    steps = [max(1, round(window / mean(clock, 3))) for clock in clocks]
    rounds = [
        [mean(clock, n) for clock, n in zip(clocks, steps, strict=True)] for _ in range(windows)
    ]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def measure(config: SimpleNamespace, device: str, found: Result) -> Parts:
    """Race of all contestants on both systems."""
    found |= {"paper": PAPER}
    quick_s, systems = found.setdefault("quick_s", {}), found.setdefault("systems", {})
    for system in config.budgets:
        results, task = systems.setdefault(system, {}), None
        for name in CONTESTANTS:
            if name not in results:
                task = task or make_task(system, config)
                results[name] = measure_contestant(
                    task, CONTESTANTS[name], quick_s.get(system), config
                )
                quick_s.setdefault(system, results[name]["step_s"])
                print(system, name, json.dumps(results[name]["curve"][-1]), flush=True)
                yield


def measure_contestant(
    task: Task, contestant: Contestant, quick_s: float | None, config: SimpleNamespace
) -> Result:
    """Race of one contestant, at the learning rate that short trials choose.

    Args:
        task: problem and test set.
        contestant: optimizer with its settings.
        quick_s: CPU seconds that a step of the quick recipe counts; None to measure them now.
        config: size of the benchmark.
    """
    torch.compiler.reset()
    started = time.process_time()
    race = Race(task, contestant, compiled=config.compiled)
    quick = Race(task, CONTESTANTS[QUICK], compiled=config.compiled)
    now, pace = paces([quick, race], config.window, config.windows)
    step_s = pace / now * (quick_s or now)
    steps = max(1, round(config.budgets[task.problem.system] / step_s))
    short = max(1, round(config.trial_share * steps))
    trials = {
        rate: race.run(rate, short, samples=1)["curve"][-1]["loss"]
        for rate in contestant.learning_rates
    }
    return {
        "learning_rate": choose(trials),
        "trials": [{"learning_rate": rate, "loss": loss} for rate, loss in trials.items()],
        "start_s": race.start_seconds,
        "step_s": step_s,
        **race.run(choose(trials), steps, config.samples),
        "all_s": time.process_time() - started,
    }


def choose(trials: dict[float, Sequence[float]]) -> float:
    """Return smallest rate with losses within `MARGIN` of the best: short runs are kind to large
    rates.
    """
    means = {
        rate: math.prod(losses) ** (1 / len(losses))
        if all(map(math.isfinite, losses))
        else math.inf
        for rate, losses in trials.items()
    }
    return min(rate for rate, mean in means.items() if mean <= MARGIN * min(means.values()))
