"""What every contestant trains, and how its models are judged."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.metrics import reconstruction_rmse
from romkit.projections import NcAE, Normalization, Projection, stack
from romkit.systems import SYSTEMS
from romkit.training.batches import Batch, FlatParameters
from romkit.training.loss import Objective
from romkit.training.recipe import Recipe
from romkit.verbs.presets import PRESETS, sized
from studies.accuracy.run import conditioning, covered

DATA_SEEDS = {"lorenz96": 15, "pendulum": 0}
"""Training sets; that of Lorenz96 has no gap at the change of wave number."""
PAPER = {"lorenz96": (0.046, 0.209), "pendulum": (0.012, 0.059)}
"""Position and velocity RMSE of NcAE in Adriaens et al. (2026)."""


class Problem(NamedTuple):
    """Training rows (N, ...), the quick recipe, untrained models, and the covered part of the test set."""

    system: str
    rows: Batch
    plan: Recipe
    seeds: Sequence[int]
    models: Sequence[NcAE]
    test: xr.Dataset

    def stack(self) -> Projection:
        """The untrained models, one per seed."""
        return stack(self.models)

    def objective(self, stacked: Projection, penalty_weight: float) -> Objective:
        """The recipe's loss with this penalty."""
        return Objective(stacked, self.plan.with_settings({"penalty_weight": penalty_weight}).loss)

    def judge(self, flat: FlatParameters, theta: Tensor) -> dict[str, list[float]]:
        """Training loss without penalty, test errors and largest condition number, each per seed, at theta (S, P)."""
        flat.write(theta)
        stacked = flat.stacked
        objective = self.objective(stacked, 0.0)
        x, v = (torch.from_numpy(self.test[name].values).float().unsqueeze(0) for name in ("state", "velocity"))
        with torch.no_grad():
            loss = objective(*(part.expand(len(self.seeds), *part.shape) for part in self.rows))
            P = stacked(self.test)
            errors = reconstruction_rmse(P, *(a.expand(len(self.seeds), -1, -1, -1) for a in (x, v)))
        position, velocity = (error.square().mean(-1).sqrt() for error in errors)
        return {
            "loss": loss.tolist(),
            "position_rmse": position.tolist(),
            "velocity_rmse": velocity.tolist(),
            "condition": _conditioning(stacked),
        }


def make_problem(system: str, seeds: Sequence[int], test_every: int, short: dict[str, float]) -> Problem:
    """NcAE at the paper's sizes.

    Args:
        system: a name from `romkit.systems.SYSTEMS`.
        seeds: of the models.
        test_every: take each such time of the test set.
        short: settings of the system that make its data cheaper.
    """
    simulator = SYSTEMS[system](**short)
    train = simulator.dataset("train", seed=DATA_SEEDS[system])
    test = simulator.dataset("test").isel(time=slice(None, None, test_every))
    normalization = Normalization.from_dataset(train)
    plan = PRESETS["quick"](system, "ncae")
    rows = Batch.from_dataset(train, normalization, plan.snapshots.every)
    sizes = sized(NcAE, normalization.signature, {})
    models = [NcAE(normalization, torch.Generator().manual_seed(seed), **sizes) for seed in seeds]
    return Problem(
        system, rows, plan, seeds, models, test.isel(trajectory=np.flatnonzero(covered(system, train, test)))
    )


def _conditioning(stacked: Projection) -> list[float]:
    """Of each seed; infinite for all where the weights of one are not finite."""
    try:
        return conditioning(stacked)
    except torch.linalg.LinAlgError:
        return [math.inf] * stacked.seeds
