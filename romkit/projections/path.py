"""The operators of a projection along a context that varies in time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

import torch
from torch import Tensor

from romkit.arrays import Axes
from romkit.boundary import Time, Times, checked, hook
from romkit.errors import InputError
from romkit.projections.base import Projection
from romkit.projections.operator import Operator
from romkit.types import ContextFunction

T = TypeVar("T")

STEP = 1e-6
"""Half the interval over which the rate of a context is taken, as a share of the time that it is known for."""


Latents = Annotated[Tensor, Axes("projection.latent_dim", like="projection.normalization.state_std")]
States = Annotated[Tensor, Axes("projection.normalization.signature.state_names")]


@checked
@dataclass(frozen=True)
class MovingPath:
    """P(t) = projection(c(t)), with the motion of its decoder (see `romkit.types.OperatorPath`).

    Args:
        projection: in float64, since rates are differences.
        context: t, a scalar tensor, to c (..., p) in physical units; smooth in t.
        times: (T,) of a run; the context is looked at between the first and the last one.

    Raises:
        InputError: a projection in float32, or a single time.

    Example:
        >>> import torch
        >>> import romkit
        >>> ncae = romkit.load("ncae-lorenz96").double()
        >>> path = romkit.projections.MovingPath(ncae, lambda t: 3.14 + 0.01 * t.reshape(1), torch.linspace(0, 5, 6))
        >>> path.at(torch.tensor(1.0)).context
        tensor([3.1500])
        >>> path.decoder_rate(torch.tensor(1.0), torch.zeros(2)).shape
        torch.Size([36])
    """

    projection: Projection
    context: ContextFunction
    times: Times

    def __post_init__(self):
        if (dtype := self.projection.normalization.state_std.dtype) != torch.float64:
            got, fix = str(dtype).removeprefix("torch."), "give copy.deepcopy(projection).double()"
            raise InputError("projection", expected="one in float64", got=got, fix=fix)
        if len(self.times) < 2:
            raise InputError("times", expected="two or more", got="one", fix="give a context that stays")

    @hook
    def at(self, t: Time) -> Operator:
        """The operator at the context of the time t, a scalar tensor."""
        return self.projection.operator(self.context(t))

    @hook
    def each(self, make: Callable[[Operator], T]) -> Callable[[Tensor], T]:
        """t -> make(P(t)), made anew at every time."""
        return lambda t: make(self.at(t))

    @hook
    def relative(self, t: Time, z: Latents, rate: States) -> Tensor:
        """`rate` (..., n) of the state without the motion ∂ₜφ(z) of the manifold itself."""
        return rate - self.decoder_rate(t, z)

    @hook
    def carried(self, t: Time, z: Latents, rate: Latents) -> Tensor:
        """The latent `rate` (..., m) of a law for fixed contexts, plus D_cρ ċ = -D_xρ ∂ₜφ."""
        P = self.at(t)
        return rate - P.encode_jvp(P.decode(z), self.decoder_rate(t, z)).tangent

    @hook
    def decoder_rate(self, t: Time, z: Latents) -> Tensor:
        """∂ₜ φ(z; c(t)) = D_cφ ċ (..., n): how the decoded state moves while z (..., m) stays."""
        first, last = float(self.times[0]), float(self.times[-1])
        step = STEP * (last - first)
        before, after = (t - step).clamp(min=first), (t + step).clamp(max=last)
        rate = (self.context(after) - self.context(before)) / (after - before)
        return torch.func.jvp(lambda c: self.projection.operator(c).decode(z), (self.context(t),), (rate,))[1]
