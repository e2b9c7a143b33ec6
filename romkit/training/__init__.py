"""Training: `fit` turns a method's name and a dataset into a projection; presets hold the settings."""

from romkit.training.fit import fit
from romkit.training.recipes import PRESETS, Recipe

__all__ = ["PRESETS", "Recipe", "fit"]
