"""SINDy: sparse identification of the equation that drives a latent space."""

from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

import torch
from torch import Tensor

from romkit import checks
from romkit.boundary import Count, Natural, NotNegative, Seed, checked
from romkit.errors import FitWarning, InputError, warn
from romkit.integrators.domain import Domain
from romkit.integrators.estimator import Estimator
from romkit.integrators.samples import LatentSamples
from romkit.integrators.sindy.basis import Basis
from romkit.integrators.sindy.ensemble import SINDyEnsemble, bootstrap
from romkit.integrators.sindy.library import Library, Polynomial, distinct
from romkit.integrators.sindy.model import Equation, SINDyModel
from romkit.integrators.sindy.regression import Design, Fit, gram, regress

E = TypeVar("E", bound=Equation)

Several = Annotated[int, checks.from_(2)]

EXPLAINED = 0.9
"""Share of the variance of a rate that an equation should explain; one that explains less warns."""


@checked
@dataclass(frozen=True)
class SINDy(Estimator):
    """Settings of a fit; `fit` returns the equation. Candidate terms are products of latent and context terms.

    Minimises ‖ż - Θ(z, c) ξ‖² + α ‖ξ‖², dropping coefficients below the threshold until the support settles, and then
    fits what is left without α. Support and coefficients are those of pysindy's STLSQ.

    Args:
        degree: of the polynomials in the latent coordinates (and their rates, for second order).
        threshold: smallest coefficient that stays, per unit of time of the data, as rates are: in milliseconds it is a
            thousandth of what it is in seconds.
        alpha: ridge penalty α on the coefficients; sums over samples are not normalised, so it weakens with N.
        context_degree: of the polynomials in the context.
        library: candidate terms in place of the polynomials in the latent coordinates.
        context_library: candidate terms in place of the polynomials in the context.
        normalize_columns: whether α and threshold act on terms divided by their norm over the samples.
        unbias: whether the coefficients that stay are fitted again without α.
        max_iter: most rounds of thresholding.

    `fit(projection, data)` scales the latents; `fit_samples` takes samples as they are. Both warn (`FitWarning`) of an
    equation that explains less than 90 % of the variance of its rate; `residual` of the result has the numbers.

    Good values: data scaled so that coefficients are of order 1, threshold a tenth of the smallest one that matters.
    Source: Brunton, Proctor, Kutz (2016); context as a parameter: section "parametric" there, and Champion et al.
    (2019) for latent spaces.

    Example:
        >>> import torch
        >>> from romkit.integrators import SINDy
        >>> t = torch.linspace(0, 6, 100, dtype=torch.float64)
        >>> z, rate = torch.stack([t.cos(), t.sin()], dim=-1), torch.stack([-t.sin(), t.cos()], dim=-1)
        >>> SINDy(degree=1, threshold=0.1).fit_samples(z, rate).equations()
        ["z0' = -1.000 z1", "z1' = 1.000 z0"]
    """

    degree: Natural = 3
    threshold: NotNegative = 0.1
    alpha: NotNegative = 0.05
    context_degree: Natural = 1
    library: Library | None = None
    context_library: Library | None = None
    normalize_columns: bool = False
    unbias: bool = True
    max_iter: Count = 20

    def _fit(self, samples: LatentSamples, seed: int) -> SINDyModel:
        design = self._design(samples)
        model = equation(SINDyModel, samples, design.basis, regress(design, gram(design, 0, design.rows), self))
        _warn_of_poor_fit(model, design.targets)
        return model

    @checked
    def fit_ensemble(
        self, samples: LatentSamples, *, models: Several = 100, blocks: Several = 100, seed: Seed = 0
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
        design = self._design(samples)
        if blocks > design.rows:
            raise InputError("blocks", expected=f"at most {design.rows}, the samples", got=blocks, fix="lower it")
        draw = bootstrap(design.rows, models, blocks, seed, samples.targets.device)
        sums = torch.stack([gram(design, start, stop) for start, stop in draw.bounds])
        grams = torch.einsum("bj,j...->b...", draw.counts, sums)
        found = regress(design, grams, self, draw.sample_weights())
        basis = replace(design.basis, variables=design.basis.variables.repeated(models))
        members = equation(SINDyModel, samples, basis, found, models)
        source = f"{models} bootstrap samples of {blocks} blocks: {samples.source}"
        return SINDyEnsemble(replace(members, source=source, domain=Domain.of(samples).repeated(models)))

    def _design(self, samples: LatentSamples) -> Design:
        return design_of(samples, self._basis(samples))

    def _basis(self, samples: LatentSamples) -> Basis:
        library = distinct(self.library or Polynomial(self.degree), samples.variables.symbols)
        context = distinct(self.context_library or Polynomial(self.context_degree), samples.parameters.symbols)
        return Basis(library, context, samples.variables, samples.parameters)


def design_of(samples: LatentSamples, basis: Basis) -> Design:
    """The samples that are not missing, as they enter the terms.

    Raises:
        InputError: fewer samples than terms.
    """
    terms, samples = len(basis.names), samples.complete()
    if len(samples) < terms:
        expected, fix = f"at least {terms} samples, one per candidate term", "give more samples or lower the degree"
        raise InputError("z", expected=expected, got=f"{len(samples)}", fix=fix)
    lead = samples.targets.shape[:-2]
    shared = all(size == 1 for size in samples.context.shape[:-2])
    context = samples.context if shared else samples.context.expand(*lead, *samples.context.shape[-2:])
    inputs, targets = basis.scaled(samples.inputs, samples.targets)
    return Design(basis, *(_one_axis(x) for x in (inputs, context, targets)))


def equation(kind: type[E], samples: LatentSamples, basis: Basis, found: Fit, *members: int) -> E:
    """What was found for the members of an ensemble, if any, and for the problems of the samples."""
    lead, flat = (*members, *samples.targets.shape[:-2]), 1 + len(members)
    parts = {name: value.reshape((*lead, *value.shape[flat:])) for name, value in found._asdict().items()}
    facts = {"order": samples.order, "source": samples.source, "control_names": samples.control_names}
    return kind(basis=basis, samples=int(samples.observed.sum()), **facts, **parts)


def _warn_of_poor_fit(model: SINDyModel, targets: Tensor) -> None:
    """Warn where an equation explains less than `EXPLAINED` of the variance of its rate."""
    variance, square = (
        value.reshape(model.residual.shape) for value in (targets.var(-2, correction=0), targets.square().mean(-2))
    )
    unexplained = torch.where(variance > 0, model.residual.square() * square / variance, 0.0).nan_to_num(nan=1.0)
    poor = unexplained > 1 - EXPLAINED
    if bool(poor.any()):
        found = f"{int(poor.sum())} of {poor.numel()} equations explain less than {EXPLAINED:.0%} of the variance"
        worst = f"of the rate, the worst {max(0.0, 1 - float(unexplained.max())):.0%}"
        fix = "raise the degree, lower the threshold, or scale the samples"
        warn(f"SINDy: {found} {worst}; {fix}", FitWarning)


def _one_axis(x: Tensor) -> Tensor:
    """x (..., N, k) as (S, N, k)."""
    return x.unsqueeze(0) if x.ndim == 2 else x.flatten(0, -3)
