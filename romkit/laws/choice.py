"""Choice of the settings of a law by forecasts of runs that are left out."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from romkit.core import runtime
from romkit.core.errors import FitWarning, InputError
from romkit.core.types import Array
from romkit.integrators.base import LearnedField
from romkit.integrators.region import Region
from romkit.laws.folds import Fold, drop_runs
from romkit.laws.judge import Judge
from romkit.laws.samples import LatentSamples
from romkit.laws.shooting import POLISHED
from romkit.numerics import LOST
from romkit.select import Policy, Trial

ALL = -1
"""Number of the fold that leaves nothing out."""


class Settings(Protocol):
    """Settings of a law, a dataclass: an `Estimator`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def refine(self) -> bool:
        """Tell whether the coefficients of an equation are refined along the trajectories."""
        ...

    def neighbours(self, samples: LatentSamples) -> "Sequence[Settings]":
        """List further settings to try where these are the best."""

    def compared(self, samples: LatentSamples, seed: int) -> LearnedField:
        """Fit a law that is good enough to be compared with others."""

    def refitted(self, law: LearnedField, samples: LatentSamples, seed: int) -> LearnedField:
        """Fit a law of these samples, which may begin from a law of almost the same ones."""


class Space(NamedTuple):
    """Latent samples of all runs, and the judge of forecasts of their states."""

    samples: LatentSamples
    judge: Judge


@dataclass(eq=False)
class LawCandidate:
    """Settings of a law, tried on folds of runs.

    Attributes:
        estimator: the settings.
        space: latent samples of all runs by the projection of a fold.
        folds: numbers (k,) of the runs that each fold leaves out, of a single run those of its samples.
        seed: of the fits.
        label: of the projection or the samples, in words.
        laws: of the folds that it was tried on, good enough to be compared.
        fits: the same, fitted to whole trajectories.
        refusal: why it could not be fitted to a fold; None where it could.
    """

    estimator: Settings
    space: Callable[[int], Space]
    folds: Sequence[Tensor]
    seed: int = 0
    label: str = ""
    laws: dict[int, LearnedField] = field(default_factory=dict)
    fits: dict[int, LearnedField] = field(default_factory=dict)
    refusal: InputError | None = None

    @property
    def name(self) -> str:
        """Settings in words."""
        return f"{self.label}{describe_settings(self.estimator)}"

    @property
    def complexity(self) -> int:
        """Number of coefficients of the law."""
        return max((law.coefficient_count for law in self.laws.values()), default=0)

    def errors(self, fold: int) -> Array:
        """Fit to the runs that a fold keeps, and forecast the others: errors (k,)."""
        _, judge, rows = self._division(fold)
        try:
            law = self._compared(fold)
        except InputError as error:  # more terms than samples, say
            self.refusal = error
            return np.full(len(rows), np.inf)
        return _errors(law, [judge], rows)

    def segment_errors(self, fold: int) -> Array:
        """Forecast segments of the runs that a fold leaves out: errors (k,)."""
        _, judge, rows = self._division(fold)
        if fold not in self.laws:  # it could not be fitted
            return np.full(len(rows), np.inf)
        return _errors(self.laws[fold], judge.pieces(), rows)

    def fit(self, fold: int) -> LearnedField:
        """Fit to whole trajectories of the runs that a fold keeps; of all runs for the fold `ALL`.

        Of the processor time that is left each fold has an equal share; where none is left, the law
        stays that was compared.
        """
        if fold not in self.fits:
            train, _ = self.kept(fold)
            law = self._polished(fold, train)
            if law.domain is None:
                law = replace(law, domain=Region.fit(train.latents, train.times))
            self.fits[fold] = law
        return self.fits[fold]

    def _polished(self, fold: int, train: LatentSamples) -> LearnedField:
        """Fit to whole trajectories, from the law that was compared."""
        near = self._compared(fold)
        missing = 1 + len(self.folds) - len(self.fits)
        share = max(runtime.left(), 0.0) / max(missing, 1)
        if share == 0.0:
            return near
        with warnings.catch_warnings(), runtime.limit_seconds(share):
            warnings.simplefilter("ignore", FitWarning)
            polished = self.estimator.refitted(near, train, self.seed)
        return self._closer(polished, near, fold)

    def _closer(self, whole: LearnedField, near: LearnedField, fold: int) -> LearnedField:
        """Return the law of whole trajectories, or the one before it where that follows the runs
        that a fold keeps better: long windows may end in a poorer minimum.
        """
        judge = self.space(fold).judge
        if len(judge.states) == 1 and fold != ALL:  # of which a block of time is left out
            return whole
        return whole if self.is_as_good(whole, near, fold) else near

    def is_as_good(self, law: LearnedField, other: LearnedField, fold: int = ALL) -> bool:
        """Tell whether rollouts of a law follow the runs that a fold keeps as well as another's."""
        judge = self.space(fold).judge
        _, rows = self.kept(fold)
        policy = Policy()
        # by short steps: a law that was fitted with long ones makes up for the error of these
        errors, of_other = (
            policy.logarithms(_errors(each, [judge], rows, POLISHED)) for each in (law, other)
        )
        return policy.is_as_good(errors, of_other)

    def kept(self, fold: int) -> tuple[LatentSamples, Tensor]:
        """Select the samples that a fold keeps, and the numbers of their runs."""
        train, judge, held = self._division(fold)
        if len(judge.runs) == 1:  # which keeps all but a block of time
            return train, judge.runs
        return train, judge.runs[~torch.isin(judge.runs, held)]

    def _division(self, fold: int) -> Fold:
        """Divide the samples into those that a fold keeps, and those that it judges by."""
        samples, judge = self.space(fold)
        if fold == ALL:
            return Fold(samples, judge, torch.empty(0, dtype=torch.long))
        return drop_runs(samples, judge, self.folds[fold])

    def _compared(self, fold: int) -> LearnedField:
        """Fit well enough to be compared, once for each fold."""
        if fold not in self.laws:
            train, _ = self.kept(fold)
            with warnings.catch_warnings():  # of the law that is returned, once, by who returns it
                warnings.simplefilter("ignore", FitWarning)
                self.laws[fold] = self.estimator.compared(train, self.seed)
        return self.laws[fold]

    def neighbours(self) -> "Sequence[LawCandidate]":
        """List laws with further settings on the same latents."""
        samples, _ = self.space(ALL)
        neighbours = self.estimator.neighbours(samples)
        return [LawCandidate(e, self.space, self.folds, self.seed, self.label) for e in neighbours]


