"""Number of hidden parameters, and degrees of the law: by forecasts of left-out groups."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from romkit.hidden.family import Family, Structure, motion
from romkit.hidden.joint import Plan, fitted
from romkit.hidden.placing import Placed, placed
from romkit.hidden.starts import OwnLaws
from romkit.laws.courses import Runs
from romkit.laws.shooting import ROUGH, is_coarse, noise
from romkit.numerics import LOST

FOLDS, FEW = 3, 10
"""Parts of the groups, each left out once; so few groups are left out one by one."""

LONGEST, AHEAD = 8.0, 16.0
"""Longest windows of fits that are only compared, and duration of their forecasts [time scales]."""

EXACT = 1e-4
"""Error of forecasts [largest latent] that is as good as any, as `LOST` is as bad."""

DEGREES = {1: (1, 2, 3, 5), 2: (1, 2, 3, 5)}
"""Degrees of laws, by the number of latents."""

SCOUT, FAR = 2, 2.0
"""Hidden parameters with which degrees are compared, and the error of one, relative to the best,
from which on it is given up."""

LIKE = 0.05
"""Difference of the logarithms of errors that is none."""


@dataclass(frozen=True, eq=False)
class Trial:
    """Errors of a structure.

    Attributes:
        structure: see there.
        errors: (G,) root mean square errors of forecasts of the second part of each group, left
            out and placed by its first part [largest latent].
    """

    structure: Structure
    errors: Tensor

    @property
    def error(self) -> float:
        """Geometric mean of the errors."""
        return float(self.errors.log().mean().exp())


@dataclass(frozen=True, eq=False)
class Groups:
    """Runs with their groups and known parameters, in units of a fit.

    Attributes:
        runs: (n, T, m).
        known: (G, p), in [-1, 1].
        units: (m,) size of a unit of each latent in errors; what latents cannot describe is the same
            for all laws.
    """

    runs: Runs
    known: Tensor
    units: Tensor

    @functools.cached_property
    def noise(self) -> float:
        """Deviation of noise in the latents; 0 where it cannot be told from motion."""
        return 0.0 if is_coarse(self.runs) else noise(self.runs)

    def __len__(self) -> int:
        return len(self.known)

    def only(self, groups: Tensor) -> Runs:
        """Return runs of some groups, which are numbered anew."""
        numbers = torch.full((len(self),), -1)
        numbers[groups] = torch.arange(len(groups))
        rows = (numbers[self.runs.group] >= 0).nonzero().squeeze(-1)
        runs = self.runs.only(rows)
        return replace(runs, group=numbers[runs.group])

    def folds(self) -> list[Tensor]:
        """Return groups that are left out together."""
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(0))
        return [part.sort().values for part in order.tensor_split(folds_of(len(self)))]

    def kept(self, out: Tensor) -> Tensor:
        """Return the other groups."""
        every = torch.ones(len(self), dtype=torch.bool)
        every[out] = False
        return every.nonzero().squeeze(-1)


def folds_of(groups: int) -> int:
    """Return number of parts of so many groups."""
    return groups if groups <= FEW else FOLDS


def first_part(runs: Runs) -> Runs:
    """Return first half of runs."""
    half = (len(runs.times) + 1) // 2
    return replace(runs, states=runs.states[:, :half], times=runs.times[:half])


def second_part(runs: Runs) -> Runs:
    """Return what follows the first half, for at most as long as windows are."""
    half = (len(runs.times) + 1) // 2
    until = runs.times[half - 1] + AHEAD
    late = (torch.arange(len(runs.times)) >= half) & (runs.times <= until)
    late[half] = True
    return replace(runs, states=runs.states[:, late], times=runs.times[late])


def trial(structure: Structure, own: OwnLaws, groups: Groups) -> Trial:
    """Return errors of a structure on left-out groups."""
    errors = torch.zeros(len(groups), dtype=torch.float64)
    for out in groups.folds():
        kept = groups.kept(out)
        begin = start(structure, own, groups, kept)
        family, _ = fitted(begin, own.motion, groups.only(kept), Plan(ROUGH, LONGEST))
        for group in out.tolist():
            errors[group] = _error(family, own, groups, group)
    return Trial(structure, errors)


def start(structure: Structure, own: OwnLaws, groups: Groups, kept: Tensor) -> Family:
    """Family of some groups to begin with: a curve begins with as many straight directions as it
    has powers, which tell its way.
    """
    if structure.hidden != 1 or structure.bend == 1:
        return own.start(structure, kept)
    straight = replace(structure, hidden=structure.bend, bend=1)
    begin = own.start(straight, kept)
    family, _ = fitted(begin, own.motion, groups.only(kept), Plan(ROUGH, LONGEST))
    return own.curve(family, structure.bend)


def _error(family: Family, own: OwnLaws, groups: Groups, group: int) -> float:
    """Return error of the forecast of the second part of a group."""
    runs = groups.only(torch.tensor([group]))
    at = placed(family, own.motion, first_part(runs), groups.known[group : group + 1])
    errors = groups.units * forecast_errors(at, runs)
    squares = errors.square().mean(-1)  # (n, T')
    squares = squares.nan_to_num(LOST**2).clamp(max=LOST**2)
    seen = second_part(runs).observed
    error = squares[seen].mean().sqrt() if seen.any() else torch.tensor(LOST)
    return float(error.clamp(min=EXACT))


def forecast_errors(at: Placed, runs: Runs) -> Tensor:
    """Return errors (n, T', m) of forecasts of the second part of runs that the first part has
    placed.
    """
    late = second_part(runs)
    reached = [at.continued(run, late.times) for run in range(len(late.states))]
    return torch.stack(reached) - late.states


def simplest(trials: Sequence[Trial]) -> Trial:
    """Best of trials, given in the order of their complexity, with the fewest hidden parameters
    that are within one standard error of the best.

    Source: Hastie, Tibshirani, Friedman (2009), The elements of statistical learning, section 7.10.
    """
    best = min(trials, key=lambda trial: trial.error)
    fewest = next(candidate for candidate in trials if _as_good(candidate, best))
    alike = [trial for trial in trials if trial.structure.hidden == fewest.structure.hidden]
    least = min(trial.error for trial in alike)
    return next(trial for trial in alike if trial.error <= (1 + LIKE) * least)


def structures(
    degree: int,
    groups: int,
    known: int,
    *,
    paths: tuple[tuple[int, ...], ...] = ((1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)),
) -> list[Structure]:
    """Structures of laws of a degree that so many groups can tell apart, from the simplest on.

    `paths`: numbers of hidden parameters with the degree of the coefficients in them, from the
    simplest on.
    """
    found = [Structure(degree, 0, bend) for bend in ((1, 2) if known else (0,))]
    kept = groups - -(-groups // folds_of(groups))
    for hidden, bend in paths:
        if hidden + known + 2 <= kept and bend + 1 < kept:
            found.append(Structure(degree, hidden, bend))
    return found


def degrees(
    groups: Groups, *, of_many: tuple[int, ...] = (1, 2, 3), per_coefficient: int = 2
) -> list[int]:
    """Degrees of laws that the numbers in the data can tell, from the lowest on.

    `of_many`: degrees of laws of more latents.

    `per_coefficient`: numbers in the data, at least, for each coefficient of a law of all
    groups.
    """
    latents = groups.runs.states.shape[-1]
    numbers = int(groups.runs.observed.sum()) * latents
    every = DEGREES.get(latents, of_many)
    return [d for d in every if latents * math.comb(latents + d, d) * per_coefficient <= numbers]


def laws_of(degree: int, groups: Groups) -> OwnLaws:
    """Return laws of some degree of single groups."""
    latents = groups.runs.states.shape[-1]
    return OwnLaws.of(motion(latents, degree), groups.runs, groups.known)


@dataclass(frozen=True, eq=False)
class Scouted:
    """Laws of a degree, and the trials by which it is judged.

    Attributes:
        own: laws of single groups.
        structures: those that the groups can tell apart, from the simplest on.
        trials: of structures without a hidden parameter, and behind them of the scout.
    """

    own: OwnLaws
    structures: list[Structure]
    trials: list[Trial]

    @property
    def scout(self) -> Trial:
        """Trial with the most hidden parameters, by which degrees are compared."""
        return self.trials[-1]


def searched(groups: Groups) -> list[Trial]:
    """Trials of structures, from the simplest on: few hidden parameters first, then low degrees of
    the law, then of its context.

    Degrees are judged by laws without a hidden parameter and with two; those that a lower one
    matches, or of which both are far from the best, are left at that.
    """
    scouted = _scouted(groups)
    trials = [trial for degree in scouted for trial in degree.trials]
    farthest = FAR * min(trial.error for trial in trials)
    near = [degree for degree in scouted if degree.scout.error <= farthest]
    promising = _unmatched(near)
    for degree in promising:
        trials += _others(degree.own, groups, degree.trials)
    trials = sorted(trials, key=_complexity)
    chosen = simplest(trials)
    if chosen.error <= EXACT * (1 + LIKE):
        return trials
    if chosen.error > FAR * max(EXACT, groups.noise):
        # one parameter more may be no better, and two more all that is missing
        trials += _with_more(chosen, scouted, groups, trials)
        chosen = simplest(sorted(trials, key=_complexity))
    # degrees that more hidden parameters made alike may differ with this number of them
    for degree in near:
        if degree not in promising:
            trials += _with_hidden(chosen.structure.hidden, degree, groups)
    return sorted(trials, key=_complexity)


def _scouted(groups: Groups, *, high: int = 3) -> list[Scouted]:
    """Judge degrees from the lowest on, until a high one is no better than the one before.

    `high`: degree above which higher ones are tried only if it is better than the one before.
    """
    known = groups.known.shape[1]
    found: dict[int, Scouted] = {}
    for degree in degrees(groups):
        if degree > high and _as_good(found[high - 1].scout, found[high].scout):
            break
        own = laws_of(degree, groups)
        every = structures(degree, len(groups), known)
        trials = [trial(structure, own, groups) for structure in _judging(every)]
        found[degree] = Scouted(own, every, trials)
    return list(found.values())


def _judging(every: Sequence[Structure]) -> list[Structure]:
    """Choose the structures that judge a degree: without a hidden parameter, and with `SCOUT`, or
    as many as there can be.
    """
    without = [structure for structure in every if structure.hidden == 0]
    straight = [structure for structure in every if structure.bend == 1]
    scouts = [structure for structure in straight if 0 < structure.hidden <= SCOUT]
    return [*without, *scouts[-1:]]


def _unmatched(scouted: Sequence[Scouted]) -> list[Scouted]:
    """Keep the degrees that no lower one matches."""
    kept: list[Scouted] = []
    for degree in scouted:
        is_matched = any(_as_good(lower.scout, degree.scout) for lower in kept)
        if not is_matched:
            kept.append(degree)
    return kept


def _with_hidden(hidden: int, degree: Scouted, groups: Groups) -> list[Trial]:
    """Try the structures of a degree with so many hidden parameters that did not judge it."""
    done = [trial.structure for trial in degree.trials]
    alike = [structure for structure in degree.structures if structure.hidden == hidden]
    left = [structure for structure in alike if structure not in done]
    return [trial(structure, degree.own, groups) for structure in left]


def _with_more(
    chosen: Trial, scouted: Sequence[Scouted], groups: Groups, tried: Sequence[Trial]
) -> list[Trial]:
    """Try more hidden parameters than a trial has, in a law of its degree."""
    done = [trial.structure for trial in tried]
    degree = next(d for d in scouted if d.scout.structure.degree == chosen.structure.degree)
    more = [s for s in degree.structures if s.hidden > chosen.structure.hidden and s.bend == 1]
    return [trial(structure, degree.own, groups) for structure in more if structure not in done]


def _complexity(trial: Trial) -> tuple[int, int, int]:
    """Key of the order of trials from the simplest on."""
    return trial.structure.hidden, trial.structure.degree, trial.structure.bend


def _others(own: OwnLaws, groups: Groups, tried: list[Trial]) -> list[Trial]:
    """Trials of the other structures of a degree, with more hidden parameters as long as these
    are better than fewer.
    """
    degree = tried[0].structure.degree
    known = groups.known.shape[1]
    known_structures = [t.structure for t in tried]
    every = structures(degree, len(groups), known)
    left = [structure for structure in every if structure not in known_structures]
    found: list[Trial] = []
    for structure in left:
        together = [*tried, *found]
        fewer = [t for t in together if t.structure.hidden < min(SCOUT, structure.hidden)]
        more = [t for t in together if t.structure.hidden >= min(SCOUT, structure.hidden)]
        fewest = min(fewer, key=lambda t: t.error)
        is_alike = _as_good(fewest, min(more, key=lambda t: t.error))
        if structure.hidden < SCOUT or not is_alike:
            found.append(trial(structure, own, groups))
    return found


def _as_good(one: Trial, other: Trial) -> bool:
    """Tell whether a trial is within one standard error of another one."""
    difference = one.errors.log() - other.errors.log()
    deviation = float(difference.std()) / len(difference) ** 0.5
    return float(difference.mean()) <= max(deviation, LIKE)
