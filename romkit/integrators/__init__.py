"""Latent dynamics on any projection: Galerkin (orthogonal, the default), Petrov-Galerkin (oblique), LSPG (implicit)."""

from romkit.integrators.base import LatentDynamics, LatentField, LearnedField
from romkit.integrators.estimator import Estimator
from romkit.integrators.galerkin import Galerkin, PetrovGalerkin
from romkit.integrators.lspg import LSPG
from romkit.integrators.neural_ode import NeuralODE, NeuralODEModel
from romkit.integrators.reencoded import Reencoded
from romkit.integrators.samples import LatentSamples
from romkit.integrators.scaling import Scaling
from romkit.integrators.sindy import SINDy, SINDyModel
from romkit.integrators.sources import differentiated_samples, encoded_samples, galerkin_samples

DYNAMICS: dict[str, type[LatentDynamics]] = {"galerkin": Galerkin, "petrov-galerkin": PetrovGalerkin, "lspg": LSPG}
"""Latent dynamics by the name that the command line takes."""

LAWS: dict[str, type[Estimator]] = {"sindy": SINDy, "neural-ode": NeuralODE}
"""What fits latent dynamics to data, by the name that the command line and files take."""

__all__ = [
    "DYNAMICS",
    "LAWS",
    "LSPG",
    "Estimator",
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
    "Scaling",
    "differentiated_samples",
    "encoded_samples",
    "galerkin_samples",
]
