"""Laws of what is at rest at each context, such as the shape of a wave that only travels."""

from dataclasses import dataclass

import torch
from torch import Tensor

from romkit.core.boundary import Natural, Positive, validated
from romkit.core.errors import InputError
from romkit.core.tensors import least_norm
from romkit.integrators.base import LearnedField
from romkit.laws.base import Estimator
from romkit.laws.equations import Equation
from romkit.laws.features import Features
from romkit.laws.libraries import Polynomial
from romkit.laws.samples import LatentSamples

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
        >>> from romkit.laws import Steady
        >>> z = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
        >>> law = Steady(degree=1, relaxation=2.0).fit_samples(z, torch.zeros(3, 1), z)
        >>> law.predict(torch.tensor([[1.0]]), torch.tensor([[2.0]])).round(decimals=6)
        tensor([[0.5000]])
    """

    degree: Natural = 2
    relaxation: Positive | None = None

    def _fit(self, samples: LatentSamples, seed: int) -> Equation:
        self._check(samples)
        observed = samples.complete()
        basis = Features(
            Polynomial(1), Polynomial(self.degree), observed.variables, observed.parameters
        )
        z, _ = basis.scaled(observed.inputs, observed.targets)
        c = observed.context.double().expand(*z.shape[:-1], -1)
        scaled = basis.context.on(c)(c)
        terms = torch.stack(basis.context_library(scaled), dim=-1)  # (..., N, k)
        # what the data are at rest at, as a polynomial of the context
        mean = least_norm(terms, z)  # (..., k, m)
        missed = z - terms @ mean
        *lead, k, m = mean.shape
        rate = 1 / self._relaxation_time(samples.times)
        coefficients = mean.new_zeros(*lead, 1 + m, k, m)
        coefficients[..., 0, :, :] = rate * mean
        coefficients[..., range(1, 1 + m), 0, range(m)] = -rate
        return Equation(
            basis,
            coefficients.flatten(-3, -2),
            1,
            f"{observed.source}, taken to be at rest",
            len(observed),
            condition=torch.linalg.cond(terms),
            converged=torch.ones(lead, dtype=torch.bool, device=mean.device),
            residual=missed.square().mean(-2).sqrt(),
            control_names=observed.control_names,
            held=observed.held,
            control_unit=observed.control_unit,
        )

    def _check(self, samples: LatentSamples) -> None:
        """Raise where samples are of second order, or do not tell how long trajectories are."""
        without_length = self.relaxation is None and samples.times is None
        if samples.order != 1 or without_length:
            expected = "trajectories of first order"
            got = repr(samples.complete())
            fix = "drop the acceleration, and give relaxation=... for single samples"
            raise InputError("samples", expected=expected, got=got, fix=fix)

    def _relaxation_time(self, times: Tensor | None) -> float:
        if self.relaxation is not None:
            return self.relaxation
        assert times is not None  # as _check has it
        return RELAXATION * float(times[-1] - times[0])

    def _unexplained(self, law: LearnedField, samples: LatentSamples) -> None:
        return None  # rates of the data are taken to be of no motion
