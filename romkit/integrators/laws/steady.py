"""Laws of what is at rest at each context, such as the shape of a wave that only travels."""

from dataclasses import dataclass

import torch

from romkit.core.boundary import Natural, Positive, validated
from romkit.core.errors import InputError
from romkit.integrators.base import LearnedField
from romkit.integrators.laws.base import Estimator
from romkit.integrators.laws.equations import Equation, Features, Polynomial
from romkit.integrators.laws.samples import LatentSamples

RELAXATION = 0.05
"""Default time of relaxation, as a share of the length of the trajectories: long for a step, short
for a rollout.
"""


@validated
@dataclass(frozen=True)
class Steady(Estimator):
    """Settings of a fit; `fit` returns ż = (z*(c) - z) / τ, where z* is the mean of the data, a
    polynomial in c.

    For shapes of travelling waves, whose shifts `romkit.fit(symmetry=...)` factors out: data at
    rest do not tell how they attract, and any other law makes a drift of their small motions.

    Args:
        degree: of z* in the context.
        relaxation: τ; by default a twentieth of the length of the trajectories.

    Example:
        >>> import torch
        >>> from romkit.integrators import Steady
        >>> z = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
        >>> law = Steady(degree=1, relaxation=2.0).fit_samples(z, torch.zeros(3, 1), z)
        >>> law.predict(torch.tensor([[1.0]]), torch.tensor([[2.0]])).round(decimals=6)
        tensor([[0.5000]])
    """

    degree: Natural = 2
    relaxation: Positive | None = None

    def _fit(self, samples: LatentSamples, seed: int) -> Equation:
        known, times = samples.complete(), samples.times
        if known.order != 1 or (self.relaxation is None and times is None):
            fix = "drop the acceleration, and give relaxation=... for single samples"
            raise InputError(
                "samples", expected="trajectories of first order", got=repr(known), fix=fix
            )
        rate = 1 / (self.relaxation or RELAXATION * float(times[-1] - times[0]))
        basis = Features(Polynomial(1), Polynomial(self.degree), known.variables, known.parameters)
        z, _ = basis.scaled(known.inputs, known.targets)
        c = known.context.double().expand(*z.shape[:-1], -1)
        terms = torch.stack(basis.context_library(basis.context.on(c)(c)), dim=-1)
        rest = torch.linalg.lstsq(terms, z, driver="gelsd").solution
        (k, m), lead = rest.shape[-2:], rest.shape[:-2]
        coefficients = rest.new_zeros(*lead, 1 + m, k, m)
        coefficients[..., 0, :, :] = rate * rest
        coefficients[..., range(1, 1 + m), 0, range(m)] = -rate
        facts = {
            "condition": torch.linalg.cond(terms),
            "converged": torch.ones(lead, dtype=torch.bool),
        }
        left = (z - terms @ rest).square().mean(-2).sqrt()
        source = f"{known.source}, taken to be at rest"
        facts |= {"residual": left, "control_names": known.control_names, "held": known.held}
        return Equation(basis, coefficients.flatten(-3, -2), 1, source, len(known), **facts)

    def _unexplained(self, law: LearnedField, samples: LatentSamples) -> None:
        return None  # rates of the data are taken to be of no motion
