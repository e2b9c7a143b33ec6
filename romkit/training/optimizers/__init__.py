"""Optimizers of a stack of seeds. One file each."""

from romkit.training.optimizers.adam import Adam
from romkit.training.optimizers.base import Optimizer, State
from romkit.training.optimizers.riemannian_adam import RiemannianAdam

__all__ = ["Adam", "Optimizer", "RiemannianAdam", "State"]
