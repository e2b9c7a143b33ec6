"""SINDy: a sparse equation for a latent space, that holds for every context and prints as a formula.

model = SINDy(degree=3).fit_samples(encoded_samples(ncae, data))
print(model)                                              # z0' = ...
run = romkit.rollout(system, ncae, dynamics=model, F=3.15)
"""

from romkit.integrators.sindy.basis import Basis
from romkit.integrators.sindy.ensemble import SINDyEnsemble
from romkit.integrators.sindy.estimator import SINDy
from romkit.integrators.sindy.latent_data import differentiated_samples, encoded_samples, galerkin_samples
from romkit.integrators.sindy.library import Fourier, Library, Polynomial, Terms
from romkit.integrators.sindy.model import SINDyModel
from romkit.integrators.sindy.samples import LatentSamples
from romkit.integrators.sindy.scaling import Scaling

__all__ = [
    "Basis",
    "Fourier",
    "LatentSamples",
    "Library",
    "Polynomial",
    "SINDy",
    "SINDyEnsemble",
    "SINDyModel",
    "Scaling",
    "Terms",
    "differentiated_samples",
    "encoded_samples",
    "galerkin_samples",
]
