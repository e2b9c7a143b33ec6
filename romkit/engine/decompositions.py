"""ATen operations that are recorded as several simpler ones."""

import functools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from romkit.core.types import Operation, Pair, TensorFunction
from romkit.engine._torch import get_decompositions

Axes = int | Sequence[int] | None

DECOMPOSED = (
    "_log_softmax", "_softmax", "celu", "diag_embed", "elu", "gelu", "hardtanh", "leaky_relu", "lerp",
    "linalg_vector_norm", "logsumexp", "masked_fill", "native_layer_norm", "softplus", "std",
)  # fmt: skip
"""Operations for which torch's own decompositions are taken."""


def axes_of(x: Tensor, axes: Axes = None) -> list[int]:
    """Return the axes as a list; all of them where none is named."""
    if isinstance(axes, int):
        return [axes]
    return list(axes) if axes else list(range(x.ndim))


def _variance(
    x: Tensor, dims: Axes = None, correction: float | None = None, keepdim: bool = False
) -> Tensor:
    """Variance along axes, as torch.var."""
    axes = axes_of(x, dims)
    if correction is None:
        correction = 1
    degrees = max(0, math.prod(x.shape[axis] for axis in axes) - correction)
    factor = 1 / degrees if degrees else math.nan
    deviation = x - x.mean(axes, True)
    return deviation.square().sum(axes, keepdim) * factor


def _variance_and_mean(
    x: Tensor, dims: Axes = None, correction: float | None = None, keepdim: bool = False
) -> Pair:
    """Variance and mean along axes, as torch.var_mean."""
    mean = x.mean(axes_of(x, dims), keepdim)
    return _variance(x, dims, correction, keepdim), mean


def _extreme(reduce: TensorFunction) -> Callable[..., object]:
    """Return largest or smallest elements, as torch.max or torch.min."""

    def extreme(x: Tensor, dim: int | None = None, keepdim: bool = False) -> object:
        if dim is None:
            return reduce(x, axes_of(x))
        values = reduce(x, dim, keepdim)
        # their places have no compiled form, and are only refused where something reads them
        return values, torch.empty_like(values, dtype=torch.int64)

    return extreme


def _remainder(a: Tensor, b: Tensor | float) -> Tensor:
    """Remainder with the sign of the divisor."""
    remainder = torch.fmod(a, b)
    negative_divisor = torch.lt(torch.as_tensor(b), 0)
    wrong_sign = (remainder != 0) & ((remainder < 0) != negative_divisor)
    return torch.where(wrong_sign, remainder + b, remainder)


def _multiply_and_add(x: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta x + alpha a b, of matrices or batches of them."""
    product = torch.bmm(a, b) if a.ndim == 3 else torch.mm(a, b)
    if beta != 1:
        x = beta * x
    return torch.add(x, product, alpha=alpha)


OWN = {
    "addmm": _multiply_and_add,
    "all": lambda x, *axes: (x != 0).amin(*axes or (axes_of(x),)),
    "any": lambda x, *axes: (x != 0).amax(*axes or (axes_of(x),)),
    "baddbmm": _multiply_and_add,
    "copy": lambda x, source, *_: source.to(x.dtype).expand(x.shape),
    "dot": lambda a, b: (a * b).sum(),
    "max": _extreme(torch.amax),
    "min": _extreme(torch.amin),
    "mv": lambda a, b: torch.mm(a, b.unsqueeze(-1)).squeeze(-1),
    "remainder": _remainder,
    "var": _variance,
    "var_mean": _variance_and_mean,
}
"""Decompositions of this package, where torch has none or one in terms of its inner operations."""


@functools.cache
def decompositions() -> dict[Operation, Operation]:
    """Return all decompositions, by overload."""
    aten = torch.ops.aten
    table = dict(get_decompositions([getattr(aten, name) for name in DECOMPOSED]))
    for name, function in OWN.items():
        packet = getattr(aten, name)
        for overload in packet.overloads():
            table[getattr(packet, overload)] = function
    return table
