"""romkit: the stacked step of `romkit.training.loop`, with its data and its schedule."""

import torch

from benchmarks.training.contestant import Contestant
from benchmarks.training.problem import Problem
from romkit.engine.fast_path import accelerate
from romkit.training.optimizers import OPTIMIZERS
from romkit.training.schedules import SCHEDULES, Plateaus
from romkit.verbs.presets import PRESETS


class Engine(Contestant):
    """What `romkit.fit` runs with this optimizer, eager or compiled."""

    def __init__(self, problem: Problem, steps: int, *, optimizer: str, compiled: bool):
        self.name = f"romkit, {optimizer}, {'compiled' if compiled else 'eager'}"
        self.steps, self.plan = steps, problem.plan.snapshots
        preset = PRESETS["quick" if optimizer == "adam" else "paper"](problem.system, "ncae")
        objective, flat = problem.objective(problem.penalty_weight if optimizer == "adam" else 0.0)
        method = OPTIMIZERS[optimizer](clip=preset.snapshots.clip)
        step = method.make_step(flat.function(objective), flat)
        self.step = accelerate(step, torch.device("cpu")) if compiled else step
        self.state = method.start(flat.read(), flat)
        self.plateaus = Plateaus.start(self.state.theta)
        self.batches = problem.batches(problem.seeds)

    def run(self) -> None:
        schedule = SCHEDULES[self.plan.schedule]
        total = torch.zeros(len(self.state.theta))
        for index in range(self.steps):
            factors = schedule.factors(index / self.steps, self.plateaus)
            self.state, loss = self.step(self.state, self.plan.learning_rate * factors, *next(self.batches))
            total = total + loss
