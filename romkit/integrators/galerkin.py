"""Galerkin projection onto the decoder's tangent space (orthogonal), and its oblique counterpart by the encoder."""

from dataclasses import dataclass

import torch
from torch import Tensor

from romkit.integrators.base import LatentField, solve, transposed_product
from romkit.types import Dual, Field, Mass, ProjectionOperator, SecondOrderField


@dataclass(frozen=True)
class Galerkin(LatentField):
    """The latent velocity whose decoded image is closest to the full one: ż = (JᵀJ)⁻¹ Jᵀ f(t, φ(z)), J = Dφ(z).

    For mechanical systems the distance is measured by the inertia M, as d'Alembert's principle asks:
    JᵀMJ z̈ = JᵀM (f - D²φ(ż, ż)). The residual f - J ż is orthogonal to the manifold, and so is that of the initial
    state: a trajectory starts at the point of the manifold nearest to x in the same metric, found by Gauss-Newton
    from the encoded state. Where inertia sits in as many components as there are latent ones, as in the pendulum,
    those start without error and then move as in the full model.

    Source: Lee & Carlberg (2020), Model reduction of dynamical systems on nonlinear manifolds, section 3.2;
    Lall, Krysl, Marsden (2003) for mechanical systems.
    """

    def latent_state(self, P: ProjectionOperator, x: Tensor) -> Tensor:
        return nearest(P, x, torch.eye(x.shape[-1], dtype=x.dtype, device=x.device))

    def latent_motion(self, P: ProjectionOperator, q: Tensor, v: Tensor, mass: Mass) -> Dual:
        M = mass(q)
        z = nearest(P, q, M)
        J = P.decode_jacobian(z).tangent
        return Dual(z, solve(J.mT @ M @ J, transposed_product(M @ J, v)))

    def latent_field(self, P: ProjectionOperator, f: Field) -> Field:
        def g(t: Tensor, z: Tensor) -> Tensor:
            x, J = P.decode_jacobian(z)
            return solve(J.mT @ J, transposed_product(J, f(t, x)))

        return g

    def latent_acceleration(self, P: ProjectionOperator, f: SecondOrderField, mass: Mass) -> SecondOrderField:
        def h(t: Tensor, z: Tensor, dz: Tensor) -> Tensor:
            q, J = P.decode_jacobian(z)
            residual = f(t, q, (J @ dz.unsqueeze(-1)).squeeze(-1)) - P.decode_curvature(z, dz)
            MJ = mass(q) @ J
            return solve(J.mT @ MJ, transposed_product(MJ, residual))

        return h


@dataclass(frozen=True)
class PetrovGalerkin(LatentField):
    """The velocity of the encoded state: ż = Dρ(x) f(t, x) at x = φ(z), the oblique projection along the fibres of ρ.

    For mechanical systems z̈ = d/dt (Dρ(q) q̇) = Dρ(q) (f - D²φ(ż, ż)); the two are equal where ρ ∘ φ = id, which
    is what the second form assumes.

    Source: Otto, Macchio, Rowley (2023), section 2; Adriaens et al. (2026).
    """

    def latent_field(self, P: ProjectionOperator, f: Field) -> Field:
        def g(t: Tensor, z: Tensor) -> Tensor:
            x = P.decode(z)
            return P.encode_jvp(x, f(t, x)).tangent

        return g

    def latent_acceleration(self, P: ProjectionOperator, f: SecondOrderField, mass: Mass) -> SecondOrderField:
        def h(t: Tensor, z: Tensor, dz: Tensor) -> Tensor:
            q, dq = P.decode_jvp(z, dz)
            return P.encode_jvp(q, f(t, q, dq) - P.decode_curvature(z, dz)).tangent

        return h


def nearest(P: ProjectionOperator, x: Tensor, weight: Tensor, *, steps: int = 10) -> Tensor:
    """z (..., m) that minimises rᵀ W r, r = x - φ(z), W = `weight` (..., n, n): Gauss-Newton from z = ρ(x).

    A step that would not lower the distance is not taken, member by member.
    """

    def distance(z: Tensor) -> Tensor:
        r = (x - P.decode(z)).unsqueeze(-1)
        return (r.mT @ weight @ r).squeeze(-1)

    z = P.encode(x)
    best = distance(z)
    for _ in range(steps):
        y, J = P.decode_jacobian(z)
        candidate = z + solve(J.mT @ weight @ J, transposed_product(weight @ J, x - y))
        reached = distance(candidate)
        z, best = torch.where(reached < best, candidate, z), torch.minimum(reached, best)
    return z
