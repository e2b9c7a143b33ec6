"""The basis of an equation: every product of a latent term and a context term, with names."""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import xarray as xr
from torch import Tensor

from romkit.data import context_names
from romkit.errors import InputError
from romkit.integrators.sindy.library import CONSTANT, Library, product_names


@dataclass(frozen=True)
class ContextScaling:
    """Names of the p context parameters, and how they are scaled before they enter a term: (c - shift) / scale.

    A parameter that is scaled prints as δ and its name. Unscaled ones (shift 0, scale 1) print as they are.
    """

    names: tuple[str, ...]
    shift: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def none(cls, names: Sequence[str]) -> "ContextScaling":
        """Physical units."""
        return cls(tuple(names), (0.0,) * len(names), (1.0,) * len(names))

    @classmethod
    def from_dataset(cls, data: xr.Dataset) -> "ContextScaling":
        """To [-1, 1] over the training range of each parameter, or over the values in the dataset without one."""
        names = context_names(data)
        ranges = [data[name].attrs.get("training_range", (data[name].min(), data[name].max())) for name in names]
        return cls(
            names,
            tuple(float(low + high) / 2 for low, high in ranges),
            tuple(float(high - low) / 2 or 1.0 for low, high in ranges),
        )

    def __call__(self, c: Tensor) -> Tensor:
        """Scaled context (..., p) from physical units."""
        return (c - c.new_tensor(self.shift)) / c.new_tensor(self.scale)

    @property
    def symbols(self) -> list[str]:
        """What stands in an equation for each parameter."""
        return [f"δ{name}" if scaled else name for name, scaled in zip(self.names, self._scaled(), strict=True)]

    @property
    def definitions(self) -> list[str]:
        """What each scaled parameter means, as text."""
        rows = zip(self.names, self.shift, self.scale, self._scaled(), strict=True)
        return [f"δ{name} = ({name} - {shift:.6g}) / {scale:.6g}" for name, shift, scale, scaled in rows if scaled]

    def _scaled(self) -> list[bool]:
        return [pair != (0.0, 1.0) for pair in zip(self.shift, self.scale, strict=True)]


@dataclass(frozen=True)
class Basis:
    """θ(z, c): each latent term times each context term, the context term running faster.

    Attributes:
        library, context_library: terms of the variables, and of the scaled context.
        variables: names of the variables.
        context: names and scaling of the context.
    """

    library: Library
    context_library: Library
    variables: tuple[str, ...]
    context: ContextScaling

    @functools.cached_property
    def names(self) -> list[str]:
        """(K,) names of the terms."""
        latent, context = self.library.names(self.variables), self.context_library.names(self.context.symbols)
        return product_names([latent[k] for k in _first(latent)], [context[k] for k in _first(context)])

    def terms(self, z: Tensor, c: Tensor) -> list[Tensor]:
        """The K terms at z (..., d) and c (..., p), each (...); leading axes broadcast as in torch."""
        latent, context = self.latent_terms(z), self.context_terms(c)
        if len(context) == 1 and self.context_library.names(self.context.symbols)[0] == CONSTANT:
            return latent
        return [a * b for a, b in itertools.product(latent, context)]

    @functools.cached_property
    def latent_terms(self) -> Callable[[Tensor], list[Tensor]]:
        """The latent factors as a function of z."""
        return _without_repeats(self.library, self.variables)

    def context_terms(self, c: Tensor) -> list[Tensor]:
        """The context factors at c in physical units."""
        return self._scaled_context_terms(self.context(c))

    @functools.cached_property
    def _scaled_context_terms(self) -> Callable[[Tensor], list[Tensor]]:
        return _without_repeats(self.context_library, self.context.symbols)

    def bind(self, coefficients: Tensor, c: Tensor) -> Callable[[Tensor], Tensor]:
        """z (..., d) -> the right-hand side (..., m) at a context, whose terms are evaluated once, here.

        Args:
            coefficients: (..., K, m); leading axes are stacked equations.
            c: (..., p) in physical units; leading axes match those of the coefficients from the left.
        """
        context = torch.stack(self.context_terms(c), dim=-1)
        lead, m = coefficients.shape[:-2], coefficients.shape[-1]
        missing = (1,) * max(0, context.ndim - 1 - len(lead)) if lead else ()
        grid = coefficients.to(c).reshape(*lead, *missing, -1, context.shape[-1], m)
        weights = torch.einsum("...kcm,...c->...km", grid, context)

        def g(z: Tensor) -> Tensor:
            theta = torch.stack(self.latent_terms(z), dim=-1).unsqueeze(-2)
            extra = (1,) * max(0, z.ndim + 1 - weights.ndim) if weights.ndim > 2 else ()
            return (theta @ weights.reshape(*weights.shape[:-2], *extra, *weights.shape[-2:])).squeeze(-2)

        return g

    def check_context(self, argument: str, c: Tensor) -> None:
        """Raise InputError unless c (..., p) has the parameters of this basis."""
        p = len(self.context.names)
        if c.shape[-1:] != (p,):
            raise InputError(
                argument,
                expected=f"{p} context parameters ({', '.join(self.context.names)}) on the last axis",
                got=f"shape {tuple(c.shape)}",
                fix="use the context that the equation was fitted with",
            )


def _first(names: Sequence[str]) -> list[int]:
    """Indices of the names that do not repeat an earlier one."""
    return [k for k, name in enumerate(names) if name not in names[:k]]


def _without_repeats(library: Library, variables: Sequence[str]) -> Callable[[Tensor], list[Tensor]]:
    names = library.names(variables)
    keep = _first(names)
    if len(keep) == len(names):
        return library

    def evaluate(x: Tensor) -> list[Tensor]:
        terms = library(x)
        return [terms[k] for k in keep]

    return evaluate
