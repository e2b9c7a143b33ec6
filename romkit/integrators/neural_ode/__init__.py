"""A neural ODE as latent dynamics: a small network for the latent field, the black box beside Galerkin and SINDy.

law = NeuralODE().fit(ncae, data)
run = romkit.rollout(system, ncae, dynamics=law, F=3.15)
"""

from romkit.integrators.neural_ode.estimator import NeuralODE
from romkit.integrators.neural_ode.model import NeuralODEModel

__all__ = ["NeuralODE", "NeuralODEModel"]
