"""Latent dynamics on any projection: Galerkin (orthogonal, the default), Petrov-Galerkin (oblique), LSPG (implicit)."""

from romkit.integrators.base import LatentDynamics, LatentField, LearnedField
from romkit.integrators.dmd import DMD, LinearModel
from romkit.integrators.estimator import Estimator
from romkit.integrators.galerkin import Galerkin, PetrovGalerkin
from romkit.integrators.hamiltonian import Hamiltonian
from romkit.integrators.lspg import LSPG
from romkit.integrators.neural_ode import NeuralODE, NeuralODEModel
from romkit.integrators.operator_inference import OperatorInference, OperatorModel
from romkit.integrators.reencoded import Reencoded
from romkit.integrators.samples import LatentSamples
from romkit.integrators.scaling import Scaling
from romkit.integrators.sindy import Equation, SINDy, SINDyModel, WeakSINDy
from romkit.integrators.sources import differentiated_samples, encoded_samples, galerkin_samples

DYNAMICS: dict[str, type[LatentDynamics]] = {
    "galerkin": Galerkin,
    "petrov-galerkin": PetrovGalerkin,
    "lspg": LSPG,
    "hamiltonian": Hamiltonian,
}
"""Latent dynamics by the name that the command line takes."""

LAWS: dict[str, type[Estimator]] = {
    "sindy": SINDy,
    "weak-sindy": WeakSINDy,
    "operator-inference": OperatorInference,
    "dmd": DMD,
    "neural-ode": NeuralODE,
}
"""What fits latent dynamics to data, by the name that the command line and files take."""

__all__ = [
    "DMD",
    "DYNAMICS",
    "LAWS",
    "LSPG",
    "Equation",
    "Estimator",
    "Galerkin",
    "Hamiltonian",
    "LatentDynamics",
    "LatentField",
    "LatentSamples",
    "LearnedField",
    "LinearModel",
    "NeuralODE",
    "NeuralODEModel",
    "OperatorInference",
    "OperatorModel",
    "PetrovGalerkin",
    "Reencoded",
    "SINDy",
    "SINDyModel",
    "Scaling",
    "WeakSINDy",
    "differentiated_samples",
    "encoded_samples",
    "galerkin_samples",
]
