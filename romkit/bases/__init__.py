"""Bases: affine subspaces x = x̄ + V y that states are described in, orthonormal in the metric of
the states.
"""

from romkit.bases.base import Basis, Weight, check_size, weigher
from romkit.bases.make import basis
from romkit.bases.modes import Decomposition, decompose, merge

__all__ = [
    "Basis",
    "Decomposition",
    "Weight",
    "basis",
    "check_size",
    "decompose",
    "merge",
    "weigher",
]
