"""Tuned variants: the same number of trials for every method, the same loss, the same validation contexts."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.data import snapshots
from romkit.engine.threads import one_thread
from romkit.projections import METHODS, Projection
from romkit.projections.constrained import Constrained
from romkit.training import Penalty
from romkit.verbs.presets import PRESETS
from studies.paper import datasets
from studies.paper.config import Settings
from studies.paper.training import Training

HELD_OUT = 5
"""Each how many-th training trajectory is kept for validation during the trials."""
VALIDATION_EVERY = 10
RATES = (0.1, 0.3, 1.0, 3.0)
"""Learning rates of methods without a penalty, in units of the recipe's."""
RATES_WITH_PENALTY, PENALTIES = (0.3, 1.0), (1.0, 10.0)
"""Learning rates and penalty weights of the others, in units of the recipe's."""


@dataclass(frozen=True)
class Tuned(Training):
    """Four trials on a part of the training contexts, then a training on all of them with the settings that won.

    The position and velocity terms weigh the same for all methods. `trial_seeds` are not among `seeds`.
    """

    trial_seeds: tuple[int, ...] = ()

    @property
    def resolved(self) -> Mapping[str, object]:
        return {**super().resolved, "trials": trials(self.recipe, self.system, self.method)}

    def run(self) -> xr.Dataset:
        train = datasets.train_set(self.system, self.parameters, self.data_seed)
        held_out = np.arange(train.sizes["trajectory"]) % HELD_OUT == HELD_OUT // 2
        part, validation = train.isel(trajectory=~held_out), train.isel(trajectory=held_out)
        grid = trials(self.recipe, self.system, self.method)
        scores = [self._score(part, validation, trial) for trial in grid]
        best = grid[int(np.argmin(scores))]
        model = self._fit(train, self.seeds, best)
        facts = {"trial_rates": [dict(t)["learning_rate"] for t in grid], "trial_scores": [float(s) for s in scores]}
        return self.measure(model, train).assign_attrs(
            facts | {"trial_penalties": [dict(t)["penalty_weight"] for t in grid]}
        )

    def _score(self, part: xr.Dataset, validation: xr.Dataset, trial: Settings) -> float:
        """Median over the trial seeds of the loss on the validation trajectories; infinite if that overflows."""
        losses = validation_loss(self._fit(part, self.trial_seeds, trial), validation)
        return float(np.nan_to_num(np.median(losses), nan=np.inf))

    def _fit(self, data: xr.Dataset, seeds: tuple[int, ...], trial: Settings) -> Projection:
        settings = {**dict(self.settings), **dict(trial), "velocity_weight": 1.0}
        return romkit.fit(self.method, data, seeds=seeds, preset=self.recipe, **settings)


def trials(recipe: str, system: str, method: str) -> list[Settings]:
    """The settings of the four trials of a method."""
    base = PRESETS[recipe](system, method)
    rate, penalty = base.snapshots.learning_rate, next(t.weight for t in base.loss if isinstance(t, Penalty))
    penalised = issubclass(METHODS[method], Constrained)
    pairs = itertools.product(RATES_WITH_PENALTY, PENALTIES) if penalised else ((times, 1.0) for times in RATES)
    return [(("learning_rate", times * rate), ("penalty_weight", factor * penalty)) for times, factor in pairs]


def validation_loss(model: Projection, data: xr.Dataset) -> np.ndarray:
    """(S,) mean of ‖x - P(x)‖² + ‖ẋ - DP(x) ẋ‖², in physical units."""
    x, v, c = (tensor.float().unsqueeze(0) for tensor in snapshots(data, every=VALIDATION_EVERY))
    with torch.inference_mode(), one_thread():
        value, tangent = model(c).jvp(x, v)
        return ((x - value).square() + (v - tangent).square()).sum(-1).mean(-1).numpy()
