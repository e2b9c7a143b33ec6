"""The words that the parts of romkit share: fields, values with tangents, and the projection operator."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from torch import Tensor

T = TypeVar("T")

Field = Callable[[Tensor, Tensor], Tensor]
"""ẋ = f(t, x): t is a scalar tensor, x and the result are (..., n). The context is fixed already."""

SecondOrderField = Callable[[Tensor, Tensor, Tensor], Tensor]
"""q̈ = f(t, q, q̇) of a mechanical system, each (..., n)."""

ContextFunction = Callable[[Tensor], Tensor]
"""c(t), (..., p), of a context that varies in time: t is a scalar tensor."""

Metric = Callable[[Tensor, Tensor], Tensor]
"""(x, u) -> W(x) u: what weighs distances at states x (..., n), applied to columns u (..., n, k)."""


class Dual(NamedTuple):
    """A value and its tangent, the pair that every jvp returns (as torch.func.jvp does).

    Example:
        >>> import torch
        >>> from romkit.types import Dual
        >>> value, slope = Dual(*torch.func.jvp(torch.sin, (torch.zeros(1),), (torch.ones(1),)))
        >>> value, slope
        (tensor([0.]), tensor([1.]))
    """

    value: Tensor
    tangent: Tensor


class Jet(NamedTuple):
    """A value that moves along a curve, with its velocity and its acceleration.

    Example:
        >>> import torch
        >>> from romkit.types import Jet
        >>> t = torch.tensor([2.0])
        >>> Jet(t, torch.ones(1), torch.zeros(1)).through(t**2, 2 * t, torch.tensor([2.0]))  # t² and its derivatives
        Jet(value=tensor([4.]), velocity=tensor([4.]), acceleration=tensor([2.]))
    """

    value: Tensor
    velocity: Tensor
    acceleration: Tensor

    def through(self, value: Tensor, slope: Tensor, bend: Tensor) -> "Jet":
        """σ along the curve, component by component, from σ, σ' and σ'' at its value."""
        _, v, a = self
        return Jet(value, slope * v, slope * a + bend * v * v)


@runtime_checkable
class ProjectionOperator(Protocol):
    """P = φ ∘ ρ at a fixed context: what `projection(context)` returns and everything downstream works on.

    Shapes: states x (..., n), latents z (..., m); leading axes match from the left (see `romkit.broadcast`).

    Example:
        >>> import romkit
        >>> from romkit.types import ProjectionOperator
        >>> isinstance(romkit.load("ncae-lorenz96")(F=3.15), ProjectionOperator)
        True
    """

    context: Tensor
    state_size: int
    latent_dim: int

    def encode(self, x: Tensor) -> Tensor:
        """z = ρ(x) (..., m)."""

    def decode(self, z: Tensor) -> Tensor:
        """x = φ(z) (..., n)."""

    def __call__(self, x: Tensor) -> Tensor:
        """P(x) = φ(ρ(x)) (..., n)."""

    def encode_jvp(self, x: Tensor, v: Tensor) -> Dual:
        """ρ(x) and Dρ(x) v, each (..., m)."""

    def decode_jvp(self, z: Tensor, w: Tensor) -> Dual:
        """φ(z) and Dφ(z) w, each (..., n)."""

    def jvp(self, x: Tensor, v: Tensor) -> Dual:
        """P(x) and DP(x) v, each (..., n)."""

    def decode_jacobian(self, z: Tensor) -> Dual:
        """φ(z) (..., n) and Dφ(z) (..., n, m)."""

    def decode_curvature(self, z: Tensor, w: Tensor) -> Tensor:
        """D²φ(z)(w, w) (..., n)."""


@runtime_checkable
class OperatorPath(Protocol):
    """The operators P(t) along a context c(t); see `romkit.projections.base`.

    Example:
        >>> import romkit
        >>> from romkit.types import OperatorPath
        >>> P = romkit.load("ncae-lorenz96")(F=3.15)
        >>> isinstance(romkit.problem.ConstantPath(P), OperatorPath)
        True
    """

    def at(self, t: Tensor) -> ProjectionOperator:
        """The operator at the context of the time t, a scalar tensor."""

    def each(self, make: Callable[[ProjectionOperator], T]) -> Callable[[Tensor], T]:
        """t -> make(P(t)), made only once where the operator stays."""

    def relative(self, t: Tensor, z: Tensor, rate: Tensor) -> Tensor:
        """`rate` (..., n) of the state without the motion ∂ₜφ(z) of the manifold itself."""

    def carried(self, t: Tensor, z: Tensor, rate: Tensor) -> Tensor:
        """The latent `rate` (..., m) of a law for fixed contexts, plus D_cρ ċ = -D_xρ ∂ₜφ for the moving manifold."""
