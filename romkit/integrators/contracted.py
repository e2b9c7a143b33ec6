"""Problems in the form that costs least to integrate: the decoder's last layer, or the polynomial
that a decoder is, contracted with a quadratic field once.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.broadcast import linear_solve
from romkit.core.polynomials import Monomials
from romkit.integrators.base import LatentDynamics
from romkit.integrators.galerkin import PetrovGalerkin
from romkit.projections import Path
from romkit.projections.identity import Unchanged
from romkit.projections.operator import PolynomialMaps
from romkit.systems.problem import FirstOrder, Problem, euclidean
from romkit.systems.terms import Polynomial, Quadratic


def contracted(problem: Problem, dynamics: LatentDynamics, quadratic: Quadratic | None) -> Problem:
    """Problem with the same rate of these dynamics that costs least.

    Args:
        problem: of a system.
        dynamics: that are to solve it.
        quadratic: its field with the contexts bound, for states (..., r); None for another one.
    """
    if dynamics.needs == "decoder":
        return precontracted(problem, quadratic)
    P = problem.path.operator
    if isinstance(dynamics, PetrovGalerkin) and _is_plain(problem, quadratic):
        maps = None if P is None else P.polynomial()
        if maps is not None and quadratic is not None:
            field = quadratic.substitute(maps.monomials, maps.rows, maps.test)
            return _contract_latents(problem, field)
    return problem


def precontracted(problem: Problem, quadratic: Quadratic | None) -> Problem:
    """Problem with the same decoder-side dynamics: in the latents where the decoder is a
    polynomial, else in the hidden units before the decoder's last layer.

    The polynomial or the last layer is contracted with the field once. Problems without either are
    returned unchanged.

    Args:
        problem: of first order, at constant contexts, with the identity as metric.
        quadratic: its field with the contexts bound, for states (..., r).
    """
    P = problem.path.operator
    if quadratic is None or P is None or not _is_plain(problem, quadratic):
        return problem
    if problem.metric is not euclidean:
        return problem
    maps = P.polynomial()
    if maps is None:
        return _contract_hidden_units(problem, quadratic)
    # of many latents and a high degree the field itself costs less
    r = maps.rows.shape[-1]
    if NormalEquations.multiplications(maps.monomials) >= r * r * (r + 1) // 2:
        return problem
    return _contract_latents(problem, NormalEquations.build(quadratic, maps))


def _is_plain(problem: Problem, quadratic: Quadratic | None) -> bool:
    """Tell whether the field is quadratic, without inputs, at constant contexts."""
    if quadratic is None or problem.control is not None:
        return False
    return problem.path.operator is not None


def _contract_hidden_units(problem: Problem, quadratic: Quadratic) -> Problem:
    """Problem in the units before the decoder's last layer, where these are fewer."""
    P = problem.path.operator
    layer = None if P is None else P.last_layer()
    if layer is None or layer.factor.shape[-1] >= layer.factor.shape[-2]:
        return problem
    gram = layer.factor.mT @ layer.factor
    # the rate of a is the one nearest to the rate of y
    test = torch.linalg.solve(gram, layer.factor.mT).mT
    field = quadratic.substituted(layer.factor, layer.shift, test)

    def metric(x: Tensor, u: Tensor) -> Tensor:
        return gram @ u

    return FirstOrder(Path.constant(layer.hidden), lambda t, a: field(a), metric)


def _contract_latents(problem: Problem, field: "Polynomial | NormalEquations") -> Problem:
    """Problem in the latents alone, whose field gives their rate."""
    # latents decode to themselves, so that any dynamics has the rate as it is
    P = problem.path.operator
    assert P is not None  # at a constant context
    latents = P.resize_operator(Unchanged(), P.latent_dim)
    return FirstOrder(Path.constant(latents), lambda t, z: field(z))


class NormalEquations(NamedTuple):
    """z -> (JᵀJ)⁻¹ Jᵀ g(φ(z)), J = Dφ(z), of a polynomial φ of degree p and a quadratic g: Jᵀg has
    degree 3p - 1, and JᵀJ has 2p - 2.

    Attributes:
        monomials: m(z) up to degree 3p - 1.
        force: (..., m, K) coefficients of Jᵀg.
        gram: (..., m (m + 1) / 2, K') coefficients of the upper triangle of JᵀJ, for the monomials
            up to degree 2p - 2, which come first.
        places: (m, m) entry of that triangle for each entry of JᵀJ.
    """

    monomials: Monomials
    force: Tensor
    gram: Tensor
    places: Tensor

    @staticmethod
    def multiplications(monomials: Monomials) -> int:
        """Multiplications in an evaluation, about."""
        m = monomials.variables
        p = monomials.degree
        force = math.comb(m + 3 * p - 1, m) * (m + 1)
        pairs = m * (m + 1) // 2
        gram = math.comb(m + 2 * p - 2, m) * pairs
        return force + gram

    @classmethod
    def build(cls, quadratic: Quadratic, maps: PolynomialMaps) -> "NormalEquations":
        """Return normal equations of Galerkin's rate, at the contexts of the maps."""
        m = maps.monomials.variables
        p = maps.monomials.degree
        lower = Monomials(m, p - 1)  # of the derivatives; monomials are ordered by degree
        # orthonormal coordinates of the subspace that the decoder reaches, beside its constant
        columns = maps.rows[..., 1:, :].mT
        Q, triangle = torch.linalg.qr(columns)  # (..., r, k), (..., k, K - 1)
        field = quadratic.substitute(maps.monomials, maps.rows, Q)
        slopes = maps.monomials.slopes().to(maps.rows)
        slopes = slopes[:, : len(lower), 1:]
        tangents = slopes @ triangle.mT.unsqueeze(-3)  # (..., m, K of p - 1, k)
        coefficients = field.coefficients.mT.unsqueeze(-3)
        force = tangents @ coefficients  # (..., m, K of p - 1, K of 2p)
        i, j = torch.triu_indices(m, m)
        rows = tangents[..., i, :, :]
        columns = tangents[..., j, :, :]
        gram = rows @ columns.mT
        places = torch.empty(m, m, dtype=torch.int64)
        entries = torch.arange(len(i))
        places[i, j] = entries
        places[j, i] = entries
        force = _collected(force, lower.products(field.monomials))
        gram = _collected(gram, lower.products())
        return cls(Monomials(m, 3 * p - 1), force, gram, places)

    def __call__(self, z: Tensor) -> Tensor:
        powers = self.monomials(z)
        force = _weighted(powers, self.force)
        lower = powers[..., : self.gram.shape[-1]]
        return linear_solve(_weighted(lower, self.gram)[..., self.places], force)


def _weighted(powers: Tensor, coefficients: Tensor) -> Tensor:
    """Return sums (..., k) of monomials (..., K) with coefficients (..., k, K).

    Not as a product of matrices: of few columns a single member's has no use for wide vectors.
    """
    return (coefficients * powers.unsqueeze(-2)).sum(-1)


def _collected(coefficients: Tensor, products: Tensor) -> Tensor:
    """(..., k, K) sums of the coefficients (..., k, I, J) of products of monomials, by the number
    (I, J) of each product.
    """
    # products that are the same monomial meet
    flat = coefficients.flatten(-2)  # (..., k, I J)
    *lead, _ = flat.shape
    sums = flat.new_zeros(*lead, int(products.max()) + 1)
    return sums.index_add(-1, products.flatten(), flat)
