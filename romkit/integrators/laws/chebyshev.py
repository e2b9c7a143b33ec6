"""Chebyshev polynomials as terms of the context."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from romkit.core.boundary import Natural, validated
from romkit.integrators.laws.equations import CONSTANT, Library

if TYPE_CHECKING:
    import sympy


@validated
@dataclass(frozen=True)
class Chebyshev(Library):
    """Products of Chebyshev polynomials of variables in [-1, 1], up to a total degree, the constant
    first.

    Unlike powers they stay apart from each other, so that many of them can be fitted.

    Args:
        degree: highest total degree, at least 0.
        poles: k of each variable, 0 for all by default: polynomials are in (x + k) / (1 + k x),
            which is x for k = 0. With k = (b - a) / (b + a) and x the scaled c from [a, b] they are
            polynomials in 1 / c.

    Example:
        >>> import torch
        >>> from romkit.integrators.laws.chebyshev import Chebyshev
        >>> Chebyshev(2).names(["a", "b"])
        ['1', 'T1(a)', 'T1(b)', 'T2(a)', 'T1(a) T1(b)', 'T2(b)']
        >>> torch.stack(Chebyshev(2)(torch.tensor([0.5])))
        tensor([ 1.0000,  0.5000, -0.5000])
    """

    degree: Natural
    poles: tuple[float, ...] = ()

    def names(self, variables: Sequence[str]) -> list[str]:
        warped = [f"w({name})" if k else name for name, k in self._with_poles(variables)]
        found = []
        for powers in _powers(self.degree, len(variables)):
            factors = [f"T{power}({warped[i]})" for i, power in enumerate(powers) if power]
            found.append(" ".join(factors) or CONSTANT)
        return found

    def __call__(self, x: Tensor) -> list[Tensor]:
        one = torch.ones(x.shape[:-1], dtype=x.dtype, device=x.device)
        columns = []
        for variable, k in self._with_poles(x.unbind(-1)):
            warped = (variable + k) / (1 + k * variable) if k else variable
            columns.append(_chebyshev(self.degree, one, warped))
        return [_product(columns, powers, one) for powers in _powers(self.degree, len(columns))]

    def symbolic(self, x: "Sequence[sympy.Expr]") -> "list[sympy.Expr]":
        import sympy

        columns = []
        for variable, k in self._with_poles(x):
            warped = (variable + k) / (1 + k * variable) if k else variable
            columns.append(_chebyshev(self.degree, sympy.S.One, warped))
        return [_product(columns, powers, sympy.S.One) for powers in _powers(self.degree, len(x))]

    def _with_poles(self, variables: Sequence) -> list[tuple]:
        poles = self.poles or (0.0,) * len(variables)
        return list(zip(variables, poles, strict=True))


def pole_of_reciprocal(low: float, high: float) -> float:
    """k with which polynomials of a variable, scaled from [low, high] to [-1, 1], are in its
    inverse.
    """
    return (high - low) / (high + low)


def _chebyshev(degree: int, one: object, x: object) -> list:
    """T₀(x), ..., T_degree(x), by their recurrence."""
    found = [one, x]
    while len(found) <= degree:
        found.append(2 * x * found[-1] - found[-2])
    return found[: degree + 1]


def _product(columns: list[list], powers: tuple[int, ...], one: object) -> object:
    """Product of the polynomials of these degrees, of one variable each."""
    factors = [column[power] for column, power in zip(columns, powers, strict=True) if power]
    return math.prod(factors[1:], start=factors[0]) if factors else one


def _powers(degree: int, variables: int) -> list[tuple[int, ...]]:
    """Degrees of each variable in all products up to a total degree, lower ones first."""
    found = []
    for total in range(degree + 1):
        for factors in itertools.combinations_with_replacement(range(variables), total):
            found.append(tuple(factors.count(i) for i in range(variables)))
    return found
