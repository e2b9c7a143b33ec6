"""Equations as sympy expressions, in physical latents and contexts: the one file that imports sympy."""

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from romkit.errors import InputError
from romkit.integrators.scaling import Scaling
from romkit.integrators.sindy.basis import Basis
from romkit.integrators.sindy.library import Fourier, Library, Polynomial, Product, Some, Sum

if TYPE_CHECKING:
    import sympy

ROUNDING = 1e-12
"""Terms below this share of the largest one, where the data are, are what is left of terms that cancel when brackets
are multiplied out."""


def equations(basis: Basis, coefficients: Tensor, order: int) -> "list[sympy.Eq]":
    """żᵢ or z̈ᵢ = Σₖ ξₖᵢ θₖ with every scaled variable written out.

    Args:
        basis: the terms.
        coefficients: (K, m).
        order: 1 or 2.
    """
    import sympy

    latent = terms(basis.library, _physical(basis.variables))
    context = terms(basis.context_library, _physical(basis.context))
    theta = [a * b for a, b in itertools.product(latent, context)]
    columns = coefficients.T.tolist()
    scales = basis.variables.scale.tolist()[: len(columns)]
    sizes, found = _sizes(basis.variables) | _sizes(basis.context), []
    for name, column, scale in zip(basis.variables.names, columns, scales, strict=False):
        total = sum((scale * value * term for value, term in zip(column, theta, strict=True) if value), sympy.S.Zero)
        found.append(sympy.Eq(sympy.Symbol(name + "'" * order), _expanded(total, sizes), evaluate=False))
    return found


def terms(library: Library, x: "Sequence[sympy.Expr]") -> "list[sympy.Expr]":
    """The terms of a library at symbolic variables.

    Raises:
        InputError: terms that are functions of the user's own.
    """
    import sympy

    match library:
        case Polynomial(degree):
            powers = range(degree + 1)
            return [math.prod(m) for d in powers for m in itertools.combinations_with_replacement(x, d)]
        case Fourier(frequencies):
            waves = range(1, frequencies + 1)
            return [wave(k * each) for k in waves for each in x for wave in (sympy.sin, sympy.cos)]
        case Sum(first, second):
            return terms(first, x) + terms(second, x)
        case Product(first, second):
            return [a * b for a, b in itertools.product(terms(first, x), terms(second, x))]
        case Some(inner, keep):
            found = terms(inner, x)
            return [found[k] for k in keep]
    fix = "build them from Polynomial and Fourier, or use equations()"
    raise InputError("law", expected="terms that sympy can write", got=repr(library)[:80], fix=fix)


def texts(found: "Sequence[sympy.Eq]", digits: int) -> list[str]:
    """`z0' = 0.9252 - 0.9095 z0`, one line for each."""
    return [f"{each.lhs} = {_rounded(each.rhs, digits)}".replace("**", "^").replace("*", " ") for each in found]


def latex(found: "Sequence[sympy.Eq]", digits: int, names: Sequence[str], order: int) -> list[str]:
    """The same for LaTeX, with dots for rates."""
    import sympy

    latents = names[: len(found)]
    dotted = {name: sympy.latex(sympy.Symbol(name)) for name in latents}
    symbols = {sympy.Symbol(f"{name}'"): rf"\dot{{{text}}}" for name, text in dotted.items()}
    dot = "dot" if order == 1 else "ddot"
    return [
        rf"\{dot}{{{dotted[name]}}} = {sympy.latex(_rounded(each.rhs, digits), symbol_names=symbols)}"
        for name, each in zip(latents, found, strict=True)
    ]


def _physical(scaling: Scaling) -> "list[sympy.Expr]":
    """(x - shift) / scale of each variable."""
    import sympy

    rows = zip(scaling.names, scaling.shift.tolist(), scaling.scale.tolist(), strict=True)
    return [(sympy.Symbol(name) - shift) / scale if (shift, scale) != (0, 1) else sympy.Symbol(name)
            for name, shift, scale in rows]  # fmt: skip


def _sizes(scaling: Scaling) -> "dict[sympy.Symbol, float]":
    """How large each variable is in the data."""
    import sympy

    rows = zip(scaling.names, scaling.shift.tolist(), scaling.scale.tolist(), strict=True)
    return {sympy.Symbol(name): abs(shift) + scale for name, shift, scale in rows}


def _expanded(expression: "sympy.Expr", sizes: "dict[sympy.Symbol, float]") -> "sympy.Expr":
    parts = expression.expand().as_coefficients_dict()
    large = {
        term: abs(value) * math.prod(sizes.get(x, 1.0) ** power for x, power in term.as_powers_dict().items())
        for term, value in parts.items()
    }
    largest = max(large.values(), default=0)
    return sum((value * term for term, value in parts.items() if large[term] > ROUNDING * largest), 0 * expression)


def _rounded(expression: "sympy.Expr", digits: int) -> "sympy.Expr":
    import sympy

    return expression.xreplace({x: sympy.Float(float(x), digits) for x in expression.atoms(sympy.Float)})
