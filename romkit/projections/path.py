"""Operators along a context that moves, and the motion of their manifold."""

import copy
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from romkit.core import checks
from romkit.core.boundary import Times, validated
from romkit.core.errors import InputError
from romkit.core.types import ContextFunction
from romkit.projections.base import Projection
from romkit.projections.operator import Operator

T = TypeVar("T")


class Path:
    """Operators P(t) = projection(c(t)) along a context c(t), with the motion of their manifold.

    `Path.constant(P)` is the path of a constant context; it costs nothing.

    Args:
        projection: in float64, since rates are differences.
        context: t, a scalar tensor, to c (..., p) in physical units; smooth in t.
        times: (T,) of a run; the context is evaluated between the first and the last one.

    Attributes:
        operator: P of a constant path, else None.

    Raises:
        InputError: a projection in float32, or a single time.

    Example:
        >>> import torch
        >>> import romkit
        >>> from romkit.projections import Path
        >>> ncae = romkit.load("ncae-lorenz96").double()
        >>> path = Path(ncae, lambda t: 3.14 + 0.01 * t.reshape(1), torch.linspace(0, 5, 6))
        >>> path.at(torch.tensor(1.0)).context
        tensor([3.1500])
        >>> path.decoder_rate(torch.tensor(1.0), torch.zeros(2)).shape
        torch.Size([36])
        >>> P = ncae(F=3.15)
        >>> Path.constant(P).at(torch.tensor(5.0)) is P
        True
    """

    operator: Operator | None = None

    @validated
    def __init__(self, projection: Projection, context: ContextFunction, times: Times):
        dtype = projection.frame.state_std.dtype
        if dtype != torch.float64:
            raise InputError(
                "projection",
                expected="one in float64",
                got=str(dtype).removeprefix("torch."),
                fix="give copy.deepcopy(projection).double()",
            )
        if len(times) < 2:
            raise InputError(
                "times",
                expected="two or more",
                got="one",
                fix="give Path.constant(projection(...)) for a constant context",
            )
        self.context = context
        self._family = projection.operator
        self._first = float(times[0])
        self._last = float(times[-1])

    @classmethod
    def constant(cls, operator: Operator) -> "Path":
        """Return the path of an operator at a constant context.

        Raises:
            InputError: no operator.
        """
        if not hasattr(operator, "decode"):
            raise InputError(
                "operator",
                expected="an operator",
                got=checks.shown(operator),
                fix="a projection at a context is one: projection(F=3.15)",
            )
        path = cls.__new__(cls)
        path.operator = operator
        return path

    def mapped(self, change: Callable[[Operator], Operator]) -> "Path":
        """Return the path of changed operators t -> change(P(t))."""
        path = copy.copy(self)
        if self.operator is None:
            path._family = lambda c: change(self._family(c))
        else:
            path.operator = change(self.operator)
        return path

    def at(self, t: Tensor) -> Operator:
        """Return the operator at the context of the time t, a scalar tensor."""
        if self.operator is not None:
            return self.operator
        return self._family(self.context(t))

    def each(self, make: Callable[[Operator], T]) -> Callable[[Tensor], T]:
        """t -> make(P(t)), made once where the operator stays."""
        if self.operator is None:
            return lambda t: make(self.at(t))
        operators = make(self.operator)
        return lambda t: operators

    def relative(self, t: Tensor, z: Tensor, rate: Tensor) -> Tensor:
        """`rate` (..., n) of the state without the motion ∂ₜφ(z) of the manifold itself."""
        if self.operator is not None:
            return rate
        return rate - self.decoder_rate(t, z)

    def carried(self, t: Tensor, z: Tensor, rate: Tensor) -> Tensor:
        """Return the latent `rate` (..., m) of a law for fixed contexts, plus D_cρ ċ = -D_xρ ∂ₜφ
        for the moving manifold.
        """
        if self.operator is not None:
            return rate
        P = self.at(t)
        _, inside = P.encode_jvp(P.decode(z), self.decoder_rate(t, z))
        return rate - inside

    def decoder_rate(self, t: Tensor, z: Tensor) -> Tensor:
        """∂ₜ φ(z; c(t)) = D_cφ ċ (..., n), the rate of the decoded state at fixed z (..., m)."""
        if self.operator is not None:
            return torch.zeros_like(self.operator.decode(z))
        # central differences err least with the cube root of rounding (Dennis, Schnabel 1983, 5.4)
        step = torch.finfo(t.dtype).eps ** (1 / 3) * (self._last - self._first)
        before = (t - step).clamp(min=self._first)
        after = (t + step).clamp(max=self._last)
        rate = (self.context(after) - self.context(before)) / (after - before)

        def decoded(c: Tensor) -> Tensor:
            return self._family(c).decode(z)

        _, moving = torch.func.jvp(decoded, (self.context(t),), (rate,))
        return moving
