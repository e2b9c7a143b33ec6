"""Choice of the settings of a law by forecasts of whole contexts that were held out."""

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from romkit.core.errors import FitWarning, InputError
from romkit.core.runtime import track
from romkit.integrators.base import LearnedField
from romkit.laws.folds import fold, folds, has_few_contexts, number_of_folds
from romkit.laws.judge import LOST, Judge
from romkit.laws.samples import LatentSamples

HELD_OUT = 0.25
"""Default share of the contexts by which settings are chosen."""

LEAVES = 10.0
"""Factor on the error of a law whose rollouts leave the data when they go on for as long again."""

ENOUGH = 1.2
"""Error relative to the projection's from which on a better law can gain nothing."""

NEGLIGIBLE = 1e-3
"""Error [deviations of the data] from which on the search ends, too."""

AS_GOOD = 1.2
"""Error relative to the least one up to which a simpler law is preferred."""

TIED = 1.05
"""Error relative to that of settings with as many coefficients, up to which the stronger ridge is
preferred, where there are few contexts."""

CLOSE = 3.0
"""Error on one fold, relative to the least one, up to which settings are compared on two."""

NEARLY = 0.9
"""Share of the largest error from which on all rollouts count as lost: their first samples are
exact."""

OUT_OF_PHASE = 0.3
"""Error of rollouts of whole trajectories [deviations of the data] from which on they may have lost
the phase, and are compared in pieces."""


class Settings(Protocol):
    """Settings of a law, a dataclass: an `Estimator`.

    Attributes:
        quick: whether `compared` takes a small part of the time of a fit.
    """

    quick: bool

    def is_last_resort(self, samples: LatentSamples) -> bool:
        """Whether to try these settings only where forecasts of no others keep the phase."""

    def neighbours(self, samples: LatentSamples) -> "list[list[Settings]]":
        """Chains of further settings, to try where these are the best, each as long as the one
        before is as good.
        """

    def compared(
        self, samples: LatentSamples, seed: int, near: LearnedField | None = None
    ) -> LearnedField:
        """Law that is good enough to be compared with others, which may begin from that of a
        neighbour, of the same samples.
        """

    def refitted(self, law: LearnedField, samples: LatentSamples, seed: int) -> LearnedField:
        """Law of these samples, which may begin from a law of almost the same ones."""


class Ranked(NamedTuple):
    """Settings with the samples that they are fitted to, and how they forecast held-out runs.

    Attributes:
        law: with these settings, of a part of the contexts; None for settings that cannot be fitted.
        error: mean error [deviations of the data], infinite for settings that cannot be fitted or
            whose rollouts are all lost.
        projected: that of the projection on the same runs.
        seconds: of the processor.
        second: law of a second fold, where the error is that of both.
    """

    estimator: Settings
    samples: LatentSamples
    law: LearnedField | None
    error: float
    projected: float
    seconds: float
    second: LearnedField | None = None

    @property
    def complexity(self) -> int:
        """Number of coefficients of the law."""
        return 0 if self.law is None else self.law.coefficient_count

    @property
    def enough(self) -> bool:
        """Whether a better law can gain nothing."""
        return self.error <= max(ENOUGH * self.projected, NEGLIGIBLE)


def ranked(
    candidates: Sequence[tuple[Settings, LatentSamples]],
    judge: Judge,
    validation: float,
    seed: int,
    seconds: float = math.inf,
) -> list[Ranked]:
    """Fit each of the settings to a part of the contexts, and forecast the others; the best first,
    as `preferred` has it.

    Settings that are as good as the projection end the search, and those that are a last resort are
    left out where others keep the phase. Of each chain of neighbours of the simplest good settings,
    and of the most accurate ones, the next one is tried as long as the one before is as good.

    Args:
        candidates: settings, and whole trajectories to fit them to.
        judge: of the same trajectories.
        validation: share of the contexts that is held out.
        seed: of the fits.
        seconds: of the processor, after which no further candidate is tried.
    """
    search = Search(judge, validation, seed, time.process_time() + seconds)
    ranking = search.among(candidates)
    if ranking and not ranking[-1].enough:
        ranking = _with_close_ones_again(ranking, search.again)
    for best in _best_of(ranking):
        ranking += search.neighbours(best)
    return preferred(ranking)


