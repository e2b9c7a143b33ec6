"""Latent dynamics on any projection: Galerkin (orthogonal, the default), Petrov-Galerkin (oblique), LSPG (implicit)."""

from romkit.integrators.base import LatentDynamics, LatentField, LearnedField, tangent_bundle_field
from romkit.integrators.galerkin import Galerkin, PetrovGalerkin
from romkit.integrators.lspg import LSPG

DYNAMICS: dict[str, type[LatentDynamics]] = {"galerkin": Galerkin, "petrov-galerkin": PetrovGalerkin, "lspg": LSPG}
"""Latent dynamics by the name that the command line takes."""

__all__ = [
    "DYNAMICS",
    "LSPG",
    "Galerkin",
    "LatentDynamics",
    "LatentField",
    "LearnedField",
    "PetrovGalerkin",
    "tangent_bundle_field",
]
