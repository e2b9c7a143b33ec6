"""Chebyshev polynomials as terms of the context."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from romkit.core.boundary import Natural, validated
from romkit.core.errors import InputError
from romkit.core.polynomials import chebyshev, total_degree
from romkit.laws.libraries import CONSTANT, Library

if TYPE_CHECKING:
    import sympy


Warped = TypeVar("Warped", bound=Any)
"""A variable, a tensor or a symbol."""


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
        >>> from romkit.laws.chebyshev import Chebyshev
        >>> Chebyshev(2).names(["a", "b"])
        ['1', 'T1(b)', 'T1(a)', 'T2(b)', 'T1(a) T1(b)', 'T2(a)']
        >>> torch.stack(Chebyshev(2)(torch.tensor([0.5])))
        tensor([ 1.0000,  0.5000, -0.5000])
    """

    degree: Natural
    poles: tuple[float, ...] = ()

    def names(self, variables: Sequence[str]) -> list[str]:
        symbols = [_symbol(name, pole) for name, pole in self._fill_poles(variables)]
        powers = total_degree(len(variables), self.degree)
        return [_name(symbols, degrees) for degrees in powers]

    def definitions(self, variables: Sequence[str]) -> list[str]:
        lines = []
        for name, pole in self._fill_poles(variables):
            if pole != 0:
                lines.append(
                    f"{_symbol(name, pole)} = ({name} + {pole:.6g}) / (1 + {pole:.6g} {name})"
                )
        return lines

    def __call__(self, x: Tensor) -> list[Tensor]:
        one = torch.ones(x.shape[:-1], dtype=x.dtype, device=x.device)
        columns = [
            list(chebyshev(_warped(variable, pole), self.degree).unbind(-1))
            for variable, pole in self._fill_poles(x.unbind(-1))
        ]
        return self._products(columns, one)

    def symbolic(self, x: "Sequence[sympy.Expr]") -> "list[sympy.Expr]":
        import sympy

        columns = []
        for variable, pole in self._fill_poles(x):
            warped = _symbolic_warped(variable, pole)
            degrees = range(self.degree + 1)
            columns.append([sympy.chebyshevt(k, warped) for k in degrees])
        return self._products(columns, sympy.S.One)

    def _products(self, columns: list[list[Any]], one: object) -> list[Any]:
        """Return products up to the total degree, of polynomials of one variable each."""
        powers = total_degree(len(columns), self.degree)
        return [_product(columns, degrees, one) for degrees in powers]

    def _fill_poles(self, variables: Sequence[Any]) -> list[tuple[Any, ...]]:
        poles = self.poles
        if not poles:
            poles = (0.0,) * len(variables)
        if len(poles) != len(variables):
            raise InputError(
                "poles",
                expected=f"{len(variables)}, one of each variable of the polynomials",
                got=len(poles),
                fix="leave them out, or give as many",
            )
        return list(zip(variables, poles, strict=True))


def reciprocal_pole(low: float, high: float) -> float:
    """k with which polynomials of a variable, scaled from [low, high] to [-1, 1], are in its
    inverse.
    """
    return (high - low) / (high + low)


def _warped(variable: Warped, pole: float) -> Warped:
    """Variable in which the polynomials are."""
    if pole == 0:
        return variable
    return (variable + pole) / (1 + pole * variable)


def _symbolic_warped(
    variable: "sympy.Expr", pole: float, *, rounding: float = 1e-12
) -> "sympy.Expr":
    """Warped variable as a sum, so that polynomials in the inverse of a parameter have its powers.

    `rounding`: smallest term of a denominator, relative to its constant 1 before it is
    multiplied out.
    """
    if pole == 0:
        return variable
    denominator = 0
    for term, value in (1 + pole * variable).expand().as_coefficients_dict().items():
        # what cancels at the pole of a reciprocal leaves a remainder
        if abs(value) > rounding:
            denominator += value * term
    return ((variable + pole).expand() / denominator).expand()


def _symbol(name: str, pole: float) -> str:
    return name if pole == 0 else f"w({name})"


def _name(symbols: Sequence[str], powers: Sequence[int]) -> str:
    """Return name of the product of the polynomials of these degrees."""
    factors = []
    for symbol, k in zip(symbols, powers, strict=True):
        if k > 0:
            factors.append(f"T{k}({symbol})")
    return " ".join(factors) if factors else CONSTANT


def _product(columns: list[list[Any]], powers: tuple[int, ...], one: object) -> object:
    """Return product of the polynomials of these degrees, of one variable each."""
    factors = [column[k] for column, k in zip(columns, powers, strict=True) if k > 0]
    if not factors:
        return one
    # a product that began with 1 would keep it in symbolic terms
    return math.prod(factors[1:], start=factors[0])
