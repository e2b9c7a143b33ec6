"""Linear smoothers of the context: values at wanted contexts are weighted sums of the runs' values.

Contexts are numbers in comparable units, those of their ranges, say.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from romkit.core.polynomials import Monomials
from romkit.core.types import Array
from romkit.numerics.design import Design

Groups = Sequence[Tensor | Array]
"""Rows of runs that are left out together."""


class Smoother(Protocol):
    """A rule for the weights of runs in values at other contexts."""

    def weights(self, contexts: Tensor, wanted: Tensor) -> Tensor:
        """Return weights (k, C) of runs at contexts (C, p) in values at wanted ones (k, p)."""
        ...


@dataclass(frozen=True)
class Polynomial:
    """Least squares in powers up to a total degree.

    Attributes:
        degree: the highest total degree; 0 is the mean of the runs.
        ridge: penalty of all coefficients but the constant, for each run, of powers about the mean
            of the contexts.

    Source: Hoerl, Kennard (1970), Ridge regression.

    Example:
        >>> import torch
        >>> from romkit.numerics import Polynomial
        >>> c = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64)
        >>> weights = Polynomial(1).weights(c, c[:1] + 0.5)
        >>> weights @ (3 * c)
        tensor([[1.5000]], dtype=torch.float64)
    """

    degree: int
    ridge: float = 0.0

    def weights(self, contexts: Tensor, wanted: Tensor) -> Tensor:
        """Return weights (k, C) of runs at contexts (C, p) in values at wanted ones (k, p)."""
        return self._columns(contexts, wanted) @ self.design(contexts).inverse

    def design(self, contexts: Tensor) -> Design:
        """Return the least squares of values at contexts (C, p)."""
        columns = self._columns(contexts, contexts)
        if self.ridge == 0:
            return Design(columns)
        penalty = torch.full(columns.shape[1:], self.ridge * len(contexts), dtype=torch.float64)
        penalty[0] = 0.0
        return Design(columns, penalty)

    def _columns(self, contexts: Tensor, wanted: Tensor) -> Tensor:
        """Return powers (k, K) at wanted contexts, about the mean of those of the runs."""
        around = (wanted - contexts.mean(0)).double()
        return Monomials(contexts.shape[1], self.degree)(around)


@dataclass(frozen=True)
class Spline:
    """Thin-plate splines through the mean of the runs at each context; of contexts on a line or
    plane, which have none, sums of distances and a plane.

    Source: Duchon (1977), Splines minimizing rotation-invariant semi-norms in Sobolev spaces.
    """

    def weights(self, contexts: Tensor, wanted: Tensor) -> Tensor:
        """Return weights (k, C) of runs at contexts (C, p) in values at wanted ones (k, p)."""
        from scipy.interpolate import RBFInterpolator  # slow to import, and seldom needed

        points, group = torch.unique(contexts, dim=0, return_inverse=True)
        share = torch.nn.functional.one_hot(group, len(points)).double()
        share = share / share.sum(0)  # (C, P)
        # the plane beneath a thin plate needs points that do not lie in a smaller one
        spans = int(torch.linalg.matrix_rank(points - points.mean(0))) == points.shape[-1]
        kernel = "thin_plate_spline" if spans else "linear"
        spline = RBFInterpolator(points.numpy(), share.T.numpy(), kernel=kernel)
        return torch.from_numpy(spline(wanted.numpy()))


@dataclass(frozen=True)
class Nearest:
    """Shares by the distance: by its inverse square, or by a Gaussian.

    Attributes:
        width: of the Gaussian exp(-d² / 2 width²); None for the inverse square.

    Source: Shepard (1968), A two-dimensional interpolation function for irregularly-spaced data;
    Nadaraya (1964), On estimating regression.
    """

    width: float | None = None

    def weights(self, contexts: Tensor, wanted: Tensor) -> Tensor:
        """Return weights (k, C) of runs at contexts (C, p) in values at wanted ones (k, p)."""
        square = _distances(wanted, contexts).square()
        if self.width is None:
            # 1 / d², and the runs at a wanted context alone where there are some
            logs = -square.clamp(min=1e-12).log()
        else:
            logs = -square / (2 * self.width**2)
        return torch.softmax(logs, -1)


Covariance = Callable[[Tensor], Tensor]
"""Covariance of values at contexts by their distance, 1 at the distance 0."""


def squared_exponential(distance: Tensor) -> Tensor:
    """Covariance of a smooth function, with reach 1."""
    return torch.exp(-distance.square() / 2)


def matern(distance: Tensor) -> Tensor:
    """Covariance of a function with one derivative, with reach 1.

    Source: Rasmussen, Williams (2006), Gaussian processes, equation 4.17.
    """
    s = math.sqrt(3) * distance
    return (1 + s) * torch.exp(-s)


def smooth_matern(distance: Tensor) -> Tensor:
    """Covariance of a function with two derivatives, with reach 1.

    Source: Rasmussen, Williams (2006), Gaussian processes, equation 4.17.
    """
    s = math.sqrt(5) * distance
    return (1 + s + s.square() / 3) * torch.exp(-s)


@dataclass(frozen=True)
class Kriging:
    """Best linear prediction of a random function of the context, known at the runs with noise.

    Attributes:
        covariance: of the function, by distance.
        reach: distance over which values are alike.
        noise: variance of each run's own, relative to that of the function.
        degree: of a polynomial trend; None where the mean is known to be zero.

    Source: Cressie (1993), Statistics for spatial data, section 3.4 (universal kriging).
    """

    covariance: Covariance = squared_exponential
    reach: float = 1.0
    noise: float = 1e-10
    degree: int | None = 0

    def weights(self, contexts: Tensor, wanted: Tensor) -> Tensor:
        """Return weights (k, C) of runs at contexts (C, p) in values at wanted ones (k, p)."""
        among = self.among(contexts)  # (C, C)
        towards = self.between(wanted, contexts)  # (k, C)
        if self.degree is None:
            return torch.linalg.solve(among, towards.mT).mT
        monomials = Monomials(contexts.shape[1], self.degree)
        trend = monomials((contexts - contexts.mean(0)).double())  # (C, K)
        terms = monomials((wanted - contexts.mean(0)).double())  # (k, K)
        inverse = torch.linalg.solve(among, torch.cat([trend, towards.mT], 1))
        of_trend, simple = inverse.split([trend.shape[1], len(wanted)], 1)
        gram = trend.mT @ of_trend
        # what simple kriging misses of the trend goes to generalised least squares
        missed = terms.mT - trend.mT @ simple  # (K, k)
        return (simple + of_trend @ torch.linalg.solve(gram, missed)).mT

    def between(self, contexts: Tensor, others: Tensor) -> Tensor:
        """Return the covariance (k, C) of values without noise."""
        return self.covariance(_distances(contexts, others) / self.reach)

    def among(self, contexts: Tensor) -> Tensor:
        """Return the covariance (C, C) of the runs, with noise."""
        diagonal = self.noise * torch.eye(len(contexts), dtype=torch.float64)
        return self.between(contexts, contexts) + diagonal

    def variance(self, contexts: Tensor, wanted: Tensor, weights: Tensor) -> Tensor:
        """Return the mean square error (k,) of any weights (k, C), without noise of what is wanted."""
        shared = (weights * self.between(wanted, contexts)).sum(-1)
        of_runs = (weights @ self.among(contexts) * weights).sum(-1)
        return 1 - 2 * shared + of_runs


def left_out(smoother: Smoother, contexts: Tensor, groups: Groups) -> Tensor:
    """Return weights (C, C) of the other runs at the contexts of each group; zero at runs in none."""
    weights = torch.zeros(len(contexts), len(contexts), dtype=torch.float64)
    for group in groups:
        rows = torch.as_tensor(group)
        kept = _kept(len(contexts), rows)
        weights[rows[:, None], kept] = smoother.weights(contexts[kept], contexts[rows])
    return weights


def changes(smoother: Smoother, contexts: Tensor, wanted: Tensor, groups: Groups) -> Tensor:
    """Return changes (G, k, C) of the weights at wanted contexts without the runs of each group."""
    weights = smoother.weights(contexts, wanted)
    group_matrices = torch.zeros(len(groups), *weights.shape, dtype=torch.float64)
    for number, group in enumerate(groups):
        kept = _kept(len(contexts), torch.as_tensor(group))
        group_matrices[number][:, kept] = smoother.weights(contexts[kept], wanted)
    return group_matrices - weights


def chosen(
    candidates: Sequence[Smoother], contexts: Tensor, values: Tensor, groups: Groups
) -> Smoother:
    """Return the first candidate with the least mean square error at runs that are left out.

    Args:
        candidates: in the order of preference.
        contexts: (C, p) of the runs.
        values: (C, ...) of these.
        groups: rows that are left out together.
    """
    rows = torch.cat([torch.as_tensor(group) for group in groups])
    errors = []
    for candidate in candidates:
        weights = left_out(candidate, contexts, groups)
        predicted = torch.einsum("bc,c...->b...", weights, values)
        errors.append(float((predicted - values)[rows].square().mean()))
    return candidates[errors.index(min(errors))]


def _kept(number: int, left_out: Tensor) -> Tensor:
    """Return rows of all runs but some."""
    is_kept = torch.ones(number, dtype=torch.bool)
    is_kept[left_out] = False
    return is_kept.nonzero().squeeze(-1)


def _distances(contexts: Tensor, others: Tensor) -> Tensor:
    """Return distances (k, C), exactly zero of equal contexts, as products of matrices would not
    have it.
    """
    return torch.cdist(
        contexts.double(), others.double(), compute_mode="donot_use_mm_for_euclid_dist"
    )
