"""Sums over many rows as weighted sums over few of them: empirical cubature."""

import torch
from torch import Tensor

from romkit.errors import InputError


def cubature(parts: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """Rows (s,) and positive weights (s,) with Σ weightᵢ partsᵢ = Σ partsᵢ up to the tolerance, relative.

    The row whose parts point most along what is missing joins; then all weights are fitted anew, and a row whose weight
    would turn negative leaves. Positive weights keep sums of squares positive.

    Args:
        parts: (n, q), what each row adds to q sums.
        tolerance: above 0.

    Raises:
        InputError: a tolerance that is not reached.

    Source: Chapman, Avery, Collins, Farhat (2017), Accelerated mesh sampling for the hyper reduction of nonlinear
    computational models, algorithm 1 (Lawson & Hanson's with an end).
    """
    total, n = parts.sum(0), len(parts)
    rows, weights, before = torch.zeros(0, dtype=torch.int64), parts.new_zeros(0), torch.inf
    while (left := ((total - weights @ parts[rows]).norm() / total.norm()).item()) > tolerance:
        gain = parts @ (total - weights @ parts[rows])
        gain[rows] = -torch.inf
        if not left < before or len(rows) == min(parts.shape):
            fix = f"raise it, or give more data: sums are compared in {parts.shape[1]} numbers"
            got = f"{left:.1e} left by {len(rows)} of {n} rows"
            raise InputError("tolerance", expected="one that can be reached", got=got, fix=fix)
        rows, weights = _fitted(parts, total, torch.cat([rows, gain.argmax().unsqueeze(0)]), weights)
        before = left
    return rows, weights


def _fitted(parts: Tensor, total: Tensor, rows: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and weights of the best fit that is positive, on the way from the weights before, of all rows but the last.

    Where the fit on all rows has negative weights, one goes towards it until the first weight is zero, and that row
    leaves.
    """
    weights = torch.cat([before, before.new_zeros(1)])
    while True:
        chosen = parts[rows]
        goal = torch.linalg.solve(chosen @ chosen.mT, chosen @ total)
        down = goal <= 0
        if not bool(down.any()):
            return rows, goal
        share = (weights / (weights - goal))[down].min()
        weights = weights + share * (goal - weights)
        kept = weights > 1e-12 * weights.max()
        rows, weights = rows[kept], weights[kept]
