"""The encoder and decoder of a projection at one context, in normalised coordinates."""

import abc

import torch
from torch import Tensor

from romkit.core.polynomials import Monomials
from romkit.core.types import Dual, TensorMap


class EncoderDecoder(abc.ABC):
    """Encoder and decoder at one context in normalised coordinates, with tangents; `Projection.at`
    returns one.

    Example:
        >>> import torch
        >>> from romkit.projections import EncoderDecoder
        >>> class Ends(EncoderDecoder):
        ...     def encode(self, y):
        ...         return y[..., [0, -1]]
        ...     def decode(self, z):
        ...         return torch.cat([z[..., :1], z.mean(-1, keepdim=True), z[..., 1:]], dim=-1)
        >>> Ends().decode(Ends().encode(torch.tensor([1.0, 5.0, 3.0])))
        tensor([1., 2., 3.])
        >>> Ends().decode_jvp(torch.zeros(2), torch.tensor([1.0, 0.0])).tangent
        tensor([1.0000, 0.5000, 0.0000])
    """

    @abc.abstractmethod
    def encode(self, y: Tensor) -> Tensor:
        """z = ρ(y)."""

    @abc.abstractmethod
    def decode(self, z: Tensor) -> Tensor:
        """y = φ(z)."""

    def encode_jvp(self, y: Tensor, v: Tensor) -> Dual:
        """ρ(y) and Dρ(y) v. The leading axes of v may be larger than those of y wherever y has a 1.

        By forward differentiation of `encode`; override where a formula is faster.
        """
        return _forward(self.encode, y, v)

    def decode_jvp(self, z: Tensor, w: Tensor) -> Dual:
        """φ(z) and Dφ(z) w. The leading axes of w may be larger than those of z wherever z has a 1.

        By forward differentiation of `decode`; override where a formula is faster.
        """
        return _forward(self.decode, z, w)

    def decode_jacobian(self, z: Tensor) -> Dual:
        """Return the decoded state (..., n) and its derivative (..., n, m) at latents (..., m)."""
        unit = torch.eye(z.shape[-1], dtype=z.dtype, device=z.device)
        y, columns = self.decode_jvp(z.unsqueeze(-2), unit.expand(*z.shape, -1))  # (..., m, n)
        return Dual(y.squeeze(-2), columns.mT)

    def last_layer(self) -> tuple["EncoderDecoder", Tensor, Tensor] | None:
        """Return the maps to a, W (k, n) and shift (..., n), where the decoder ends with y = shift
        + a W; None elsewhere.
        """
        return None

    takes_gaps = False
    """Whether a state with NaN is encoded by least squares on what is there."""

    def polynomial(self) -> tuple[Monomials, Tensor, Tensor] | None:
        """Monomials m, W (..., K, n) and D (..., n, m), where y = Wᵀ m(z) and z = Dᵀ y; None
        elsewhere.
        """
        return None

    def decode_curvature(self, z: Tensor, w: Tensor) -> Tensor:
        """D²φ(z)(w, w), by forward differentiation of `decode_jvp`; override where that is too
        slow.
        """

        def tangent(point: Tensor) -> Tensor:
            return self.decode_jvp(point, w).tangent

        _, curvature = torch.func.jvp(tangent, (z,), (w,))
        return curvature


def _forward(map_of: TensorMap, point: Tensor, direction: Tensor) -> Dual:
    """Value and derivative of a map along directions (..., k), whose leading axes may be larger
    where those of the point have a 1.
    """
    lead = torch.broadcast_shapes(point.shape[:-1], direction.shape[:-1])
    image, tangent = torch.func.jvp(
        map_of, (point.expand(*lead, -1).contiguous(),), (direction.expand(*lead, -1).contiguous(),)
    )
    if lead != point.shape[:-1]:
        image = map_of(point)
    return Dual(image, tangent)