@dataclass(frozen=True, eq=False)
class Search:
    """Search for settings by forecasts of held-out contexts.

    Attributes:
        judge: of the trajectories.
        validation: share of the contexts that is held out.
        seed: of the fits.
        deadline: time of the processor from which on nothing further is tried.
    """

    judge: Judge
    validation: float
    seed: int
    deadline: float

    @property
    def is_over(self) -> bool:
        """Whether there is no time left."""
        return time.process_time() > self.deadline

    def tried(
        self, estimator: Settings, samples: LatentSamples, near: Ranked | None = None
    ) -> Ranked:
        """Settings by one fold, which may begin from neighbours."""
        return _ranked(estimator, samples, self.judge, self.validation, self.seed, near)

    def again(self, candidate: Ranked, least: float, near: Ranked | None = None) -> Ranked:
        """Settings by two folds, where a fit is quick and one fold has chosen; by one where the mean
        of two cannot be as good as the least one so far.
        """
        # a few contexts are held out in turn already
        if not candidate.estimator.quick or len(folds(candidate.samples)) > 1:
            return candidate
        if candidate.error / 2 > AS_GOOD * least:
            return candidate
        return _with_second_fold(candidate, self.judge, self.validation, self.seed, near)

    def among(self, candidates: Sequence[tuple[Settings, LatentSamples]]) -> list[Ranked]:
        """Candidates in their order, up to one that is as good as the projection."""
        ranking: list[Ranked] = []
        for estimator, samples in track(candidates, "choosing a law"):
            if ranking and self.is_over:
                break
            if estimator.is_last_resort(samples) and _keeps_phase(ranking):
                continue
            ranking.append(self.tried(estimator, samples))
            if ranking[-1].enough:
                break
        return ranking

    def neighbours(self, best: Ranked) -> list[Ranked]:
        """Neighbours of the best settings, of each chain as long as one is as good; none of settings
        that need none, or are lost.
        """
        if best.enough or best.error == math.inf:
            return []
        neighbours: list[Ranked] = []
        for chain in best.estimator.neighbours(best.samples):
            neighbours += self._along(chain, best)
        return neighbours

    def _along(self, chain: "list[Settings]", best: Ranked) -> list[Ranked]:
        """Neighbours along a chain, as long as one is as good."""
        neighbours: list[Ranked] = []
        least = best.error
        latest = best
        for estimator in chain:
            if self.is_over:
                break
            neighbour = self.tried(estimator, best.samples, latest)
            if best.second is not None:
                neighbour = self.again(neighbour, least, latest)
            neighbours.append(neighbour)
            latest = neighbour
            if not latest.error <= AS_GOOD * least:
                break
            least = min(least, latest.error)
        return neighbours


def _with_close_ones_again(
    ranking: list[Ranked], again: Callable[[Ranked, float], Ranked]
) -> list[Ranked]:
    """Settings, those whose error is near the least one on two folds."""
    ranking = list(ranking)
    tested: set[int] = set()
    least = math.inf
    while True:
        limit = CLOSE * min(candidate.error for candidate in ranking)
        close = [number for number in range(len(ranking)) if ranking[number].error <= limit]
        # errors may have risen, so that others are near the least one
        untested = [number for number in close if number not in tested]
        if not untested:
            return ranking
        untested.sort(key=lambda number: ranking[number].error)
        for number in untested:
            ranking[number] = again(ranking[number], least)
            least = min(least, ranking[number].error)
        tested.update(untested)


def _with_second_fold(
    candidate: Ranked, judge: Judge, validation: float, seed: int, near: Ranked | None
) -> Ranked:
    """Settings with their mean error on two folds, where other contexts can be held out: a few
    contexts rank laws of nearly equal errors by chance.
    """
    estimator = candidate.estimator
    samples = candidate.samples
    number = len(folds(samples))
    untested = number < number_of_folds(samples) and candidate.second is None
    if not untested or candidate.error == math.inf:
        return candidate
    law = None
    if near is not None:
        law = near.second
    second = _of_fold(estimator, samples, judge, validation, seed, number, law)
    # one that is lost at some contexts only is not out of the question
    error = (candidate.error + min(second.error, LOST)) / 2
    projected = (candidate.projected + second.projected) / 2
    seconds = candidate.seconds + second.seconds
    return candidate._replace(error=error, projected=projected, second=second.law, seconds=seconds)


