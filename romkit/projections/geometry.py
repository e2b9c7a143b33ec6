"""Geometry of the biorthogonal manifold {(Φ, Ψ): Ψᵀ Φ = I}: metrics, retractions and transports.

A point is one tensor x (..., 2, n, r) with Φ = x[..., 0, :, :] and Ψ = x[..., 1, :, :]; a tangent
vector u = (X, Y) is stacked likewise and obeys Yᵀ Φ + Ψᵀ X = 0. Exchanging Φ and Ψ maps the manifold
to itself, so a formula for one half read with the halves exchanged (`swap`) gives the other, and both
are computed at once. Leading axes never mix. Everything here is a pure function of tensors that
neither synchronises a GPU nor raises because of one bad point.

Sources: Otto, Macchio, Rowley (2023), "Learning nonlinear projections for reduced-order modeling of
dynamical systems using constrained autoencoders", for the manifold; Absil, Mahony, Sepulchre (2008),
"Optimization algorithms on matrix manifolds", chapters 3, 4 and 8, for metrics, retractions and
transports.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from romkit.core.types import Pair


def swap(x: Tensor) -> Tensor:
    """(Φ, Ψ) -> (Ψ, Φ)."""
    return x.flip(-3)


def overlap(x: Tensor) -> Tensor:
    """Ψᵀ Φ (..., r, r), the identity on the manifold."""
    phi, psi = x.unbind(-3)
    return psi.mT @ phi


def constraint(x: Tensor, u: Tensor) -> Tensor:
    """(C, Cᵀ) (..., 2, r, r) with C = Yᵀ Φ + Ψᵀ X, the rate of Ψᵀ Φ along u: zero for a tangent
    vector.
    """
    half = swap(x).mT @ u
    return half + swap(half).mT


def restore(x: Tensor) -> Tensor:
    """Φ <- Φ (Ψᵀ Φ)⁻¹: the point with the same range of Φ and the same Ψ."""
    phi, psi = x.unbind(-3)
    restored = torch.linalg.solve_ex(psi.mT @ phi, phi, left=False).result
    return torch.stack([restored, psi], -3)


@dataclass(frozen=True)
class EuclideanMetric:
    """⟨u, v⟩ = tr Xᵀ X' + tr Yᵀ Y', and what follows from it on each tangent space.

    Projection: (X - Ψ A, Y - Φ Aᵀ) with (Ψᵀ Ψ) A + A (Φᵀ Φ) = C. Another metric overrides all three
    methods.
    """

    def inner(self, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
        """⟨u, v⟩ at x, one value per point (...)."""
        return (u * v).sum((-3, -2, -1))

    def project(self, x: Tensor, u: Tensor) -> Tensor:
        """Return the tangent vector at x nearest to u (..., 2, n, r)."""
        grams = swap(x.mT @ x)  # Ψᵀ Ψ and Φᵀ Φ
        a = sylvester(grams, constraint(x, u)[..., 0, :, :])
        u = u - swap(x) @ torch.stack([a, a.mT], -3)
        # At ill-conditioned points the series leaves a normal part; this removes it along (Φ, Ψ),
        # without a solve.
        return u - 0.5 * (x @ constraint(x, u))

    def gradient(self, x: Tensor, g: Tensor) -> Tensor:
        """Return the tangent vector whose inner product with each tangent v is the derivative Σ g v
        along v.
        """
        return self.project(x, g)


@dataclass(frozen=True)
class Fractional:
    """((Φ + X) ((Ψ + Y)ᵀ (Φ + X))⁻¹, Ψ + Y), with transport by projection. Corrects its own
    rounding errors.

    A retraction: it follows a tangent vector u from x, stays on the manifold, and takes other
    tangent vectors along. For tangent u the matrix to invert is I + Yᵀ X, so it exists while ‖Yᵀ X‖
    < 1.
    """

    def retract(self, x: Tensor, u: Tensor) -> Tensor:
        """Return the point reached from x along u; it agrees with x + u to first order."""
        return restore(x + u)

    def retract_and_carry(self, x: Tensor, u: Tensor, v: Tensor) -> Pair:
        """Return the point y reached from x along u, and v carried along: its projection at y is
        the transport of v.
        """
        return restore(x + u), v


def sylvester(grams: Tensor, c: Tensor, doublings: int = 18) -> Tensor:
    """Solve for S (..., r, r) of A S + S B = C for symmetric positive definite (A, B) = grams
    (..., 2, r, r).

    S = Σₖ Uᵏ W Vᵏ with U = (A - I)(A + I)⁻¹, V = (B - I)(B + I)⁻¹, W = 2 (A + I)⁻¹ C (B + I)⁻¹,
    summed by doubling (Smith 1968, "Matrix equation XA + BX = C"). The shift 1 is the best one
    here: Ψᵀ Φ = I puts the eigenvalues of Φᵀ Φ and Ψᵀ Ψ between 1/M and M for the M = max(‖Φ‖²,
    ‖Ψ‖²). Unlike with eigenvectors, no seed can fail another. Of `doublings` 12 fall short at a
    condition number of Φ and Ψ of 100, and 16 reach rounding.
    """
    eye = torch.eye(grams.shape[-1], dtype=grams.dtype, device=grams.device)
    shape = c.shape[-2:]
    stacked = [gram.reshape(-1, *shape) for gram in grams.unbind(-3)]
    shifted = torch.cat(stacked) + eye
    inverse = torch.linalg.inv_ex(shifted).inverse  # of all A, then of all B
    left, right = inverse.chunk(2)
    solution = 2 * (left @ c.reshape(left.shape) @ right)
    factors = eye - 2 * inverse
    for _ in range(doublings):
        left, right = factors.chunk(2)
        solution = torch.baddbmm(solution, torch.bmm(left, solution), right)
        factors = torch.bmm(factors, factors)
    return solution.reshape(c.shape)
