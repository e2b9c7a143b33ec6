"""Equations: libraries of candidate terms, their products with terms of the context, and laws that
print themselves.
"""

import abc
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor

from romkit.core import checks
from romkit.core.boundary import Count, Mask, Natural, Order, Positive, Share, validated
from romkit.core.broadcast import align
from romkit.core.errors import InputError
from romkit.core.files import reason
from romkit.integrators.base import LearnedField
from romkit.integrators.laws.samples import LatentSamples, Scaling
from romkit.integrators.region import Region

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
        """Names of the K terms, for variables with these names."""

    @abc.abstractmethod
    def __call__(self, x: Tensor) -> list[Tensor]:
        """Values of the K terms at x (..., d), each (...)."""

    def symbolic(self, x: "Sequence[sympy.Expr]") -> "list[sympy.Expr]":
        """The K terms at symbolic variables.

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


@validated
@dataclass(frozen=True)
class Polynomial(Library):
    """All monomials up to a total degree, the constant first: 1, z0, z1, z0^2, z0 z1, z1^2, ...

    Args:
        degree: highest total degree, at least 0.
    """

    degree: Natural

    def names(self, variables: Sequence[str]) -> list[str]:
        found = []
        for monomial in _monomials(self.degree, len(variables)):
            powers = ((variables[i], len([*group])) for i, group in itertools.groupby(monomial))
            found.append(
                " ".join(name if power == 1 else f"{name}^{power}" for name, power in powers)
                or CONSTANT
            )
        return found

    def __call__(self, x: Tensor) -> list[Tensor]:
        variables = x.unbind(-1)
        found = {(): torch.ones(x.shape[:-1], dtype=x.dtype, device=x.device)}
        for monomial in _monomials(self.degree, len(variables))[1:]:
            *rest, last = monomial
            found[monomial] = found[tuple(rest)] * variables[last] if rest else variables[last]
        return list(found.values())

    def symbolic(self, x: "Sequence[sympy.Expr]") -> "list[sympy.Expr]":
        return [math.prod(x[i] for i in each) for each in _monomials(self.degree, len(x))]


@validated
@dataclass(frozen=True)
class Fourier(Library):
    """sin(k z) and cos(k z) of each variable, for k = 1, ..., `frequencies`."""

    frequencies: Count

    def names(self, variables: Sequence[str]) -> list[str]:
        waves = [
            f"{k} {name}" if k > 1 else name
            for k in range(1, self.frequencies + 1)
            for name in variables
        ]
        return [f"{function}({wave})" for wave in waves for function in ("sin", "cos")]

    def __call__(self, x: Tensor) -> list[Tensor]:
        waves = [column for k in range(1, self.frequencies + 1) for column in (k * x).unbind(-1)]
        return [values for wave in waves for values in (wave.sin(), wave.cos())]

    def symbolic(self, x: "Sequence[sympy.Expr]") -> "list[sympy.Expr]":
        import sympy

        waves = [k * each for k in range(1, self.frequencies + 1) for each in x]
        return [values for wave in waves for values in (sympy.sin(wave), sympy.cos(wave))]


@validated
class Functions(Library):
    """Terms of your own: `Functions({"|z0|": lambda z: z[..., 0].abs()})`.

    Args:
        functions: for each name a function of torch tensors from (..., d) to (...).
    """

    def __init__(self, functions: Mapping[str, Callable[[Tensor], Tensor]]):
        if not functions:
            raise InputError(
                "functions",
                expected="at least one term",
                got="none",
                fix="give {name: function, ...}",
            )
        self.functions = dict(functions)

    def names(self, variables: Sequence[str]) -> list[str]:
        return list(self.functions)

    def __call__(self, x: Tensor) -> list[Tensor]:
        found, fix = [], "index the variables as z[..., 0]"
        for name, function in self.functions.items():
            try:
                found.append(function(x))
            except (IndexError, RuntimeError, TypeError) as error:
                expected = f"a function of {x.shape[-1]} variables"
                raise InputError(
                    f"term {name!r}", expected=expected, got=reason(error), fix=fix
                ) from error
            if not torch.is_tensor(found[-1]) or found[-1].shape != x.shape[:-1]:
                expected = f"a tensor of shape {tuple(x.shape[:-1])} for variables of shape {tuple(x.shape)}"
                raise InputError(
                    f"term {name!r}", expected=expected, got=checks.shown(found[-1]), fix=fix
                )
        return found

    def __repr__(self) -> str:
        return f"Functions({', '.join(self.functions)})"


class Combined(Library):
    """Terms made of those of other libraries, in the same way of names, values and symbols."""

    @abc.abstractmethod
    def combined(self, terms: Callable[[Library], list]) -> list:
        """The terms, from the terms that each library has by a function."""

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

    def combined(self, terms: Callable[[Library], list]) -> list:
        return terms(self.first) + terms(self.second)


@dataclass(frozen=True)
class Product(Combined):
    """Every product of a term of the first and one of the second library, `a * b`."""

    first: Library
    second: Library

    def combined(self, terms: Callable[[Library], list]) -> list:
        return [a * b for a, b in itertools.product(terms(self.first), terms(self.second))]

    def names(self, variables: Sequence[str]) -> list[str]:
        return product_names(self.first.names(variables), self.second.names(variables))


@validated
@dataclass(frozen=True)
class Subset(Combined):
    """Some terms of a library, by their index."""

    library: Library
    keep: tuple[int, ...]

    def combined(self, terms: Callable[[Library], list]) -> list:
        found = terms(self.library)
        return [found[k] for k in self.keep]


def distinct(library: Library, variables: Sequence[str]) -> Library:
    """The library, or its first term of each name where names repeat."""
    names = library.names(variables)
    keep = tuple(k for k, name in enumerate(names) if name not in names[:k])
    return library if len(keep) == len(names) else Subset(library, keep)


def product_names(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Names of all products, the second factor running faster; a constant factor is left out."""
    pairs = itertools.product(first, second)
    return [" ".join(factor for factor in pair if factor != CONSTANT) or CONSTANT for pair in pairs]


