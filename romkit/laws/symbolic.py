"""Equations as text, as expressions of sympy, and as models of pysindy."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from romkit.core.types import Array
from romkit.data.coordinates import COORDINATES, PLAIN
from romkit.laws.features import Features
from romkit.laws.libraries import CONSTANT, Library
from romkit.laws.scaling import Scaling

if TYPE_CHECKING:
    import sympy

ROUNDING = 1e-12
"""Smallest term of a multiplied-out formula, relative to the largest one where the data are;
smaller ones are remainders of terms that cancel."""


# -- text ------------------------------------------------------------------------------------------


def formula(column: Sequence[float], names: Sequence[str], digits: int) -> str:
    """Non-zero terms with signs, like `-0.5000 z0 + 1.000`; `0` without any."""
    text = ""
    for value, name in zip(column, names, strict=True):
        if not value:
            continue
        number = f"{abs(value):#.{digits}g}".rstrip(".")
        term = number if name == CONSTANT else f"{number} {name}"
        text += _sign(value, leads=not text) + term
    return text or "0"


def _sign(value: float, leads: bool) -> str:
    """Sign in front of a term, with spaces where another one stands before."""
    if leads:
        return "-" if value < 0 else ""
    return " - " if value < 0 else " + "


# -- sympy -----------------------------------------------------------------------------------------


def right_hand_sides(basis: Features, coefficients: Tensor) -> "list[sympy.Expr]":
    """Right-hand side of each latent (K, m) in physical latents and contexts, multiplied out."""
    import sympy

    latent = _factors(basis.variables, basis.library)
    context = _factors(basis.context, basis.context_library)
    sizes = _sizes(basis)
    theta = [a * b for a, b in itertools.product(latent, context)]
    expressions = []
    for column in physical(basis, coefficients).T.tolist():
        total = sympy.S.Zero
        for value, term in zip(column, theta, strict=True):
            if value:
                total += value * term
        expressions.append(_expanded(total, sizes))
    return expressions


def physical(basis: Features, coefficients: Tensor) -> Tensor:
    """Return coefficients (..., K, m) of rates in physical units."""
    return coefficients * basis.rate_scale(coefficients)


def _factors(scaling: Scaling, library: Library) -> "list[sympy.Expr]":
    """Return terms of a library in physical variables."""
    variables = []
    rows = zip(_coordinates(scaling), scaling.shift.tolist(), scaling.scale.tolist(), strict=True)
    for x, shift, scale in rows:
        is_scaled = (shift, scale) != (0, 1)
        variables.append((x - shift) / scale if is_scaled else x)
    return library.symbolic(variables)


def _coordinates(scaling: Scaling) -> "list[sympy.Expr]":
    """Coordinate of each variable, the variable itself where it has none."""
    import sympy

    names = scaling.coordinates or (PLAIN,) * len(scaling)
    symbols = map(sympy.Symbol, scaling.names)
    return [COORDINATES[name].symbolic(x) for name, x in zip(names, symbols, strict=True)]


def _sizes(basis: Features) -> "dict[sympy.Expr, float]":
    """Return size of each variable and of each parameter, or its logarithm, where the data are."""
    sizes = {}
    for scaling in (basis.variables, basis.context):
        largest = (scaling.shift.abs() + scaling.scale).tolist()
        for coordinate, size in zip(_coordinates(scaling), largest, strict=True):
            # of 1/c, powers of c are the terms
            base, power = coordinate.as_base_exp()
            sizes[base] = size ** float(1 / power)
    return sizes


def largest_terms(
    expression: "sympy.Expr", basis: Features, most: int | None
) -> "tuple[sympy.Expr, int]":
    """Return sum of the terms of a right-hand side that are largest where the data are, at most so
    many, and the number of the others.
    """
    values = expression.as_coefficients_dict()
    if most is None or len(values) <= most:
        return expression, 0
    sizes = _sizes(basis)
    ordered = sorted(values, key=lambda term: -_size(term, values[term], sizes))
    total = 0 * expression
    for term in ordered[:most]:
        total += values[term] * term
    return total, len(values) - most


def _expanded(expression: "sympy.Expr", sizes: "Mapping[sympy.Expr, float]") -> "sympy.Expr":
    """Return the expression multiplied out, without terms that cancelled; sizes of symbols tell how
    large a term is.
    """
    values = expression.expand().as_coefficients_dict()
    large = {term: _size(term, value, sizes) for term, value in values.items()}
    least = ROUNDING * max(large.values(), default=0)
    total = 0 * expression
    for term, value in values.items():
        if large[term] > least:
            total += value * term
    return total


def _size(term: "sympy.Expr", value: float, sizes: "Mapping[sympy.Expr, float]") -> float:
    """Return largest value of a term where the data are, about."""
    powers = term.as_powers_dict().items()
    return abs(value) * math.prod(sizes.get(x, 1.0) ** power for x, power in powers)


def rounded(expression: "sympy.Expr", digits: int) -> "sympy.Expr":
    """Return the expression with numbers of this many digits."""
    import sympy

    # exact integers, such as powers, stay
    numbers = expression.atoms(sympy.Float)
    return expression.xreplace({x: sympy.Float(float(x), digits) for x in numbers})


# -- pysindy ---------------------------------------------------------------------------------------


def pysindy_model(basis: Features, coefficients: Tensor, order: int) -> object:
    """Return a fitted `pysindy.SINDy` with these terms and coefficients (K, m)."""
    import pysindy

    terms, m = coefficients.shape
    rates = m * (order - 1)
    optimizer = pysindy.STLSQ()
    optimizer.coef_ = np.zeros((rates + m, rates + terms))
    optimizer.coef_[:rates, :rates] = np.eye(rates)  # ż is a feature of its own
    optimizer.coef_[rates:, rates:] = physical(basis, coefficients).T.cpu().numpy()
    optimizer.ind_ = optimizer.coef_ != 0
    optimizer.intercept_ = 0.0
    library = _pysindy_library(basis, rates, rates + terms)
    model = pysindy.SINDy(optimizer=optimizer, feature_library=library)
    model.feature_names = [*basis.variables.names, *basis.context.names]
    model.n_control_features_ = len(basis.context)
    model._fit_shape()  # its fit calls this at the end
    return model


def _pysindy_library(basis: Features, rates: int, features: int) -> object:
    """Library of pysindy with rates ż and terms (N, features) at (z, ż) and c."""
    from pysindy.feature_library.base import BaseFeatureLibrary, x_sequence_or_item

    values = _features(basis, rates)

    class Terms(BaseFeatureLibrary):
        """Rates and terms."""

        n_features_in_ = len(basis.variables) + len(basis.context)
        n_output_features_ = features

        @x_sequence_or_item
        def fit(self, x, y=None):
            return self

        @x_sequence_or_item
        def transform(self, trajectories):
            return [values(np.array(x, dtype=np.float64)) for x in trajectories]

        def get_feature_names(self, input_features=None):
            return [*basis.variables.names[len(basis.variables) - rates :], *basis.names]

    return Terms()


def _features(basis: Features, rates: int) -> Callable[[Array], Array]:
    """(N, d + p) of variables and context -> (N, rates + K)."""
    d = len(basis.variables)

    def values(x: Array) -> Array:
        rows = torch.from_numpy(x)
        velocities = rows[:, d - rates : d].unbind(-1)
        variables = rows[:, :d]
        parameters = rows[:, d:]
        terms = [term.expand(len(rows)) for term in basis.terms(variables, parameters)]
        return torch.stack([*velocities, *terms], dim=-1).numpy()

    return values
