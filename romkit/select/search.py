"""One search: candidates are raced on folds of runs that are left out."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from romkit.core import runtime
from romkit.core.types import Array
from romkit.select.policy import Policy

PATIENCE = 2
"""Rungs, one after the other, that may bring no smaller error: modes of a wave come in pairs."""


class Candidate(Protocol):
    """Settings of a model that can be fitted without the runs of a fold.

    Attributes:
        name: in words.
    """

    name: str

    def errors(self, fold: int) -> Array:
        """Fit to the other runs, and forecast those of a fold: errors (k,) [standard deviations]."""

    def segment_errors(self, fold: int) -> Array:
        """Forecast segments of the runs of a fold that was tried: errors (k,)."""

    @property
    def complexity(self) -> int:
        """Number of coefficients, once it was fitted."""

    def neighbours(self) -> "Sequence[Candidate]":
        """List further candidates to try where this one is the best."""


@dataclass(eq=False)
class Trial:
    """A candidate with its errors on the runs of the folds that it was tried on.

    Attributes:
        candidate: what was tried.
        errors: (k,) of each fold, of whole runs.
        segments: (k,) of folds, of segments of the runs, once they were asked for.
        seconds: of the processor.
        horizon: 0 where it was compared on whole runs, 1 where on segments.
    """

    candidate: Candidate
    errors: list[Array] = field(default_factory=list)
    segments: list[Array] = field(default_factory=list)
    seconds: float = 0.0
    horizon: int = 0

    @property
    def name(self) -> str:
        """Candidate in words."""
        return self.candidate.name

    def run(self, fold: int) -> None:
        """Try the candidate on a further fold."""
        runtime.step(self.name)
        began = time.process_time()
        self.errors.append(self.candidate.errors(fold))
        self.seconds += time.process_time() - began

    def error(self, policy: Policy, horizon: int = 0) -> float:
        """Geometric mean of the errors over the runs."""
        return float(np.exp(self.logarithms(policy, horizon).mean()))

    def logarithms(self, policy: Policy, horizon: int, folds: int | None = None) -> Array:
        """Logarithms (k,) of the errors of whole runs (horizon 0) or of segments (1), of the first
        folds.
        """
        by_fold = self.errors
        if horizon == 1:
            for fold in range(len(self.segments), len(self.errors)):
                self.segments.append(self.candidate.segment_errors(fold))
            by_fold = self.segments
        return policy.logarithms(np.concatenate(by_fold[:folds]))


def search(
    rungs: Iterable[Sequence[Candidate]],
    folds: int,
    policy: Policy,
    seconds: float = np.inf,
    others: Sequence[Candidate] = (),
) -> list[Trial]:
    """Race candidates on folds of runs that are left out.

    All are tried on the first fold, rung by rung as long as the error falls; a part of them, those
    near the least error, on each further one, until they are refuted. Those that were dropped come
    back as long as they err less, on their folds, than the best one on all: a first fold may be an
    easy one. Neighbours of the preferred candidate, of the one of the least error and of the first
    one that has any follow, as long as there are new ones.

    Args:
        rungs: candidates from simple to complex ones, say by number of latents.
        folds: number of folds.
        policy: rule of acceptance.
        seconds: of the processor, after which nothing further is tried; one candidate always is.
        others: candidates of no rung; the first one is always tried.

    Returns:
        The trials; `preferred` puts them into order.
    """
    began = time.process_time()
    deadline = began + seconds
    # half of the time at most for the first fold: what leads there may be behind on further ones
    trials = _climb(rungs, policy, began + seconds / 2)
    for number, candidate in enumerate(others):
        if number > 0 and time.process_time() > deadline:
            break
        trials.append(Trial(candidate))
        trials[-1].run(0)
    alive = _survivors(trials, policy)
    for fold in range(1, folds):
        for trial in alive:
            # all of those that are compared at the end have been tried on the same folds
            if time.process_time() > deadline and trial is not alive[0]:
                break
            trial.run(fold)
        alive = _survivors([trial for trial in alive if len(trial.errors) > fold], policy)
    _call_back(trials, policy, deadline)
    _try_neighbours(trials, policy, deadline)
    return trials


def preferred(trials: Sequence[Trial], policy: Policy) -> list[Trial]:
    """Order trials: of those on most folds, the simplest that is as good as the best one first.

    The others that are as good follow by their complexity, then the worse ones by their error, and
    at the end those that were tried on fewer folds.
    """
    most = max(len(trial.errors) for trial in trials)
    judged = [trial for trial in trials if len(trial.errors) == most]
    horizon = horizon_of(judged, policy)
    for trial in trials:
        trial.horizon = horizon
    by_error = sorted(trials, key=lambda trial: trial.error(policy, horizon))
    best = min(judged, key=lambda trial: trial.error(policy, horizon))
    least = best.logarithms(policy, horizon)

    def rank(trial: Trial) -> tuple[int, int]:
        if len(trial.errors) < most:
            return 2, 0
        if policy.is_as_good(trial.logarithms(policy, horizon), least):
            return 0, trial.candidate.complexity
        return 1, 0

    return sorted(by_error, key=rank)


def horizon_of(trials: Sequence[Trial], policy: Policy) -> int:
    """Tell by which errors to compare: those of whole runs (0), or of segments (1).

    Forecasts of whole runs that have lost their phase, or are chaotic, all err alike.
    """
    least = min(trial.error(policy) for trial in trials)
    return int(least > policy.useful)


def _climb(rungs: Iterable[Sequence[Candidate]], policy: Policy, deadline: float) -> list[Trial]:
    """Try candidates on the first fold, rung by rung as long as the error falls."""
    trials: list[Trial] = []
    failed = 0
    for rung in rungs:
        of_rung: list[Trial] = []
        for candidate in rung:
            if trials and time.process_time() > deadline:
                return trials
            trial = Trial(candidate)
            trial.run(0)
            of_rung.append(trial)
            trials.append(trial)
            if trial.error(policy) <= policy.enough:
                return trials
        if not of_rung:
            continue
        best = min(trials, key=lambda trial: trial.error(policy))
        error = best.error(policy)
        if error < policy.diverged:
            runtime.told(f"best of {len(trials)} models errs by {error:.2g}: {best.name}")
        failed = 0 if _gains(of_rung, trials, policy) else failed + 1
        if failed == PATIENCE:
            break
    return trials


def _gains(of_rung: Sequence[Trial], trials: Sequence[Trial], policy: Policy) -> bool:
    """Tell whether a rung, the last one of all trials, has the least error."""
    before = trials[: len(trials) - len(of_rung)]
    if not before:
        return True
    horizon = horizon_of(trials, policy)
    reached = min(trial.error(policy, horizon) for trial in of_rung)
    least = min(trial.error(policy, horizon) for trial in before)
    return reached < least * np.exp(-policy.tie)


def _survivors(trials: Sequence[Trial], policy: Policy) -> list[Trial]:
    """Trials near the least error, the best first, which go on to the next fold.

    From two folds on, one that a simpler trial beats is left out: it cannot be preferred as long as
    that one errs less.
    """
    horizon = horizon_of(trials, policy)
    ranking = sorted(trials, key=lambda trial: trial.error(policy, horizon))
    share, fewest = policy.share
    number = max(fewest, round(share * len(ranking)))
    best = ranking[0]
    least = best.logarithms(policy, horizon)
    limit = policy.race * best.error(policy, horizon)
    # a single fold is no sample of runs
    is_judged = len(best.errors) > 1
    alive: list[Trial] = []
    for trial in ranking[:number]:
        complexity = trial.candidate.complexity
        is_beaten = any(other.candidate.complexity < complexity for other in alive)
        if is_judged and is_beaten:
            continue
        is_near = trial.error(policy, horizon) <= limit
        if is_near and not (
            is_judged and policy.is_refuted(trial.logarithms(policy, horizon), least)
        ):
            alive.append(trial)
    return alive


def _call_back(trials: Sequence[Trial], policy: Policy, deadline: float) -> None:
    """Try those on fewer folds that err less than the best one of most folds on further ones."""
    while time.process_time() < deadline:
        most = max(len(trial.errors) for trial in trials)
        horizon = horizon_of([trial for trial in trials if len(trial.errors) == most], policy)
        best = min(trials, key=lambda trial: trial.error(policy, horizon))
        if len(best.errors) == most:
            return
        best.run(len(best.errors))


def _try_neighbours(trials: list[Trial], policy: Policy, deadline: float) -> None:
    """Try the neighbours of the candidates that lead, and theirs."""
    tried = {trial.name for trial in trials}
    while True:
        order = preferred(trials, policy)
        near = [c for trial in _leading(order, policy) for c in trial.candidate.neighbours()]
        near = [*{c.name: c for c in near if c.name not in tried}.values()]
        if not near:
            return
        tried.update(candidate.name for candidate in near)
        for candidate in near:
            trial = _raced(candidate, order[0], policy, deadline)
            if trial.errors:
                trials.append(trial)


def _leading(order: Sequence[Trial], policy: Policy) -> list[Trial]:
    """Trials whose neighbours are worth a try: the preferred one, that of the least error, which a
    neighbour may make simpler, and the first one that has neighbours; none but the first where this
    errs as little as is needed.
    """
    leader = order[0]
    if leader.error(policy, leader.horizon) <= policy.enough:
        return [leader]
    judged = [trial for trial in order if len(trial.errors) == len(leader.errors)]
    best = min(judged, key=lambda trial: trial.error(policy, trial.horizon))
    # interpolated runs have none, and a law next to the best one may be exact
    extendable = next((trial for trial in order if trial.candidate.neighbours()), leader)
    return [*dict.fromkeys((leader, best, extendable))]


def _raced(candidate: Candidate, best: Trial, policy: Policy, deadline: float) -> Trial:
    """Try a candidate on the folds of the best one, as long as it is as good."""
    trial = Trial(candidate)
    for fold in range(len(best.errors)):
        if time.process_time() > deadline or _trails(trial, best, policy):
            break
        trial.run(fold)
    return trial


def _trails(trial: Trial, best: Trial, policy: Policy) -> bool:
    """Tell whether a trial is worse than the best one on the folds that it was tried on."""
    number = len(trial.errors)
    if number == 0:
        return False
    horizon = horizon_of([best], policy)
    least = best.logarithms(policy, horizon, number)
    return not policy.is_as_good(trial.logarithms(policy, horizon), least)
