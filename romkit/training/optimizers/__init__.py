"""Optimizers of a stack of seeds. One file each."""

from romkit.training.optimizers.adam import Adam
from romkit.training.optimizers.base import Optimizer, State

OPTIMIZERS: dict[str, type[Optimizer]] = {"adam": Adam}
"""Optimizers by the name that a recipe gives."""

__all__ = ["OPTIMIZERS", "Adam", "Optimizer", "State"]
