"""Terms of polynomial fields, and their exact image in the coordinates of a basis."""

import copy
import functools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.bases import Basis
from romkit.core.broadcast import pairs
from romkit.core.polynomials import Monomials
from romkit.core.types import TensorFunction, TensorMap

Image = tuple[Tensor | None, Tensor | None, Tensor | None]
"""Constant, linear and quadratic part; None where zero."""


class Term(NamedTuple):
    """θ(c) S B(x, ..., x): B is linear in each of its arguments, as many as its degree.

    Attributes:
        degree: 0, 1 or 2; of more, a tensor costs more than what it replaces.
        form: B; `degree` states (..., n) in float64 to (..., n). Leading axes broadcast.
        coefficient: θ, contexts (..., p) to (..., 1); 1 by default.
        symmetric: S, a linear map of (..., n) that is its own transpose; the identity by default. A
            projection on a basis applies it to its few test functions, not to every product.
    """

    degree: int
    form: TensorFunction
    coefficient: TensorMap | None = None
    symmetric: TensorMap | None = None

    def __call__(self, *states: Tensor) -> Tensor:
        """S B(x, ...) (..., n), without the coefficient."""
        value = self.form(*states)
        if self.symmetric is None:
            return value
        return self.symmetric(value)


class Quadratic(NamedTuple):
    """g(y) = b + A y + H (y ⊗ y) at a context, for y (..., r).

    Attributes:
        constant: b (..., r).
        linear: Aᵀ (..., r, r), or without leading axes.
        quadratic: Hᵀ (r (r + 1) / 2, r), or with leading axes: a row for each product yᵢ yⱼ, i <=
            j.
    """

    constant: Tensor
    linear: Tensor
    quadratic: Tensor

    def __call__(self, y: Tensor) -> Tensor:
        linear = _rows(y, self.linear)
        return self.constant + linear + _rows(pairs(y, y), self.quadratic)

    def substituted(self, factor: Tensor, shift: Tensor, test: Tensor) -> "Quadratic":
        """Return a -> testᵀ g(shift + factor a), for a (..., m), factor and test (..., r, m), shift
        (..., r).
        """
        full = symmetric(self.quadratic)  # (..., i, j, r)
        row = shift[..., None, None, :]
        across = (row @ full.movedim(-1, -3)).squeeze(-2)  # H(shift, ·)
        slopes = self.linear + 2 * across.mT  # (..., r, r)
        constant = _rows(self(shift), test)
        linear = factor.mT @ slopes @ test
        folded = torch.einsum("...ia,...ijk,...jb,...kc->...abc", factor, full, factor, test)
        return Quadratic(constant, linear, upper_triangle(folded))

    def substitute(self, monomials: Monomials, rows: Tensor, test: Tensor) -> "Polynomial":
        """z -> testᵀ g(y) with y = rowsᵀ m(z), a polynomial of twice the degree.

        Args:
            monomials: m(z) (..., K), of latents (..., m).
            rows: (..., K, r).
            test: (..., r, k).
        """
        size = len(monomials)
        k = test.shape[-1]
        doubled = Monomials(monomials.variables, 2 * monomials.degree)
        constant = _rows(self.constant, test)
        linear = rows @ self.linear @ test  # (..., K, k)
        full = symmetric(self.quadratic) @ test.unsqueeze(-3)  # (..., r, r, k)
        lead = torch.broadcast_shapes(linear.shape[:-2], full.shape[:-3], constant.shape[:-1])
        coefficients = linear.new_zeros(*lead, len(doubled), k)
        coefficients[..., 0, :] = constant
        # monomials are ordered by degree, so those of lower degree come first in both
        coefficients[..., :size, :] += linear
        for a, places in enumerate(monomials.products()):
            # one after the other, or K² k numbers would be held at a time
            half = torch.einsum("...i,...ijk->...jk", rows[..., a, :], full)
            of_products = (rows @ half).expand(*lead, size, k)
            coefficients.index_add_(-2, places, of_products)
        return Polynomial(doubled, coefficients)


class Polynomial(NamedTuple):
    """z -> coefficientsᵀ m(z).

    Attributes:
        monomials: m(z) (..., K).
        coefficients: (..., K, k).
    """

    monomials: Monomials
    coefficients: Tensor

    def __call__(self, z: Tensor) -> Tensor:
        return _rows(self.monomials(z), self.coefficients)


