"""Equations as text, as expressions of sympy, and as models of pysindy."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from romkit.core.errors import InputError
from romkit.core.types import Array
from romkit.data.coordinates import COORDINATES, PLAIN
from romkit.laws.features import Features
from romkit.laws.libraries import CONSTANT, Fourier, Library, Polynomial
from romkit.laws.scaling import Scaling

if TYPE_CHECKING:
    import sympy

# -- text ------------------------------------------------------------------------------------------


def formula(
    column: Sequence[float], names: Sequence[str], digits: int, most: int | None = None
) -> str:
    """Non-zero terms with signs, like `-0.5000 z0 + 1.000`; `0` without any. Of more than `most` the
    largest ones, and the number of the others.
    """
    sizes = sorted((abs(value) for value in column if value), reverse=True)
    least = min(sizes[:most], default=0.0)
    text = ""
    for value, name in zip(column, names, strict=True):
        if value and abs(value) >= least:
            text += _sign(value, leads=not text) + _term(abs(value), name, digits)
    smaller = sum(size < least for size in sizes)
    if smaller:
        text += f" + ... ({smaller} smaller terms)"
    return text or "0"


def _term(size: float, name: str, digits: int) -> str:
    """Return a number of so many digits with the name of its term."""
    number = f"{size:#.{digits}g}".rstrip(".")
    return number if name == CONSTANT else f"{number} {name}"


def _sign(value: float, leads: bool) -> str:
    """Sign in front of a term, with spaces where another one stands before."""
    if leads:
        return "-" if value < 0 else ""
    return " - " if value < 0 else " + "


# -- sympy -----------------------------------------------------------------------------------------


def right_hand_sides(basis: Features, coefficients: Tensor) -> "list[sympy.Expr]":
    """Right-hand side of each latent (K, m) in physical latents and contexts, multiplied out."""
    import sympy

    latent = physical_factors(basis.variables, basis.library)
    context = physical_factors(basis.context, basis.context_library)
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


def physical_factors(scaling: Scaling, library: Library) -> "list[sympy.Expr]":
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


def visible(expression: "sympy.Expr", basis: Features, digits: int) -> "sympy.Expr":
    """Return the terms of a sum that show in so many digits beside the largest one where the data
    are, without those that no variable of the terms is in.
    """
    import sympy

    variables = {sympy.Symbol(name) for name in basis.variables.names}
    sizes = _sizes(basis)
    values = expression.as_coefficients_dict()
    of_terms = {
        term: _size(term, value, sizes)
        for term, value in values.items()
        if term.free_symbols & variables
    }
    least = 10.0**-digits * max(of_terms.values(), default=0.0)
    return sum((values[term] * term for term in of_terms if of_terms[term] >= least), sympy.S.Zero)


def _expanded(
    expression: "sympy.Expr", sizes: "Mapping[sympy.Expr, float]", *, rounding: float = 1e-12
) -> "sympy.Expr":
    """Return the expression multiplied out, without terms that cancelled; sizes of symbols tell how
    large a term is.

    `rounding`: smallest term of a multiplied-out formula, relative to the largest one where the
    data are; smaller ones are remainders of terms that cancel.
    """
    values = expression.expand().as_coefficients_dict()
    large = {term: _size(term, value, sizes) for term, value in values.items()}
    least = rounding * max(large.values(), default=0)
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


def read_pysindy(model: object) -> tuple[Features, Tensor]:
    """Return terms and coefficients (K, m) of a fitted `pysindy.SINDy`.

    Raises:
        InputError: a model that is not fitted, is discrete in time, or has other terms.
    """
    import pysindy

    expected = "a fitted pysindy.SINDy of continuous time"
    if not isinstance(model, pysindy.SINDy):
        raise InputError("model", expected=expected, got=type(model).__name__, fix="fit one")
    if not hasattr(model.optimizer, "coef_"):
        fix = "call model.fit(x, t=t) first"
        raise InputError("model", expected=expected, got="one that is not", fix=fix)
    values = torch.as_tensor(np.array(model.coefficients()), dtype=torch.float64)  # (m, K)
    m = len(values)
    names = model.feature_names
    pairs = _pysindy_terms(model.feature_library, names, m)
    latent, context = Scaling.none(names[:m]), Scaling.none(names[m:])
    basis = Features(*_libraries(model.feature_library, m), latent, context)
    places = {name: place for place, name in enumerate(basis.latent_names)}
    places_of_context = {name: place for place, name in enumerate(basis.context_names)}
    coefficients = values.new_zeros(len(places), len(places_of_context), m)
    for column, (of_latent, of_context) in zip(values.T, pairs, strict=True):
        coefficients[places[of_latent], places_of_context[of_context]] += column
    return basis, coefficients.flatten(0, 1)


def _pysindy_terms(library: object, names: Sequence[str], m: int) -> list[tuple[str, str]]:
    """Names of the factors of each term in the m latents and in the context."""
    import pysindy

    terms = []
    if isinstance(library, pysindy.ConcatLibrary):
        for summand in library.libraries:
            terms += _pysindy_terms(summand, names, m)
    elif isinstance(library, pysindy.FourierLibrary):
        kinds = ["sin"] * library.include_sin + ["cos"] * library.include_cos
        waves = range(1, library.n_frequencies + 1)
        for k, (place, name), kind in itertools.product(waves, enumerate(names), kinds):
            term = f"{kind}({name})" if k == 1 else f"{kind}({k} {name})"
            terms.append((term, CONSTANT) if place < m else (CONSTANT, term))
    elif isinstance(library, pysindy.PolynomialLibrary):
        for powers in library.powers_.tolist():
            terms.append((_monomial(names[:m], powers[:m]), _monomial(names[m:], powers[m:])))
    else:
        raise InputError(
            "model.feature_library",
            expected="PolynomialLibrary, IdentityLibrary, FourierLibrary or a sum of these",
            got=type(library).__name__,
            fix="fit romkit.laws.SINDy with romkit.laws.Functions({name: function of torch})",
        )
    return terms


def _monomial(names: Sequence[str], powers: Sequence[int]) -> str:
    """Return name of a monomial, as `Polynomial` has it."""
    factors = []
    for name, power in zip(names, powers, strict=True):
        if power:
            factors.append(name if power == 1 else f"{name}^{power}")
    return " ".join(factors) or CONSTANT


def _libraries(library: Any, m: int) -> tuple[Library, Library]:
    """Libraries of latents and of the context that hold all terms of one of pysindy."""
    import pysindy

    libraries = getattr(library, "libraries", [library])
    degrees, waves = [(0, 0)], 0
    for library_ in libraries:
        if isinstance(library_, pysindy.FourierLibrary):
            waves = max(waves, library_.n_frequencies)
        else:
            powers = library_.powers_
            degrees.append((powers[:, :m].sum(1).max(), powers[:, m:].sum(1).max()))
    of_latents, of_context = np.max(degrees, axis=0).tolist()
    latent: Library = Polynomial(of_latents)
    context: Library = Polynomial(of_context)
    if waves:
        latent = latent + Fourier(waves)
        context = context + Fourier(waves) if library.n_features_in_ > m else context
    return latent, context


def _pysindy_library(basis: Features, rates: int, features: int) -> object:
    """Library of pysindy with rates ż and terms (N, features) at (z, ż) and c."""
    from pysindy.feature_library.base import BaseFeatureLibrary, x_sequence_or_item

    values = _features(basis, rates)

    class Terms(BaseFeatureLibrary):
        """Rates and terms."""

        n_features_in_ = len(basis.variables) + len(basis.context)
        n_output_features_ = features

        @x_sequence_or_item  # type: ignore[untyped-decorator]
        def fit(self, x: object, y: object = None) -> object:
            return self

        @x_sequence_or_item  # type: ignore[untyped-decorator]
        def transform(self, trajectories: Sequence[Array]) -> list[Array]:
            return [values(np.array(x, dtype=np.float64)) for x in trajectories]

        def get_feature_names(self, input_features: object = None) -> list[str]:
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