def _best_of(ranking: Sequence[Ranked]) -> list[Ranked]:
    """The simplest of the good settings, and the most accurate ones."""
    if not ranking:
        return []
    simplest = preferred(ranking)[0]
    most_accurate = min(ranking, key=lambda candidate: candidate.error)
    if most_accurate is simplest:
        return [simplest]
    return [simplest, most_accurate]


def _keeps_phase(ranking: Sequence[Ranked]) -> bool:
    """Whether forecasts of a law that is no last resort keep the phase."""
    for candidate in ranking:
        resort = candidate.estimator.is_last_resort(candidate.samples)
        if not resort and candidate.error <= OUT_OF_PHASE:
            return True
    return False


def preferred(ranking: Sequence[Ranked]) -> list[Ranked]:
    """Settings in their order of preference."""
    errors = [candidate.error for candidate in ranking]
    complexities = [candidate.complexity for candidate in ranking]
    order = [ranking[number] for number in order_of_preference(errors, complexities)]
    if not order or not has_few_contexts(order[0].samples):
        return order
    return _tamest_first(order)


def _tamest_first(order: list[Ranked]) -> list[Ranked]:
    """Settings in their order, the strongest ridge first of those that begin it with as many
    coefficients and errors that a few held-out contexts do not tell apart.

    Source: Breiman, Friedman, Olshen, Stone (1984), Classification and regression trees, section
    3.4.3, for the rule of one standard error.
    """
    first = order[0]
    ties = [
        candidate
        for candidate in order
        if candidate.complexity == first.complexity and candidate.error <= TIED * first.error
    ]
    tamest = max(ties, key=lambda candidate: getattr(candidate.estimator, "ridge", 0.0))
    return [tamest, *(candidate for candidate in order if candidate is not tamest)]


def order_of_preference(errors: Sequence[float], complexities: Sequence[int]) -> list[int]:
    """Numbers of the laws whose error is at most `AS_GOOD` times the least one, those with the
    fewest coefficients first, and of these the most accurate; then of the others, the smallest
    error first.

    A few held-out contexts do not tell such errors apart, and of laws that forecast as well the
    simpler one is faster, and tamer between the contexts.
    """
    by_error = sorted(range(len(errors)), key=errors.__getitem__)
    if not by_error or not errors[by_error[0]] < math.inf:
        return by_error
    limit = AS_GOOD * errors[by_error[0]]
    as_good = [number for number in by_error if errors[number] <= limit]
    worse = by_error[len(as_good) :]
    return sorted(as_good, key=complexities.__getitem__) + worse


def confirmed(ranking: Ranked, judge: Judge, validation: float, seed: int) -> Ranked:
    """Settings with their mean error over the contexts by which they were chosen, and as many
    others; as they are where all contexts that can be held out have chosen them.
    """
    return _with_second_fold(ranking, judge, validation, seed, None)


def error_in_pieces(candidate: Ranked, judge: Judge, validation: float) -> float:
    """Mean error of settings in pieces of the runs that they were compared by, as much larger where
    forecasts leave the data.
    """
    # a few contexts are compared in pieces already
    if candidate.law is None or len(folds(candidate.samples)) > 1:
        return candidate.error
    errors = []
    for number, law in enumerate((candidate.law, candidate.second)):
        if law is None:
            continue
        _, of_held, held = fold(candidate.samples, judge, validation, number)
        error = _mean_error(law, of_held.pieces(), held)
        if not of_held.stays(law, held, 2):
            error *= LEAVES
        errors.append(error)
    return sum(errors) / len(errors)


