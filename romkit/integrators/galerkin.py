"""Galerkin projection onto the decoder's tangent space (orthogonal), and its oblique counterpart by the encoder."""

from dataclasses import dataclass

from torch import Tensor

from romkit.integrators.base import LatentDynamics, solve
from romkit.types import Field, Mass, ProjectionOperator, SecondOrderField


@dataclass(frozen=True)
class Galerkin(LatentDynamics):
    """The latent velocity whose decoded image is closest to the full one: ż = (JᵀJ)⁻¹ Jᵀ f(t, φ(z)), J = Dφ(z).

    For mechanical systems the distance is measured by the inertia M, as d'Alembert's principle asks:
    JᵀMJ z̈ = JᵀM (f - D²φ(ż, ż)). Needs the decoder alone. The residual f - J ż is orthogonal to the manifold.

    Source: Lee & Carlberg (2020), Model reduction of dynamical systems on nonlinear manifolds, section 3.2;
    Lall, Krysl, Marsden (2003) for mechanical systems.
    """

    def latent_field(self, P: ProjectionOperator, f: Field) -> Field:
        def g(t: Tensor, z: Tensor) -> Tensor:
            x, J = P.decode_jacobian(z)
            return solve(J.mT @ J, _transposed_product(J, f(t, x)))

        return g

    def latent_acceleration(self, P: ProjectionOperator, f: SecondOrderField, mass: Mass) -> SecondOrderField:
        def h(t: Tensor, z: Tensor, dz: Tensor) -> Tensor:
            q, J = P.decode_jacobian(z)
            residual = f(t, q, (J @ dz.unsqueeze(-1)).squeeze(-1)) - P.decode_curvature(z, dz)
            MJ = mass(q) @ J
            return solve(J.mT @ MJ, _transposed_product(MJ, residual))

        return h


@dataclass(frozen=True)
class PetrovGalerkin(LatentDynamics):
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


def _transposed_product(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix.mT @ vector.unsqueeze(-1)).squeeze(-1)
