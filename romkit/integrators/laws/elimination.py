"""Normal equations of many windows, without the starts of these."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Squares:
    """Sums over rows of derivatives by P coefficients, with a residual behind them, of each group:
    the normal equations of least squares.

    Args:
        groups: number of groups.
        size: P.
    """

    def __init__(self, groups: int, size: int):
        self._totals = np.zeros((groups, size + 1, size + 1))

    def add(self, group: int, rows: Tensor) -> None:
        """Add rows (N, P + 1) of a group."""
        from scipy.linalg.blas import dsyrk  # slow to import

        if len(rows) == 0:
            return
        # products are symmetric, so that half of them are computed, in place
        dsyrk(1.0, rows.numpy().T, beta=1.0, c=self._totals[group].T, overwrite_c=True)

    def normal_equations(self) -> tuple[Tensor, Tensor]:
        """Matrices (G, P, P) and slopes (G, P)."""
        below = torch.from_numpy(self._totals)  # only the lower halves are sums
        matrix = below[:, :-1, :-1].tril()
        matrix = matrix + matrix.tril(-1).mT
        return matrix, below[:, -1, :-1]


class Elimination(NamedTuple):
    """Best starts of W windows as functions of the coefficients. Behind the K m columns for changes
    of the coefficients stands one for the residuals at these coefficients.

    Attributes:
        coupling: (n, W, d, K m + 1) products of derivatives by the start with these columns.
        response: (n, W, d, K m + 1) what starts are off by, for each change of a coefficient and
            before any.
    """

    coupling: Tensor
    response: Tensor

    @classmethod
    def of(cls, rows: Tensor, by_start: Tensor) -> "Elimination":
        """Sums over N rows of windows: derivatives by coefficients with residuals behind them
        (n, W, N, K m + 1), and derivatives by the start (n, W, N, d).
        """
        coupling = by_start.mT @ rows
        matrix = by_start.mT @ by_start
        # the datum at the start is a residual, too, so that only windows without data are singular
        unit = torch.eye(matrix.shape[-1], dtype=matrix.dtype)
        trace = matrix.diagonal(dim1=-2, dim2=-1).sum(-1)
        unused = (trace == 0)[..., None, None]
        factor = torch.linalg.cholesky(matrix + unused * unit)
        return cls(coupling, torch.cholesky_solve(coupling, factor))

    def reduction(self) -> tuple[Tensor, Tensor]:
        """Parts that starts at their best take from normal equations (n, K m, K m) and (n, K m).

        What is left is the Schur complement: a coefficient counts by what no start can make up for.
        """
        products = self.coupling[..., :-1].flatten(1, 2).mT @ self.response.flatten(1, 2)
        return products[..., :-1], products[..., -1]

    def change(self, of_coefficients: Tensor) -> Tensor:
        """Change of the starts (n, W, d), for one (n, K m) of the coefficients."""
        of_changes = torch.einsum("nwik,nk->nwi", self.response[..., :-1], of_coefficients)
        return -(self.response[..., -1] + of_changes)

    @classmethod
    def joined(cls, pieces: "list[Elimination]") -> "Elimination":
        """Sums of all runs, from pieces of them."""
        return cls(*(torch.cat(tensors) for tensors in zip(*pieces, strict=True)))


class Equations(NamedTuple):
    """Normal equations in the P free coefficients: (P, P), (P,), and starts as their functions."""

    matrix: Tensor
    slope: Tensor
    elimination: Elimination | None