def _ranked(
    estimator: Settings,
    samples: LatentSamples,
    judge: Judge,
    validation: float,
    seed: int,
    near: Ranked | None,
) -> Ranked:
    """Error of settings on held-out contexts, the median over several folds: without a context at a
    change of the motion all may be lost.

    A law that is near helps where there is one fold: that of another one has seen what is held out.
    """
    numbers = range(1)
    if estimator.quick:
        numbers = folds(samples)
    law = None
    if near is not None and len(numbers) == 1:
        law = near.law
    several = [_of_fold(estimator, samples, judge, validation, seed, k, law) for k in numbers]
    several.sort(key=lambda ranked: ranked.error)
    seconds = sum(ranked.seconds for ranked in several)
    return several[len(several) // 2]._replace(seconds=seconds)


def _of_fold(
    estimator: Settings,
    samples: LatentSamples,
    judge: Judge,
    validation: float,
    seed: int,
    number: int,
    near: LearnedField | None = None,
) -> Ranked:
    """Error of settings on the contexts that a fold of this number holds out."""
    started = time.process_time()
    train, of_held, held = fold(samples, judge, validation, number)
    judges = [of_held]
    # without one of few contexts a law is too far off for its rollouts to keep the phase
    if len(folds(samples)) > 1:
        judges = of_held.pieces()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        law, error = _compared(estimator, train, of_held, held, seed, judges, near)
    projected = of_held.projected(held)
    took = time.process_time() - started
    return Ranked(estimator, samples, law, error, projected, took)


def _compared(
    estimator: Settings,
    train: LatentSamples,
    judge: Judge,
    held: Tensor,
    seed: int,
    judges: list[Judge],
    near: LearnedField | None,
) -> tuple[LearnedField | None, float]:
    """Law of the training samples, and the mean error of its forecasts of held-out runs; infinite
    where there is no law, or all are lost.

    Runs are forecast whole or in pieces, as `judges` take them, and in pieces where whole ones lose
    the phase. The error is `LEAVES` times as large where forecasts leave the data in twice the time.
    """
    try:
        law = estimator.compared(train, seed, near)
    except InputError:  # more terms than samples, say
        return None, math.inf
    error = _mean_error(law, judges, held)
    if not error < NEARLY * LOST:
        return law, math.inf
    # rollouts that have lost the phase err by chance
    if error > OUT_OF_PHASE:
        in_pieces = _mean_error(law, judge.pieces(), held)
        error = max(OUT_OF_PHASE, in_pieces)
    if not judge.stays(law, held, 2):
        error *= LEAVES
    return law, error


def _mean_error(law: LearnedField, judges: list[Judge], held: Tensor) -> float:
    """Mean error of forecasts of held-out runs."""
    errors = [judge.errors(law, held) for judge in judges]
    return float(torch.cat(errors, -1).nanmean())


def fitted(
    ranking: Sequence[Ranked], judge: Judge, seed: int
) -> tuple[LearnedField, Ranked] | None:
    """The first settings of a ranking fitted to all of their samples, and how they ranked; None
    where all are lost.

    A law whose rollouts leave the data is passed over, where another one stays: on some data an
    equation that followed what was held out diverges once it is fitted to all. Where displaced
    rollouts of all are lost, because nothing leads back, the first one of which others stay is taken.
    """
    rows = torch.arange(judge.states.shape[-3])
    best = None
    least = math.inf
    limit = math.inf
    for candidate in ranking:
        if not candidate.error < limit:
            break
        with warnings.catch_warnings():  # of the law that is returned, once, by who returns it
            warnings.simplefilter("ignore", FitWarning)
            law = candidate.estimator.refitted(candidate.law, candidate.samples, seed)
        if judge.stays(law, rows):
            return law, candidate
        if limit < math.inf:
            continue
        if judge.stays(law, rows, displaced=False):
            best = (law, candidate)
            limit = CLOSE * candidate.error
            continue
        error = float(judge.errors(law, rows).nanmean())
        if error < min(least, NEARLY * LOST):
            best = (law, candidate)
            least = error
    return best


def chosen_settings(candidates: Sequence[tuple[Settings, LatentSamples]], chosen: Ranked) -> str:
    """Settings in which candidates differ, with their values in the chosen one, in words."""
    varied = []
    for field in fields(chosen.estimator):
        values = {getattr(estimator, field.name) for estimator, _ in candidates}
        if len(values) > 1:
            value = _short(getattr(chosen.estimator, field.name))
            varied.append(f"{field.name}={value}")
    settings = ", ".join(varied)
    how = f"by forecasts of held-out contexts (error {chosen.error:.2g})"
    return f"{settings} chosen out of {len(candidates)} {how}"


def _short(value: object) -> str:
    """Short text of a setting."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))})"
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)
