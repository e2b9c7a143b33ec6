"""Pairs of weights (Φ, Ψ) of one layer: exactly biorthogonal, Ψᵀ Φ = I, or free."""

import abc

import torch
from torch import Tensor, nn


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
        """What training adds to the loss for the matrices that `forward` gave, one value per seed."""


class BiorthogonalPair(Pair):
    """Φ = Φ̃ (Ψ̃ᵀ Φ̃)⁻¹, Ψ = Ψ̃ with free Φ̃, Ψ̃: exactly biorthogonal at every step of any optimizer.

    Φ is computed in float64 and rounded once, to the precision of the model: rounding errors of an inverse in float32
    would be a large part of the idempotency error. A model trained in float32 and cast to float64 satisfies Ψᵀ Φ = I to
    float64. Source: Otto, Macchio, Rowley (2023), "Learning nonlinear projections for reduced-order modeling of
    dynamical systems using constrained autoencoders".
    """

    def forward(self) -> tuple[Tensor, Tensor]:
        phi, psi = self.phi.double(), self.psi.double()
        # inv_ex neither synchronises a GPU nor raises for a whole stack because of one seed.
        return (phi @ torch.linalg.inv_ex(psi.mT @ phi).inverse).to(self.phi), self.psi

    @staticmethod
    def penalty(phi: Tensor, psi: Tensor) -> Tensor:
        """‖Φ - Ψ‖²: zero at orthonormal weights, it keeps the pair well conditioned."""
        return (phi - psi).square().sum((-1, -2))


class FreePair(Pair):
    """Φ and Ψ without a constraint, as in SoftNcAE."""

    def forward(self) -> tuple[Tensor, Tensor]:
        return self.phi, self.psi

    @staticmethod
    def penalty(phi: Tensor, psi: Tensor) -> Tensor:
        """‖Ψᵀ Φ - I‖², the Euclidean penalty of the paper."""
        eye = torch.eye(phi.shape[-1], dtype=phi.dtype, device=phi.device)
        return (psi.mT @ phi - eye).square().sum((-1, -2))


def orthonormal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """(rows, columns) matrix with orthonormal columns, uniformly distributed."""
    gaussian = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(gaussian)
    return (q * r.diagonal().sign()).to(torch.get_default_dtype()).contiguous()
