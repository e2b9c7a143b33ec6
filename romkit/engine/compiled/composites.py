"""Operations that are recorded as several simpler ones, which have a compiled form."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Axes = int | Sequence[int] | None


def axes_of(x: Tensor, given: Axes = None) -> list[int]:
    """All of them where none is given."""
    return [given] if isinstance(given, int) else list(given or range(x.ndim))


def _norm(x: Tensor, order: float = 2, dims: Axes = None, keepdim: bool = False) -> Tensor:
    size, axes = x.abs(), axes_of(x, dims)
    if math.isinf(order):
        return (torch.amax if order > 0 else torch.amin)(size, axes, keepdim)
    if order == 0:
        return (x != 0).to(x.dtype).sum(axes, keepdim)
    return size.pow(order).sum(axes, keepdim).pow(1 / order)


def _variance(x: Tensor, dims: Axes = None, correction: float | None = None, keepdim: bool = False) -> Tensor:
    axes = axes_of(x, dims)
    degrees = max(0, math.prod(x.shape[axis] for axis in axes) - (1 if correction is None else correction))
    return (x - x.mean(axes, True)).square().sum(axes, keepdim) * (1 / degrees if degrees else math.nan)


def _layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple:
    axes = list(range(-len(shape), 0))
    mean = x.mean(axes, True)
    scale = ((x - mean).square().mean(axes, True) + eps).rsqrt()
    out = (x - mean) * scale
    out = out if weight is None else out * weight
    return (out if bias is None else out + bias), mean, scale


def _softmax(x: Tensor, dim: int, _: bool) -> Tensor:
    weights = (x - x.amax(dim, True)).exp()
    return weights / weights.sum(dim, True)


def _log_softmax(x: Tensor, dim: int, _: bool) -> Tensor:
    shifted = x - x.amax(dim, True)
    return shifted - shifted.exp().sum(dim, True).log()


def _logsumexp(x: Tensor, dims: Axes, keepdim: bool = False) -> Tensor:
    largest = x.amax(dims, True)
    largest = torch.where(largest.abs() == math.inf, 0.0, largest)
    return ((x - largest).exp().sum(dims, True).log() + largest).sum(dims, keepdim)


def _extreme(reduce: Callable[..., Tensor]) -> Callable[..., object]:
    def extreme(x: Tensor, dim: int | None = None, keepdim: bool = False) -> object:
        if dim is None:
            return reduce(x, axes_of(x))
        values = reduce(x, dim, keepdim)
        return values, torch.empty_like(values, dtype=torch.int64)  # where they are: has no compiled form

    return extreme


def _remainder(a: Tensor, b: Tensor | float) -> Tensor:
    rest = torch.fmod(a, b)
    return torch.where((rest != 0) & ((rest < 0) != torch.lt(torch.as_tensor(b), 0)), rest + b, rest)


def _softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    return torch.where(x * beta > threshold, x, (x * beta).exp().log1p() / beta)


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))


def _elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    return torch.where(x > 0, x * scale, torch.expm1(x * input_scale) * (alpha * scale))


def _diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    if offset:
        raise NotImplementedError("diagonals beside the main one")
    full = torch.where(torch.eye(x.shape[-1], dtype=torch.bool), x.unsqueeze(-1), 0.0)
    return full.movedim((-2, -1), (dim1, dim2))


COMPOSITES: dict[str, Callable[..., object]] = {
    "_log_softmax": _log_softmax,
    "_softmax": _softmax,
    "all": lambda x, *rest: (x != 0).amin(*rest or (axes_of(x),)),
    "any": lambda x, *rest: (x != 0).amax(*rest or (axes_of(x),)),
    "celu": lambda x, alpha=1: _elu(x, alpha, 1, 1 / alpha),
    "diag_embed": _diag_embed,
    "elu": _elu,
    "gelu": _gelu,
    "hardtanh": lambda x, low=-1, high=1: x.clamp(low, high),
    "leaky_relu": lambda x, slope=0.01: torch.where(x > 0, x, x * slope),
    "lerp": lambda a, b, weight: a + weight * (b - a),
    "linalg_vector_norm": _norm,
    "logsumexp": _logsumexp,
    "masked_fill": lambda x, mask, value: torch.where(mask, value, x),
    "max": _extreme(torch.amax),
    "min": _extreme(torch.amin),
    "native_layer_norm": _layer_norm,
    "remainder": _remainder,
    "softplus": _softplus,
    "std": lambda x, *rest, **options: _variance(x, *rest, **options).sqrt(),
    "var": _variance,
}
"""By the name of the ATen operation: the same in calls to torch."""
