"""Terms of an equation: each latent term times each term of the context."""

import functools
import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from romkit.core.broadcast import align
from romkit.core.types import Pair, TensorMap
from romkit.laws.libraries import CONSTANT, Library, distinct, product_names
from romkit.laws.samples import LatentSamples
from romkit.laws.scaling import Scaling


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
    def build(
        cls, samples: LatentSamples, library: Library, context_library: Library
    ) -> "Features":
        """Return terms of the variables and parameters of samples; of several terms of one name the
        first.
        """
        variables = samples.variables
        context = samples.parameters
        library = distinct(library, variables.symbols)
        context_library = distinct(context_library, context.symbols)
        return cls(library, context_library, variables, context)

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
        """Return terms at z (..., d) and c (..., p) in physical units, each (...); leading axes
        broadcast as in torch.
        """
        return self.scaled_terms(self.variables.on(z)(z), c)

    def scaled_terms(self, z: Tensor, c: Tensor) -> list[Tensor]:
        """Return terms at z (..., d) that is scaled already, and c (..., p) in physical units."""
        latent = self.library(z)
        # a product with 1 costs a call for each term
        if self.context_names == [CONSTANT]:
            return latent
        context = self.context_library(self.context.on(c)(c))
        return [a * b for a, b in itertools.product(latent, context)]

    def scaled(self, z: Tensor, rate: Tensor) -> Pair:
        """Latents (..., N, d) and rates (..., N, m) as they enter the equation: scaled, in float64."""
        z = z.double()
        rate = rate.double()
        return self.variables.on(z)(z), rate / self.rate_scale(rate)

    def rate_scale(self, rate: Tensor) -> Tensor:
        """Return unit of rates (..., m), by which those in the equation are multiplied to have
        physical ones.
        """
        unit = self.variables.scale.to(rate)
        return align(unit[..., : rate.shape[-1]], rate)

    def at(self, coefficients: Tensor, c: Tensor) -> TensorMap:
        """Right-hand side z (..., d) -> (..., m) at a context, whose terms are evaluated once,
        here.

        Args:
            coefficients: (..., K, m); leading axes are stacked equations.
            c: (..., p) in physical units; leading axes match those of the coefficients from the
                left.
        """
        weights = self._weights(coefficients, c)  # (..., k, m)
        *lead, k, m = weights.shape
        scaled = self.variables.on(c)

        def g(z: Tensor) -> Tensor:
            theta = torch.stack(self.library(scaled(z)), dim=-1)  # (..., k)
            absent = 0
            if lead:
                absent = max(0, z.ndim + 1 - weights.ndim)
            matrix = weights.reshape(*lead, *(1,) * absent, k, m)
            return (theta.unsqueeze(-2) @ matrix).squeeze(-2)

        return g

    def _weights(self, coefficients: Tensor, c: Tensor) -> Tensor:
        """(..., k, m) coefficients of the latent factors alone at a context, in physical units."""
        scaled = self.context.on(c)(c)
        context = torch.stack(self.context_library(scaled), dim=-1)  # (..., terms)
        *lead, _, m = coefficients.shape
        # contexts behind the stacked equations have axes of their own
        absent = 0
        if lead:
            absent = max(0, context.ndim - 1 - len(lead))
        axes = (1,) * absent
        shape = (*lead, *axes, -1, context.shape[-1], m)
        grid = coefficients.to(c).reshape(shape)
        weights = torch.einsum("...kcm,...c->...km", grid, context)
        return weights * self.rate_scale(weights)
