"""Problems in the form that costs least to integrate: the decoder's last layer, or the polynomial
that a decoder is, contracted with a quadratic field once.
"""

import math

import torch
from torch import Tensor

from romkit.integrators.base import LatentDynamics
from romkit.integrators.galerkin import PetrovGalerkin
from romkit.projections import Path
from romkit.projections.networks import Affine, Curve, Curves, Networks
from romkit.projections.operator import PolynomialMaps
from romkit.systems.problem import FirstOrder, Problem, euclidean
from romkit.systems.terms import Quadratic


def contracted(problem: Problem, dynamics: LatentDynamics, quadratic: Quadratic | None) -> Problem:
    """Problem with the same rate of these dynamics that costs least.

    Args:
        problem: of a system.
        dynamics: that are to solve it.
        quadratic: its field with the contexts bound, for states (..., r); None for another one.
    """
    if dynamics.needs == "decoder":
        return precontracted(problem, quadratic)
    if isinstance(dynamics, PetrovGalerkin) and _is_plain(problem, quadratic):
        maps = problem.path.operator.polynomial()
        return problem if maps is None else _in_latents(problem, quadratic, maps)
    return problem


def precontracted(problem: Problem, quadratic: Quadratic | None) -> Problem:
    """Problem in the hidden units before the decoder's last layer, with the same decoder-side
    dynamics.

    The last layer is contracted with the field once. Problems without such a layer are returned
    unchanged.

    Args:
        problem: of first order, at contexts that stay, with the identity as metric.
        quadratic: its field with the contexts bound, for states (..., r).
    """
    if not _is_plain(problem, quadratic) or problem.metric is not euclidean:
        return problem
    if (maps := problem.path.operator.polynomial()) is not None:
        return _in_modes(problem, quadratic, maps)
    layer = problem.path.operator.last_layer()
    if layer is None or layer.factor.shape[-1] >= layer.factor.shape[-2]:
        return problem
    gram = layer.factor.mT @ layer.factor
    # the rate of a is the one nearest to the rate of y
    test = torch.linalg.solve(gram, layer.factor.mT).mT
    field = quadratic.substituted(layer.factor, layer.shift, test)

    def metric(x: Tensor, u: Tensor) -> Tensor:
        return gram @ u

    return FirstOrder(Path.constant(layer.hidden), lambda t, a: field(a), metric)


def _is_plain(problem: Problem, quadratic: Quadratic | None) -> bool:
    """Whether the field is quadratic, without inputs, at contexts that stay."""
    return quadratic is not None and problem.control is None and problem.path.operator is not None


class Identity(Curves):
    """Maps of latents to themselves."""

    def encoded(self, y: Curve) -> Curve:
        return y

    def decoded(self, z: Curve) -> Curve:
        return z


def _in_latents(problem: Problem, quadratic: Quadratic, maps: PolynomialMaps) -> Problem:
    """Problem in the latents alone, whose field is the encoded one."""
    field = quadratic.of_polynomial(maps.monomials, maps.rows, maps.test)
    P = problem.path.operator
    latents = P.of_hidden(Identity(), P.latent_dim)
    return FirstOrder(Path.constant(latents), lambda t, z: field(z))


def _in_modes(problem: Problem, quadratic: Quadratic, maps: PolynomialMaps) -> Problem:
    """Problem in orthonormal coordinates b of the subspace that the decoder reaches, y = y₀ + Q b,
    with the field as a polynomial of the latents.
    """
    rows = maps.rows[..., 1:, :]  # those of the constant do not move
    Q, triangle = torch.linalg.qr(rows.mT)  # (..., r, k), (..., k, K - 1)
    r, k = Q.shape[-2:]
    m, degree = maps.monomials.variables, maps.monomials.degree
    multiplications = math.comb(m + 2 * degree, m) * k
    if multiplications >= r * r * (r + 1) // 2:
        return problem
    field = quadratic.of_polynomial(maps.monomials, maps.rows, Q)
    powers, _ = maps.decoder
    still = triangle.new_zeros(*triangle.shape[:-2], k)
    P = problem.path.operator
    hidden = P.of_hidden(Networks([], [powers, Affine(triangle.mT, still)]), k)
    back = Q.mT @ maps.test  # of b to z, since the encoder is linear and takes y₀ to zero

    def rate(t: Tensor, b: Tensor) -> Tensor:
        z = b @ back if back.ndim == 2 else (b.unsqueeze(-2) @ back).squeeze(-2)
        return field(z)

    return FirstOrder(Path.constant(hidden), rate)
