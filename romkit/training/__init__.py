"""The engine of training: recipes, losses, optimizers, and the loops. The verb is `romkit.fit`."""

from romkit.training.loss import Evaluated, LatentVelocity, Penalty, Reconstruction, Term
from romkit.training.phase_fit import PhaseFit
from romkit.training.recipe import Recipe, Snapshots
from romkit.training.rollouts import RolloutTraining

__all__ = [
    "Evaluated",
    "LatentVelocity",
    "Penalty",
    "PhaseFit",
    "Recipe",
    "Reconstruction",
    "RolloutTraining",
    "Snapshots",
    "Term",
]
