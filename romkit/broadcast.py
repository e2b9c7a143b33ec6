"""How batches line up in romkit: leading axes match from the left.

A tensor of parameters carries the axes it depends on, outermost first: seeds, then contexts. States carry the
same axes and then axes of their own (times, samples). So a context of shape (C, p) goes with states (C, n) as
well as (C, T, n), and a stack of S models with states (S, C, T, n).
"""

from torch import Tensor


def align(parameter: Tensor, x: Tensor) -> Tensor:
    """`parameter` (..., k) with singleton axes put in so that it broadcasts against x (..., any), left to left."""
    missing = x.ndim - parameter.ndim
    if missing <= 0:
        return parameter
    return parameter.reshape(*parameter.shape[:-1], *(1,) * missing, parameter.shape[-1])


def matmul(x: Tensor, weight: Tensor) -> Tensor:
    """x W along the last axis of x, for a weight (n, r), or one per seed (S, n, r) with x (S, ..., n)."""
    if weight.ndim == 2:
        return x @ weight
    if x.ndim == 3 and x.shape[0] == weight.shape[0]:
        return x.bmm(weight)
    x = x.expand(weight.shape[0], *x.shape[1:])
    rows = x.reshape(x.shape[0], x.shape[1:-1].numel(), x.shape[-1]).bmm(weight)
    return rows.reshape(*x.shape[:-1], weight.shape[-1])
