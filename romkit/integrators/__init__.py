"""Latent dynamics on any projection: Galerkin (orthogonal, the default), Petrov-Galerkin (oblique),
LSPG (implicit).
"""

from romkit.integrators.base import LatentDynamics, LatentField, LearnedField, Reencoded
from romkit.integrators.galerkin import Galerkin, PetrovGalerkin
from romkit.integrators.hamiltonian import Hamiltonian
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

__all__ = [
    "DYNAMICS",
    "LSPG",
    "Galerkin",
    "Hamiltonian",
    "LatentDynamics",
    "LatentField",
    "LearnedField",
    "PetrovGalerkin",
    "Reencoded",
    "Speed",
]
