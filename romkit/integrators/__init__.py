"""Latent dynamics on any projection: Galerkin (orthogonal, the default), Petrov-Galerkin (oblique),
LSPG (implicit).
"""

from romkit.integrators.base import LatentDynamics, LatentField, LearnedField, Reencoded
from romkit.integrators.galerkin import Galerkin, PetrovGalerkin
from romkit.integrators.hamiltonian import Hamiltonian
from romkit.integrators.laws.base import Estimator
from romkit.integrators.laws.chebyshev import Chebyshev as Chebyshev
from romkit.integrators.laws.equations import Equation
from romkit.integrators.laws.libraries import Fourier as Fourier
from romkit.integrators.laws.libraries import Functions as Functions
from romkit.integrators.laws.libraries import Library as Library
from romkit.integrators.laws.libraries import Polynomial as Polynomial
from romkit.integrators.laws.limit_cycle import LimitCycle, LimitCycleLaw
from romkit.integrators.laws.network import NeuralODEModel
from romkit.integrators.laws.neural_ode import NeuralODE
from romkit.integrators.laws.operators import DMD, OperatorInference
from romkit.integrators.laws.phase import PhaseLaw
from romkit.integrators.laws.polynomial import PolynomialLaw
from romkit.integrators.laws.samples import LatentSamples
from romkit.integrators.laws.scaling import Scaling
from romkit.integrators.laws.sindy import SINDy, WeakSINDy
from romkit.integrators.laws.sources import (
    differentiated_samples,
    encoded_samples,
    galerkin_samples,
)
from romkit.integrators.laws.steady import Steady
from romkit.integrators.lspg import LSPG
from romkit.integrators.mesh import reduced_mesh as reduced_mesh
from romkit.integrators.speed import Speed

DYNAMICS: dict[str, type[LatentDynamics]] = {
    "galerkin": Galerkin,
    "petrov-galerkin": PetrovGalerkin,
    "lspg": LSPG,
    "hamiltonian": Hamiltonian,
}
"""Latent dynamics by the name that the command line takes."""

LAWS: dict[str, type[Estimator]] = {
    "polynomial": PolynomialLaw,
    "sindy": SINDy,
    "weak-sindy": WeakSINDy,
    "operator-inference": OperatorInference,
    "dmd": DMD,
    "neural-ode": NeuralODE,
    "steady": Steady,
    "limit-cycle": LimitCycle,
}
"""Estimators of latent dynamics by the name that the command line and files take."""

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
]
__all__ += [
    "LatentField",
    "LatentSamples",
    "LearnedField",
    "LimitCycle",
    "LimitCycleLaw",
    "NeuralODE",
    "NeuralODEModel",
    "OperatorInference",
]
__all__ += [
    "PetrovGalerkin",
    "PhaseLaw",
    "PolynomialLaw",
    "Reencoded",
    "SINDy",
    "Scaling",
    "Speed",
    "Steady",
    "WeakSINDy",
]
__all__ += ["differentiated_samples", "encoded_samples", "galerkin_samples"]
