"""Optimizers of a stack of seeds. One file each."""

from romkit.training.optimizers.adam import Adam
from romkit.training.optimizers.base import Optimizer, State

__all__ = ["Adam", "Optimizer", "State"]
