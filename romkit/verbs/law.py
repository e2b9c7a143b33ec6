"""`romkit.law`: from a projection and data to the latent dynamics that forecast best."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

import torch
import xarray as xr
from annotated_types import MinLen
from torch import Tensor

from romkit.core import checks
from romkit.core.boundary import Part, Seconds, Seed, validated
from romkit.core.errors import FitWarning, InputError, warn
from romkit.data import check_states
from romkit.integrators import LearnedField
from romkit.laws import LAWS, Estimator
from romkit.laws.baselines import mean_error, nearest_and_shifted
from romkit.laws.choice import (
    HELD_OUT,
    Ranked,
    confirmed,
    error_in_pieces,
    fitted,
    preferred,
    ranked,
)
from romkit.laws.decoding import judge_of
from romkit.laws.folds import fold, folds
from romkit.laws.judge import Judge
from romkit.laws.noise import is_map
from romkit.laws.phase import with_phase
from romkit.laws.refine import refined
from romkit.laws.samples import LatentSamples, one_axis
from romkit.laws.sources import ProjectionFamily
from romkit.laws.useless import USEFUL, warn_if_useless

KINDS = ("polynomial", "limit-cycle", "neural-ode")
"""Laws that are tried by default: polynomials, and the others where none before is good enough."""

GOOD, SMALL = 5.0, 0.005
"""Error, relative to the projection's or in deviations of the data, up to which no network is tried
by default."""

POOR = 0.1
"""Error of a law [deviations of the data] from which on it warns where the projection is better."""

HOPELESS = 3.0, 1.0
"""Errors of laws of a first and of a second short training, relative to the best law's, from which on
a longer one is left out."""

FIX = "another latent_dim (motion on a torus needs more), more contexts, or longer runs"
"""Advice where no law is as good as the projection."""

EACH = 0.5
"""Largest share of the time that is spent on the choice of settings of one kind."""


@validated
def law(
    projection: ProjectionFamily,
    data: xr.Dataset,
    *,
    seconds: Seconds = 120.0,
    kinds: Annotated[Sequence[str | Estimator], MinLen(1)] | None = None,
    validation: Part = HELD_OUT,
    seed: Seed = 0,
) -> LearnedField:
    """Fit latent dynamics to data: the kind, with the settings, that forecasts held-out contexts
    best.

    By default polynomials of a few degrees in the latents and in the context are fitted to
    trajectories by multiple shooting. Where the best of them errs by more than five times the
    projection's error, closed orbits are tried, and then a neural ODE, which trains for a sixteenth
    of its steps or fewer where it is then no better than the best of them. Each is fitted to a part of
    the contexts, and forecasts the others: contexts between those of training, or of a single
    trajectory its last part; of five contexts or fewer each inner one is held out in turn, and
    forecast in pieces of some periods. Errors are those of decoded states. Of laws whose error is
    at most 1.2 times the least one the simplest is taken: that with the fewest coefficients, and of
    these the most accurate. It is then fitted to all trajectories. Its rollouts stay near the data
    for ten times their length, also from displaced starts, or another law is taken; where displaced
    rollouts of all laws are lost, the best one whose other rollouts stay.

    A law knows states that data come near. A fixed point inside a limit cycle, and its growth rate,
    are extrapolated unless some runs start beside it.

    Args:
        projection: trained on such data; a stack of seeds gives a stack of laws.
        data: in romkit's schema. Times may be uneven, and states may be missing.
        seconds: of the processor, about how long it may take. Settings are tried as far as there is
            time, and a neural ODE trains for fewer steps, or is left out. The result is the same
            wherever there is time for all.
        kinds: names of `LAWS`, or their settings, `SINDy(degree=2)`; those that are left open are
            chosen. Kinds that cannot be fitted to such data are left out.
        validation: share of the contexts that is held out.
        seed: of all random numbers.

    Returns:
        The law, for `dynamics=` of `romkit.rollout` and `romkit.forecast`. Its `report` has a row
        for each kind, the best first (`pandas.DataFrame(law.report)`): its name `law`, the `error`
        on held-out contexts in standard deviations of the state's components (infinite if all
        rollouts are lost, NaN if it was not tried), `settings`, how many were `tried`, `seconds` of
        the processor, and whether it was `chosen`: nearly always the first, but not if another one
        of nearly the same error has fewer coefficients, or if its fit to all trajectories leaves
        the data.

    Raises:
        InputError: an unknown kind, data of another shape than the projection's, kinds that all
            cannot be fitted to such data, or rollouts that are all lost.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.15, 3.16, 3.18])
        >>> pod = romkit.fit("pod", data, latent_dim=2)
        >>> law = romkit.law(pod, data, kinds=["sindy", "dmd"])
        >>> sorted(row["law"] for row in law.report)
        ['dmd', 'sindy']
        >>> romkit.rollout(data, pod, dynamics=law).rom.dims
        ('trajectory', 'time', 'component')
    """
    check_states(data)
    comparison = Comparison(*projection.for_law(data), validation, seed, seconds)
    if kinds is None:
        comparison.add(*map(settings_of, KINDS))
    else:
        for kind in kinds:
            comparison.add(settings_of(kind))
    return with_phase(comparison.chosen(), projection, data)


def settings_of(kind: str | Estimator) -> Estimator:
    """Settings of a law that is given by its name or by them."""
    if isinstance(kind, Estimator):
        return kind
    name = checks.one_of("kinds", kind, LAWS)
    return LAWS[name]()


def _name(estimator: Estimator) -> str:
    """Name of a kind of laws."""
    names = {kind: name for name, kind in LAWS.items()}
    return names.get(type(estimator), type(estimator).__name__)


def _in_words(estimator: Estimator) -> str:
    """Settings that differ from the defaults, as one writes them."""
    several = []
    for setting in fields(estimator):
        value = getattr(estimator, setting.name)
        if value != setting.default:
            several.append(f"{setting.name}={value!r}")
    return f"{type(estimator).__name__}({', '.join(several)})"


@dataclass
class Comparison:
    """Kinds of laws beside each other.

    Attributes:
        projection, data: whose latent motion a law describes.
        validation: share of the contexts that is held out.
        seed: of the fits.
        seconds: of the processor, for all kinds.
        judge: of the trajectories; None before the first kind.
        ranking: settings of all kinds that have a law.
        rows: of the report.
        estimators: rows with the settings that they are of.
        refused: why kinds were left out.
        taken: settings of the law that was chosen; others than the best ones, where their law is
            lost when it is fitted to all trajectories. None before.
    """

    projection: ProjectionFamily
    data: xr.Dataset
    validation: float
    seed: int
    seconds: float
    judge: Judge | None = None
    ranking: list[Ranked] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    estimators: list[tuple[dict[str, Any], list[Estimator]]] = field(default_factory=list)
    refused: list[InputError] = field(default_factory=list)
    begun: float = field(default_factory=time.process_time)
    taken: Ranked | None = None

    @property
    def best(self) -> Ranked | None:
        """Settings that forecast held-out contexts best, as `preferred` has it."""
        return next(iter(preferred(self.ranking)), None)

    @property
    def settings(self) -> Estimator:
        """Settings of the law that was chosen."""
        return self.taken.estimator

    @property
    def error(self) -> float:
        """Error of these settings, infinite before a law was chosen."""
        return math.inf if self.taken is None else self.taken.error

    @property
    def good(self) -> bool:
        """Whether the best law is about as good as the projection."""
        best = self.best
        return best is not None and best.error <= max(GOOD * best.projected, SMALL)

    @property
    def good_in_pieces(self) -> bool:
        """Whether the best law is about as good as the projection in pieces of the runs."""
        best = self.best
        return best is not None and self.in_pieces(best) <= max(GOOD * best.projected, SMALL)

    def confirmed(self) -> Ranked | None:
        """The best settings with their error over twice as many held-out contexts; None for none."""
        best = self.best
        if best is None:
            return None
        return confirmed(best, self.judge, self.validation, self.seed)

    def in_pieces(self, settings: Ranked | None) -> float:
        """Error of settings in pieces of held-out runs, some periods each; infinite for none."""
        if settings is None:
            return math.inf
        return error_in_pieces(settings, self.judge, self.validation)

    def add(self, estimator: Estimator, *instead: Estimator) -> None:
        """Try a kind, and others as long as no law is about as good as the projection."""
        self._try(estimator)
        for alternative in instead:
            if self.good:
                self.leave_out(alternative, "not needed")
            else:
                self._try(alternative)

    def _try(self, estimator: Estimator) -> None:
        """Rank the settings of a kind, where it can be fitted to such data."""
        started = time.process_time()
        remaining = self.seconds - (started - self.begun)
        try:
            several = estimator.choices(self.projection, self.data)
            if self.judge is None:
                self.judge = judge_of(self.projection, self.data, several[0])
            ranking: list[Ranked] = []
            if remaining > 0:
                ranking = self._far_behind(estimator, several[0])
            if not ranking:
                # the best is fitted again, to all trajectories
                candidates = estimator.affordable(several, remaining / 2)
                ranking = self._by_forecasts(candidates)
                self.ranking += [tried for tried in ranking if math.isfinite(tried.error)]
        except InputError as error:
            self.refused.append(error)
            self.leave_out(estimator, f"cannot be fitted: {error}")
            return
        if not ranking:
            self.leave_out(estimator, "no time for it")
            return
        row = {"law": _name(estimator), "error": ranking[0].error}
        row |= {"settings": _in_words(ranking[0].estimator), "tried": len(ranking)}
        self.rows.append(row | {"seconds": time.process_time() - started, "chosen": False})
        self.estimators.append((self.rows[-1], [each.estimator for each in ranking]))

    def _far_behind(self, estimator: Estimator, samples: LatentSamples) -> list[Ranked]:
        """Settings of a short training that leaves a kind far behind the best law, so that a long
        one is left out; none where it does not, or the kind has none.
        """
        best = self.best
        if best is None:
            return []
        for brief, limit in zip(estimator.brief(), HOPELESS, strict=False):
            ranking = self._by_forecasts([(brief, samples)])
            # where it cannot be fitted, a long training says why
            if not ranking or ranking[0].law is None:
                return []
            if not ranking[0].error < limit * best.error:
                return ranking
        return []

    def _by_forecasts(self, candidates: list[tuple[Estimator, LatentSamples]]) -> list[Ranked]:
        share = EACH * self.seconds
        return ranked(candidates, self.judge, self.validation, self.seed, share)

    def _row_of(self, estimator: Estimator) -> dict[str, Any]:
        """Row of the report that settings are of: several may be of one kind."""
        for row, estimators in self.estimators:
            if any(each is estimator for each in estimators):
                return row
        return next(row for row in self.rows if row["law"] == _name(estimator))

    def leave_out(self, estimator: Estimator, why: str) -> None:
        row = {"law": _name(estimator), "error": math.nan, "settings": why, "tried": 0}
        self.rows.append(row | {"seconds": 0.0, "chosen": False})

    def chosen(self) -> LearnedField:
        """The best law, fitted to all trajectories, with the report.

        Raises:
            InputError: no kind can be fitted, or all are lost.
        """
        if len(self.refused) == len(self.rows):
            raise self.refused[0]
        best = None
        if self.judge is not None:
            best = fitted(preferred(self.ranking), self.judge, self.seed)
        names = ", ".join(row["law"] for row in self.rows)
        if best is None:
            expected = "a law whose rollouts stay near the data"
            fix = "train the projection longer, give more trajectories, or more seconds"
            raise InputError("data", expected=expected, got=f"{names}, all lost", fix=fix)
        law, how = best
        if how.estimator.refine:
            law = refined(law, how.samples, self.judge)
        self.taken = how
        self._warn_if_useless(law, how)
        row = self._row_of(how.estimator)
        for each in self.rows:
            each["chosen"] = False
        row |= {"error": how.error, "settings": _in_words(how.estimator), "chosen": True}
        report = sorted(self.rows, key=lambda row: (row["tried"] == 0, row["error"]))
        source = f"{law.source}; the best of {names} by forecasts of held-out contexts"
        return replace(law, source=source, report=report)

    def _warn_if_useless(self, law: LearnedField, how: Ranked) -> None:
        """Warn once where the law forecasts held-out contexts no better than what needs no law.

        Raises:
            InputError: no law is of use, and the data are iterates of a map.
        """
        (paths,) = how.samples.paths(how.samples.latents.double())
        if how.error >= USEFUL and any(is_map(path) for path in paths):
            raise InputError(
                "data",
                expected="samples of a motion in continuous time",
                got="neighbours in time that are less alike than any two samples, as of a map",
                fix="sample more finely; laws of maps are not fitted here",
            )
        share = how.estimator._unexplained(law, how.samples)
        nearest, shifted = self._errors_without_a_law(how.samples)
        name = f"romkit.law ({_name(how.estimator)})"
        warned = warn_if_useless(
            name,
            unexplained=None if share is None else float(share.max()),
            error=how.error,
            nearest=nearest,
            shifted=shifted,
            fix=FIX,
        )
        if not warned and how.error > max(GOOD * how.projected, POOR):
            text = f"{name}: forecasts of held-out contexts err by {how.error:.2g} deviations"
            warn(
                f"{text} of the data, the projection by {how.projected:.2g}; try {FIX}", FitWarning
            )

    def _errors_without_a_law(self, samples: LatentSamples) -> tuple[float | None, float | None]:
        """Errors of the nearest training run on held-out runs, as it is and shifted in time; None
        where no run is held out whole, or there are several projections.
        """
        states = self.judge.states
        if states.ndim != 3 or len(states) == 1:
            return None, None
        held = fold(samples, self.judge, self.validation).held
        train = torch.ones(len(states), dtype=torch.bool)
        train[held] = False
        T = len(samples.times)
        starts = one_axis(samples.context)[0, ::T].double()
        contexts = samples.parameters.on(starts)(starts)
        truth = states[held]
        nearest, shifted = nearest_and_shifted(
            states[train], contexts[train], contexts[held], truth[:, 0]
        )
        return mean_error(nearest, truth), mean_error(shifted, truth)

    def errors_left_out(self) -> list[tuple[Tensor, Tensor]]:
        """Numbers of the runs that laws are compared by, and the errors (k,) on them of the law that
        was chosen, or of the best one before, of each fold; with several folds the error by which
        they rank it. None without a law.
        """
        best = self.taken or self.best
        if best is None:
            return []
        numbers = folds(best.samples)
        errors = []
        for number in numbers:
            _, judge, held = fold(best.samples, self.judge, self.validation, number)
            if len(numbers) == 1:
                errors.append((held, judge.errors(best.law, held)))
            else:
                errors.append((held, torch.full((len(held),), best.error)))
        return errors
