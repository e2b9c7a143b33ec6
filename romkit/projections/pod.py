"""Proper orthogonal decomposition: the best linear projection of the training states."""

import torch
from torch import Tensor, nn

from romkit.broadcast import matmul
from romkit.projections.base import Maps, Projection
from romkit.projections.biorthogonal import orthonormal
from romkit.projections.frame import Frame
from romkit.types import Value


class Subspace(Maps):
    """z = (VᵀV)⁻¹ Vᵀ y and y = V z: modes that were rounded to float32 still give a projection in float64."""

    def __init__(self, modes: Tensor):
        self.modes = modes
        self.dual = torch.linalg.solve_ex(modes.mT @ modes, modes.mT).result.mT

    def encode(self, y: Tensor) -> Tensor:
        return matmul(y, self.dual)

    def decode(self, z: Tensor) -> Tensor:
        return matmul(z, self.modes.mT)

    def encode_jvp(self, y: Tensor, v: Tensor) -> Value:
        return Value(self.encode(y), self.encode(v))

    def decode_jvp(self, z: Tensor, w: Tensor) -> Value:
        return Value(self.decode(z), self.decode(w))

    def decode_curvature(self, z: Tensor, w: Tensor) -> Tensor:
        return torch.zeros_like(self.decode(w))


class POD(Projection):
    """P(x) = x̄ + V Vᵀ (x - x̄), V the leading left singular vectors of the centred snapshots; no context.

    Args:
        latent_dim: number m of modes.

    Source: Holmes et al., Turbulence, Coherent Structures, Dynamical Systems and Symmetry, chapter 3.
    """

    name = "pod"
    exact = True

    def __init__(self, frame: Frame, generator: torch.Generator, *, latent_dim: int):
        super().__init__(frame, {"latent_dim": latent_dim})
        self.latent_dim = latent_dim
        basis = orthonormal(len(frame.signature.state_names), latent_dim, generator)
        self.modes = nn.Parameter(basis, requires_grad=False)

    def bind(self, c: Tensor) -> Subspace:
        return Subspace(self.modes)

    def initialise(self, y: Tensor) -> None:
        """Modes of the snapshots y (N, n), from the eigenvectors of their covariance in float64."""
        y = y.double()
        _, vectors = torch.linalg.eigh(y.mT @ y)
        self.modes.data = vectors.flip(-1)[:, : self.latent_dim].contiguous().to(self.modes)
