"""Chebyshev polynomials as terms of the context."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from romkit.core.boundary import Natural, validated
from romkit.core.polynomials import chebyshev, total_degree
from romkit.integrators.laws.equations import CONSTANT, Library

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
        poles: k of each variable, 0 for all by default: polynomials are in (x + k) / (1 + k x),
            which is x for k = 0. With k = (b - a) / (b + a) and x the scaled c from [a, b] they are
            polynomials in 1 / c.

    Example:
        >>> import torch
        >>> from romkit.integrators.laws.chebyshev import Chebyshev
        >>> Chebyshev(2).names(["a", "b"])
        ['1', 'T1(b)', 'T1(a)', 'T2(b)', 'T1(a) T1(b)', 'T2(a)']
        >>> torch.stack(Chebyshev(2)(torch.tensor([0.5])))
        tensor([ 1.0000,  0.5000, -0.5000])
    """

    degree: Natural
    poles: tuple[float, ...] = ()

    def names(self, variables: Sequence[str]) -> list[str]:
        warped = [f"w({name})" if k else name for name, k in self._with_poles(variables)]
        found = []
        for powers in total_degree(len(variables), self.degree):
            factors = [f"T{power}({warped[i]})" for i, power in enumerate(powers) if power]
            found.append(" ".join(factors) or CONSTANT)
        return found

    def __call__(self, x: Tensor) -> list[Tensor]:
        one = torch.ones(x.shape[:-1], dtype=x.dtype, device=x.device)
        columns = []
        for variable, k in self._with_poles(x.unbind(-1)):
            warped = (variable + k) / (1 + k * variable) if k else variable
            columns.append(chebyshev(warped, self.degree).unbind(-1))
        return [
            _product(columns, powers, one) for powers in total_degree(len(columns), self.degree)
        ]

    def symbolic(self, x: "Sequence[sympy.Expr]") -> "list[sympy.Expr]":
        import sympy

        columns = []
        for variable, k in self._with_poles(x):
            warped = (variable + k) / (1 + k * variable) if k else variable
            columns.append([sympy.chebyshevt(k, warped) for k in range(self.degree + 1)])
        return [
            _product(columns, powers, sympy.S.One) for powers in total_degree(len(x), self.degree)
        ]

    def _with_poles(self, variables: Sequence) -> list[tuple]:
        poles = self.poles or (0.0,) * len(variables)
        return list(zip(variables, poles, strict=True))


def pole_of_reciprocal(low: float, high: float) -> float:
    """k with which polynomials of a variable, scaled from [low, high] to [-1, 1], are in its
    inverse.
    """
    return (high - low) / (high + low)


def _product(columns: list[list], powers: tuple[int, ...], one: object) -> object:
    """Product of the polynomials of these degrees, of one variable each."""
    factors = [column[power] for column, power in zip(columns, powers, strict=True) if power]
    return math.prod(factors[1:], start=factors[0]) if factors else one
