"""Latent dynamics on any projection: Galerkin (orthogonal, the default) and Petrov-Galerkin (oblique)."""

from romkit.integrators.base import LatentDynamics, tangent_bundle_field
from romkit.integrators.galerkin import Galerkin, PetrovGalerkin

DYNAMICS: dict[str, type[LatentDynamics]] = {"galerkin": Galerkin, "petrov-galerkin": PetrovGalerkin}
"""Latent dynamics by the name that the command line takes."""

__all__ = ["DYNAMICS", "Galerkin", "LatentDynamics", "PetrovGalerkin", "tangent_bundle_field"]
