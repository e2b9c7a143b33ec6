"""The engine of training: recipes, losses, optimizers, and the loops. The verb is `romkit.fit`."""

from romkit.training.lipschitz import LipschitzBound
from romkit.training.loss import Evaluated, LatentVelocity, Penalty, Reconstruction, Term
from romkit.training.phase_fit import PhaseFit
from romkit.training.recipe import Recipe, Snapshots
from romkit.training.rollouts import RolloutTraining
from romkit.training.watch import Epoch, Watch

__all__ = [
    "Epoch",
    "Evaluated",
    "LatentVelocity",
    "LipschitzBound",
    "Penalty",
    "PhaseFit",
    "Recipe",
    "Reconstruction",
    "RolloutTraining",
    "Snapshots",
    "Term",
    "Watch",
]
