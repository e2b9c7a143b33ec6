"""Laws that are linear in their coefficients, and print themselves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from romkit.core import checks
from romkit.core.boundary import Count, Mask, Natural, Order, Positive, Share, unchecked, validated
from romkit.core.errors import InputError
from romkit.core.types import TensorMap
from romkit.integrators.base import LearnedField
from romkit.integrators.region import Region
from romkit.laws import symbolic
from romkit.laws.features import Features
from romkit.laws.libraries import CONSTANT, Polynomial

if TYPE_CHECKING:
    import sympy

SHOWN = 8
"""Terms of an equation that it prints of itself, the largest ones: what fits on two lines."""


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
        last: latents (runs, latent) at the last samples of the runs, without their noise, of a law
            that was fitted together with the states; forecasts that continue the runs start there.

    Example:
        >>> import torch
        >>> from romkit.laws import SINDy
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
    control_unit: str = ""
    domain: Region | None = None
    report: Sequence[Mapping[str, Any]] = ()
    last: Tensor | None = None

    FACTS: ClassVar[tuple[str, ...]] = ("condition", "converged", "residual")
    """Attributes that describe the fit, and may be infinite (see `core.packing`)."""

    @property
    def latent_dim(self) -> int:
        """m."""
        return self.coefficients.shape[-1]

    @property
    def context_names(self) -> tuple[str, ...]:
        """Names of the parameters that the law depends on, without its inputs."""
        names = self.basis.context.names
        return names[: len(names) - len(self.control_names)]

    @property
    def affine(self) -> bool:
        """Whether all terms are constant or linear, and there are no inputs."""
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
    def coefficient_count(self) -> int:
        """Number of coefficients that are not zero."""
        return int(self.support.sum())

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
        often = self.inclusion >= inclusion
        middle = self.coefficients.quantile(0.5, dim=0)
        return replace(
            self[0],
            coefficients=torch.where(often, middle, 0.0),
            condition=self.condition.amax(0),
            converged=self.converged.all(0),
            residual=self.residual.amax(0),
            source=f"median of {self.source}",
        )

    def right_hand_side(self, c: Tensor) -> TensorMap:
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
        if context is None:
            context = z.new_empty(0)
        for name, values, scaling in (
            ("z", z, self.basis.variables),
            ("context", context, self.basis.context),
        ):
            meaning = ", ".join(scaling.names)
            checks.last_axis(name, values.shape, len(scaling), f"({meaning})")
        law = self.right_hand_side(context.to(z))
        return law(z)

    @validated
    def step(self, dt: Positive) -> tuple[Tensor, Tensor]:
        """Return a (m, m) and B (m, 1 + p) of z(t + dt) = A z(t) + B (1, c, u), in physical
        latents, contexts and inputs.

        Raises:
            InputError: a stack, a law of second order, or one that is not ż = A z + B (1, c, u).
        """
        self._check_linear()
        m = self.latent_dim
        z = torch.zeros(m, dtype=torch.float64)
        c = torch.zeros(len(self.basis.context), dtype=torch.float64)

        def rate(z: Tensor, c: Tensor) -> Tensor:
            return self.right_hand_side(c)(z)

        A, B = torch.func.jacrev(rate, argnums=(0, 1))(z, c)  # (m, m), (m, p)
        constant = rate(z, c).unsqueeze(-1)
        rows = torch.cat([A, constant, B], dim=-1)  # (m, m + 1 + p)
        # 1, c and u stay for a step, so that one exponential holds A and B of the step
        still = rows.new_zeros(rows.shape[1] - m, rows.shape[1])
        generator = torch.cat([rows, still])
        stepped = torch.linalg.matrix_exp(dt * generator)[:m]
        return stepped[:, :m], stepped[:, m:]

    def _check_linear(self) -> None:
        """Raise unless the law is ż = A z + B (1, c, u)."""
        self._check_single("step")
        linear = {CONSTANT, *self.basis.variables.symbols}
        if not self.basis.context.coordinates:
            linear |= {*self.basis.context.symbols}
        used = []
        for name, in_law in zip(self.terms, self.support.any(-1).tolist(), strict=True):
            if in_law:
                used.append(name)
        if self.order != 1 or not linear.issuperset(used):
            got = f"order {self.order}, terms {', '.join(used)}"
            fix = "fit it with DMD()"
            raise InputError("model", expected="a linear law of order 1", got=got, fix=fix)

    @validated
    def equations(self, digits: Count = 4, most: Count | None = None) -> list[str]:
        """One formula per latent in the terms as they are scaled, like `δz0' = 1.000 δz1 - 0.5000
        δz0 F`.

        Args:
            digits: of numbers.
            most: terms of each equation, the largest ones; by default all.
        """
        self._check_single("equations")
        dots = "'" * self.order
        equations = []
        columns = self.coefficients.T.tolist()
        # variables of a law of second order have rates behind them, which have no equation
        for name, column in zip(self.basis.variables.symbols, columns, strict=False):
            formula = symbolic.formula(column, self.terms, digits, most)
            equations.append(f"{name}{dots} = {formula}")
        return equations

    def details(self) -> list[str]:
        """Return each equation with its residual, and definitions of scaled variables."""
        if self.coefficients.ndim > 2:
            lines = []
            for k, law in enumerate(self):
                lines += [f"law {k} of the stack", *law.details()]
            return lines
        lines = []
        shown = unchecked(self.equations)(most=SHOWN)
        for equation, residual in zip(shown, self.residual.tolist(), strict=True):
            lines.append(f"{equation}   (residual {residual:.1e})")
        return lines + self._definitions

    def to_sympy(self) -> "list[sympy.Eq]":
        """One equation per latent in physical latents and contexts, multiplied out; `.rhs` is its
        right-hand side.

        Raises:
            InputError: a stack, or terms that are functions of the user's own.
        """
        import sympy

        self._check_single("to_sympy")
        expressions = symbolic.right_hand_sides(self.basis, self.coefficients)
        equations = []
        for name, expression in zip(self.basis.variables.names, expressions, strict=False):
            rate = sympy.Symbol(name + "'" * self.order)
            equations.append(sympy.Eq(rate, expression, evaluate=False))
        return equations

    @validated
    def formulas(self, digits: Count = 4, most: Count | None = None) -> list[str]:
        """Equations of `to_sympy` as text with this many significant digits, `z0' = 0.9252 - 0.9095
        z0`.

        Args:
            digits: of numbers.
            most: terms of each equation, the largest ones where the data are, with the
                number of the others behind them; by default all.
        """
        lines = []
        for equation in self.to_sympy():
            rate, smaller = symbolic.largest_terms(equation.rhs, self.basis, most)
            text = f"{equation.lhs} = {symbolic.rounded(rate, digits)}"
            text = text.replace("**", "^").replace("*", " ")
            if smaller:
                text = f"{text} + ... (smaller terms: {smaller}, all in law.formulas())"
            lines.append(text)
        return lines

    @validated
    def latex(self, digits: Count = 4) -> list[str]:
        """Equations of `to_sympy` as LaTeX, without the dollars."""
        import sympy

        equations = self.to_sympy()
        names = self.basis.variables.names[: len(equations)]
        texts = {name: sympy.latex(sympy.Symbol(name)) for name in names}
        symbols = {}
        for name, text in texts.items():
            symbols[sympy.Symbol(f"{name}'")] = rf"\dot{{{text}}}"
        accent = "d" * self.order + "ot"
        lines = []
        for text, equation in zip(texts.values(), equations, strict=True):
            rate = symbolic.rounded(equation.rhs, digits)
            right = sympy.latex(rate, symbol_names=symbols)
            lines.append(rf"\{accent}{{{text}}} = {right}")
        return lines

    @classmethod
    def from_pysindy(cls, model: object) -> "Equation":
        """Return the law of a fitted `pysindy.SINDy`, for `rollout(..., dynamics=law)`: its states
        are the latents, its control inputs the context.

        Its terms may be of `PolynomialLibrary`, `IdentityLibrary` and `FourierLibrary`, and of their
        sums.

        Raises:
            InputError: a model that is not fitted, is discrete in time, or has other terms.

        Example:
            >>> import numpy as np, pysindy
            >>> from romkit.laws import Equation
            >>> t = np.linspace(0, 6, 200)
            >>> x = np.stack([np.cos(t), np.sin(t)], axis=1)
            >>> model = pysindy.SINDy().fit(x, t=t, feature_names=["x", "y"])
            >>> Equation.from_pysindy(model).formulas(digits=2)
            ["x' = -1.0 y", "y' = 1.0 x"]
        """
        basis, coefficients = symbolic.read_pysindy(model)
        unknown = torch.full((coefficients.shape[-1],), torch.nan, dtype=torch.float64)
        return cls(
            basis,
            coefficients,
            order=1,
            source="pysindy.SINDy",
            samples=0,
            condition=torch.tensor(torch.nan, dtype=torch.float64),
            converged=torch.tensor(True),
            residual=unknown,
        )

    def to_pysindy(self) -> object:
        """Return a fitted `pysindy.SINDy` with the same terms and coefficients; the context becomes
        its control input.

        For second order its inputs are (z, ż), the rates ż are features of their own in front of
        the terms, and its `predict` gives (ż, z̈).
        """
        self._check_single("to_pysindy")
        return symbolic.pysindy_model(self.basis, self.coefficients, self.order)

    @validated
    def __getitem__(self, index: int) -> "Equation":
        if self.coefficients.ndim < 3:
            fix = "use the equation itself"
            raise InputError("index", expected="a stack of equations", got="a single one", fix=fix)
        index = checks.index("index", index, len(self))
        numbers = {}
        for name in ("coefficients", *self.FACTS):
            numbers[name] = getattr(self, name)[index]
        basis = replace(self.basis, variables=self.basis.variables[index])
        domain = self.domain
        if domain is not None:
            domain = domain[index]
        return replace(self, basis=basis, domain=domain, **numbers)

    def __iter__(self) -> "Iterator[Equation]":
        return (self[k] for k in range(len(self)))

    def __len__(self) -> int:
        return len(self.coefficients) if self.coefficients.ndim > 2 else 1

    def __repr__(self) -> str:
        stack = tuple(self.coefficients.shape[:-2])
        if stack:
            size = f"stack {stack}, {len(self.terms)} candidate terms, {self.samples} samples"
            return f"Equation({size}; {self.source})"
        support = self.support
        residual = ", ".join(f"{number:.1e}" for number in self.residual.tolist())
        facts = [
            f"{int(support.sum())} of {support.numel()} coefficients",
            f"residual {residual}",
            f"condition {self.condition.item():.1e}",
            f"{self.samples} samples; {self.source}",
        ]
        formulas = unchecked(self.equations)(most=SHOWN)
        lines = [f"{type(self).__name__}({', '.join(facts)})", *formulas, *self._definitions]
        if not bool(self.converged):
            lines.append("the support had not settled: raise max_iter")
        return "\n  ".join(lines)

    @property
    def _definitions(self) -> list[str]:
        return self.basis.variables.definitions + self.basis.context.definitions

    def _check_single(self, method: str) -> None:
        if self.coefficients.ndim > 2:
            got = f"a stack of shape {tuple(self.coefficients.shape[:-2])}"
            fix = f"take one: model[0].{method}()"
            raise InputError("model", expected="a single equation", got=got, fix=fix)