def _errors(
    law: LearnedField, judges: Sequence[Judge], rows: Tensor, resolution: float = 0.0
) -> Array:
    """Return mean errors (k,) of forecasts of runs over several judges, by so many steps in a time
    scale at least; of a stack, over its problems.
    """
    errors = torch.stack(
        [judge.errors(law, rows, max(resolution, judge.finest)) for judge in judges]
    )
    return errors.flatten(0, -2).nanmean(0).numpy(force=True)


def fitted(
    trials: Sequence[Trial], policy: Policy, *, nearly: float = 0.9
) -> tuple[LearnedField, Trial] | None:
    """Fit the first of some candidates, in their order, whose law stays near the data.

    A law whose rollouts leave the data when they go on for longer, or from displaced starts, is
    passed over where another one that is as good stays; None where all are lost.

    `nearly`: share of the largest error from which on all rollouts are lost: their first
    samples are exact.
    """
    best: tuple[LearnedField, Trial] | None = None
    limit = np.inf
    most = max(len(trial.errors) for trial in trials)
    for trial in trials:
        if best is not None and len(trial.errors) < most:
            break  # errors on other folds are not comparable
        candidate = cast("LawCandidate", trial.candidate)  # of a search among laws
        error = trial.error(policy, trial.horizon)
        if error > limit or not candidate.laws:  # none could be fitted
            continue
        law = candidate.fit(ALL)
        _, judge = candidate.space(ALL)
        if judge.stays(law, judge.runs):
            return law, trial
        if best is None and _follows(law, judge, nearly * LOST):
            best = law, trial
            limit = policy.race * error
    return best


def _follows(law: LearnedField, judge: Judge, limit: float) -> bool:
    """Tell whether rollouts of a law err by less than a limit, or stay near the data."""
    error = float(judge.errors(law, judge.runs).nanmean())
    # where even the projection is that far away, its error is none of the law's
    if error < limit or error <= judge.projected(judge.runs):
        return True
    return judge.stays(law, judge.runs, displaced=False)


def describe_settings(estimator: Settings) -> str:
    """Write settings that differ from the defaults as one writes them."""
    words = []
    for setting in fields(estimator):
        value = getattr(estimator, setting.name)
        if value != setting.default:
            words.append(f"{setting.name}={_short(value)}")
    return f"{type(estimator).__name__}({', '.join(words)})"


def _short(value: object) -> str:
    """Write a setting in a few digits."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))})"
    if isinstance(value, float):
        return f"{value:.3g}"
    return repr(value)
