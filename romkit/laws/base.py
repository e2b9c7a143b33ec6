"""Estimators of laws: one `fit`, and settings that are selected by held-out rollouts."""

import abc
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, cast

import xarray as xr
from torch import Tensor

from romkit.core import checks, tensors
from romkit.core.boundary import Seed, validated
from romkit.core.errors import InputError
from romkit.engine import Device
from romkit.integrators.base import LearnedField
from romkit.integrators.region import Region
from romkit.laws import sources, useless
from romkit.laws.choice import LawCandidate, Space, describe_settings, fitted
from romkit.laws.decoding import make_judge
from romkit.laws.folds import folds_of
from romkit.laws.judge import Judge
from romkit.laws.phase import add_phase
from romkit.laws.refine import refined
from romkit.laws.samples import LatentSamples, trajectory_times
from romkit.laws.sources import ProjectionFamily, followed_samples, placed
from romkit.select import Policy, Trial, preferred, search


class Estimator(abc.ABC):
    """Settings of a fit; `fit` returns the law, which `romkit.rollout`, `follow` and `forecast`
    take as dynamics.

    A subclass is a frozen dataclass of settings and implements `_fit`. All other methods have a
    default, which it overrides where it has settings to choose from, or a faster way.

    Example:
        >>> import romkit
        >>> from romkit.laws import LAWS, Estimator
        >>> all(issubclass(law, Estimator) for law in LAWS.values())
        True
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.15, 3.18])
        >>> law = LAWS["dmd"]().fit(romkit.fit("pod", data, latent_dim=2), data)
        >>> law.latent_dim, law.context_names
        (2, ('F',))
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    refine: bool = False
    """Whether `fit` refines the coefficients of an equation along the trajectories."""

    @validated
    def fit(
        self,
        projection: ProjectionFamily,
        data: xr.Dataset,
        *,
        seed: Seed = 0,
        select: Mapping[str, Sequence[object]] | None = None,
        device: Device | None = None,
    ) -> LearnedField:
        """Fit a law of a projection on a dataset; of second order where the dataset has a variable
        `acceleration`.

        Args:
            projection: trained on such data; a stack of seeds gives a stack of laws.
            data: in romkit's schema; without `velocity`, rates come from differentiation in time,
                and `source` of the law says so.
            seed: of all random numbers in the fit, the same for all laws of a stack.
            select: settings to choose by forecasts of runs that are left out, and the values to
                choose from: `{"threshold": (0.01, 0.03, 0.1), "degree": (2, 3)}`. Whole contexts
                are left out in five folds at most, of a single run blocks of time, and the law is
                then fitted to all. Settings that an estimator leaves open (None) are chosen
                likewise, and with them the window of the differentiation. `source` of the law says
                which were taken.
            device: "cpu" or "cuda", where to fit, by default where the projection is. The law is
                returned on the CPU.

        Raises:
            InputError: data of another shape than the projection's, or times that cannot be used.
        """
        projection = placed(projection, device)
        family, shapes = projection.law_space(data)
        samples = self.choices(family, shapes)
        judge = None
        if samples[0].times is not None:
            judge = make_judge(family, shapes, samples[0])
        shape = self._chosen(samples, judge, seed, select)
        if self.refine and judge is not None:
            shape = refined(shape, samples[0], judge)
        self.warn_if_useless(shape, samples[0], judge)
        return tensors.copy_to_device(add_phase(shape, projection, data), "cpu")

    @classmethod
    def choices(cls, projection: ProjectionFamily, data: xr.Dataset) -> list[LatentSamples]:
        """Scaled samples to choose from: of two windows of differentiation, where the data have no
        velocities.
        """
        if "velocity" in data:
            shapes = [cls.samples(projection, data)]
        else:
            shapes = sources.windows(projection, data)
        return [samples.scaled() for samples in shapes]

    @staticmethod
    @validated
    def samples(projection: ProjectionFamily, data: xr.Dataset) -> LatentSamples:
        """Return samples that `fit` fits to, before they are scaled, with the window that predicts
        left-out latents best.
        """
        if "velocity" in data:
            return sources.encoded_samples(projection, data)
        return sources.differentiated_samples(projection, data)

    def candidates(self, samples: LatentSamples) -> "Sequence[Estimator]":
        """Return these settings, once with each value of those that they leave open; the first
        where nothing can choose.
        """
        return [self]

    def neighbours(self, samples: LatentSamples) -> "Sequence[Estimator]":
        """List further settings to try where these are the best."""
        return []

    def affordable(self, samples: LatentSamples, seconds: float) -> "Sequence[Estimator]":
        """List candidates that can be fitted within some seconds of the processor."""
        return self.candidates(samples)

    @validated
    def fit_samples(
        self,
        samples: object,
        zdot: object = None,
        context: object = None,
        *,
        seed: Seed = 0,
        select: Mapping[str, Sequence[object]] | None = None,
        **labels: object,
    ) -> LearnedField:
        """Fit a law of samples, which are taken as they are: scale them by `LatentSamples.scaled`.

        Args:
            samples: `LatentSamples`; or z, with `zdot`, `context` and labels as in
                `LatentSamples.first_order`.
            zdot: ż where z is given.
            context: of each z.
            seed: as in `fit`.
            select: as in `fit`.
            **labels: `names`, `parameters`, `times`, `source`.

        Raises:
            InputError: shapes that do not match, values that are not finite, or too few samples.
        """
        if isinstance(samples, LatentSamples):
            _refuse_sample_options(labels | {"zdot": zdot, "context": context})
        else:
            samples = LatentSamples.first_order(samples, zdot, context, **labels)
        judge = None if samples.times is None else Judge.compare_latents(samples)
        law = self._chosen([samples], judge, seed, select)
        self.warn_if_useless(law, samples, judge)
        return law

    def warn_if_useless(
        self, law: LearnedField, samples: LatentSamples, judge: Judge | None = None
    ) -> None:
        """Warn once (`FitWarning`) where a law explains too little of the rates of its samples, or
        forecasts the trajectories of a judge no better than rest.
        """
        share = self._unexplained(law, samples)
        if share is None:
            return
        unexplained = float(share.max())
        error = None
        # forecasts of a law that explains all rates may fail by chaos, which is no fault of it
        if judge is not None and unexplained > useless.DOUBTFUL:
            error = float(judge.errors(law, judge.runs).nanmean())
        useless.warn_if_useless(type(self).__name__, unexplained=unexplained, error=error)

    def _unexplained(self, law: LearnedField, samples: LatentSamples) -> Tensor | None:
        """Return share (..., m) of the variance of each rate that a law leaves; None where rates do
        not tell.
        """
        return useless.unexplained(law, samples)

    def _chosen(
        self,
        several: Sequence[LatentSamples],
        judge: Judge | None,
        seed: int,
        select: Mapping[str, Sequence[object]] | None,
    ) -> LearnedField:
        """Fit the law with the settings and the samples, of the same states, that forecast best."""
        settings = self._settings(several[0], select or {})
        nothing_to_choose = not select and (len(settings) == 1 or judge is None)
        if nothing_to_choose:
            law = settings[0]._fit(several[0], seed)
            return replace(law, domain=Region.fit(several[0].latents, several[0].times))
        if judge is None:
            trajectory_times(several[0])  # refuses single samples
        policy = Policy()
        trials = _tried(settings, several, judge, seed, policy)
        best = fitted(preferred(trials, policy), policy)
        if best is None:
            # says what is wrong, where it cannot be fitted
            settings[0].fit_samples(several[0], seed=seed)
            expected = "a candidate whose rollouts stay near the data"
            got = f"{len(trials)} that are lost from the start"
            fix = "widen the grid, or take another kind of law"
            raise InputError("select", expected=expected, got=got, fix=fix)
        law, trial = best
        estimator = cast("LawCandidate", trial.candidate).estimator
        chosen = f"{describe_settings(estimator)} chosen out of {len(trials)}"
        how = f"by forecasts of runs that were left out (error {trial.error(policy):.2g})"
        return replace(law, source=f"{law.source}; {chosen} {how}")

    def _settings(
        self, samples: LatentSamples, select: Mapping[str, Sequence[object]]
    ) -> "Sequence[Estimator]":
        """Return settings to choose from: the grid of `select`, and values of what is left open."""
        for name in select:
            checks.one_of("select", name, [field.name for field in fields(self)])
        settings = []
        for values in itertools.product(*select.values()):
            chosen = replace(self, **dict(zip(select, values, strict=True)))
            settings += chosen.candidates(samples)
        return settings

    def compared(self, samples: LatentSamples, seed: int) -> LearnedField:
        """Fit a law that is good enough to be compared with others, before the best is fitted."""
        return self._fit(samples, seed)

    def refitted(
        self, law: LearnedField, samples: LatentSamples, seed: int, *, resampled: bool = False
    ) -> LearnedField:
        """Fit a law of these samples, which may begin from a law of some of them, or, where they
        are resampled, from a law of all that they were drawn from.
        """
        law = self._fit(samples, seed)
        return replace(law, domain=Region.fit(samples.latents, samples.times))

    @abc.abstractmethod
    def _fit(self, samples: LatentSamples, seed: int) -> LearnedField: ...


def _refuse_sample_options(values: Mapping[str, object]) -> None:
    """Raise where something comes beside samples that have all of it.

    Raises:
        InputError: a value that is not None.
    """
    names = [name for name, value in values.items() if value is not None]
    if names:
        fix = "drop it: LatentSamples have their own"
        expected = "nothing beside samples"
        raise InputError(", ".join(names), expected=expected, got="a value", fix=fix)


def _tried(
    settings: "Sequence[Estimator]",
    several: Sequence[LatentSamples],
    judge: Judge,
    seed: int,
    policy: Policy,
) -> list[Trial]:
    """Try settings on samples of the same states by different differentiation."""
    folds = folds_of(several[0])
    candidates = []
    for number, samples in enumerate(several):
        space = Space(samples, judge)
        label = "" if number == 0 else "smoother rates, "
        for estimator in settings:
            candidate = LawCandidate(estimator, lambda fold, space=space: space, folds, seed, label)
            candidates.append(candidate)
    return search([candidates], len(folds), policy)


class TrajectoryEstimator(Estimator):
    """Settings of a law that follows trajectories, and needs no rates of the data."""

    @classmethod
    def choices(cls, projection: ProjectionFamily, data: xr.Dataset) -> list[LatentSamples]:
        """Return the encoded data, whose rates do not matter."""
        return [cls.samples(projection, data)]

    @staticmethod
    def samples(projection: ProjectionFamily, data: xr.Dataset) -> LatentSamples:
        return followed_samples(projection, data)
