"""Linear maps of other libraries as differentiable functions of torch."""

from collections.abc import Callable

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

Rows = Callable[[np.ndarray], np.ndarray]
"""A linear map of rows: (B, n) to (B, k), float64."""


class Linear(torch.autograd.Function):
    """x (..., n) -> (..., k) by a linear map of rows in NumPy, with its transpose for gradients.

    It computes in float64 on the CPU, and gives back the precision of x.
    """

    @classmethod
    def of(cls, matrix: sparse.csr_array) -> Callable[[Tensor], Tensor]:
        """x -> A x along the last axis."""
        return lambda x: cls.apply(x, lambda rows: (matrix @ rows.T).T, lambda rows: (matrix.T @ rows.T).T)

    @classmethod
    def symmetric(cls, function: Rows) -> Callable[[Tensor], Tensor]:
        """A map that is its own transpose."""
        return lambda x: cls.apply(x, function, function)

    @staticmethod
    def forward(x: Tensor, function: Rows, transposed: Rows) -> Tensor:
        rows = x.detach().reshape(-1, x.shape[-1]).to("cpu", torch.float64).numpy()
        found = torch.from_numpy(np.ascontiguousarray(function(rows))).to(x)
        return found.reshape(*x.shape[:-1], -1)

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: Tensor) -> None:
        ctx.function, ctx.transposed = inputs[1:]

    @staticmethod
    def jvp(ctx, tangent: Tensor, *_: object) -> Tensor:
        return Linear.apply(tangent, ctx.function, ctx.transposed)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        return Linear.apply(gradient, ctx.transposed, ctx.function), None, None

    @staticmethod
    def vmap(info, in_dims: tuple, x: Tensor, function: Rows, transposed: Rows) -> tuple[Tensor, int]:
        return Linear.apply(x.movedim(in_dims[0], 0), function, transposed), 0