@functools.lru_cache
def _monomials(degree: int, variables: int) -> list[tuple[int, ...]]:
    """Monomials as sorted indices of their factors; each without its last factor stands before it."""
    if (number := math.comb(variables + degree, degree)) > MOST_TERMS:
        got = f"degree {degree} of {variables} variables, {number} terms"
        raise InputError(
            "degree", expected=f"at most {MOST_TERMS} terms", got=got, fix="lower the degree"
        )
    return [
        m
        for d in range(degree + 1)
        for m in itertools.combinations_with_replacement(range(variables), d)
    ]


@dataclass(frozen=True, eq=False)
class Features:
    """θ(z, c): each latent term times each context term, the context term running faster.

    Attributes:
        library: terms of the scaled variables, which are z, or z and ż; no two of one name.
        context_library: terms of the scaled context; no two of one name.
        variables: names and scaling of the variables.
        context: names and scaling of the context.
    """

    library: Library
    context_library: Library
    variables: Scaling
    context: Scaling

    @classmethod
    def of(cls, samples: LatentSamples, library: Library, context_library: Library) -> "Features":
        """Terms of the variables and parameters of samples; of several terms of one name the first."""
        variables, context = samples.variables, samples.parameters
        return cls(
            distinct(library, variables.symbols),
            distinct(context_library, context.symbols),
            variables,
            context,
        )

    @functools.cached_property
    def latent_names(self) -> list[str]:
        """Names of the latent factors."""
        return self.library.names(self.variables.symbols)

    @functools.cached_property
    def context_names(self) -> list[str]:
        """Names of the context factors."""
        return self.context_library.names(self.context.symbols)

    @functools.cached_property
    def names(self) -> list[str]:
        """Names of the K terms."""
        return product_names(self.latent_names, self.context_names)

    def terms(self, z: Tensor, c: Tensor) -> list[Tensor]:
        """Terms at z (..., d) and c (..., p) in physical units, each (...); leading axes broadcast
        as in torch.
        """
        return self.terms_of_scaled(self.variables.on(z)(z), c)

    def terms_of_scaled(self, z: Tensor, c: Tensor) -> list[Tensor]:
        """Terms at z (..., d) that is scaled already, and c (..., p) in physical units."""
        latent = self.library(z)
        if self.context_names == [CONSTANT]:
            return latent
        return [
            a * b for a, b in itertools.product(latent, self.context_library(self.context.on(c)(c)))
        ]

    def scaled(self, z: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
        """Latents (..., N, d) and rates (..., N, m) as they enter the equation: scaled, in float64."""
        z, rate = z.double(), rate.double()
        return self.variables.on(z)(z), rate / self.rate_scale(rate)

    def rate_scale(self, rate: Tensor) -> Tensor:
        """Unit of rates (..., m), by which those in the equation are multiplied to have physical
        ones.
        """
        return align(self.variables.scale.to(rate)[..., : rate.shape[-1]], rate)

    def at(self, coefficients: Tensor, c: Tensor) -> Callable[[Tensor], Tensor]:
        """Right-hand side z (..., d) -> (..., m) at a context, whose terms are evaluated once,
        here.

        Args:
            coefficients: (..., K, m); leading axes are stacked equations.
            c: (..., p) in physical units; leading axes match those of the coefficients from the
                left.
        """
        context = torch.stack(self.context_library(self.context.on(c)(c)), dim=-1)
        lead, m = coefficients.shape[:-2], coefficients.shape[-1]
        missing = (1,) * max(0, context.ndim - 1 - len(lead)) if lead else ()
        grid = coefficients.to(c).reshape(*lead, *missing, -1, context.shape[-1], m)
        weights = torch.einsum("...kcm,...c->...km", grid, context)  # of the latent factors alone
        weights = weights * self.rate_scale(weights)
        scaled = self.variables.on(c)

        def g(z: Tensor) -> Tensor:
            theta = torch.stack(self.library(scaled(z)), dim=-1).unsqueeze(-2)
            extra = (1,) * max(0, z.ndim + 1 - weights.ndim) if weights.ndim > 2 else ()
            return (
                theta @ weights.reshape(*weights.shape[:-2], *extra, *weights.shape[-2:])
            ).squeeze(-2)

        return g


ROUNDING = 1e-12
"""Smallest term of a multiplied-out formula, relative to the largest one where the data are;
smaller ones are remainders of terms that cancel."""


def _expanded(expression: "sympy.Expr", sizes: "dict[sympy.Symbol, float]") -> "sympy.Expr":
    """The expression multiplied out, without terms that cancelled; sizes of symbols tell how large
    a term is.
    """
    parts = expression.expand().as_coefficients_dict()
    large = {}
    for term, value in parts.items():
        large[term] = abs(value) * math.prod(
            sizes.get(x, 1.0) ** power for x, power in term.as_powers_dict().items()
        )
    largest = max(large.values(), default=0)
    return sum(
        (value * term for term, value in parts.items() if large[term] > ROUNDING * largest),
        0 * expression,
    )


def _rounded(expression: "sympy.Expr", digits: int) -> "sympy.Expr":
    """The expression with numbers of this many digits."""
    import sympy

    return expression.xreplace(
        {x: sympy.Float(float(x), digits) for x in expression.atoms(sympy.Float)}
    )


@validated
@dataclass(frozen=True, eq=False, repr=False)
class Equation(LearnedField):
    """Law żᵢ = Σₖ ξₖᵢ θₖ(z, c), or z̈ᵢ = Σₖ ξₖᵢ θₖ(z, ż, c): the result of `SINDy`,
    `OperatorInference` and `DMD`.

    One equation for all contexts. A stack of problems has a leading axis on coefficients,
    condition, converged and residual; `model[i]` is one of it, and the stack as it is drives a
    stack of projections.

    Attributes:
        basis: the candidate terms.
        coefficients: ξ (..., terms, latent), float64.
        order, source, samples, control_names, held, domain, report: as in every `LearnedField`.
        condition: (...) condition number of the library with columns of norm 1. From about 1e4 on,
            coefficients of single terms depend on details of the data, while the fitted field need
            not.
        converged: (...) whether the support settled within `max_iter` steps.
        residual: (..., latent) root mean square residual over the samples, relative to that of the
            target.

    Example:
        >>> import torch
        >>> from romkit.integrators import SINDy
        >>> t = torch.linspace(0, 6, 100, dtype=torch.float64)
        >>> z, rate = torch.stack([t.cos(), t.sin()], dim=-1), torch.stack([-t.sin(), t.cos()], dim=-1)
        >>> law = SINDy(degree=1).fit_samples(z, rate)
        >>> law.equations()
        ["z0' = -1.000 z1", "z1' = 1.000 z0"]
        >>> law.terms, law.support.sum().item()
        (['1', 'z0', 'z1'], 2)
        >>> law.predict(torch.tensor([2.0, 0.0], dtype=torch.float64)) + 0.0
        tensor([0., 2.], dtype=torch.float64)
    """

    basis: Features
    coefficients: Tensor
    order: Order
    source: str
    samples: Natural
    condition: Tensor
    converged: Mask
    residual: Tensor
    control_names: tuple[str, ...] = ()
    held: bool | None = None
    domain: Region | None = None
    report: Sequence[object] = ()

    FACTS: ClassVar[tuple[str, ...]] = ("condition", "converged", "residual")
    """Attributes that describe the fit, and may be infinite (see `core.packing`)."""

    @property
    def latent_dim(self) -> int:
        """m."""
        return self.coefficients.shape[-1]

    @property
    def context_names(self) -> tuple[str, ...]:
        """Names of the parameters that the law depends on, without its inputs."""
        return self.basis.context.names[: len(self.basis.context) - len(self.control_names)]

    @property
    def affine(self) -> bool:
        """Whether no term of a higher degree is left, and there are no inputs."""
        if not isinstance(self.basis.library, Polynomial) or self.control_names:
            return False
        linear = 1 + len(self.basis.variables)  # 1, z0, z1, ... come first
        beyond = self.coefficients[..., linear * len(self.basis.context_names) :, :]
        return not bool(beyond.any())

    @property
    def terms(self) -> list[str]:
        """Names of the candidate terms, one per row of `coefficients`."""
        return self.basis.names

    @property
    def support(self) -> Tensor:
        """Terms that the equation has, as a mask (..., terms, latent)."""
        return self.coefficients != 0

    @property
    def inclusion(self) -> Tensor:
        """Share of the equations of a stack that have each term, (..., terms, latent)."""
        return self.support.double().mean(0)

    @property
    def spread(self) -> Tensor:
        """Standard deviation of each coefficient over a stack, (..., terms, latent)."""
        return self.coefficients.std(0)

    @validated
    def median(self, *, inclusion: Share = 0.0) -> "Equation":
        """Median of each coefficient of a stack; zero for terms that fewer than this share of the
        equations have.

        Attributes of the result that describe a fit are those of the stack: the largest condition
        and residual.
        """
        return replace(
            self[0],
            coefficients=torch.where(
                self.inclusion >= inclusion, self.coefficients.quantile(0.5, dim=0), 0.0
            ),
            condition=self.condition.amax(0),
            converged=self.converged.all(0),
            residual=self.residual.amax(0),
            source=f"median of {self.source}",
        )

    def right_hand_side(self, c: Tensor) -> Callable[[Tensor], Tensor]:
        """Map w = z or (z, ż) -> ż or z̈ (..., m) at a context c (..., p), whose terms are
        evaluated once, here.
        """
        return self.basis.at(self.coefficients, c)

    @validated
    def predict(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        """Right-hand side (..., m) at z (..., m), or (z, ż) (..., 2m), and context (..., p) in
        physical units.

        Leading axes of the context match those of z from the left; samples of a stack are
        (problems, N, m).
        """
        variables, parameters = self.basis.variables.names, self.basis.context.names
        checks.last_axis("z", z.shape, len(variables), f"({', '.join(variables)})")
        c = z.new_empty(0) if context is None else context.to(z)
        checks.last_axis("context", c.shape, len(parameters), f"({', '.join(parameters)})")
        return self.right_hand_side(c)(z)

    @validated
    def step(self, dt: Positive) -> tuple[Tensor, Tensor]:
        """A (m, m) and B (m, 1 + p) of z(t + dt) = A z(t) + B (1, c, u), in physical latents,
        contexts and inputs.

        Raises:
            InputError: a stack, a law of second order, or one that is not ż = A z + B (1, c, u).
        """
        self._check_single("step")
        m, p = self.latent_dim, len(self.basis.context)
        linear = {CONSTANT, *self.basis.variables.symbols, *self.basis.context.symbols}
        used = [
            name for name, row in zip(self.terms, self.support.any(-1).tolist(), strict=True) if row
        ]
        if self.order != 1 or not linear.issuperset(used):
            got, fix = f"order {self.order}, terms {', '.join(used)}", "fit it with DMD()"
            raise InputError("model", expected="a linear law of order 1", got=got, fix=fix)
        rest = torch.zeros(m, dtype=torch.float64), torch.zeros(p, dtype=torch.float64)
        A, B = torch.func.jacrev(lambda z, c: self.right_hand_side(c)(z), argnums=(0, 1))(*rest)
        generator = torch.zeros(m + 1 + p, m + 1 + p, dtype=torch.float64)
        generator[:m] = torch.cat(
            [A, self.right_hand_side(rest[1])(rest[0]).unsqueeze(-1), B], dim=-1
        )
        stepped = torch.linalg.matrix_exp(dt * generator)[:m]
        return stepped[:, :m], stepped[:, m:]

    @validated
    def equations(self, digits: Count = 4) -> list[str]:
        """One formula per latent in the terms as they are scaled, like `δz0' = 1.000 δz1 - 0.5000
        δz0 F`.
        """
        self._check_single("equations")
        columns = zip(self.basis.variables.symbols, self.coefficients.T.tolist(), strict=False)
        return [
            f"{name}{chr(39) * self.order} = {formula(column, self.terms, digits)}"
            for name, column in columns
        ]

    def details(self) -> list[str]:
        """Each equation with its residual, and definitions of scaled variables."""
        if self.coefficients.ndim > 2:
            return [
                line
                for k in range(len(self))
                for line in (f"law {k} of the stack", *self[k].details())
            ]
        rows = zip(self.equations(), self.residual.tolist(), strict=True)
        return [
            *(f"{equation}   (residual {residual:.1e})" for equation, residual in rows),
            *self._definitions,
        ]

    def to_sympy(self) -> "list[sympy.Eq]":
        """One equation per latent in physical latents and contexts, multiplied out; `.rhs` is its
        right-hand side.

        Raises:
            InputError: a stack, or terms that are functions of the user's own.
        """
        import sympy

        self._check_single("to_sympy")
        basis, factors, sizes, found = self.basis, [], {}, []
        for scaling, library in (
            (basis.variables, basis.library),
            (basis.context, basis.context_library),
        ):
            symbols = map(sympy.Symbol, scaling.names)
            rows = list(zip(symbols, scaling.shift.tolist(), scaling.scale.tolist(), strict=True))
            factors.append(
                library.symbolic([(x - a) / b if (a, b) != (0, 1) else x for x, a, b in rows])
            )
            sizes |= {x: abs(a) + b for x, a, b in rows}
        theta = [a * b for a, b in itertools.product(*factors)]
        weights = (self.coefficients * basis.rate_scale(self.coefficients)).T.tolist()
        for name, column in zip(basis.variables.names, weights, strict=False):
            total = sum(
                (value * term for value, term in zip(column, theta, strict=True) if value),
                sympy.S.Zero,
            )
            found.append(
                sympy.Eq(
                    sympy.Symbol(name + "'" * self.order), _expanded(total, sizes), evaluate=False
                )
            )
        return found

    @validated
    def formulas(self, digits: Count = 4) -> list[str]:
        """Equations of `to_sympy` as text with this many significant digits, `z0' = 0.9252 - 0.9095
        z0`.
        """
        found = (f"{each.lhs} = {_rounded(each.rhs, digits)}" for each in self.to_sympy())
        return [text.replace("**", "^").replace("*", " ") for text in found]

    @validated
    def latex(self, digits: Count = 4) -> list[str]:
        """Equations of `to_sympy` as LaTeX, without the dollars."""
        import sympy

        found = self.to_sympy()
        dotted = {
            name: sympy.latex(sympy.Symbol(name))
            for name in self.basis.variables.names[: len(found)]
        }
        symbols = {sympy.Symbol(f"{name}'"): rf"\dot{{{text}}}" for name, text in dotted.items()}
        return [
            rf"\{'d' * self.order}ot{{{text}}} = {sympy.latex(_rounded(each.rhs, digits), symbol_names=symbols)}"
            for text, each in zip(dotted.values(), found, strict=True)
        ]

    def to_pysindy(self) -> object:
        """A fitted `pysindy.SINDy` with the same terms and coefficients; the context becomes its
        control input.

        For second order its inputs are (z, ż), the rates ż are features of their own in front of
        the terms, and its `predict` gives (ż, z̈).
        """
        import pysindy
        from pysindy.feature_library.base import BaseFeatureLibrary, x_sequence_or_item

        self._check_single("to_pysindy")
        basis, (K, m) = self.basis, self.coefficients.shape
        d, rates = len(basis.variables), m * (self.order - 1)

        class Terms(BaseFeatureLibrary):
            """Rates ż and terms (N, rates + K) at (z, ż) and c."""

            n_features_in_, n_output_features_ = d + len(basis.context), rates + K

            @x_sequence_or_item
            def fit(self, x, y=None):
                return self

            @x_sequence_or_item
            def transform(self, several):
                several, found = (
                    [torch.from_numpy(np.array(x, dtype=np.float64)) for x in several],
                    [],
                )
                for x in several:
                    terms = (term.expand(len(x)) for term in basis.terms(x[:, :d], x[:, d:]))
                    found.append(
                        torch.stack([*x[:, d - rates : d].unbind(-1), *terms], dim=-1).numpy()
                    )
                return found

            def get_feature_names(self, input_features=None):
                return [*basis.variables.names[d - rates :], *basis.names]

        optimizer = pysindy.STLSQ()
        optimizer.coef_ = np.zeros((rates + m, rates + K))
        optimizer.coef_[:rates, :rates] = np.eye(rates)
        optimizer.coef_[rates:, rates:] = (
            (self.coefficients * basis.rate_scale(self.coefficients)).T.cpu().numpy()
        )
        optimizer.ind_, optimizer.intercept_ = optimizer.coef_ != 0, 0.0
        model = pysindy.SINDy(optimizer=optimizer, feature_library=Terms())
        model.feature_names = [*basis.variables.names, *basis.context.names]
        model.n_control_features_ = len(basis.context)
        model._fit_shape()  # its fit calls this last
        return model

    @validated
    def __getitem__(self, index: int) -> "Equation":
        if self.coefficients.ndim < 3:
            fix = "use the equation itself"
            raise InputError("index", expected="a stack of equations", got="a single one", fix=fix)
        index = checks.index("index", index, len(self))
        own = {
            part: getattr(self, part)[index]
            for part in ("coefficients", "condition", "converged", "residual")
        }
        basis = replace(self.basis, variables=self.basis.variables[index])
        return replace(
            self, basis=basis, domain=None if self.domain is None else self.domain[index], **own
        )

    def __iter__(self) -> "Iterator[Equation]":
        return (self[k] for k in range(len(self)))

    def __len__(self) -> int:
        return len(self.coefficients) if self.coefficients.ndim > 2 else 1

    def __repr__(self) -> str:
        lead = tuple(self.coefficients.shape[:-2])
        if lead:
            return f"Equation(stack {lead}, {len(self.terms)} candidate terms, {self.samples} samples; {self.source})"
        kept, residual = self.support, ", ".join(f"{r:.1e}" for r in self.residual.tolist())
        facts = f"{int(kept.sum())} of {kept.numel()} coefficients, residual {residual}"
        facts += f", condition {self.condition.item():.1e}, {self.samples} samples; {self.source}"
        unsettled = [] if bool(self.converged) else ["the support had not settled: raise max_iter"]
        return "\n  ".join(
            [f"Equation({facts})", *self.equations(), *self._definitions, *unsettled]
        )

    @property
    def _definitions(self) -> list[str]:
        return self.basis.variables.definitions + self.basis.context.definitions

    def _check_single(self, method: str) -> None:
        if self.coefficients.ndim > 2:
            got = f"a stack of shape {tuple(self.coefficients.shape[:-2])}"
            raise InputError(
                "model", expected="a single equation", got=got, fix=f"take one: model[0].{method}()"
            )


def formula(column: list[float], names: list[str], digits: int) -> str:
    """Non-zero terms with signs, like `-0.5000 z0 + 1.000`; `0` without any."""
    text = ""
    for value, name in zip(column, names, strict=True):
        if value:
            sign = ("-" if value < 0 else "") if not text else " - " if value < 0 else " + "
            number = f"{abs(value):#.{digits}g}".rstrip(".")
            text += sign + (number if name == CONSTANT else f"{number} {name}")
    return text or "0"
