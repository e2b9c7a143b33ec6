"""Optimizers of a stack of seeds. One file each; `OPTIMIZERS` lists them."""

from romkit.training.optimizers.adam import Adam
from romkit.training.optimizers.base import Optimizer, State
from romkit.training.optimizers.foreign import Foreign
from romkit.training.optimizers.riemannian_adam import RiemannianAdam
from romkit.training.optimizers.soap import Soap

OPTIMIZERS: dict[str, type[Optimizer]] = {"adam": Adam, "riemannian-adam": RiemannianAdam, "soap": Soap}
"""Optimizers by the name that a recipe gives."""

__all__ = ["OPTIMIZERS", "Adam", "Foreign", "Optimizer", "RiemannianAdam", "Soap", "State"]
