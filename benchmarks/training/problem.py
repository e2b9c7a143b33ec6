"""What every contestant trains: NcAE at the paper's layer sizes, on real snapshots, from the same parameters."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.projections import NcAE, Normalization, stack
from romkit.projections.geometry import restore
from romkit.systems import SYSTEMS
from romkit.training import Penalty, Reconstruction
from romkit.training.batches import Batch, FlatParameters, batches
from romkit.training.loss import Objective
from romkit.training.recipe import Recipe
from romkit.verbs.presets import PRESETS, sized

SYSTEM_SETTINGS = {"lorenz96": {"transient": 5.0}, "pendulum": {}}
"""Speed does not depend on the length of the transient, so it is cut short."""


class Problem(NamedTuple):
    """Snapshots (N, n) and settings of one run, and the untrained models, one per seed."""

    system: str
    rows: Batch
    plan: Recipe
    seeds: Sequence[int]
    models: Sequence[NcAE]

    def objective(self, penalty_weight: float) -> tuple[Objective, FlatParameters]:
        """The loss of a fresh stack of the models, and its parameters as one tensor (S, P)."""
        stacked = stack(self.models)
        loss = Objective(stacked, self.plan.with_settings({"penalty_weight": penalty_weight}).loss)
        return loss, FlatParameters(stacked)

    @property
    def penalty_weight(self) -> float:
        """μ of the plan."""
        return next((term.weight for term in self.plan.loss if isinstance(term, Penalty)), 0.0)

    @property
    def velocity_weight(self) -> float:
        """w of the plan."""
        return next(term.velocity_weight for term in self.plan.loss if isinstance(term, Reconstruction))

    def batches(self, seeds: Sequence[int]) -> Iterator[Batch]:
        """Batches (S, B, ...) without end, in the order of romkit's pipeline."""
        epoch = 0
        while True:
            yield from batches(self.rows, seeds, epoch, self.plan.snapshots.batch_size, None)
            epoch += 1


def make_problem(system: str, seeds: Sequence[int], batch_size: int, duration: float | None = None) -> Problem:
    """The NcAE of the paper for `system` on its training set; a shorter `duration` is quicker to simulate."""
    data = SYSTEMS[system](**SYSTEM_SETTINGS[system]).dataset("train", duration=duration)
    normalization = Normalization.from_dataset(data)
    plan = PRESETS["quick"](system, "ncae").with_settings({"batch_size": batch_size})
    rows = Batch.from_dataset(data, normalization, plan.snapshots.every)
    sizes = sized(NcAE, normalization.signature, {})
    models = [NcAE(normalization, torch.Generator().manual_seed(seed), **sizes) for seed in seeds]
    return Problem(system, rows, plan, seeds, models)


def generic_point(flat: FlatParameters) -> Tensor:
    """theta (S, P) away from the symmetric start Φ = Ψ, with every pair on the manifold."""
    theta = flat.read()
    noise = torch.randn(theta.shape, generator=torch.Generator().manual_seed(0), dtype=theta.dtype)
    pairs, rest = flat.split(theta + 0.02 * noise)
    return flat.join([restore(x) for x in pairs], rest)
