"""What every contestant trains, and how its models are judged."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.data import snapshots
from romkit.metrics import reconstruction_rmse
from romkit.projections import NcAE, Normalization, Projection, architecture, stack
from romkit.systems import SYSTEMS
from romkit.training.flat import FlatParameters
from romkit.training.loss import Objective
from romkit.training.pipeline import Batch
from romkit.training.recipes import Recipe, recipe
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

    def judge(self, flat: FlatParameters, theta: Tensor) -> dict[str, list[float]]:
        """Training loss without penalty, test errors and largest condition number, each per seed, at theta (S, P)."""
        flat.write(theta)
        stacked = flat.stacked
        objective = Objective(stacked, self.plan.velocity_weight, 0.0, self.plan.component_weighting)
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
    plan = recipe("quick", system, "ncae", {})
    state, velocity, context = (part.to(normalization.state_scale) for part in snapshots(train, every=plan.every))
    rows = Batch(
        normalization.normalise(state), velocity / normalization.state_scale, normalization.normalise_context(context)
    )
    sizes = architecture(NcAE, normalization.signature)
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
