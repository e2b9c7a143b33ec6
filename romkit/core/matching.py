"""The operations of `broadcast` for layers of users: what does not match is refused by name."""

import torch
from torch import Tensor

from romkit.core import broadcast, checks
from romkit.core.errors import InputError

LEFT, RIGHT = slice(None, None, -1), slice(None)
"""Orders of axes in which the last ones match."""


def align(parameter: Tensor, x: Tensor) -> Tensor:
    """`parameter` (..., k) with singleton axes put in so that it broadcasts against x (..., any),
    left to left.

    Raises:
        InputError: no tensors with an axis, or leading axes that do not match.

    Example:
        >>> import torch
        >>> from romkit.broadcast import align
        >>> bias, x = torch.zeros(3, 4), torch.zeros(3, 10, 4)  # one vector for each of 3 contexts
        >>> align(bias, x).shape
        torch.Size([3, 1, 4])
    """
    _check("parameter", parameter, 1)
    _check("x", x, 1)
    if parameter.ndim < x.ndim:
        _match("parameter", parameter.shape[:-1], x.shape[:-1], LEFT)
    return broadcast.align(parameter, x)


def matmul(x: Tensor, weight: Tensor) -> Tensor:
    """x W along the last axis of x, for a weight (n, r), or (..., n, r) whose leading axes match
    those of x.

    They match from the left: one matrix per seed (S, n, r) or per seed and context (S, C, n, r),
    with x (S, C, ..., n).

    Raises:
        InputError: no tensors of one dtype, other numbers of rows than components, or leading axes
            that do not match.

    Example:
        >>> import torch
        >>> from romkit.broadcast import matmul
        >>> matmul(torch.zeros(3, 10, 4), torch.zeros(3, 4, 2)).shape
        torch.Size([3, 10, 2])
    """
    _check("x", x, 1)
    _check("weight", weight, 2, like=x)
    if weight.shape[-2] != x.shape[-1]:
        raise _refused("weight", f"shape (..., {x.shape[-1]}, r), as x", weight)
    _match("weight", weight.shape[:-2], x.shape[:-1], LEFT)
    return broadcast.matmul(x, weight)


def pairs(a: Tensor, b: Tensor) -> Tensor:
    """aᵢ bⱼ (..., m (m + 1) / 2) for i <= j, of a and b (..., m), row by row of the upper triangle.

    Raises:
        InputError: no tensors of one size, with m above zero.

    Example:
        >>> import torch
        >>> from romkit.broadcast import pairs
        >>> a = torch.tensor([2.0, 3.0])
        >>> pairs(a, a)
        tensor([4., 6., 9.])
    """
    _check("a", a, 1)
    _check("b", b, 1)
    size = a.shape[-1]
    if size == 0 or size != b.shape[-1]:
        raise _refused("b", f"as many components as a, {size}, above zero", b)
    _match("b", b.shape[:-1], a.shape[:-1])
    return broadcast.pairs(a, b)


def matvec(matrix: Tensor, vector: Tensor) -> Tensor:
    """Return matrices (..., i, j) times vectors (..., j).

    Raises:
        InputError: no tensors of one dtype, or shapes that do not match.

    Example:
        >>> import torch
        >>> from romkit.broadcast import matvec
        >>> matvec(torch.zeros(5, 2, 3), torch.zeros(5, 3)).shape
        torch.Size([5, 2])
    """
    _check("matrix", matrix, 2)
    _check_vectors(matrix, vector)
    return broadcast.matvec(matrix, vector)


def linear_solve(matrix: Tensor, vector: Tensor) -> Tensor:
    """Inverse matrices (..., m, m) times vectors (..., m); a singular member gives numbers that are
    not finite.

    It neither waits for a GPU nor raises for a whole batch because of one member.

    Raises:
        InputError: no tensors of one dtype, no square matrices, or shapes that do not match.

    Example:
        >>> import torch
        >>> from romkit.broadcast import linear_solve
        >>> linear_solve(2 * torch.eye(2), torch.ones(2))
        tensor([0.5000, 0.5000])
    """
    _check("matrix", matrix, 2)
    if matrix.shape[-1] != matrix.shape[-2]:
        raise _refused("matrix", "square matrices (..., m, m)", matrix)
    _check_vectors(matrix, vector)
    return broadcast.linear_solve(matrix, vector)


def _check(name: str, value: object, axes: int, like: Tensor | None = None) -> None:
    """Raise unless the value is a tensor with so many axes, of the dtype of another one."""
    fits = isinstance(value, Tensor) and value.ndim >= axes
    if fits and (like is None or getattr(value, "dtype", None) == like.dtype):
        return
    dtype = "" if like is None else f" and {like.dtype}"
    raise InputError(
        name,
        expected=f"a tensor of {axes} or more axes{dtype}",
        got=checks.shown(value),
        fix="reshape or convert it, torch.as_tensor(..., dtype=...)",
    )


def _check_vectors(matrix: Tensor, vector: Tensor) -> None:
    """Raise where vectors do not go with matrices."""
    _check("vector", vector, 1, like=matrix)
    size = matrix.shape[-1]
    if vector.shape[-1] != size:
        raise _refused("vector", f"shape (..., {size}), as the matrix", vector)
    _match("vector", vector.shape[:-1], matrix.shape[:-2])


def _match(name: str, axes: torch.Size, reference: torch.Size, side: slice = RIGHT) -> None:
    """Raise where axes do not broadcast against others, from one side on."""
    try:
        torch.broadcast_shapes(axes[side], reference[side])
    except RuntimeError as error:
        raise InputError(
            name,
            expected=f"leading axes that match {tuple(reference)}",
            got=tuple(axes),
            fix="put axes of one entry in where there is nothing to match",
        ) from error


def _refused(name: str, expected: str, value: Tensor) -> InputError:
    return InputError(name, expected=expected, got=f"shape {tuple(value.shape)}", fix="reshape it")
