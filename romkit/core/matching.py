"""The operations of `broadcast` for layers of users: what does not match is refused by name."""

import torch
from torch import Tensor

from romkit.core import broadcast, checks
from romkit.core.errors import InputError


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
        _check_leading("parameter", parameter.shape[:-1], x.shape[:-1])
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
    _check_leading("weight", weight.shape[:-2], x.shape[:-1])
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
    _check_trailing("b", b.shape[:-1], a.shape[:-1])
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
    if not isinstance(value, Tensor):
        raise InputError(
            name, expected="a tensor", got=checks.shown(value), fix=f"give torch.as_tensor({name})"
        )
    if value.ndim < axes:
        raise _refused(name, f"{axes} or more axes", value)
    if like is not None and value.dtype != like.dtype:
        raise InputError(
            name,
            expected=f"numbers of {like.dtype}",
            got=value.dtype,
            fix=f"convert it, {name}.to({like.dtype})",
        )


def _check_vectors(matrix: Tensor, vector: Tensor) -> None:
    """Raise where vectors do not go with matrices."""
    _check("vector", vector, 1, like=matrix)
    size = matrix.shape[-1]
    if vector.shape[-1] != size:
        raise _refused("vector", f"shape (..., {size}), as the matrix", vector)
    _check_trailing("vector", vector.shape[:-1], matrix.shape[:-2])


def _check_leading(name: str, axes: torch.Size, reference: torch.Size) -> None:
    """Raise where axes do not broadcast against others, left to left."""
    # beyond the shorter one there is nothing to match
    for size, size_of_reference in zip(axes, reference, strict=False):
        if size != size_of_reference and 1 not in (size, size_of_reference):
            raise _mismatch(name, axes, reference, "left")


def _check_trailing(name: str, axes: torch.Size, reference: torch.Size) -> None:
    """Raise where axes do not broadcast against others, right to right."""
    try:
        torch.broadcast_shapes(axes, reference)
    except RuntimeError as error:
        raise _mismatch(name, axes, reference, "right") from error


def _mismatch(name: str, axes: torch.Size, reference: torch.Size, side: str) -> InputError:
    return InputError(
        name,
        expected=f"leading axes that match {tuple(reference)} from the {side}",
        got=tuple(axes),
        fix="put axes of one entry in where there is nothing to match",
    )


def _refused(name: str, expected: str, value: Tensor) -> InputError:
    return InputError(name, expected=expected, got=f"shape {tuple(value.shape)}", fix="reshape it")
