"""Laws of a family: one polynomial in the latents, whose coefficients are polynomials of a context
that is partly known and partly hidden.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from romkit.core.polynomials import Monomials
from romkit.core.tensors import divisor
from romkit.core.types import frozen
from romkit.laws.courses import Runs
from romkit.laws.sensitivities import Motion
from romkit.laws.terms import LatentTerms, MonomialTerms
from romkit.laws.trajectories import time_scale


@dataclass(frozen=True)
class Structure:
    """Form of the laws of a family, the hypothesis that left-out groups judge.

    Attributes:
        degree: of the law, in the latents.
        hidden: number of hidden parameters, r.
        bend: degree in the context, in known and hidden parameters together.
    """

    degree: int
    hidden: int
    bend: int


@dataclass(frozen=True)
class ContextTerms:
    """Monomials of a context (known parameters, then hidden ones) up to a total degree.

    Attributes:
        known: number of known parameters, p.
        hidden: number of hidden parameters, r.
        degree: highest total degree.
    """

    known: int
    hidden: int
    degree: int

    @property
    def _monomials(self) -> Monomials:
        return Monomials(self.known + self.hidden, self.degree)

    @property
    def number(self) -> int:
        """q, the number of terms."""
        variables = self.known + self.hidden
        return math.comb(variables + self.degree, self.degree)

    def __call__(self, context: Tensor) -> Tensor:
        """Return terms (..., q) at contexts (..., p + r)."""
        if context.shape[-1] == 0:
            return context.new_ones(*context.shape[:-1], 1)
        return self._monomials(context)

    def slopes(self, context: Tensor) -> Tensor:
        """Return derivatives (..., q, r) of the terms by the hidden parameters."""
        terms = self(context)
        if self.hidden == 0:
            return terms.new_zeros(*terms.shape, 0)
        table = self._monomials.slopes()[self.known :]  # (r, q, q)
        return torch.einsum("...q,rqk->...kr", terms, table)


@frozen
class Family:
    """Laws ż = φ(z) Σ_q T_q(k, c) θ_q of G groups with known parameters k and hidden ones c.

    Attributes:
        terms: T, of the context.
        theta: coefficients θ (K, q, m).
        known: (G, p), each parameter in [-1, 1].
        hidden: (G, r).
    """

    terms: ContextTerms
    theta: Tensor
    known: Tensor
    hidden: Tensor

    @property
    def context(self) -> Tensor:
        """Known and hidden parameters (G, p + r)."""
        return torch.cat([self.known, self.hidden], -1)

    @property
    def mix(self) -> Tensor:
        """Terms of the context (G, q) of each group."""
        return self.terms(self.context)

    @property
    def weights(self) -> Tensor:
        """Coefficients (G, K, m) of each group."""
        return torch.einsum("gq,kqm->gkm", self.mix, self.theta)

    @property
    def tangents(self) -> Tensor:
        """Derivatives (G, K m, r) of the coefficients of each group by its hidden parameters."""
        slopes = self.terms.slopes(self.context)  # (G, q, r)
        return torch.einsum("gqr,kqm->gkmr", slopes, self.theta).flatten(1, 2)

    def at(self, known: Tensor, hidden: Tensor) -> "Family":
        """Return the same laws at other contexts."""
        return replace(self, known=known, hidden=hidden)

    def only(self, groups: Tensor) -> "Family":
        """Return the same laws at the contexts of some groups."""
        return self.at(self.known[groups], self.hidden[groups])

    def bent(self, degree: int) -> "Family":
        """Return the same laws with terms of the context up to a higher degree, whose coefficients
        are 0.
        """
        terms = replace(self.terms, degree=degree)
        K, q, m = self.theta.shape
        theta = self.theta.new_zeros(K, terms.number, m)
        # monomials are ordered by their degree
        theta[:, :q] = self.theta
        return replace(self, terms=terms, theta=theta)


@frozen
class Scale:
    """Units of the latents and of time in which laws are fitted.

    Attributes:
        mean, largest: (m,) latents are mean + largest · w, with |w| at most 1 in the data.
        tau: time in which latents move by one deviation at their typical speed.
    """

    mean: Tensor
    largest: Tensor
    tau: float

    @classmethod
    def measure(cls, states: Tensor, times: Tensor) -> "Scale":
        """Return units of runs (n, T, m) at times (T,)."""
        mean = states.nanmean((0, 1))
        distance = (states - mean).abs().nan_to_num(0.0)
        largest = divisor(distance.amax((0, 1)))
        tau = time_scale((states - mean) / largest, times)
        return cls(mean, largest, tau)

    def scaled(self, states: Tensor) -> Tensor:
        """Latents (..., m) in units of the fit."""
        return (states - self.mean) / self.largest

    def physical(self, w: Tensor) -> Tensor:
        """Latents (..., m) in their own units."""
        return self.mean + self.largest * w

    def runs(self, states: Tensor, times: Tensor, group: Tensor) -> Runs:
        """Return runs (n, T, m) to shoot along, in the units of the fit."""
        clock = (times - times[0]) / self.tau
        mix = torch.ones(int(group.max()) + 1, 1, dtype=states.dtype)
        return Runs(self.scaled(states), clock, group, mix)


def motion(latents: int, degree: int) -> Motion:
    """Motion of a polynomial law of some degree of so many latents, of first order."""
    terms: LatentTerms = MonomialTerms(latents, degree)
    return Motion(terms, latents, 1)


def gauged(family: Family, information: Tensor, first: int = 0) -> Family:
    """Return the same laws, with hidden parameters in the gauge.

    Args:
        family: of laws.
        information: (K m, K m) about the coefficients of a group: axes are those along which it
            is largest.
        first: number of the group of the first run, whose parameters are positive.
    """
    G, r = family.hidden.shape
    if r == 0:
        return family
    family = _moved(family, *_uncorrelated(family))
    covariance = family.hidden.mT @ family.hidden / G
    values, axes = torch.linalg.eigh(covariance)
    size = divisor(values.clamp(min=0.0)).sqrt()
    family = _moved(family, _affine(family, axes / size))
    effect = torch.einsum("gar,ab,gbs->rs", family.tangents, information, family.tangents)
    _, axes = torch.linalg.eigh(effect)
    axes = axes.flip(-1)
    signs = torch.where(family.hidden[first] @ axes < 0, -1.0, 1.0)
    return _moved(family, _affine(family, axes * signs))


def _uncorrelated(family: Family) -> tuple[Tensor]:
    """Change that takes the mean away, and what known parameters tell."""
    p = family.known.shape[1]
    design = torch.cat([torch.ones_like(family.hidden[:, :1]), family.known], -1)
    if len(design) <= p + 1:
        design = design[:, :1]
    told = torch.linalg.lstsq(design, family.hidden, driver="gelsd").solution  # (1 + p, r)
    unit = torch.eye(family.hidden.shape[1], dtype=torch.float64)
    change = torch.zeros(1 + p + len(unit), len(unit), dtype=torch.float64)
    change[: len(told)] = -told
    change[1 + p :] = unit
    return (change,)


def _affine(family: Family, linear: Tensor) -> Tensor:
    """Change by a matrix (r, r) of the hidden parameters alone."""
    p = family.known.shape[1]
    return torch.cat([linear.new_zeros(1 + p, len(linear)), linear])


def _moved(family: Family, change: Tensor, *, probes: int = 4) -> Family:
    """Return the same laws with hidden parameters (1, k, c) @ change, change (1 + p + r, r).

    `probes`: contexts for each term by which laws are brought into other parameters; more than
    one suffices.
    """
    with_one = lambda context: torch.cat([torch.ones_like(context[:, :1]), context], -1)  # noqa: E731
    hidden = with_one(family.context) @ change
    draw = torch.Generator().manual_seed(0)
    number = probes * family.terms.number
    shape = (number, family.context.shape[1])
    before = torch.randn(shape, generator=draw, dtype=torch.float64)
    p = family.known.shape[1]
    after = torch.cat([before[:, :p], with_one(before) @ change], -1)
    # terms before are combinations of terms after, exactly
    table = torch.linalg.lstsq(family.terms(after), family.terms(before), driver="gelsd").solution
    theta = torch.einsum("pq,kqm->kpm", table, family.theta)
    return replace(family, theta=theta, hidden=hidden)
