"""A law in terms: prints itself, and drives the latent space of any projection."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from torch import Tensor

from romkit import checks
from romkit.boundary import Count, Mask, Natural, Order, checked
from romkit.errors import InputError
from romkit.integrators.base import LearnedField
from romkit.integrators.domain import Domain
from romkit.integrators.sindy import symbolic
from romkit.integrators.sindy.basis import Basis
from romkit.integrators.sindy.export import to_pysindy

if TYPE_CHECKING:
    import sympy


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Equation(LearnedField):
    """żᵢ = Σₖ ξₖᵢ θₖ(z, c), or z̈ᵢ = Σₖ ξₖᵢ θₖ(z, ż, c): what is common to laws that are linear in their coefficients.

    One equation for all contexts. A stack of problems has a leading axis on coefficients, condition, converged and
    residual; `model[i]` is one of it, and the stack as it is drives a stack of projections.

    Attributes:
        basis: the candidate terms.
        coefficients: ξ (..., terms, latent), float64.
        order, source, samples, control_names, domain: as of every `LearnedField`.
        condition: (...) condition number of the library with columns of norm 1. From about 1e4 on, coefficients of
            single terms depend on details of the data, while the fitted field need not; see `regression`.
        converged: (...) whether the support settled within `max_iter` steps.
        residual: (..., latent) root mean square residual over the samples, relative to that of the target.

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

    basis: Basis
    coefficients: Tensor
    order: Order
    source: str
    samples: Natural
    condition: Tensor
    converged: Mask
    residual: Tensor
    control_names: tuple[str, ...] = ()
    domain: Domain | None = None

    @property
    def latent_dim(self) -> int:
        """m."""
        return self.coefficients.shape[-1]

    @property
    def context_names(self) -> tuple[str, ...]:
        """Of the parameters that the law depends on, without its inputs."""
        return self.basis.context.names[: len(self.basis.context) - len(self.control_names)]

    @property
    def terms(self) -> list[str]:
        """Names of the candidate terms, one per row of `coefficients`."""
        return self.basis.names

    @property
    def support(self) -> Tensor:
        """(..., terms, latent) which terms the equation has."""
        return self.coefficients != 0

    def right_hand_side(self, c: Tensor) -> Callable[[Tensor], Tensor]:
        """w = z or (z, ż) -> ż or z̈ (..., m) at a context c (..., p), whose terms are evaluated once, here."""
        return self.basis.at(self.coefficients, c)

    @checked
    def predict(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        """The right-hand side (..., m) at z (..., m), or (z, ż) (..., 2m), and context (..., p) in physical units.

        Leading axes of the context match those of z from the left; samples of a stack are (problems, N, m).
        """
        variables, parameters = self.basis.variables.names, self.basis.context.names
        checks.last_axis("z", z.shape, len(variables), f"({', '.join(variables)})")
        c = z.new_empty(0) if context is None else context.to(z)
        checks.last_axis("context", c.shape, len(parameters), f"({', '.join(parameters)})")
        return self.right_hand_side(c)(z)

    @checked
    def equations(self, digits: Count = 4) -> list[str]:
        """One formula per latent in the terms as they are scaled, like `δz0' = 1.000 δz1 - 0.5000 δz0 F`."""
        self._check_single("equations")
        columns = self.coefficients.T.tolist()
        latents = self.basis.variables.symbols[: len(columns)]
        return [
            f"{name}{chr(39) * self.order} = {_formula(column, self.terms, digits)}"
            for name, column in zip(latents, columns, strict=True)
        ]

    def details(self) -> list[str]:
        """Each equation with its residual, and what scaled variables mean."""
        if self.coefficients.ndim > 2:
            return [line for k in range(len(self)) for line in (f"law {k} of the stack", *self[k].details())]
        rows = zip(self.equations(), self.residual.tolist(), strict=True)
        return [*(f"{equation}   (residual {residual:.1e})" for equation, residual in rows), *self._definitions]

    def to_sympy(self) -> "list[sympy.Eq]":
        """One equation per latent in physical latents and contexts, multiplied out; `.rhs` is its right-hand side.

        Raises:
            InputError: a stack, or terms that are functions of the user's own.
        """
        self._check_single("to_sympy")
        return symbolic.equations(self.basis, self.coefficients, self.order)

    @checked
    def formulas(self, digits: Count = 4) -> list[str]:
        """The same as text with this many significant digits."""
        return symbolic.texts(self.to_sympy(), digits)

    @checked
    def latex(self, digits: Count = 4) -> list[str]:
        """The same as LaTeX, without the dollars."""
        return symbolic.latex(self.to_sympy(), digits, self.basis.variables.names, self.order)

    def to_pysindy(self) -> object:
        """A fitted `pysindy.SINDy` with the same terms and coefficients; the context becomes its control input.

        For second order its inputs are (z, ż) and its `predict` gives (ż, z̈).
        """
        self._check_single("to_pysindy")
        return to_pysindy(self.basis, self.coefficients, self.order)

    @checked
    def __getitem__(self, index: int) -> Self:
        if self.coefficients.ndim < 3:
            raise InputError("index", expected="a stack of equations", got="a single one", fix="use it as it is")
        index = checks.index("index", index, len(self))
        parts = ("coefficients", "condition", "converged", "residual")
        domain = None if self.domain is None else self.domain[index]
        own = {part: getattr(self, part)[index] for part in parts}
        return replace(self, basis=self.basis[index], domain=domain, **own)

    def __iter__(self) -> Iterator[Self]:
        return (self[k] for k in range(len(self)))

    def __len__(self) -> int:
        return len(self.coefficients) if self.coefficients.ndim > 2 else 1

    def __repr__(self) -> str:
        lead = tuple(self.coefficients.shape[:-2])
        if lead:
            facts = f"stack {lead}, {len(self.terms)} candidate terms, {self.samples} samples; {self.source}"
            return f"{type(self).__name__}({facts})"
        facts = (
            f"{int(self.support.sum())} of {self.support.numel()} coefficients, "
            f"residual {', '.join(f'{r:.1e}' for r in self.residual.tolist())}, "
            f"condition {self.condition.item():.1e}, {self.samples} samples; {self.source}"
        )
        unsettled = [] if bool(self.converged) else ["the support had not settled: raise max_iter"]
        return "\n  ".join([f"{type(self).__name__}({facts})", *self.equations(), *self._definitions, *unsettled])

    @property
    def _definitions(self) -> list[str]:
        return self.basis.variables.definitions + self.basis.context.definitions

    def _check_single(self, what: str) -> None:
        if self.coefficients.ndim > 2:
            got = f"a stack of shape {tuple(self.coefficients.shape[:-2])}"
            raise InputError("model", expected="a single equation", got=got, fix=f"take one: model[0].{what}()")


class SINDyModel(Equation):
    """Few non-zero coefficients: what the fit of `SINDy` or `WeakSINDy` returns.

    Example:
        >>> import torch
        >>> from romkit.integrators import SINDy
        >>> z = torch.linspace(-1, 1, 50, dtype=torch.float64).reshape(50, 1)
        >>> law = SINDy(degree=3).fit_samples(z, z - z**3, names=["a"])
        >>> type(law).__name__, law.equations()
        ('SINDyModel', ["a' = 1.000 a - 1.000 a^3"])
    """


def _formula(column: list[float], names: list[str], digits: int) -> str:
    """The non-zero terms with signs, `0` without any."""
    parts = [(c, name) for c, name in zip(column, names, strict=True) if c != 0]
    if not parts:
        return "0"
    text = " ".join(f"{'-' if c < 0 else '+'} {_factor(abs(c), name, digits)}" for c, name in parts)
    return text.removeprefix("+ ") if parts[0][0] > 0 else text.replace("- ", "-", 1)


def _factor(value: float, name: str, digits: int) -> str:
    number = f"{value:#.{digits}g}"
    return number.rstrip(".") if name == "1" else f"{number.rstrip('.')} {name}"
