"""Training: recipes, losses, optimizers, and the loop. The verb is `romkit.fit`."""

from romkit.training.loop import Epoch, Watch
from romkit.training.loss import (
    Anchor,
    Evaluated,
    LatentVelocity,
    LipschitzBound,
    LossTerm,
    Penalty,
    Reconstruction,
)
from romkit.training.phase import PhaseFit
from romkit.training.recipe import Recipe, SnapshotTraining
from romkit.training.rollouts import RolloutTraining

__all__ = [
    "Anchor", "Epoch", "Evaluated", "LatentVelocity", "LipschitzBound", "LossTerm", "Penalty", "PhaseFit", "Recipe",
    "Reconstruction", "RolloutTraining", "SnapshotTraining", "Watch",
]  # fmt: skip
