"""Weights of layers that invert each other: pairs of matrices, biorthogonal or free, and those that
follow the context.
"""

import abc

import torch
from torch import Tensor, nn

from romkit.core.broadcast import matmul
from romkit.projections.networks import orthonormal


class Pair(nn.Module, abc.ABC):
    """The two matrices behind a layer's weights, equal and orthonormal at the start.

    Args:
        wide: n, the size on the state side.
        narrow: r, the size on the latent side.
        generator: source of the initial matrix.
    """

    def __init__(self, wide: int, narrow: int, generator: torch.Generator):
        super().__init__()
        basis = orthonormal(wide, narrow, generator)
        self.phi = nn.Parameter(basis.clone())
        self.psi = nn.Parameter(basis)

    @abc.abstractmethod
    def forward(self) -> tuple[Tensor, Tensor]:
        """Φ and Ψ, each (..., n, r)."""

    @staticmethod
    @abc.abstractmethod
    def penalty(phi: Tensor, psi: Tensor) -> Tensor:
        """Term of the training loss for the matrices that `forward` gave, one value per seed."""


class BiorthogonalPair(Pair):
    """Φ = Φ̃ (Ψ̃ᵀ Φ̃)⁻¹, Ψ = Ψ̃ with free Φ̃, Ψ̃: exactly biorthogonal at every step of any
    optimizer.

    Φ is computed in float64 and rounded once, to the precision of the model: rounding errors of an
    inverse in float32 would be a large part of the idempotency error. A model trained in float32
    and cast to float64 satisfies Ψᵀ Φ = I to float64. Source: Otto, Macchio, Rowley (2023),
    "Learning nonlinear projections for reduced-order modeling of dynamical systems using
    constrained autoencoders".
    """

    def forward(self) -> tuple[Tensor, Tensor]:
        phi = self.phi.double()
        psi = self.psi.double()
        # inv_ex neither synchronises a GPU nor raises for a whole stack because of one seed
        return (phi @ torch.linalg.inv_ex(psi.mT @ phi).inverse).to(self.phi), self.psi

    @staticmethod
    def penalty(phi: Tensor, psi: Tensor) -> Tensor:
        """‖Φ - Ψ‖²: zero at orthonormal weights, it keeps the pair well conditioned."""
        return (phi - psi).square().sum((-1, -2))


class FollowingWeight(nn.Module):
    """Φ(c) = Φ + (I - Φ Ψᵀ) Δ(c) with Δ(c) = Σₖ sₖ Aₖ, linear in the signal s and zero at the start.

    Ψᵀ Φ(c) = I for every Δ where Ψᵀ Φ = I: at a fixed Ψ the matrices with this property are an affine
    space. So Φ(c) needs no inverse at each context, and is as smooth as s.

    Args:
        signal: size d of s.
        wide, narrow: n and r of the pair.
    """

    def __init__(self, signal: int, wide: int, narrow: int):
        super().__init__()
        self.directions = nn.Parameter(torch.zeros(signal, wide, narrow))

    def forward(self, phi: Tensor, psi: Tensor, signal: Tensor) -> Tensor:
        """Φ(c) (..., n, r), of a pair that may have a seed axis and a signal (..., d)."""
        inside = psi.mT.unsqueeze(-3) @ self.directions  # (..., d, r, r)
        beside = self.directions - phi.unsqueeze(-3) @ inside  # (..., d, n, r)
        flat = matmul(signal, beside.flatten(-2))  # (..., n r)
        moved = flat.unflatten(-1, phi.shape[-2:])
        return expand_contexts(phi, moved) + moved


def expand_contexts(matrix: Tensor, like: Tensor) -> Tensor:
    """Return a matrix (n, r), or one per seed (S, n, r), with axes put in for the contexts of
    `like` (..., n, r).
    """
    missing = like.ndim - matrix.ndim
    lead = matrix.shape[:-2]
    return matrix.reshape(*lead, *(1,) * missing, *matrix.shape[-2:])


class FreePair(Pair):
    """Φ and Ψ without a constraint, as in SoftNcAE."""

    def forward(self) -> tuple[Tensor, Tensor]:
        return self.phi, self.psi

    @staticmethod
    def penalty(phi: Tensor, psi: Tensor) -> Tensor:
        """‖Ψᵀ Φ - I‖², the Euclidean penalty of the paper."""
        eye = torch.eye(phi.shape[-1], dtype=phi.dtype, device=phi.device)
        return (psi.mT @ phi - eye).square().sum((-1, -2))
