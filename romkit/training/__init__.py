"""Training: recipes, losses, optimizers, and the loop. The verb is `romkit.fit`."""

from romkit.training.loss import (
    Anchor,
    ContextSlope,
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
from romkit.training.watch import Epoch, Watch

__all__ = [
    "Anchor", "ContextSlope", "Epoch", "Evaluated", "LatentVelocity", "LipschitzBound", "LossTerm", "Penalty", "PhaseFit",
    "Recipe", "Reconstruction", "RolloutTraining", "SnapshotTraining", "Watch",
]  # fmt: skip
