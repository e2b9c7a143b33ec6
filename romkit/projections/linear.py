"""Linear and quadratic manifolds: proper orthogonal decomposition, and products of its coordinates."""

import torch
from torch import Tensor, nn

from romkit.bases import decompose
from romkit.bases.modes import EXACT
from romkit.core.boundary import Count, Positive, validated
from romkit.core.errors import InputError
from romkit.core.tensors import matmul, pairs
from romkit.projections.base import Projection, check_chain
from romkit.projections.frame import Frame
from romkit.projections.layers import Affine, Curve, Curves, Networks, orthonormal, product, uniform


class Subspace(Curves):
    """z = (VᵀV)⁻¹ Vᵀ y and y = V z: modes that were rounded to float32 still give a projection in
    float64.
    """

    def __init__(self, modes: Tensor):
        self.modes = modes
        self.dual = torch.linalg.solve_ex(modes.mT @ modes, modes.mT).result.mT

    def encoded(self, y: Curve) -> Curve:
        return tuple(matmul(part, self.dual) for part in y)

    def decoded(self, z: Curve) -> Curve:
        return tuple(matmul(part, self.modes.mT) for part in z)

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

    def initialise(self, y: Tensor) -> None:
        """Modes of the snapshots y (N, n)."""
        self.modes.data = leading_modes(y, self.latent_dim).to(self.modes)


def leading_modes(y: Tensor, number: int) -> Tensor:
    """(n, number) in float64: orthonormal directions along which snapshots y (N, n) are largest."""
    y = y.double()
    if y.shape[1] > EXACT:  # an n x n matrix would be too large
        modes = decompose(y, number).modes
        # snapshots may vary along fewer directions: others, orthogonal to these, follow
        further = torch.eye(len(modes), number - modes.shape[1], dtype=modes.dtype)
        return torch.linalg.qr(torch.cat([modes, further], dim=1)).Q if further.numel() else modes
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


RIDGES = tuple(10.0**-k for k in range(11))
"""Regularisations that are tried, the largest first."""

BLOCKS = 5
"""Number of blocks of consecutive snapshots that are held out in turn; single snapshots have
neighbours like them.
"""

RESOLVED = 1e-7
"""Size of a product, relative to the largest, below which data in float32 do not hold it."""


def with_products(z: Curve) -> Curve:
    """z -> (z, zᵢ zⱼ for i <= j), a step of a decoder."""
    return tuple(
        torch.cat([part, more], dim=-1) for part, more in zip(z, product(pairs, z, z), strict=True)
    )


@validated
class QuadraticManifold(Projection):
    """ρ(x) = Vᵀ (x - x̄), φ(z) = x̄ + V z + W (z ⊗ z) + w, with the m leading modes V, Vᵀ W = 0, Vᵀ
    w = 0; no context.

    W is fitted to what the modes leave of the snapshots by least squares with λ‖W‖², where the
    products are scaled to the same size, and w takes away their mean. Exact, since the encoder sees
    neither.

    Args:
        latent_dim: m.
        regularisation: λ; by default the one of 1, 0.1, ..., 1e-10 that is best for snapshots that
            are held out, a fifth of them at a time.

    Source: Barnett, Farhat (2022), Quadratic approximation manifold for mitigating the Kolmogorov
    barrier in nonlinear projection-based model order reduction; Geelen, Wright, Willcox (2023),
    Operator inference for non-intrusive model reduction with quadratic manifolds, for W in closed
    form.

    Example:
        >>> import torch
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=[3.14, 3.18])
        >>> P = romkit.fit("quadratic-manifold", data, latent_dim=2).double()(F=3.15)
        >>> x = torch.from_numpy(data.state.values)
        >>> torch.allclose(P(P(x)), P(x))
        True
    """

    name = "quadratic-manifold"
    idempotent = True
    trained = False

    def __init__(
        self,
        frame: Frame,
        generator: torch.Generator,
        *,
        latent_dim: Count,
        regularisation: Positive | None = None,
    ):
        check_chain("latent_dim", (latent_dim, frame.size), frame.size)
        super().__init__(frame, {"latent_dim": latent_dim, "regularisation": regularisation})
        self.latent_dim, self.regularisation = latent_dim, regularisation
        n, number = frame.size, latent_dim * (latent_dim + 1) // 2
        self.modes = nn.Parameter(orthonormal(n, latent_dim, generator), requires_grad=False)
        self.correction = nn.Parameter(
            uniform((1 + number, n), 0.1, generator), requires_grad=False
        )  # w and Wᵀ

    def at(self, c: Tensor) -> Networks:
        modes, dual = self.modes, Subspace(self.modes).dual
        beside = (
            self.correction - self.correction @ dual @ modes.mT
        )  # also where it was rounded to float32
        decoder = torch.cat([modes.mT, beside[..., 1:, :]], dim=-2)
        encoder = Affine(dual, modes.new_zeros(self.latent_dim))
        return Networks([encoder], [with_products, Affine(decoder, beside[..., 0, :])])

    def initialise(self, y: Tensor) -> None:
        """Modes, w and W of the snapshots y (N, n)."""
        modes = leading_modes(y, self.latent_dim)
        self.modes.data = modes.to(self.modes)
        self.correction.data = fitted(y, modes, self.regularisation).to(self.correction)


def fitted(y: Tensor, modes: Tensor, regularisation: float | None) -> Tensor:
    """w and Wᵀ (1 + m (m + 1) / 2, n) in float64, for snapshots y (N, n) and orthonormal modes (n,
    m).
    """
    blocks = [part.double() for part in y.tensor_split(min(BLOCKS, len(y)))]
    z = torch.cat([part @ modes for part in blocks])
    products = pairs(z, z)
    mean = products.mean(dim=0)
    products -= mean
    size = products.norm(dim=0)
    size = size.clamp(min=max(RESOLVED * size.max().item(), 1e-100))
    parts = (products / size).split([len(part) for part in blocks])
    grams = torch.stack([q.mT @ q for q in parts])
    targets = torch.stack([q.mT @ part for q, part in zip(parts, blocks, strict=True)])
    targets -= targets @ modes @ modes.mT
    ridge = _best(grams, targets) if regularisation is None else regularisation
    weights = _regularised(grams.sum(0), ridge) @ targets.sum(0) / size.unsqueeze(-1)
    return torch.cat([-mean.unsqueeze(0) @ weights, weights])


def _best(grams: Tensor, targets: Tensor) -> float:
    """The regularisation with the smallest error on blocks that are held out, from sums over each
    of them.

    Args:
        grams: QᵀQ (B, q, q) of products Q.
        targets: QᵀE (B, q, n) of what the modes leave.
    """
    total, errors = targets.sum(0), torch.zeros(len(RIDGES), dtype=targets.dtype)
    for gram, target in zip(grams, targets, strict=True):
        rest = total - target
        own, cross = rest @ rest.mT, target @ rest.mT
        for k, ridge in enumerate(RIDGES):  # ‖E - Q W‖² of the block, less ‖E‖²
            inverse = _regularised(grams.sum(0) - gram, ridge)
            errors[k] += (inverse @ gram @ inverse * own).sum() - 2 * (inverse * cross).sum()
    return RIDGES[int(errors.argmin())]


def _regularised(gram: Tensor, ridge: float) -> Tensor:
    """(G + λ I)⁻¹."""
    return torch.linalg.inv(gram + ridge * torch.eye(len(gram), dtype=gram.dtype))
