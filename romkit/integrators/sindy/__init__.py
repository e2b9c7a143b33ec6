"""SINDy: a sparse equation for a latent space, that holds for every context and prints as a formula.

law = SINDy(degree=3).fit(ncae, data)
print(law)                                              # δz0' = ...
run = romkit.rollout(system, ncae, dynamics=law, F=3.15)
"""

from romkit.integrators.sindy.ensemble import SINDyEnsemble
from romkit.integrators.sindy.estimator import SINDy
from romkit.integrators.sindy.library import Fourier, Library, Polynomial, Terms
from romkit.integrators.sindy.model import Equation, SINDyModel
from romkit.integrators.sindy.weak import WeakSINDy

__all__ = [
    "Equation",
    "Fourier",
    "Library",
    "Polynomial",
    "SINDy",
    "SINDyEnsemble",
    "SINDyModel",
    "Terms",
    "WeakSINDy",
]
