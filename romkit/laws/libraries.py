"""Libraries of candidate terms of a law."""

import abc
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from romkit.core import checks
from romkit.core.boundary import Count, Natural, validated
from romkit.core.errors import InputError
from romkit.core.files import reason
from romkit.core.polynomials import Monomials
from romkit.core.types import TensorMap

if TYPE_CHECKING:
    import sympy

CONSTANT = "1"

MOST_TERMS = 10_000
"""Largest number of terms of a polynomial; a fit with more would not end."""


class Library(abc.ABC):
    """Terms θ₁, ..., θ_K of d variables. `a + b` has the terms of both, `a * b` every product of a
    term of each.

    A term whose name appears twice counts once; products of polynomials with each other repeat
    terms under other names, so raise the degree instead.
    """

    @abc.abstractmethod
    def names(self, variables: Sequence[str]) -> list[str]:
        """Return names of the K terms, for variables with these names."""

    @abc.abstractmethod
    def __call__(self, x: Tensor) -> list[Tensor]:
        """Return values of the K terms at x (..., d), each (...)."""

    def symbolic(self, x: "Sequence[sympy.Expr]") -> "list[sympy.Expr]":
        """Return the K terms at symbolic variables.

        Raises:
            InputError: terms that are functions of the user's own.
        """
        fix = "build them from Polynomial and Fourier, or use equations()"
        raise InputError("law", expected="terms that sympy can write", got=repr(self)[:80], fix=fix)

    @validated
    def __add__(self, other: "Library") -> "Library":
        return Sum(self, other)

    @validated
    def __mul__(self, other: "Library") -> "Library":
        return Product(self, other)


# -- terms -----------------------------------------------------------------------------------------


@validated
@dataclass(frozen=True)
class Polynomial(Library):
    """All monomials up to a total degree, the constant first: 1, z0, z1, z0^2, z0 z1, z1^2, ...

    Args:
        degree: highest total degree, at least 0.
    """

    degree: Natural

    def names(self, variables: Sequence[str]) -> list[str]:
        return [_monomial_name(factors, variables) for factors in self._factors(len(variables))]

    def __call__(self, x: Tensor) -> list[Tensor]:
        variables = x.unbind(-1)
        one = torch.ones(x.shape[:-1], dtype=x.dtype, device=x.device)
        values: dict[tuple[int, ...], Tensor] = {(): one}
        for factors in self._factors(len(variables))[1:]:
            *lower, highest = factors
            value = variables[highest]
            if lower:  # the shorter monomial stands before this one
                value = values[tuple(lower)] * value
            values[factors] = value
        return list(values.values())

    def symbolic(self, x: "Sequence[sympy.Expr]") -> "list[sympy.Expr]":
        return [math.prod(x[i] for i in factors) for factors in self._factors(len(x))]

    def _factors(self, variables: int) -> list[tuple[int, ...]]:
        return _monomials(self.degree, variables)


def _monomial_name(factors: Sequence[int], variables: Sequence[str]) -> str:
    """Return name such as `z0^2 z1`."""
    powers = []
    for variable, group in itertools.groupby(factors):
        power = len([*group])
        name = variables[variable]
        powers.append(name if power == 1 else f"{name}^{power}")
    if not powers:
        return CONSTANT
    return " ".join(powers)


@functools.lru_cache
def _monomials(degree: int, variables: int) -> list[tuple[int, ...]]:
    """Monomials as sorted indices of their factors; each without its last factor stands before it."""
    number = math.comb(variables + degree, degree)
    if number > MOST_TERMS:
        expected = f"at most {MOST_TERMS} terms"
        got = f"degree {degree} of {variables} variables, {number} terms"
        raise InputError("degree", expected=expected, got=got, fix="lower the degree")
    return Monomials(variables, degree).factors


@validated
@dataclass(frozen=True)
class Fourier(Library):
    """sin(k z) and cos(k z) of each variable, for k = 1, ..., `frequencies`."""

    frequencies: Count

    @property
    def _numbers(self) -> range:
        """Wave numbers k."""
        return range(1, self.frequencies + 1)

    def names(self, variables: Sequence[str]) -> list[str]:
        names = []
        for k, variable in itertools.product(self._numbers, variables):
            wave = variable if k == 1 else f"{k} {variable}"
            names += [f"sin({wave})", f"cos({wave})"]
        return names

    def __call__(self, x: Tensor) -> list[Tensor]:
        values = []
        for k in self._numbers:
            for wave in (k * x).unbind(-1):
                values += [wave.sin(), wave.cos()]
        return values

    def symbolic(self, x: "Sequence[sympy.Expr]") -> "list[sympy.Expr]":
        import sympy

        values = []
        for k, variable in itertools.product(self._numbers, x):
            wave = k * variable
            values += [sympy.sin(wave), sympy.cos(wave)]
        return values


