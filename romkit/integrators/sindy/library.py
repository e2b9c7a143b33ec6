"""Libraries of candidate terms: functions of named variables that may stand on the right-hand side of an equation."""

import abc
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from romkit.arrays import Axes
from romkit.boundary import Count, Hooks, Natural, checked, hook
from romkit.errors import InputError
from romkit.files import reason

CONSTANT = "1"

MOST_TERMS = 10_000
"""Of a polynomial, beyond which no fit has an end."""


Variables = Annotated[Tensor, Axes(None)]


class Library(Hooks, abc.ABC):
    """Terms θ₁, ..., θ_K of d variables. `a + b` has the terms of both, `a * b` every product of a term of each.

    A term whose name appears twice counts once; products of polynomials with each other repeat terms under other
    names, so raise the degree instead.
    """

    @hook
    @abc.abstractmethod
    def names(self, variables: Sequence[str]) -> list[str]:
        """The K names, for variables with these names."""

    @hook
    @abc.abstractmethod
    def __call__(self, x: Variables) -> list[Tensor]:
        """The K terms at x (..., d), each (...)."""

    @checked
    def __add__(self, other: "Library") -> "Library":
        return Sum(self, other)

    @checked
    def __mul__(self, other: "Library") -> "Library":
        return Product(self, other)


@checked
@dataclass(frozen=True)
class Polynomial(Library):
    """All monomials up to a total degree, the constant first: 1, z0, z1, z0^2, z0 z1, z1^2, ...

    Args:
        degree: highest total degree, at least 0.
    """

    degree: Natural

    def names(self, variables: Sequence[str]) -> list[str]:
        return [
            _monomial_name([variables[i] for i in monomial]) for monomial in _monomials(self.degree, len(variables))
        ]

    def __call__(self, x: Tensor) -> list[Tensor]:
        variables = x.unbind(-1)
        found = {(): torch.ones(x.shape[:-1], dtype=x.dtype, device=x.device)}
        for monomial in _monomials(self.degree, len(variables))[1:]:
            *rest, last = monomial
            found[monomial] = found[tuple(rest)] * variables[last] if rest else variables[last]
        return list(found.values())


@checked
@dataclass(frozen=True)
class Fourier(Library):
    """sin(k z) and cos(k z) of each variable, for k = 1, ..., `frequencies`."""

    frequencies: Count

    def names(self, variables: Sequence[str]) -> list[str]:
        waves = range(1, self.frequencies + 1)
        return [
            f"{function}({k} {name})" if k > 1 else f"{function}({name})"
            for k in waves
            for name in variables
            for function in ("sin", "cos")
        ]

    def __call__(self, x: Tensor) -> list[Tensor]:
        waves = range(1, self.frequencies + 1)
        return [wave for k in waves for column in (k * x).unbind(-1) for wave in (column.sin(), column.cos())]


@checked
class Terms(Library):
    """Terms of your own: `Terms({"|z0|": lambda z: z[..., 0].abs()})`.

    Args:
        functions: for each name a function of torch tensors from (..., d) to (...).
    """

    def __init__(self, functions: Mapping[str, Callable[[Tensor], Tensor]]):
        if not functions:
            raise InputError("functions", expected="at least one term", got="none", fix="give {name: function, ...}")
        self.functions = dict(functions)

    def names(self, variables: Sequence[str]) -> list[str]:
        return list(self.functions)

    def __call__(self, x: Tensor) -> list[Tensor]:
        return [self._evaluate(name, function, x) for name, function in self.functions.items()]

    def __repr__(self) -> str:
        return f"Terms({', '.join(self.functions)})"

    @staticmethod
    def _evaluate(name: str, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        try:
            values = function(x)
        except (IndexError, RuntimeError, TypeError) as error:
            expected, fix = f"a function of {x.shape[-1]} variables", "index them as z[..., 0]"
            raise InputError(f"term {name!r}", expected=expected, got=reason(error), fix=fix) from error
        if torch.is_tensor(values) and values.shape == x.shape[:-1]:
            return values
        got = f"shape {tuple(values.shape)}" if torch.is_tensor(values) else type(values).__name__
        expected = f"a tensor of shape {tuple(x.shape[:-1])} for variables of shape {tuple(x.shape)}"
        raise InputError(f"term {name!r}", expected=expected, got=got, fix="index the variables as z[..., 0]")


@checked
@dataclass(frozen=True)
class Sum(Library):
    """The terms of both libraries: what `a + b` makes."""

    first: Library
    second: Library

    def names(self, variables: Sequence[str]) -> list[str]:
        return self.first.names(variables) + self.second.names(variables)

    def __call__(self, x: Tensor) -> list[Tensor]:
        return self.first(x) + self.second(x)


@checked
@dataclass(frozen=True)
class Product(Library):
    """Every product of a term of the first and one of the second library: what `a * b` makes."""

    first: Library
    second: Library

    def names(self, variables: Sequence[str]) -> list[str]:
        return product_names(self.first.names(variables), self.second.names(variables))

    def __call__(self, x: Tensor) -> list[Tensor]:
        return [a * b for a, b in itertools.product(self.first(x), self.second(x))]


@checked
@dataclass(frozen=True)
class Some(Library):
    """Terms of a library by their index."""

    library: Library
    keep: tuple[int, ...]

    def names(self, variables: Sequence[str]) -> list[str]:
        names = self.library.names(variables)
        return [names[k] for k in self.keep]

    def __call__(self, x: Tensor) -> list[Tensor]:
        terms = self.library(x)
        return [terms[k] for k in self.keep]


def distinct(library: Library, variables: Sequence[str]) -> Library:
    """The library, or where names repeat its first term of each name."""
    names = library.names(variables)
    keep = tuple(k for k, name in enumerate(names) if name not in names[:k])
    return library if len(keep) == len(names) else Some(library, keep)


def product_names(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Names of all products, the second factor running faster; the constant leaves no trace."""
    return [
        " ".join(factor for factor in pair if factor != CONSTANT) or CONSTANT
        for pair in itertools.product(first, second)
    ]


@functools.lru_cache
def _monomials(degree: int, variables: int) -> list[tuple[int, ...]]:
    """Each as the sorted indices of its factors, so that all but the last factor is a monomial before it."""
    if (number := math.comb(variables + degree, degree)) > MOST_TERMS:
        got = f"degree {degree} of {variables} variables, {number} terms"
        raise InputError("degree", expected=f"at most {MOST_TERMS} terms", got=got, fix="lower the degree")
    return [m for d in range(degree + 1) for m in itertools.combinations_with_replacement(range(variables), d)]


def _monomial_name(factors: list[str]) -> str:
    powers = [(name, len(list(group))) for name, group in itertools.groupby(factors)]
    return " ".join(name if power == 1 else f"{name}^{power}" for name, power in powers) or CONSTANT
