"""Training problem of the benchmarks: NcAE at the paper's layer sizes, on real snapshots, from
given seeds.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
import xarray as xr
from torch import Tensor

from romkit.projections import Frame, NcAE, stack
from romkit.projections.geometry import restore
from romkit.systems import SYSTEMS
from romkit.training import Penalty
from romkit.training.batches import Batch, FlatParameters, batches
from romkit.training.loss import Objective
from romkit.training.recipe import Recipe
from romkit.verbs.presets import PRESETS, sized


class Problem(NamedTuple):
    """Training rows (N, ...), the quick recipe, and the untrained models, one per seed."""

    system: str
    train: xr.Dataset
    rows: Batch
    plan: Recipe
    seeds: Sequence[int]
    models: Sequence[NcAE]

    def objective(self, penalty_weight: float) -> tuple[Objective, FlatParameters]:
        """Return loss of the recipe, with this penalty, on a fresh stack of the models, and its
        parameters theta (S, P).
        """
        stacked = stack(self.models)
        loss = self.plan.replace_settings({"penalty_weight": penalty_weight}).loss
        return Objective(stacked, loss), FlatParameters(stacked)

    @property
    def penalty_weight(self) -> float:
        """μ of the recipe."""
        return next((term.weight for term in self.plan.loss if isinstance(term, Penalty)), 0.0)

    def batches(self, batch_size: int | None = None) -> Iterator[Batch]:
        """Batches (S, B, ...) without end, in the order of romkit's pipeline."""
        size = batch_size or self.plan.snapshots.batch_size
        for epoch in itertools.count():
            yield from batches(self.rows, self.seeds, epoch, size, None)


def make_problem(
    system: str,
    seeds: Sequence[int],
    *,
    data_seed: int = 0,
    batch_size: int | None = None,
    settings: Mapping[str, float] | None = None,
) -> Problem:
    """NcAE on a training set.

    Args:
        system: name from `romkit.systems.SYSTEMS`.
        seeds: of the models.
        data_seed: of the training set.
        batch_size: None for the quick recipe's.
        settings: of the system; shorter trajectories are quicker to simulate.
    """
    train = SYSTEMS[system](**(settings or {})).dataset("train", seed=data_seed)
    frame, plan = Frame.from_dataset(train), PRESETS["quick"](system, "ncae")
    if batch_size is not None:
        plan = plan.replace_settings({"batch_size": batch_size})
    sizes = sized(NcAE, frame, {})
    models = [NcAE(frame, torch.Generator().manual_seed(seed), **sizes) for seed in seeds]
    rows = Batch.from_dataset(train, frame, plan.snapshots.every)
    return Problem(system, train, rows, plan, seeds, models)


def generic_point(flat: FlatParameters) -> Tensor:
    """theta (S, P) away from the symmetric start Φ = Ψ, with every pair on the manifold."""
    theta = flat.read()
    noise = torch.randn(theta.shape, generator=torch.Generator().manual_seed(0), dtype=theta.dtype)
    pairs, rest = flat.split(theta + 0.02 * noise)
    return flat.join([restore(x) for x in pairs], rest)