@validated
class Functions(Library):
    """Terms of your own: `Functions({"|z0|": lambda z: z[..., 0].abs()})`.

    Args:
        functions: for each name a function of torch tensors from (..., d) to (...).
    """

    def __init__(self, functions: Mapping[str, TensorMap]):
        if not functions:
            fix = "give {name: function, ...}"
            raise InputError("functions", expected="at least one term", got="none", fix=fix)
        self.functions = dict(functions)

    def names(self, variables: Sequence[str]) -> list[str]:
        return list(self.functions)

    def __call__(self, x: Tensor) -> list[Tensor]:
        return [_evaluated(name, function, x) for name, function in self.functions.items()]

    def __repr__(self) -> str:
        return f"Functions({', '.join(self.functions)})"


def _evaluated(name: str, function: TensorMap, x: Tensor) -> Tensor:
    """Return values (...) of a user's function at x (..., d).

    Raises:
        InputError: it cannot be evaluated, or gives another shape.
    """
    term = f"term {name!r}"
    fix = "index the variables as z[..., 0]"
    try:
        values: object = function(x)
    except (IndexError, RuntimeError, TypeError) as error:
        expected = f"a function of {x.shape[-1]} variables"
        raise InputError(term, expected=expected, got=reason(error), fix=fix) from error
    shape = x.shape[:-1]
    if not isinstance(values, Tensor) or values.shape != shape:
        expected = f"a tensor of shape {tuple(shape)} for variables of shape {tuple(x.shape)}"
        raise InputError(term, expected=expected, got=checks.shown(values), fix=fix)
    return values


# -- combinations ----------------------------------------------------------------------------------


class Combined(Library):
    """Terms made of those of other libraries, in the same way of names, values and symbols."""

    @abc.abstractmethod
    def combined(self, terms: Callable[[Library], list[Any]]) -> list[Any]:
        """Return the terms, from the terms that each library has by a function."""

    def names(self, variables: Sequence[str]) -> list[str]:
        return self.combined(lambda library: library.names(variables))

    def __call__(self, x: Tensor) -> list[Tensor]:
        return self.combined(lambda library: library(x))

    def symbolic(self, x: "Sequence[sympy.Expr]") -> "list[sympy.Expr]":
        return self.combined(lambda library: library.symbolic(x))


@dataclass(frozen=True)
class Sum(Combined):
    """Terms of both libraries, `a + b`."""

    first: Library
    second: Library

    def combined(self, terms: Callable[[Library], list[Any]]) -> list[Any]:
        return terms(self.first) + terms(self.second)


@dataclass(frozen=True)
class Product(Combined):
    """Every product of a term of the first and one of the second library, `a * b`."""

    first: Library
    second: Library

    def combined(self, terms: Callable[[Library], list[Any]]) -> list[Any]:
        return [a * b for a, b in itertools.product(terms(self.first), terms(self.second))]

    def names(self, variables: Sequence[str]) -> list[str]:
        return product_names(self.first.names(variables), self.second.names(variables))


@validated
@dataclass(frozen=True)
class Subset(Combined):
    """Some terms of a library, by their index."""

    library: Library
    keep: tuple[int, ...]

    def combined(self, terms: Callable[[Library], list[Any]]) -> list[Any]:
        candidates = terms(self.library)
        return [candidates[k] for k in self.keep]


def distinct(library: Library, variables: Sequence[str]) -> Library:
    """Return the library, or its first term of each name where names repeat."""
    places: dict[str, int] = {}
    names = library.names(variables)
    # a sum of libraries may name a term twice
    for k, name in enumerate(names):
        places.setdefault(name, k)
    if len(places) == len(names):
        return library
    return Subset(library, tuple(places.values()))


def product_names(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Return names of all products, the second factor running faster; a constant factor is left
    out.
    """
    names = []
    for pair in itertools.product(first, second):
        factors = [factor for factor in pair if factor != CONSTANT]
        names.append(" ".join(factors) if factors else CONSTANT)
    return names
