"""Chebyshev polynomials as terms of the context."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from romkit.core.boundary import Natural, validated
from romkit.core.polynomials import chebyshev, total_degree
from romkit.laws.libraries import CONSTANT, Library

if TYPE_CHECKING:
    import sympy


@validated
@dataclass(frozen=True)
class Chebyshev(Library):
    """Products of Chebyshev polynomials of variables in [-1, 1], up to a total degree, the constant
    first.

    Unlike powers they stay apart from each other, so that many of them can be fitted. Beyond [-1, 1]
    they go on along their tangents.

    Args:
        degree: highest total degree, at least 0.

    Example:
        >>> import torch
        >>> from romkit.laws.chebyshev import Chebyshev
        >>> Chebyshev(2).names(["a", "b"])
        ['1', 'T1(b)', 'T1(a)', 'T2(b)', 'T1(a) T1(b)', 'T2(a)']
        >>> torch.stack(Chebyshev(2)(torch.tensor([0.5])))
        tensor([ 1.0000,  0.5000, -0.5000])
    """

    degree: Natural

    def names(self, variables: Sequence[str]) -> list[str]:
        return [_name(variables, degrees) for degrees in self._powers(variables)]

    def __call__(self, x: Tensor) -> list[Tensor]:
        one = torch.ones(x.shape[:-1], dtype=x.dtype, device=x.device)
        columns = [chebyshev(variable, self.degree).unbind(-1) for variable in x.unbind(-1)]
        return [_product(columns, degrees, one) for degrees in self._powers(columns)]

    def symbolic(self, x: "Sequence[sympy.Expr]") -> "list[sympy.Expr]":
        import sympy

        degrees = range(self.degree + 1)
        columns = [[sympy.chebyshevt(k, variable) for k in degrees] for variable in x]
        return [_product(columns, degrees, sympy.S.One) for degrees in self._powers(columns)]

    def _powers(self, variables: Sequence[object]) -> list[tuple[int, ...]]:
        return total_degree(len(variables), self.degree)


def _name(symbols: Sequence[str], powers: Sequence[int]) -> str:
    """Return name of the product of the polynomials of these degrees."""
    factors = [f"T{k}({symbol})" for symbol, k in zip(symbols, powers, strict=True) if k > 0]
    return " ".join(factors) or CONSTANT


def _product(columns: Sequence[Sequence[Any]], powers: Sequence[int], one: object) -> Any:
    """Return product of the polynomials of these degrees, of one variable each."""
    factors = [column[k] for column, k in zip(columns, powers, strict=True) if k > 0]
    if not factors:
        return one
    # a product that began with 1 would keep it in symbolic terms
    return math.prod(factors[1:], start=factors[0])
