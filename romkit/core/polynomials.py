"""Polynomials: monomials of several variables, level by level, and Chebyshev polynomials of
contexts.
"""

import functools
import itertools
import math

import torch
from torch import Tensor

from romkit.core.memory import refuse_too_large
from romkit.core.types import Shape


def multiplied(z: Tensor, level: Tensor, degree: int) -> Tensor:
    """Monomials of degree d from those of degree d - 1, `level`: z₀ times all of them, then z₁ times
    those without z₀, and so on.

    It is linear in z and in `level`, so that the product rule gives derivatives along curves.
    """
    variables = z.shape[-1]
    size = level.shape[-1]
    products = []
    for i in range(variables):
        # those without z₀ ... z_{i-1} stand last
        begin = size - number(variables - i, degree - 1)
        factor = z[..., i : i + 1]
        products.append(factor * level[..., begin:])
    return torch.cat(products, dim=-1)


def number(variables: int, degree: int) -> int:
    """Return number of monomials of exactly this degree."""
    return math.comb(variables + degree - 1, degree)


class Monomials:
    """Monomials of z (..., m) up to a degree, 1 first, ordered by degree and then by variables.

    Args:
        variables: m.
        degree: d, the highest.

    Attributes:
        factors: of each monomial, the numbers of its variables in order: (0, 0, 2) for z₀² z₂.

    Example:
        >>> import torch
        >>> from romkit.core.polynomials import Monomials
        >>> Monomials(2, 2)(torch.tensor([2.0, 3.0]))
        tensor([1., 2., 3., 4., 6., 9.])
    """

    def __init__(self, variables: int, degree: int):
        factors = degree * math.comb(variables + degree, degree)
        if factors > 1e7:  # 80 MB; a look at the memory takes longer than few monomials
            refuse_too_large("degree", 8 * factors, multiple=2, fix="a lower one")
        self.variables, self.degree = variables, degree
        self.factors: list[Shape] = []
        for d in range(degree + 1):
            self.factors += itertools.combinations_with_replacement(range(variables), d)

    def __len__(self) -> int:
        return len(self.factors)

    def __call__(self, z: Tensor) -> Tensor:
        """(..., K) of z (..., m)."""
        levels = [torch.ones_like(z[..., :1])]
        for degree in range(1, self.degree + 1):
            levels.append(multiplied(z, levels[-1], degree))
        return torch.cat(levels, dim=-1)

    @functools.cached_property
    def places(self) -> dict[Shape, int]:
        """Number of each monomial, by its factors."""
        return {factors: k for k, factors in enumerate(self.factors)}

    @property
    def exponents(self) -> Tensor:
        """(K, m) power of each variable in each monomial."""
        variables = range(self.variables)
        return torch.tensor([[factors.count(i) for i in variables] for factors in self.factors])

    def products(self, other: "Monomials | None" = None) -> Tensor:
        """(K, K') number of the product with each monomial of `other`, itself by default, among
        the monomials up to the sum of both degrees.
        """
        if other is None:
            other = self
        together = Monomials(self.variables, self.degree + other.degree)
        # exponents as digits of one number, so that a product of monomials is a sum of numbers
        digits = (together.degree + 1) ** torch.arange(self.variables)
        keys, order = (together.exponents @ digits).sort()
        factors = self.exponents @ digits
        of_products = factors.unsqueeze(-1) + other.exponents @ digits  # (K, K')
        return order[torch.searchsorted(keys, of_products)]

    def slopes(self) -> Tensor:
        """D (m, K, K) with ∂ᵢ of the monomials = monomials @ D[i]."""
        slopes = torch.zeros(self.variables, len(self), len(self), dtype=torch.float64)
        for k, factors in enumerate(self.factors):
            # ∂ᵢ takes one factor zᵢ away, as often as it is there
            for i in set(factors):
                lower = list(factors)
                lower.remove(i)
                slopes[i, self.places[tuple(lower)], k] = factors.count(i)
        return slopes


def chebyshev(s: Tensor, degree: int) -> Tensor:
    """T₀ ... T_d (..., d + 1) of s (...), continued beyond [-1, 1] along their tangents.

    A polynomial of a context that is left out grows with its highest power; its tangent does not.

    Example:
        >>> import torch
        >>> from romkit.core.polynomials import chebyshev
        >>> chebyshev(torch.tensor([0.5, 3.0]), 2)
        tensor([[ 1.0000,  0.5000, -0.5000],
                [ 1.0000,  3.0000,  9.0000]])
    """
    inside = s.clamp(-1.0, 1.0)
    unit = torch.ones_like(s)
    values = [unit, inside]
    slopes = [torch.zeros_like(s), unit]
    twice = 2 * inside
    for _ in range(2, degree + 1):
        # T_k = 2 s T_{k-1} - T_{k-2}, and its derivative
        value = twice * values[-1] - values[-2]
        slope = 2 * values[-1] + twice * slopes[-1] - slopes[-2]
        values.append(value)
        slopes.append(slope)
    count = degree + 1
    value = torch.stack(values[:count], dim=-1)  # (..., d + 1)
    slope = torch.stack(slopes[:count], dim=-1)
    beyond = (s - inside).unsqueeze(-1)
    return value + slope * beyond


def total_degree(variables: int, degree: int) -> list[Shape]:
    """Degrees of each variable in products whose total degree is at most d, the constant first."""
    products = itertools.product(range(degree + 1), repeat=variables)
    # `product` is in order of the powers, which a stable sort by the total keeps
    return [powers for powers in sorted(products, key=sum) if sum(powers) <= degree]
