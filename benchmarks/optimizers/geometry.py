"""Another metric and another retraction of the biorthogonal manifold, that the paper's are raced
against.

See `romkit.projections.geometry` for the notation. No preset uses them (RESULTS.md has the race).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from romkit.projections.geometry import EuclideanMetric, Fractional, constraint, swap


def polish(x: Tensor) -> Tensor:
    """x + ½ x (I - Ψᵀ Φ), halves alike: squares an error of Ψᵀ Φ that is already small, by products
    alone.
    """
    return 1.5 * x - 0.5 * (x @ (swap(x).mT @ x))


@dataclass(frozen=True)
class InvariantMetric(EuclideanMetric):
    """⟨u, v⟩ = tr (Φᵀ Φ)⁻¹ Xᵀ X' + tr (Ψᵀ Ψ)⁻¹ Yᵀ Y': unchanged under (Φ, Ψ) -> (Φ A, Ψ A⁻ᵀ) for A
    in GL(r).

    Projection: (X - ½ Ψ (Ψᵀ Ψ)⁻¹ C, Y - ½ Φ (Φᵀ Φ)⁻¹ Cᵀ). Gradient: the projection of (G_Φ Φᵀ Φ,
    G_Ψ Ψᵀ Ψ).
    """

    def inner(self, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
        ratio = torch.linalg.solve_ex(x.mT @ x, u.mT @ v).result
        return ratio.diagonal(dim1=-2, dim2=-1).sum((-2, -1))

    def project(self, x: Tensor, u: Tensor) -> Tensor:
        a = torch.linalg.solve_ex(swap(x.mT @ x), constraint(x, u)).result
        return u - 0.5 * (swap(x) @ a)

    def gradient(self, x: Tensor, g: Tensor) -> Tensor:
        return self.project(x, g @ (x.mT @ x))


@dataclass(frozen=True)
class Cayley(Fractional):
    """(g Φ, g⁻ᵀ Ψ) with g = (I - ½ Ω)⁻¹ (I + ½ Ω), Ω Φ = X, -Ωᵀ Ψ = Y, and transport (g X', g⁻ᵀ
    Y'): exactly tangent.

    Ω = X⊥ Ψᵀ - Φ Y⊥ᵀ - Φ K Ψᵀ for the parts X⊥ = X - Φ Ψᵀ X, Y⊥ = Y - Ψ Φᵀ Y and K = Yᵀ Φ of u. It
    has rank 2r, and the Woodbury identity leaves a single r × r inverse per half: with S = I + ½ K
    + ¼ Y⊥ᵀ X⊥,
        g Φ = (2 Φ + X⊥) S⁻¹ - Φ,    g Z = Z + X⊥ (Ψᵀ Z - ½ B) - Φ B,    B = S⁻¹ (Yᵀ + ½ Y⊥ᵀ X⊥ Ψᵀ) Z,
    and g⁻ᵀ is g with the halves exchanged. The move equals that by exp Ω to second order and can be
    undone: from y along -u, transported, it leads back to x. Source: Wen & Yin (2013), "A feasible
    method for optimization with orthogonality constraints", section 2, carried over from
    orthonormal to biorthogonal matrices.
    """

    def retract(self, x: Tensor, u: Tensor) -> Tensor:
        perpendicular, k, h = self._parts(x, u)
        return self._move(x, perpendicular, self._inverse(k, h))

    def retract_and_carry(self, x: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        perpendicular, k, h = self._parts(x, u)
        inverse = self._inverse(k, h)
        across = swap(x).mT @ v
        b = inverse @ (swap(perpendicular - x @ k).mT @ v + 0.5 * (h @ across))
        carried = v + perpendicular @ (across - 0.5 * b) - x @ b
        return self._move(x, perpendicular, inverse), carried

    def _parts(self, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        half = swap(x).mT @ u
        # (K, -Kᵀ), antisymmetrised so that a part of u that is not tangent drops out.
        k = 0.5 * (swap(half).mT - half)
        perpendicular = u - x @ half
        return perpendicular, k, swap(perpendicular).mT @ perpendicular

    def _inverse(self, k: Tensor, h: Tensor) -> Tensor:
        return torch.linalg.inv_ex(
            torch.eye(k.shape[-1], dtype=k.dtype, device=k.device) + 0.5 * k + 0.25 * h
        ).inverse

    def _move(self, x: Tensor, perpendicular: Tensor, inverse: Tensor) -> Tensor:
        # g and g⁻ᵀ keep the error of Ψᵀ Φ as it is, so rounding would add up over the steps.
        return polish((2 * x + perpendicular) @ inverse - x)