class Projected:
    """Vᵀ W f(x̄ + V y; c) of terms: tensors that are summed with the coefficients of a context.

    Args:
        terms: of degree 0, 1 and 2.
        basis: x̄, V and W.
        device: where they are computed.
        tests: (n, k) what f is multiplied by in place of W V.
    """

    def __init__(
        self, terms: Sequence[Term], basis: Basis, device: torch.device, tests: Tensor | None = None
    ):
        if tests is None:
            tests = basis.dual
        tests = tests.to(device)
        # ŷ = (1, y) are the coordinates in these
        columns = torch.cat([basis.mean.unsqueeze(0), basis.modes.mT])  # (r + 1, n)
        columns = columns.to(device)
        self.images = [_image(term, columns, tests) for term in terms]
        self.coefficients = [term.coefficient for term in terms]
        r = basis.rank
        k = tests.shape[-1]
        products = r * (r + 1) // 2
        shapes = ((k,), (r, k), (products, k))
        self.zero = [basis.mean.new_zeros(shape) for shape in shapes]

    def replace_coefficients(self, coefficients: Sequence[TensorMap | None]) -> "Projected":
        """Return tensors of these terms with other coefficients, one for each term."""
        image = copy.copy(self)
        image.coefficients = list(coefficients)
        return image

    def at(self, c: Tensor) -> Quadratic:
        """Return the field at contexts (..., p), in their precision."""
        by_degree = zip(*self.images, strict=True)
        sums = [
            self._sum(tensors, zero.to(c), c)
            for tensors, zero in zip(by_degree, self.zero, strict=True)
        ]
        return Quadratic(*sums)

    def rate(self, t: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """ẏ (..., r) at coordinates y (..., r), with c (..., p) broadcastable against their leading
        axes.
        """
        return self.at(c)(y)

    def _sum(self, tensors: Sequence[Tensor | None], zero: Tensor, c: Tensor) -> Tensor:
        """Σ θₖ(c) Tₖ; without the axes of the context where no coefficient depends on it, zero
        where there is no Tₖ.
        """
        summands = []
        for tensor, coefficient in zip(tensors, self.coefficients, strict=True):
            if tensor is None:
                continue
            summand = tensor.to(c)
            if coefficient is not None:
                theta = coefficient(c)  # (..., 1)
                axes = (1,) * zero.ndim
                theta = theta.reshape(*theta.shape[:-1], *axes)
                summand = theta * summand
            summands.append(summand)
        if not summands:
            return zero
        return functools.reduce(torch.add, summands)


def upper_triangle(full: Tensor) -> Tensor:
    """(..., r (r + 1) / 2, k) of H (..., r, r, k): the coefficients of `pairs`."""
    r = full.shape[-2]
    i, j = torch.triu_indices(r, r)
    both = full + full.transpose(-3, -2)
    # an entry of the diagonal is there twice
    factor = torch.where(i == j, 0.5, 1.0).to(full)
    return both[..., i, j, :] * factor.unsqueeze(-1)


def symmetric(triangle: Tensor) -> Tensor:
    """H (..., r, r, k), symmetric, of the coefficients (..., r (r + 1) / 2, k) of `pairs`."""
    *lead, products, k = triangle.shape
    r = int((2 * products) ** 0.5)
    i, j = torch.triu_indices(r, r)
    # a product of two different coordinates stands for two entries
    entries = torch.where(i == j, 1.0, 2.0).to(triangle)
    half = triangle / entries.unsqueeze(-1)
    full = triangle.new_zeros(*lead, r, r, k)
    full[..., i, j, :] = half
    full[..., j, i, :] = half
    return full


def _rows(y: Tensor, matrix: Tensor) -> Tensor:
    """yᵀ M for M (r, k), or (..., r, k) with the leading axes of y."""
    if matrix.ndim == 2:
        return y @ matrix
    return (y.unsqueeze(-2) @ matrix).squeeze(-2)


def _image(term: Term, columns: Tensor, dual: Tensor) -> Image:
    """Constant (r,), linear (r, r) and quadratic (r (r + 1) / 2, r) part of a term in coordinates;
    None where zero.
    """
    if term.symmetric is not None:
        dual = term.symmetric(dual.mT).mT
    if term.degree == 0:
        constant = term.form().to(dual) @ dual
        return constant.cpu(), None, None
    if term.degree == 1:
        image = (term.form(columns) @ dual).cpu()
        return image[0], image[1:], None
    rows = []
    # one column with all at a time: all with all would hold (r + 1)² states
    for column in columns:
        products = term.form(column.unsqueeze(0), columns)
        rows.append((products @ dual).cpu())
    image = torch.stack(rows)  # (r + 1, r + 1, r)
    linear = image[0, 1:] + image[1:, 0]
    constant = image[0, 0]
    quadratic = upper_triangle(image[1:, 1:])
    return constant, linear, quadratic
