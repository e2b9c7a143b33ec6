"""The methods of a system with a context bound."""

from collections.abc import Callable

from torch import Tensor

from romkit.boundary import behind
from romkit.broadcast import align
from romkit.data.context import varies
from romkit.types import ContextFunction, Field, Metric


def bound(rhs: Callable[..., Tensor], context: Tensor | ContextFunction) -> Field:
    """f(t, x) of a right-hand side (t, x, c), at a context (..., p) that stays or is a function of time."""
    rhs, moves = behind(rhs), varies(context)

    def f(t: Tensor, x: Tensor) -> Tensor:
        c = context(t) if moves else context
        return rhs(t, x, align(c.to(x), x))

    return f


def weighing(weigh: Callable[..., Tensor], context: Tensor) -> Metric:
    """(x, u) -> W(x) u at a context (..., p)."""
    weigh = behind(weigh)
    return lambda x, u: weigh(x, u, align(context.to(x), x))
