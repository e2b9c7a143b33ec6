"""Bases: affine subspaces x = x̄ + V y that states are described in, orthonormal in the metric of the states."""

from romkit.bases.base import Basis, check_size
from romkit.bases.decomposition import Decomposition, decompose
from romkit.bases.merging import merge
from romkit.bases.of_data import basis
from romkit.bases.weights import Weight, weigher

__all__ = ["Basis", "Decomposition", "Weight", "basis", "check_size", "decompose", "merge", "weigher"]
