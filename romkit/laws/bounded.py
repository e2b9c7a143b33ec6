"""Laws that cannot blow up: equations with a ball that every trajectory enters."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from romkit.core.boundary import validated
from romkit.core.broadcast import align
from romkit.core.errors import InputError
from romkit.core.polynomials import Monomials
from romkit.core.types import TensorMap
from romkit.integrators.base import LearnedField
from romkit.laws.chebyshev import Chebyshev
from romkit.laws.equations import Equation
from romkit.laws.libraries import Polynomial
from romkit.laws.limit_cycle import LimitCycleLaw
from romkit.laws.samples import LatentSamples, trajectory_times
from romkit.laws.scaling import Scaling
from romkit.laws.shorten import express
from romkit.laws.trajectories import OUTSIDE, box, time_scale

FREE = 2.0
"""Radius of the ball about the data [largest distance of a datum] in which a law stays as it is; at
`OUTSIDE` times this distance all trajectories lead inwards."""


@dataclass(frozen=True, eq=False)
class BoundedLaw(LearnedField):
    """ż = g(z; c) - ε max(|w|² / r² - 1, 0)ᵖ (z - z̄), w = (z - z̄) / s: the law g where |w| < r, and a
    pull that outgrows g beyond.

    At `radius` and beyond, d|w|/dt <= -`rate` |w| at every context of the data, by a bound on the
    coefficients of g: each trajectory enters this ball, and none leaves it.

    Attributes:
        law: g, a polynomial in z.
        centre, scale: z̄ and s (m,).
        free: r, radius of the ball in which the law is g.
        radius: of the ball that trajectories enter.
        rate: at which they do so at least.
        strength: ε.
        power: p, so that the pull outgrows the degree of g.

    Source: Schlegel, Noack (2015), On long-term boundedness of Galerkin models, for trapping balls.

    Example:
        >>> import romkit, torch
        >>> from romkit.laws import LatentSamples, PolynomialLaw
        >>> from romkit.laws.bounded import bounded_law
        >>> t = torch.linspace(0, 3, 61, dtype=torch.float64)
        >>> z = 1 / (1 + 4 * (-t).exp())  # z' = z - z², which is lost from z < 0
        >>> samples = LatentSamples.first_order(z[None, :, None], torch.zeros(1, 61, 1), times=t)
        >>> law = bounded_law(PolynomialLaw(degree=2).fit_samples(samples), samples)
        >>> rate = law.right_hand_side(torch.empty(0, dtype=torch.float64))
        >>> bool(rate(torch.tensor([-3.0], dtype=torch.float64)) > 0)
        True
    """

    law: Equation
    centre: Tensor
    scale: Tensor
    free: float
    radius: float
    rate: float
    strength: float
    power: int
    report: Sequence[Mapping[str, Any]] = ()

    order = property(attrgetter("law.order"))
    latent_dim = property(attrgetter("law.latent_dim"))
    context_names = property(attrgetter("law.context_names"))
    control_names = property(attrgetter("law.control_names"))
    held = property(attrgetter("law.held"))
    control_unit = property(attrgetter("law.control_unit"))
    source = property(attrgetter("law.source"))
    samples = property(attrgetter("law.samples"))
    domain = property(attrgetter("law.domain"))
    last = property(attrgetter("law.last"))
    coefficient_count = property(attrgetter("law.coefficient_count"))

    def right_hand_side(self, c: Tensor) -> TensorMap:
        g = self.law.right_hand_side(c)

        def rate(z: Tensor) -> Tensor:
            apart = z - align(self.centre.to(z), z)
            square = (apart / align(self.scale.to(z), z)).square().sum(-1, keepdim=True)
            beyond = (square / self.free**2 - 1).clamp(min=0.0)
            return g(z) - self.strength * beyond**self.power * apart

        return rate

    def details(self) -> list[str]:
        """Return lines of the equation, and the ball."""
        ball = f"all trajectories enter a ball of {self.radius:.3g} largest distances of the data"
        within = f"the equations hold within {self.free:.3g}"
        return [*self.law.details(), f"{ball}, at a rate of {self.rate:.3g}; {within}"]

    def formulas(self, digits: int = 4) -> list[str]:
        """Equations of the law within the data, as `Equation.formulas`."""
        return self.law.formulas(digits)


@validated
def bounded_law(law: LearnedField, samples: LatentSamples) -> LearnedField:
    """Return a law whose trajectories cannot run away, the same one where data are.

    Within twice the distance of the farthest datum from the mean of the data, in units of the
    largest distance along each latent, it is the law itself. From three times this distance on, all
    trajectories lead inwards at the rate of the data's own time scale or faster, at every context
    within those of the data. On a decoder that is continuous, states are bounded, too.

    Args:
        law: an equation of first order that is polynomial; a limit cycle is bounded already.
        samples: whole trajectories that it was fitted to.

    Raises:
        InputError: another kind of law, of which no bound is known.
    """
    if isinstance(law, LimitCycleLaw):
        return law
    _check_kind(law)
    mean, largest = box(samples)
    w = (samples.latents.double() - mean) / largest
    farthest = float(w.norm(dim=-1).nan_to_num(0.0).max())
    free, radius = FREE * farthest, OUTSIDE * farthest
    times = trajectory_times(samples)
    rate = 1 / time_scale(w.unflatten(-2, (-1, len(times))), times)
    growth = context_growth(law, samples, radius)
    degree = law.basis.library.degree
    # twice differentiable, and steeper than the highest power of the law
    power = max(2, math.ceil((degree - 1) / 2))
    strength = (rate + growth) / (radius**2 / free**2 - 1) ** power
    return BoundedLaw(law, mean, largest, free, radius, rate, strength, power, law.report)


def context_growth(law: Equation, samples: LatentSamples, radius: float) -> float:
    """Return a bound on the rate d ln|w| / dt at a distance |w| = radius from the mean of the data, at
    all contexts within those of samples.

    A monomial of exponents α is at most Π (αᵢ / k)^(αᵢ / 2) on the unit sphere, where k is their sum.
    """
    mean, largest = box(samples)
    boxed = Scaling(law.basis.variables.names, mean, largest)
    basis = replace(law.basis, variables=boxed)
    coefficients = express(basis, law, samples)  # (K q, m)
    factors = _largest_factors(law, samples)  # (q,)
    grid = coefficients.abs().unflatten(0, (-1, len(factors)))  # (K, q, m)
    sizes = torch.einsum("kqm,q->km", grid, factors)
    growth = {}
    for size, exponents in zip(
        sizes, Monomials(len(mean), basis.library.degree).factors, strict=True
    ):
        k = len(exponents)
        largest_value = math.prod(
            (exponents.count(i) / k) ** (exponents.count(i) / 2) for i in set(exponents)
        )
        growth[k] = growth.get(k, 0.0) + largest_value * size  # (m,)
    return sum(float(size.norm()) * radius ** (k - 1) for k, size in growth.items())


def _largest_factors(law: Equation, samples: LatentSamples) -> Tensor:
    """Return the largest sizes (q,) of the terms of the context, at contexts within those of samples."""
    context = samples.context.double()  # (N, p)
    largest = law.basis.context.on(context)(context).abs().amax(0)
    if isinstance(law.basis.context_library, Chebyshev):
        # all are at most 1 in [-1, 1], and grow beyond
        largest = largest.clamp(min=1.0)
    factors = law.basis.context_library(largest)
    return torch.stack(torch.broadcast_tensors(*factors)).abs()


def _check_kind(law: LearnedField) -> None:
    """Raise unless a law is a single polynomial equation of first order."""
    is_polynomial = (
        isinstance(law, Equation)
        and law.coefficients.ndim == 2
        and law.order == 1
        and isinstance(law.basis.library, Polynomial)
        and isinstance(law.basis.context_library, Polynomial | Chebyshev)
    )
    if not is_polynomial:
        expected = "a single polynomial equation of first order"
        fix = 'take kinds=["polynomial"], or leave bounded out'
        raise InputError("bounded", expected=expected, got=type(law).__name__, fix=fix)
