"""SINDy: sparse identification of the equation that drives a latent space."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from romkit import checks
from romkit.errors import InputError
from romkit.integrators.base import LearnedField
from romkit.integrators.sindy.basis import Basis
from romkit.integrators.sindy.ensemble import SINDyEnsemble, bootstrap
from romkit.integrators.sindy.library import Library, Polynomial
from romkit.integrators.sindy.model import SINDyModel
from romkit.integrators.sindy.regression import Design, Thresholding, gram, regress
from romkit.integrators.sindy.samples import LatentSamples
from romkit.types import ProjectionOperator


@dataclass(frozen=True)
class SINDy(LearnedField):
    """Settings of a fit; `fit` returns the equation. Candidate terms are products of latent and context terms.

    Minimises ‖ż - Θ(z, c) ξ‖² + α ‖ξ‖², dropping coefficients below the threshold until the support settles, and then
    fits what is left without α. Support and coefficients are those of pysindy's STLSQ.

    Args:
        degree: of the polynomials in the latent coordinates (and their rates, for second order).
        threshold: smallest coefficient that stays.
        alpha: ridge penalty α on the coefficients; sums over samples are not normalised, so it weakens with N.
        context_degree: of the polynomials in the context.
        library: candidate terms in place of the polynomials in the latent coordinates.
        context_library: candidate terms in place of the polynomials in the context.
        normalize_columns: whether α and threshold act on terms divided by their norm over the samples.
        unbias: whether the coefficients that stay are fitted again without α.
        max_iter: most rounds of thresholding.

    Good values: data scaled so that coefficients are of order 1, threshold a tenth of the smallest one that matters.
    Source: Brunton, Proctor, Kutz (2016); context as a parameter: section "parametric" there, and Champion et al.
    (2019) for latent spaces.
    """

    degree: int = 3
    threshold: float = 0.1
    alpha: float = 0.05
    context_degree: int = 1
    library: Library | None = None
    context_library: Library | None = None
    normalize_columns: bool = False
    unbias: bool = True
    max_iter: int = 20

    def __post_init__(self):
        checks.at_least("degree", self.degree, 0)
        checks.at_least("context_degree", self.context_degree, 0)
        checks.not_negative("threshold", self.threshold)
        checks.not_negative("alpha", self.alpha)
        checks.at_least("max_iter", self.max_iter, 1)

    def fit(
        self,
        z: Tensor | np.ndarray,
        zdot: Tensor | np.ndarray,
        context: Tensor | np.ndarray | None = None,
        *,
        names: Sequence[str] | None = None,
        context_names: Sequence[str] | None = None,
    ) -> SINDyModel:
        """The equation ż = g(z; c) of given samples.

        Args:
            z: (..., N, m); leading axes are problems, each with an equation of its own.
            zdot: (..., N, m).
            context: (..., N, p), the context of each sample, which enters as it is given.
            names: of the latent coordinates, z0, z1, ... by default.
            context_names: c0, c1, ... by default.

        Returns:
            The equation, in float64 and on the device of z.

        Raises:
            InputError: shapes that do not match, fewer samples than terms, or values that are not finite.
        """
        return self.fit_samples(LatentSamples.first_order(z, zdot, context, names=names, parameters=context_names))

    def fit_samples(self, samples: LatentSamples) -> SINDyModel:
        """The equation of samples by `encoded_samples`, `galerkin_samples`, ..., of first or second order."""
        design = self._design(samples)
        found = regress(design, gram(design, 0, len(samples)), self._thresholding)
        lead = samples.targets.shape[:-2]
        parts = {name: value.reshape((*lead, *value.shape[1:])) for name, value in found._asdict().items()}
        return SINDyModel(basis=design.basis, order=samples.order, source=samples.source, samples=len(samples), **parts)

    def fit_ensemble(
        self, samples: LatentSamples, *, models: int = 100, blocks: int = 100, seed: int = 0
    ) -> SINDyEnsemble:
        """Equations of `models` bootstrap samples, fitted as one batch.

        Blocks of consecutive samples are drawn with replacement, because neighbours in time tell the same. All
        members need little more time than one fit, because sums over each block are made once.

        Args:
            samples: as in `fit_samples`; order them by trajectory and time.
            models: members of the ensemble.
            blocks: into how many blocks the samples are cut.
            seed: of the draws.

        Source: Fasel, Kutz, Brunton, Brunton (2022), ensemble-SINDy, section 2 (bagging); Künsch (1989) for blocks.
        """
        checks.at_least("models", models, 2)
        if checks.at_least("blocks", blocks, 2) > len(samples):
            raise InputError("blocks", expected=f"at most {len(samples)}, the samples", got=blocks, fix="lower it")
        design = self._design(samples)
        draw = bootstrap(len(samples), models, blocks, seed, samples.targets.device)
        sums = torch.stack([gram(design, start, stop) for start, stop in draw.bounds])
        grams = torch.einsum("bj,j...->b...", draw.counts, sums)
        found = regress(design, grams, self._thresholding, draw.sample_weights())
        lead = (models, *samples.targets.shape[:-2])
        parts = {name: value.reshape((*lead, *value.shape[2:])) for name, value in found._asdict().items()}
        source = f"{models} bootstrap samples of {blocks} blocks: {samples.source}"
        basis = replace(design.basis, variables=design.basis.variables.repeated(models))
        return SINDyEnsemble(SINDyModel(basis=basis, order=samples.order, source=source, samples=len(samples), **parts))

    def at(self, P: ProjectionOperator) -> Callable[[Tensor], Tensor]:
        fix = "give the result of its fit"
        raise InputError("dynamics", expected="a fitted equation", got="settings, SINDy(...)", fix=fix)

    @property
    def _thresholding(self) -> Thresholding:
        return Thresholding(self.threshold, self.alpha, self.max_iter, self.unbias, self.normalize_columns)

    def _design(self, samples: LatentSamples) -> Design:
        basis = self._basis(samples)
        terms = len(basis.names)
        if len(samples) < terms:
            raise InputError(
                "z",
                expected=f"at least {terms} samples, one per candidate term",
                got=f"{len(samples)}",
                fix="give more samples or lower the degree",
            )
        lead = samples.targets.shape[:-2]
        shared = all(size == 1 for size in samples.context.shape[:-2])
        context = samples.context if shared else samples.context.expand(*lead, *samples.context.shape[-2:])
        inputs, targets = basis.scaled(samples.inputs, samples.targets)
        return Design(basis, *(_one_axis(x) for x in (inputs, context, targets)))

    def _basis(self, samples: LatentSamples) -> Basis:
        library = self.library or Polynomial(self.degree)
        context_library = self.context_library or Polynomial(self.context_degree)
        return Basis(library, context_library, samples.variables, samples.parameters)


def _one_axis(x: Tensor) -> Tensor:
    """x (..., N, k) as (S, N, k)."""
    return x.unsqueeze(0) if x.ndim == 2 else x.flatten(0, -3)
