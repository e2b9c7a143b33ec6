"""The biorthogonal manifold for geoopt: the only file that imports it."""

import torch
from geoopt import ManifoldParameter, ManifoldTensor
from geoopt.manifolds.base import Manifold
from geoopt.utils import size2shape
from torch import Tensor

from romkit.core.types import Pair, Shape
from romkit.projections import geometry
from romkit.projections.geometry import EuclideanMetric, Fractional

Verdict = tuple[bool, str | None]
"""Whether a condition holds, and the reason if it does not."""


class BiorthogonalManifold(Manifold):
    """Pairs Φ, Ψ (n, r) with Ψᵀ Φ = I, as points (..., 2n, r) with Φ above Ψ; leading axes are
    independent points.

        pair = geoopt.ManifoldParameter(manifold.random(2 * n, r), manifold=manifold)
        optimizer = geoopt.optim.RiemannianAdam([pair], lr=1e-2)

    RiemannianAdam keeps one second moment per point, ‖gradient‖² in the metric, not one per entry.
    With the default metric and retraction this is the training of the paper.
    `romkit.training.optimizers.RiemannianAdam` makes the same steps for a stack of seeds, compiled.

    Args:
        metric, retraction: `EuclideanMetric()` and `Fractional()`, or others with their methods.

    Source: Friedl et al. (2025), "A Riemannian framework for learning reduced-order Lagrangian
    dynamics", for the Euclidean metric and the fractional retraction; `romkit.projections.geometry`
    has the formulas.
    """

    name = "Biorthogonal"
    ndim = 2
    reversible = False

    def __init__(self, metric: EuclideanMetric | None = None, retraction: Fractional | None = None):
        super().__init__()
        self.metric = EuclideanMetric() if metric is None else metric
        self.retraction = Fractional() if retraction is None else retraction

    def inner(
        self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False
    ) -> Tensor:
        """⟨u, v⟩ at x, one value per point: (...), or (..., 1, 1) with `keepdim`. v = None stands
        for u.
        """
        if v is None:
            v = u
        x, u, v = map(_halves, torch.broadcast_tensors(x, u, v))
        inner = self.metric.inner(x, u, v)
        return inner[..., None, None] if keepdim else inner

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        """Return the tangent vector at x nearest to u in the metric."""
        return _joined(self.metric.project(_halves(x), _halves(u)))

    def egrad2rgrad(self, x: Tensor, u: Tensor) -> Tensor:
        """Return the gradient in the metric from the gradient u of autograd."""
        return _joined(self.metric.gradient(_halves(x), _halves(u)))

    def projx(self, x: Tensor) -> Tensor:
        """Return a point of the manifold near x: x itself, bit for bit, where it is one to rounding
        already.

        Φ <- Φ (Ψᵀ Φ)⁻¹ keeps the range of Φ and Ψ. Far away Ψᵀ Φ may be singular; there Ψ is first
        turned towards Φ, so that any pair of full rank ends on the manifold.
        """
        pair = _halves(x)
        error = self._error(pair)
        far = error > 0.5
        # The host looks once, so that the singular values are not computed near the manifold, where
        # optimizers call.
        if bool(far.any()):
            pair = torch.where(far, _turned(torch.where(far, pair, _origin(pair))), pair)
        restored = geometry.restore(geometry.restore(pair))
        return _joined(torch.where(error <= _rounding(pair), pair, restored))

    def retr(self, x: Tensor, u: Tensor) -> Tensor:
        """Return the point reached from x along u, equal to x + u to first order."""
        return _joined(self.retraction.retract(_halves(x), _halves(u)))

    def transp(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """v projected onto the tangent space at y; the transport of a retraction needs its u, see
        `retr_transp`.
        """
        return self.proju(y, v)

    def retr_transp(self, x: Tensor, u: Tensor, v: Tensor) -> Pair:
        """Return the point y reached from x along u, and v taken to y by the retraction's
        transport.
        """
        y, w = self.retraction.retract_and_carry(*map(_halves, (x, u, v)))
        return _joined(y), _joined(self.metric.project(y, w))

    def transp_follow_retr(self, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
        """Return the second result of `retr_transp`."""
        return self.retr_transp(x, u, v)[1]

    # Geodesics have no closed form here, so the retraction stands for them.
    expmap, expmap_transp, transp_follow_expmap = retr, retr_transp, transp_follow_retr

    def random(
        self,
        *size: int,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        generator: torch.Generator | None = None,
    ) -> ManifoldTensor:
        """Return a point (..., 2n, r) around a random orthonormal Φ = Ψ, with condition numbers of
        a few units.
        """
        shape = tuple(size2shape(*size))
        self._assert_check_shape(shape, "x")
        n = shape[-2] // 2
        r = shape[-1]
        # Drawn in float64, so that a generator means the same point in every precision.
        noise = torch.randn(
            *shape[:-2], 3, n, r, dtype=torch.float64, device=device, generator=generator
        )
        around = noise[..., :1, :, :]
        apart = noise[..., 1:, :, :]
        pair = torch.linalg.qr(around).Q + 0.5 / n**0.5 * apart
        if dtype is None:
            dtype = torch.get_default_dtype()
        return ManifoldTensor(self.projx(_joined(pair).to(dtype)), manifold=self)

    def origin(
        self,
        *size: int,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        seed: int | None = 42,
    ) -> ManifoldTensor:
        """Φ = Ψ = the first r columns of the identity; `seed` is not used."""
        shape = tuple(size2shape(*size))
        self._assert_check_shape(shape, "x")
        *lead, rows, r = shape
        zeros = torch.zeros(*lead, 2, rows // 2, r, dtype=dtype, device=device)
        return ManifoldTensor(_joined(_origin(zeros)), manifold=self)

    def extra_repr(self) -> str:
        return f"metric={self.metric}, retraction={self.retraction}"

    def _check_shape(self, shape: Shape, name: str) -> Verdict:
        if len(shape) >= 2:
            rows, r = shape[-2:]
            if rows % 2 == 0 and rows >= 2 * r > 0:
                return True, None
        expected = "expected shape (..., 2n, r) with n >= r > 0"
        return False, f"{name}: {expected}, got {tuple(shape)}; stack Φ (n, r) on Ψ (n, r)"

    def _check_point_on_manifold(
        self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> Verdict:
        pair = _halves(x)
        eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
        error = (geometry.overlap(pair) - eye).abs()
        size = geometry.overlap(pair.abs())
        return _verdict("Ψᵀ Φ - I", error, atol + rtol * size, "project with projx")

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> Verdict:
        pair = _halves(x)
        vector = _halves(u)
        error = geometry.constraint(pair, vector)[..., 0, :, :].abs()
        size = geometry.constraint(pair.abs(), vector.abs())[..., 0, :, :]
        return _verdict("Yᵀ Φ + Ψᵀ X", error, atol + rtol * size, "project with proju")

    def _error(self, pair: Tensor) -> Tensor:
        """Return largest entry of |Ψᵀ Φ - I| (..., 1, 1, 1)."""
        eye = torch.eye(pair.shape[-1], dtype=pair.dtype, device=pair.device)
        error = (geometry.overlap(pair) - eye).abs()  # (..., r, r)
        return error.amax((-2, -1), keepdim=True).unsqueeze(-3)


def constrain_pair(pair: Tensor) -> ManifoldParameter:
    """Return a parameter for geoopt's optimizers from a pair (..., 2n, r), which is put on the
    manifold.
    """
    manifold = BiorthogonalManifold()
    return ManifoldParameter(manifold.projx(pair), manifold=manifold)


def _halves(x: Tensor) -> Tensor:
    """(..., 2n, r) -> (..., 2, n, r)."""
    return x.unflatten(-2, (2, -1))


def _joined(pair: Tensor) -> Tensor:
    """(..., 2, n, r) -> (..., 2n, r)."""
    return pair.flatten(-3, -2)


def _origin(pair: Tensor) -> Tensor:
    eye = torch.eye(*pair.shape[-2:], dtype=pair.dtype, device=pair.device)
    return eye.expand_as(pair)


def _rounding(pair: Tensor) -> Tensor:
    """Return size of |Ψᵀ Φ - I| (..., 1, 1, 1) that rounding alone may cause."""
    terms = geometry.overlap(pair.abs())  # (..., r, r)
    size = terms.amax((-2, -1), keepdim=True).unsqueeze(-3)
    return 4 * torch.finfo(pair.dtype).eps * size


def _turned(pair: Tensor, smallest_cosine: float = 1e-2) -> Tensor:
    """Move Ψ towards Φ along the principal vectors whose cosine is smaller than the smallest: the
    condition of a pair is then at most its inverse.
    """
    phi, psi = pair.unbind(-3)
    q, triangle = torch.linalg.qr(pair)
    q_phi = q[..., 0, :, :]
    triangle_psi = triangle[..., 1, :, :]
    u, cosines, vt = torch.linalg.svd(geometry.overlap(q))
    lift = (smallest_cosine - cosines).clamp(min=0).unsqueeze(-2)
    turn = q_phi @ (vt.mT * lift) @ u.mT @ triangle_psi
    return torch.stack([phi, psi + turn], -3)


def _verdict(what: str, error: Tensor, tolerance: Tensor, fix: str) -> Verdict:
    """(ok, reason) of a matrix (..., r, r) that should vanish; NaN does not pass."""
    if bool((error <= tolerance).all()):
        return True, None
    lead = tuple(error.shape[:-2])
    r = error.shape[-1]
    got = f"|{what}| reaches {error.max():.1e}, over the tolerance"
    return False, f"{got}, in points of shape {lead}, r = {r}; {fix}"
