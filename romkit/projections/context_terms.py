"""Functions of the context of which the coefficients of a polynomial manifold are sums."""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from romkit.core.polynomials import chebyshev, total_degree
from romkit.data.coordinates import COORDINATES, NEAREST, PLAIN


class ContextTerms:
    """Products of Chebyshev polynomials of the parameters, each warped and scaled to [-1, 1].

    A parameter that had a single value in training has no part in them.

    Args:
        low, high: (p,) ends of the training ranges.
        fixed: whether a parameter had a single value.
        warps: name of the warp of each parameter.
        degree: total degree of the products.
    """

    def __init__(
        self, low: Tensor, high: Tensor, fixed: Sequence[bool], warps: Sequence[str], degree: int
    ):
        self.low, self.high, self.warps, self.degree = low, high, warps, degree
        self.varying = [k for k, stays in enumerate(fixed) if not stays]
        self.powers = total_degree(len(self.varying), degree)

    def __len__(self) -> int:
        return len(self.powers)

    def __call__(self, c: Tensor) -> Tensor:
        """(..., Q) at contexts c (..., p) in physical units."""
        if self.degree == 0 or not self.varying:
            return c.new_ones((*c.shape[:-1], 1))
        columns = []
        for k in self.varying:
            columns.append(chebyshev(self._scaled(c, k), self.degree))  # (..., degree + 1)
        terms = []
        for powers in self.powers:
            factors = [column[..., power] for column, power in zip(columns, powers, strict=True)]
            terms.append(functools.reduce(torch.mul, factors))
        return torch.stack(terms, dim=-1)

    def _scaled(self, c: Tensor, k: int) -> Tensor:
        """Return parameter k, warped, its training range as [-1, 1]."""
        u = c[..., k]
        low = self.low[k]
        high = self.high[k]
        if self.warps[k] != PLAIN:
            # in units of the end next to zero, which 1/c and log c must not reach
            unit = torch.where(low.abs() < high.abs(), low, high)
            u = (u / unit).clamp(min=NEAREST)
            low = low / unit
            high = high / unit
        warp = COORDINATES[self.warps[k]].forward
        start = warp(low)
        end = warp(high)
        return (2 * warp(u) - start - end) / (end - start)
