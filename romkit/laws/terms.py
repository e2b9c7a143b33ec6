"""Values and derivatives of the terms of a law, for many states at once."""

import abc
import math

import torch
from torch import Tensor

from romkit.core import polynomials
from romkit.laws.libraries import Library, Polynomial

FEW = 64
"""States up to which monomials are gathered."""


class LatentTerms(abc.ABC):
    """Terms φ₁, ..., φ_K of the d variables of a law, with their derivatives.

    Attributes:
        number: K.
    """

    number: int

    @abc.abstractmethod
    def __call__(self, w: Tensor) -> Tensor:
        """φ(w): (..., d) -> (..., K)."""

    @abc.abstractmethod
    def jacobians(self, w: Tensor, phi: Tensor, weights: Tensor) -> Tensor:
        """Return derivatives (n, N, m, d) of φ(w) W by w, for w (n, N, d), φ(w), and W (n, K, m)."""

    @staticmethod
    def build(library: Library, variables: int) -> "LatentTerms":
        """Return terms of a library: by tables for polynomials, by forward differentiation for
        others.
        """
        if isinstance(library, Polynomial):
            return MonomialTerms(variables, library.degree)
        return LibraryTerms(library, variables)


class MonomialTerms(LatentTerms):
    """All monomials up to a degree, in the order of `Polynomial`.

    Those of degree k that begin with variable i are the last ones of degree k - 1, which begin with
    i or a later one, times variable i: each level is a few products of slices. The derivative of a
    monomial is a multiple of a lower one, so that Jacobians are one product with a table.

    Attributes:
        parents, last_factors: (K,) each monomial but the first is that of the number `parents`
            times the variable of the number `last_factors`.
    """

    def __init__(self, variables: int, degree: int):
        basis = polynomials.Monomials(variables, degree)
        self.number = len(basis)
        self.slices = _slices(variables, degree)
        self.levels = _levels(basis)
        self.slopes = basis.slopes()
        self.parents, self.last_factors = _products(basis)

    def __call__(self, w: Tensor) -> Tensor:
        # for few states calls cost more than their arithmetic, and gathering needs fewest of them
        if w[..., 0].numel() < FEW:
            return self._gathered(w)
        columns = w.movedim(-1, 0).contiguous()
        phi = w.new_empty(self.number, *w.shape[:-1])  # terms first, so that slices are contiguous
        phi[0] = 1.0
        for target, source, variable in self.slices:
            torch.mul(phi[source], columns[variable], out=phi[target])
        return phi.movedim(0, -1)

    def _gathered(self, w: Tensor) -> Tensor:
        powers = [torch.ones_like(w[..., :1])]
        for parents, factors in self.levels:
            powers.append(powers[-1][..., parents] * w[..., factors])
        return torch.cat(powers, -1)

    def jacobians(self, w: Tensor, phi: Tensor, weights: Tensor) -> Tensor:
        d = len(self.slopes)
        m = weights.shape[-1]
        table = torch.einsum("ilk,nkm->nlmi", self.slopes.to(weights), weights)  # (n, K, m, d)
        slopes = phi @ table.flatten(2)
        return slopes.unflatten(-1, (m, d))


def _slices(variables: int, degree: int) -> list[tuple[slice, slice, int]]:
    """Monomials that begin with one variable, those that they are products of, and the variable."""
    slices = []
    end = 1  # of the level before
    for k in range(degree):
        place = end
        for variable in range(variables):
            # monomials of the level before that begin with this variable or a later one
            later = math.comb(variables - variable + k - 1, k)
            slices.append((slice(place, place + later), slice(end - later, end), variable))
            place += later
        end = place
    return slices


def _products(basis: polynomials.Monomials) -> tuple[Tensor, Tensor]:
    """Return numbers (K,) of the monomial and of the variable of which each monomial is the
    product; zeros for the constant.
    """
    parents = [0]
    variables = [0]
    for factors in basis.factors[1:]:
        parents.append(basis.places[factors[:-1]])
        variables.append(factors[-1])
    return torch.tensor(parents), torch.tensor(variables)


def _levels(basis: polynomials.Monomials) -> list[tuple[Tensor, Tensor]]:
    """For the monomials of each degree, places of parents in the level before, and the factor."""
    parents: list[list[int]] = [[] for _ in range(basis.degree)]
    variables: list[list[int]] = [[] for _ in range(basis.degree)]
    for factors in basis.factors:
        k = len(factors) - 1
        if k < 0:  # the constant is no product
            continue
        lowest = basis.places[(0,) * k]
        place = basis.places[factors[:-1]]
        parents[k].append(place - lowest)
        variables[k].append(factors[-1])
    return list(zip(map(torch.tensor, parents), map(torch.tensor, variables), strict=True))


class LibraryTerms(LatentTerms):
    """Terms of any library, with derivatives by forward differentiation."""

    def __init__(self, library: Library, variables: int):
        names = [f"w{k}" for k in range(variables)]
        self.library, self.variables = library, variables
        self.number = len(library.names(names))

    def __call__(self, w: Tensor) -> Tensor:
        return torch.stack(self.library(w), -1)

    def jacobians(self, w: Tensor, phi: Tensor, weights: Tensor) -> Tensor:
        columns = []
        for k in range(self.variables):
            direction = torch.zeros_like(w)
            direction[..., k] = 1.0
            slope = torch.func.jvp(self, (w,), (direction,))[1]  # (n, N, K)
            columns.append(slope @ weights)
        return torch.stack(columns, -1)
