"""Operations on tensors whose leading axes match from the left, and tensors that never change."""

import torch
from torch import Tensor

from romkit.core.types import Tensors


def align(parameter: Tensor, x: Tensor) -> Tensor:
    """`parameter` (..., k) with singleton axes put in so that it broadcasts against x (..., any),
    left to left.
    """
    return _expanded(parameter, x.ndim - parameter.ndim)


def _expanded(x: Tensor, number: int) -> Tensor:
    """x (..., k) with so many axes of one entry before its last one; as it is for none."""
    if number <= 0:
        return x
    *lead, size = x.shape
    return x.reshape(*lead, *(1,) * number, size)


def matmul(x: Tensor, weight: Tensor) -> Tensor:
    """x W along the last axis of x, for a weight (n, r), or (..., n, r) whose leading axes match
    those of x.

    They match from the left: one matrix per seed (S, n, r) or per seed and context (S, C, n, r),
    with x (S, C, ..., n).
    """
    if weight.ndim == 2:
        return x @ weight
    # the same vector for all matrices along axes that x lacks
    x = _expanded(x, weight.ndim - 1 - x.ndim)
    if weight.ndim > 3:
        return _batched_matmul(x, weight)
    members, size, columns = weight.shape
    if x.ndim == 3 and x.shape[0] == members:
        return x.bmm(weight)
    x = x.expand(members, *x.shape[1:])
    lead = x.shape[:-1]
    number = lead[1:].numel()
    rows = x.reshape(members, number, size)
    return rows.bmm(weight).reshape(*lead, columns)


def _batched_matmul(x: Tensor, weight: Tensor) -> Tensor:
    """`matmul` of a weight with several leading axes, which are one for the product."""
    axes = weight.ndim - 2
    lead = torch.broadcast_shapes(weight.shape[:-2], x.shape[:axes])
    x = x.expand(*lead, *x.shape[axes:])
    weight = weight.expand(*lead, *weight.shape[-2:])
    vectors = x.flatten(0, axes - 1)
    matrices = weight.flatten(0, -3)  # (members, n, r)
    product = matmul(vectors, matrices)
    return product.unflatten(0, lead)


def pairs(a: Tensor, b: Tensor) -> Tensor:
    """aᵢ bⱼ (..., m (m + 1) / 2) for i <= j, of a and b (..., m), row by row of the upper triangle."""
    rows = []
    for i in range(a.shape[-1]):
        factor = a[..., i : i + 1]
        rows.append(factor * b[..., i:])
    return torch.cat(rows, dim=-1)


def matvec(matrix: Tensor, vector: Tensor) -> Tensor:
    """Return matrices (..., i, j) times vectors (..., j)."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def linear_solve(matrix: Tensor, vector: Tensor) -> Tensor:
    """Inverse matrices (..., m, m) times vectors (..., m); a singular member gives numbers that are
    not finite.

    It neither waits for a GPU nor raises for a whole batch because of one member.
    """
    # without a check, which would wait for the device
    return torch.linalg.solve_ex(matrix, vector.unsqueeze(-1)).result.squeeze(-1)


class Constants:
    """Tensors that never change, in the precision and on the device of what they meet; each kind is
    made once.

    Whole numbers change their device alone. One tensor under two names stays one.

    Args:
        **tensors: that stay, by name.
    """

    def __init__(self, **tensors: Tensor):
        self._tensors = tensors
        self._kinds: dict[tuple[torch.dtype, torch.device], Tensors] = {}

    def like(self, x: Tensor) -> Tensors:
        """Return all of them, as x is."""
        kind = (x.dtype, x.device)
        if kind not in self._kinds:
            converted: dict[int, Tensor] = {}
            by_name: Tensors = {}
            for name, tensor in self._tensors.items():
                if id(tensor) not in converted:
                    target = x if tensor.is_floating_point() else x.device
                    converted[id(tensor)] = tensor.to(target)
                by_name[name] = converted[id(tensor)]
            self._kinds[kind] = by_name
        return self._kinds[kind]
