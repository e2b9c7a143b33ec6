"""Proper orthogonal decomposition: the best linear projection of the training states."""

import torch
from torch import Tensor, nn

from romkit.bases import decompose
from romkit.bases.decomposition import EXACT
from romkit.boundary import Count, checked
from romkit.broadcast import matmul
from romkit.errors import InputError
from romkit.projections.base import Projection
from romkit.projections.biorthogonal import orthonormal
from romkit.projections.maps import EncoderDecoder
from romkit.projections.normalization import Normalization
from romkit.projections.sizes import check_chain
from romkit.types import Dual


class Subspace(EncoderDecoder):
    """z = (VᵀV)⁻¹ Vᵀ y and y = V z: modes that were rounded to float32 still give a projection in float64."""

    def __init__(self, modes: Tensor):
        self.modes = modes
        self.dual = torch.linalg.solve_ex(modes.mT @ modes, modes.mT).result.mT

    def encode(self, y: Tensor) -> Tensor:
        return matmul(y, self.dual)

    def decode(self, z: Tensor) -> Tensor:
        return matmul(z, self.modes.mT)

    def encode_jvp(self, y: Tensor, v: Tensor) -> Dual:
        return Dual(self.encode(y), self.encode(v))

    def decode_jvp(self, z: Tensor, w: Tensor) -> Dual:
        return Dual(self.decode(z), self.decode(w))

    def decode_curvature(self, z: Tensor, w: Tensor) -> Tensor:
        return torch.zeros_like(self.decode(w))


@checked
class POD(Projection):
    """P(x) = x̄ + V Vᵀ (x - x̄), V the leading left singular vectors of the centred snapshots; no context.

    Args:
        latent_dim: number m of modes.

    Source: Holmes et al., Turbulence, Coherent Structures, Dynamical Systems and Symmetry, chapter 3.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> pod = romkit.fit("pod", data, latent_dim=3)
        >>> pod(data).encode(data).dims
        ('trajectory', 'time', 'latent_component')
        >>> pod.basis is None, tuple(pod.modes.shape)
        (True, (36, 3))
    """

    name = "pod"
    idempotent = True
    trained = False

    def __init__(self, normalization: Normalization, generator: torch.Generator, *, latent_dim: Count):
        check_chain("latent_dim", (latent_dim, normalization.size), normalization.size)
        super().__init__(normalization, {"latent_dim": latent_dim})
        self.latent_dim = latent_dim
        basis = orthonormal(normalization.size, latent_dim, generator)
        self.modes = nn.Parameter(basis, requires_grad=False)

    def at(self, c: Tensor) -> Subspace:
        return Subspace(self.modes)

    def initialise(self, y: Tensor) -> None:
        """Modes of the snapshots y (N, n)."""
        self.modes.data = leading_modes(y, self.latent_dim).to(self.modes)


def leading_modes(y: Tensor, number: int) -> Tensor:
    """(n, number) in float64: orthonormal directions along which snapshots y (N, n) are largest."""
    y = y.double()
    if y.shape[1] > EXACT:  # an n x n matrix would be too large
        return _filled(decompose(y, number).modes, number)
    gram = y.mT @ y
    if not bool(gram.isfinite().all()):
        raise InputError("y", expected="finite snapshots", got="NaN, infinity or larger ones", fix="scale the data")
    _, vectors = torch.linalg.eigh(gram)
    return vectors.flip(-1)[:, :number].contiguous()


def _filled(modes: Tensor, number: int) -> Tensor:
    """Modes (n, k), and behind them directions in which snapshots do not vary where there are fewer than `number`."""
    missing = number - modes.shape[1]
    if missing <= 0:
        return modes
    further = torch.eye(len(modes), missing, dtype=modes.dtype)
    return torch.linalg.qr(torch.cat([modes, further], dim=1)).Q
