"""Pairs of weights (Φ, Ψ) of one layer: exactly biorthogonal, Ψᵀ Φ = I, or free."""

import torch
from torch import Tensor, nn


class BiorthogonalPair(nn.Module):
    """Φ = Φ̃ (Ψ̃ᵀ Φ̃)⁻¹, Ψ = Ψ̃ with free Φ̃, Ψ̃: exactly biorthogonal at every step of any optimizer.

    The inverse is taken in the precision of the call, so a model trained in float32 and cast to float64 satisfies
    Ψᵀ Φ = I to float64. Source: Otto, Macchio, Rowley (2023), "Learning nonlinear projections ...".

    Args:
        wide, narrow: n and r, the sizes on the state and on the latent side.
        generator: source of the initial orthonormal Φ = Ψ.
    """

    def __init__(self, wide: int, narrow: int, generator: torch.Generator):
        super().__init__()
        basis = orthonormal(wide, narrow, generator)
        self.phi = nn.Parameter(basis.clone())
        self.psi = nn.Parameter(basis)

    def forward(self) -> tuple[Tensor, Tensor]:
        """Φ and Ψ, each (..., n, r)."""
        gram = self.psi.mT @ self.phi
        # Xᵀ = (gram)⁻ᵀ Φ̃ᵀ; solve_ex neither synchronises a GPU nor raises for a whole stack because of one seed.
        phi = torch.linalg.solve_ex(gram.mT, self.phi.mT).result.mT
        return phi, self.psi

    def penalty(self) -> Tensor:
        """‖Φ - Ψ‖²: zero at orthonormal weights, it keeps the pair well conditioned. One value per seed."""
        phi, psi = self()
        return (phi - psi).square().sum((-1, -2))


class FreePair(nn.Module):
    """Φ and Ψ without a constraint, as in SoftNcAE; starts biorthogonal. Arguments as in `BiorthogonalPair`."""

    def __init__(self, wide: int, narrow: int, generator: torch.Generator):
        super().__init__()
        basis = orthonormal(wide, narrow, generator)
        self.phi = nn.Parameter(basis.clone())
        self.psi = nn.Parameter(basis)

    def forward(self) -> tuple[Tensor, Tensor]:
        return self.phi, self.psi

    def penalty(self) -> Tensor:
        """‖Ψᵀ Φ - I‖², the Euclidean penalty of the paper. One value per seed."""
        eye = torch.eye(self.phi.shape[-1], dtype=self.phi.dtype, device=self.phi.device)
        return (self.psi.mT @ self.phi - eye).square().sum((-1, -2))


def orthonormal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """(rows, columns) matrix with orthonormal columns, uniformly distributed."""
    gaussian = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(gaussian)
    return (q * r.diagonal().sign()).to(torch.get_default_dtype()).contiguous()
