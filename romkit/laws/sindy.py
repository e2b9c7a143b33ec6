"""SINDy: sparse identification of latent dynamics, in strong and weak form."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import xarray as xr
from torch import Tensor

from romkit.core.boundary import Count, Natural, NotNegative, Positive, validated
from romkit.core.errors import InputError
from romkit.laws.base import Estimator
from romkit.laws.determined import warn_if_undetermined
from romkit.laws.equations import Equation
from romkit.laws.features import Features
from romkit.laws.judge import Judge
from romkit.laws.libraries import Library, Polynomial
from romkit.laws.noise import is_noisy
from romkit.laws.refine import integrated
from romkit.laws.regression import design_of, equation, gram, regress
from romkit.laws.samples import LatentSamples
from romkit.laws.scaling import Scaling
from romkit.laws.sources import ProjectionFamily
from romkit.laws.useless import unexplained_share
from romkit.laws.weak import weak_fit
from romkit.projections import Identity


class Sparse(Estimator):
    """Base of the kinds of SINDy: candidate terms, and what they choose where it is left open."""

    DEGREES: ClassVar[tuple[int, ...]] = (3, 2, 5, 1)
    SHARES: ClassVar[tuple[float, ...]] = ()

    degree: int | None
    threshold: float | None
    share: float | None
    context_degree: int
    library: Library | None
    context_library: Library | None

    def __post_init__(self):
        if self.threshold is not None and self.share is not None:
            fix = "drop one: threshold is per unit of time, share has no unit"
            raise InputError("share", expected="none beside threshold", got=self.share, fix=fix)

    @classmethod
    def choices(cls, projection: ProjectionFamily, data: xr.Dataset) -> list[LatentSamples]:
        shapes = super().choices(projection, data)
        if not isinstance(projection, Identity):
            return shapes
        # terms of physical states are the user's own, and a scaled sin(x) is another one
        unscaled = Scaling.none(shapes[0].variables.names)
        return [replace(samples, variables=unscaled) for samples in shapes]

    def candidates(self, samples: LatentSamples) -> "list[Sparse]":
        grid = {}
        shares = self._shares(samples)
        if self.threshold is None and self.share is None and shares:
            grid["share"] = shares
        if self.degree is None and self.library is None:
            grid["degree"] = self._degrees(samples.inputs.shape[-1])
        settings = []
        for values in itertools.product(*grid.values()):
            settings.append(replace(self, **dict(zip(grid, values, strict=True))))
        return settings

    def _shares(self, samples: LatentSamples) -> Sequence[float]:
        return self.SHARES

    def _degrees(self, variables: int, *, most_terms: int = 100) -> list[int]:
        """Degrees to try: the first, and others of few terms.

        `most_terms`: terms of the latent coordinates beyond which a degree is not tried by
        default.
        """
        lowest, *higher = self.DEGREES
        few = [d for d in higher if math.comb(variables + d, d) <= most_terms]
        return [lowest, *few]

    def warn_if_useless(
        self, law: Equation, samples: LatentSamples, judge: Judge | None = None
    ) -> None:
        super().warn_if_useless(law, samples, judge)
        # the terms of a sparse law are read, and not its forecasts alone
        warn_if_undetermined(type(self).__name__, law, samples)

    def compared(self, samples: LatentSamples, seed: int) -> Equation:
        law = self._fit(samples, seed)
        # what only makes up for the bias of differentiation would win otherwise, and then be refined
        return integrated(law, samples) if self.refine else law

    def _unexplained(self, law: Equation, samples: LatentSamples) -> Tensor:
        if _uses_weak_form(self, samples):
            return law.residual.square()  # of windows, whatever the rates of the samples
        return unexplained_share(law.residual, samples.complete().targets.double())

    def _basis(self, samples: LatentSamples) -> Features:
        library = self.library
        context_library = self.context_library
        if library is None:
            library = Polynomial(self.degree)
        if context_library is None:
            context_library = Polynomial(self.context_degree)
        return Features.build(samples, library, context_library)


@validated
@dataclass(frozen=True)
class SINDy(Sparse):
    """Settings of a fit; `fit` returns the equation. Candidate terms are products of latent and
    context terms.

    Minimises ‖ż - Θ(z, c) ξ‖² + α ‖ξ‖², dropping coefficients below the threshold until the support
    settles, and then fits the others without α. With a threshold, support and coefficients are
    those of pysindy's STLSQ, but for coefficients that are below the threshold without α, which go
    too. Trajectories with noise are fitted in weak form, as by `WeakSINDy`: rates by
    differentiation are biased.

    Args:
        degree: of the polynomials in the latent coordinates (and their rates, for second order); by
            default chosen from `DEGREES` by rollouts of held-out trajectories, and 3 for samples
            that are no trajectories.
        threshold: smallest coefficient that stays, as pysindy's: per unit of time of the data, as
            rates are, so that in milliseconds it is a thousandth of what it is in seconds. In place
            of `share`.
        share: smallest size of a term that stays, relative to its rate (norms over the samples),
            whatever the units; the largest term always stays. By default chosen from `SHARES`, as
            the degree; 0.01 without trajectories.
        alpha: ridge penalty α on the coefficients; sums over samples are not normalised, so it
            weakens with N. None in weak form.
        context_degree: of the polynomials in the context.
        library: candidate terms in place of the polynomials in the latent coordinates.
        context_library: candidate terms in place of the polynomials in the context.
        normalize_columns: whether α and threshold act on terms divided by their norm over the
            samples.
        unbias: whether the coefficients that stay are fitted again without α.
        max_iter: most rounds of thresholding.
        refine: whether `fit` refines the coefficients along the trajectories.

    `fit(projection, data)` scales the latents; `fit_samples` takes samples as they are. `residual`
    of the result says what each equation leaves of its rate.

    Source: Brunton, Proctor, Kutz (2016); context as a parameter: section "parametric" there, and
    Champion et al. (2019) for latent spaces.

    Example:
        >>> import torch
        >>> from romkit.laws import SINDy
        >>> t = torch.linspace(0, 6, 100, dtype=torch.float64)
        >>> z, rate = torch.stack([t.cos(), t.sin()], dim=-1), torch.stack([-t.sin(), t.cos()], dim=-1)
        >>> SINDy(degree=1, threshold=0.1).fit_samples(z, rate).equations()
        ["z0' = -1.000 z1", "z1' = 1.000 z0"]
    """

    degree: Natural | None = None
    threshold: NotNegative | None = None
    share: NotNegative | None = None
    alpha: NotNegative = 0.05
    context_degree: Natural = 1
    library: Library | None = None
    context_library: Library | None = None
    normalize_columns: bool = False
    unbias: bool = True
    max_iter: Count = 20
    refine: bool = True

    SHARES: ClassVar[tuple[float, ...]] = (0.01, 0.0, 0.1)

    def _shares(self, samples: LatentSamples) -> Sequence[float]:
        # in weak form the data say which terms they know
        return () if _are_noisy(samples) else self.SHARES

    def _fit(self, samples: LatentSamples, seed: int) -> Equation:
        basis = self._basis(samples)
        design = design_of(samples, basis)  # refuses too few samples
        if _are_noisy(samples):
            law = self._weak(samples)
            if law is not None:
                return law
        strong = self
        if self.threshold is None and self.share is None:
            strong = replace(self, share=0.0)
        fit = regress(design, gram(design, 0, design.targets.shape[1]), strong)
        return equation(type(self).__name__, samples, basis, fit)

    def _weak(self, samples: LatentSamples) -> Equation | None:
        """Equation in weak form; None for trajectories that are too short for it."""
        weak = WeakSINDy(
            degree=self.degree,
            threshold=self.threshold,
            share=self.share,
            context_degree=self.context_degree,
            library=self.library,
            context_library=self.context_library,
        )
        try:
            fit = weak_fit(samples, self._basis(samples), weak)
        except InputError:
            return None
        return equation("SINDy in weak form", samples, self._basis(samples), fit)


def _uses_weak_form(estimator: Sparse, samples: LatentSamples) -> bool:
    return isinstance(estimator, WeakSINDy) or _are_noisy(samples)


def _are_noisy(samples: LatentSamples) -> bool:
    """Tell whether samples are trajectories of first order whose states have noise."""
    if samples.times is None or samples.order != 1:
        return False
    (paths,) = samples.paths(samples.latents.double())  # (S, C, T, m)
    return any(is_noisy(path) for path in paths)


@validated
@dataclass(frozen=True)
class WeakSINDy(Sparse):
    """Settings of a fit for noisy data; `fit` returns the equation. Rates of the data are not used.

    Integration by parts over windows of time, with a test function φ that vanishes at their ends,
    makes of ż = g(z, c)

        - ∫ φ' z dt - ∫ φ d dt = Σₖ ξₖ ∫ φ θₖ(z, c) dt,        φ = (1 - s²)^p,  s in [-1, 1],

    with the drift d of a context that moves (see `LatentSamples`): one equation for each window.
    Windows overlap, and noise enters both sides, so rows are weighted by the covariance that the
    noise of the samples gives them, by turns with ξ. Terms that the data do not tell from zero go,
    the one that matters least first. Samples need not be evenly spaced, and windows in which one is
    missing are left out. In second order, ż of the samples takes the place of z on the left.

    Args:
        degree: of the polynomials in the latent coordinates; by default chosen as for `SINDy`.
        threshold: smallest coefficient that stays, per unit of time of the data.
        share: smallest size of a term that stays, relative to its rate, in place of `threshold`. By
            default terms stay that differ from zero by five standard errors, and matter by a
            thousandth of the rate.
        context_degree: of the polynomials in the context.
        library: candidate terms in place of the polynomials in the latent coordinates.
        context_library: candidate terms in place of the polynomials in the context.
        windows: most of them for each trajectory, evenly spread; they overlap.
        width: length of a window, in the time unit of the data; by default twice the time in which
            the latent state moves by one standard deviation, at most a quarter of a trajectory.
        smoothness: p.
        refine: whether `fit` refines the coefficients along the trajectories.

    Samples have to be whole trajectories, with their times.

    Source: Messenger, Bortz (2021), Weak SINDy; Bortz, Messenger, Dukic (2023), WENDy, for the
    weights; Reinbold, Gurevich, Grigoriev (2020).

    Example:
        >>> import torch
        >>> from romkit.laws import WeakSINDy
        >>> t = torch.linspace(0, 12, 601, dtype=torch.float64)
        >>> z = torch.stack([t.cos(), t.sin()], dim=-1)[None]
        >>> unseen = torch.zeros_like(z)  # rates are not looked at
        >>> law = WeakSINDy(degree=1, windows=50).fit_samples(z, unseen, times=t)
        >>> law.predict(torch.tensor([1.0, 0.0], dtype=torch.float64)).round(decimals=2) + 0.0
        tensor([0., 1.], dtype=torch.float64)
    """

    degree: Natural | None = None
    threshold: NotNegative | None = None
    share: NotNegative | None = None
    context_degree: Natural = 1
    library: Library | None = None
    context_library: Library | None = None
    windows: Count = 200
    width: Positive | None = None
    smoothness: Count = 4
    refine: bool = True

    def _fit(self, samples: LatentSamples, seed: int) -> Equation:
        basis = self._basis(samples)
        return equation(type(self).__name__, samples, basis, weak_fit(samples, basis, self))
