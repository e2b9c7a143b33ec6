"""The basis of an equation: every product of a latent term and a context term, with names."""

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from romkit.broadcast import align
from romkit.integrators.scaling import Scaling
from romkit.integrators.sindy.library import CONSTANT, Library, product_names


@dataclass(frozen=True, eq=False)
class Basis:
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

    @functools.cached_property
    def names(self) -> list[str]:
        """(K,) names of the terms."""
        return product_names(self.latent_names, self.context_names)

    @functools.cached_property
    def latent_names(self) -> list[str]:
        """Names of the latent factors."""
        return self.library.names(self.variables.symbols)

    @functools.cached_property
    def context_names(self) -> list[str]:
        """Names of the context factors."""
        return self.context_library.names(self.context.symbols)

    def terms(self, z: Tensor, c: Tensor) -> list[Tensor]:
        """The K terms at z (..., d) and c (..., p), each (...); leading axes broadcast as in torch."""
        return self.terms_of_scaled(self.variables.on(z)(z), c)

    def terms_of_scaled(self, z: Tensor, c: Tensor) -> list[Tensor]:
        """The same for variables that are scaled already."""
        latent = self.library(z)
        if self.context_names == [CONSTANT]:
            return latent
        return [a * b for a, b in itertools.product(latent, self.context_terms(c))]

    def context_terms(self, c: Tensor) -> list[Tensor]:
        """The context factors at c (..., p) in physical units."""
        return self.context_library(self.context.on(c)(c))

    def scaled(self, z: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
        """z (..., N, d) and ż or z̈ (..., N, m) as they enter the equation: scaled, in float64."""
        z, rate = z.double(), rate.double()
        return self.variables.on(z)(z), rate / self._rate_scale(rate)

    def rate(self, values: Tensor) -> Tensor:
        """ż or z̈ (..., m) in physical units, from those of the scaled variables that the equation gives."""
        return values * self._rate_scale(values)

    def __getitem__(self, problem: int) -> "Basis":
        """That of one problem of a stack."""
        return replace(self, variables=self.variables[problem])

    def at(self, coefficients: Tensor, c: Tensor) -> Callable[[Tensor], Tensor]:
        """z (..., d) -> the right-hand side (..., m) at a context, whose terms are evaluated once, here.

        Args:
            coefficients: (..., K, m); leading axes are stacked equations.
            c: (..., p) in physical units; leading axes match those of the coefficients from the left.
        """
        weights = self.rate(self.folded(coefficients, c))
        scaled = self.variables.on(c)

        def g(z: Tensor) -> Tensor:
            theta = torch.stack(self.library(scaled(z)), dim=-1).unsqueeze(-2)
            extra = (1,) * max(0, z.ndim + 1 - weights.ndim) if weights.ndim > 2 else ()
            return (theta @ weights.reshape(*weights.shape[:-2], *extra, *weights.shape[-2:])).squeeze(-2)

        return g

    def folded(self, coefficients: Tensor, c: Tensor) -> Tensor:
        """Coefficients (..., latent terms, m) of the latent factors alone, at a context c (..., p)."""
        context = torch.stack(self.context_terms(c), dim=-1)
        lead, m = coefficients.shape[:-2], coefficients.shape[-1]
        missing = (1,) * max(0, context.ndim - 1 - len(lead)) if lead else ()
        grid = coefficients.to(c).reshape(*lead, *missing, -1, context.shape[-1], m)
        return torch.einsum("...kcm,...c->...km", grid, context)

    def _rate_scale(self, values: Tensor) -> Tensor:
        """Factors (..., m) for rates (..., m)."""
        return align(self.variables.scale.to(values)[..., : values.shape[-1]], values)
