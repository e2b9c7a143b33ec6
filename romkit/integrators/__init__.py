"""Latent dynamics on any projection: Galerkin (orthogonal, the default), Petrov-Galerkin (oblique), LSPG (implicit)."""

from romkit.integrators.base import LatentDynamics, LatentField, LearnedField
from romkit.integrators.galerkin import Galerkin, PetrovGalerkin
from romkit.integrators.lspg import LSPG
from romkit.integrators.neural_ode import NeuralODE, NeuralODEModel
from romkit.integrators.reencoded import Reencoded
from romkit.integrators.sindy import (
    LatentSamples,
    SINDy,
    SINDyModel,
    differentiated_samples,
    encoded_samples,
    galerkin_samples,
)

DYNAMICS: dict[str, type[LatentDynamics]] = {"galerkin": Galerkin, "petrov-galerkin": PetrovGalerkin, "lspg": LSPG}
"""Latent dynamics by the name that the command line takes."""

__all__ = [
    "DYNAMICS",
    "LSPG",
    "Galerkin",
    "LatentDynamics",
    "LatentField",
    "LatentSamples",
    "LearnedField",
    "NeuralODE",
    "NeuralODEModel",
    "PetrovGalerkin",
    "Reencoded",
    "SINDy",
    "SINDyModel",
    "differentiated_samples",
    "encoded_samples",
    "galerkin_samples",
]
