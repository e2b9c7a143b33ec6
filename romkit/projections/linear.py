"""Linear manifolds: proper orthogonal decomposition."""

import torch
from torch import Tensor, nn

from romkit.bases import decompose
from romkit.bases.modes import EXACT
from romkit.core.boundary import Count, validated
from romkit.core.broadcast import matmul
from romkit.core.errors import InputError
from romkit.projections.base import Projection
from romkit.projections.frame import Frame
from romkit.projections.networks import Curve, Curves, orthonormal
from romkit.projections.sizes import check_chain


class Subspace(Curves):
    """z = (VᵀV)⁻¹ Vᵀ y and y = V z: modes that were rounded to float32 still give a projection in
    float64.
    """

    takes_gaps = True

    def __init__(self, modes: Tensor):
        self.modes = modes
        self.dual = torch.linalg.solve_ex(modes.mT @ modes, modes.mT).result.mT

    def encoded(self, y: Curve) -> Curve:
        return tuple(matmul(derivative, self.dual) for derivative in y)

    def decoded(self, z: Curve) -> Curve:
        return tuple(matmul(derivative, self.modes.mT) for derivative in z)

    def decode_curvature(self, z: Tensor, w: Tensor) -> Tensor:
        return torch.zeros_like(self.decode(w))


@validated
class POD(Projection):
    """P(x) = x̄ + V Vᵀ (x - x̄), V the leading left singular vectors of the centred snapshots; no
    context.

    Args:
        latent_dim: number m of modes.

    Source: Holmes et al., Turbulence, Coherent Structures, Dynamical Systems and Symmetry, chapter
    3.

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

    def __init__(self, frame: Frame, generator: torch.Generator, *, latent_dim: Count):
        check_chain("latent_dim", (latent_dim, frame.size), frame.size)
        super().__init__(frame, {"latent_dim": latent_dim})
        self.latent_dim = latent_dim
        basis = orthonormal(frame.size, latent_dim, generator)
        self.modes = nn.Parameter(basis, requires_grad=False)

    def at(self, c: Tensor) -> Subspace:
        return Subspace(self.modes)

    def initialise(self, y: Tensor, c: Tensor) -> None:
        """Modes of the snapshots y (N, n)."""
        self.modes.data = leading_modes(y, self.latent_dim).to(self.modes)


def leading_modes(y: Tensor, number: int) -> Tensor:
    """(n, number) in float64: orthonormal directions along which snapshots y (N, n) are largest."""
    y = y.double()
    if y.shape[1] > EXACT:  # an n x n matrix would be too large
        modes = decompose(y, number).modes
        # snapshots may vary along fewer directions: others, orthogonal to these, follow
        further = torch.eye(len(modes), number - modes.shape[1], dtype=modes.dtype)
        if not further.numel():
            return modes
        return torch.linalg.qr(torch.cat([modes, further], dim=1)).Q
    gram = y.mT @ y
    if not bool(gram.isfinite().all()):
        raise InputError(
            "y",
            expected="finite snapshots",
            got="NaN, infinity or larger ones",
            fix="scale the data",
        )
    _, vectors = torch.linalg.eigh(gram)
    return vectors.flip(-1)[:, :number].contiguous()
