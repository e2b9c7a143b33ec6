"""Number of hidden parameters, and degrees of the law: by forecasts of left-out groups."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from romkit.core.once import remembered
from romkit.core.types import Shape, frozen
from romkit.hidden.family import Family, Structure, motion
from romkit.hidden.joint import Stage, first_windows, fitted, polished
from romkit.hidden.placing import Placed, placed
from romkit.hidden.starts import OwnLaws
from romkit.laws.courses import Runs
from romkit.laws.shooting import ROUGH, SETTLED, is_coarse, noise
from romkit.numerics import LOST
from romkit.select import Policy

LONGEST = 8.0
"""Longest windows of fits that are only compared [time scales]."""

EXACT = 1e-4
"""Error of forecasts [largest latent] that is as good as any, as `LOST` is as bad."""

NEGLIGIBLE = (EXACT / 10) ** 2
"""Mean square change of states by shorter steps of RK4 that no comparison sees."""

SCOUT, FAR = 2, 2.0
"""Hidden parameters with which degrees are compared, and the error of one, relative to the best,
from which on it is given up."""


@frozen
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


@frozen
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
        return [rows.sort().values for rows in order.tensor_split(folds_of(len(self)))]

    def kept(self, out: Tensor) -> Tensor:
        """Return the other groups."""
        every = torch.ones(len(self), dtype=torch.bool)
        every[out] = False
        return every.nonzero().squeeze(-1)


def folds_of(groups: int, *, folds: int = 3, few: int = 10) -> int:
    """Return number of parts of so many groups, each left out once; of a few, each is a part."""
    return groups if groups <= few else folds


def first_part(runs: Runs) -> Runs:
    """Return first half of runs."""
    half = (len(runs.times) + 1) // 2
    return replace(runs, states=runs.states[:, :half], times=runs.times[:half])


def second_part(runs: Runs, *, longest: float = 16.0) -> Runs:
    """Return what follows the first half, for at most so long [time scales]."""
    half = (len(runs.times) + 1) // 2
    until = runs.times[half - 1] + longest
    late = (torch.arange(len(runs.times)) >= half) & (runs.times <= until)
    late[half] = True
    return replace(runs, states=runs.states[:, late], times=runs.times[late])


class Fits:
    """Fits of groups, each made once.

    Args:
        groups: of runs.
    """

    def __init__(self, groups: Groups):
        self.groups = groups

        self._trials: dict[Structure, Trial] = {}

    @remembered
    def own(self, degree: int) -> OwnLaws:
        """Return laws of some degree of single groups."""
        runs = self.groups.runs
        return OwnLaws.fit(motion(runs.states.shape[-1], degree), runs, self.groups.known)

    def structures(self, degree: int) -> list[Structure]:
        """Return structures of laws of a degree that the groups can tell apart."""
        return structures(degree, len(self.groups), self.groups.known.shape[1])

    @remembered
    def whole(self, structure: Structure) -> Stage:
        """Return the fit of all groups, in windows up to `LONGEST`: lines and curves begin along the
        plane of two straight parameters, and powers of hidden parameters beyond that at zero.
        """
        laws = self.own(structure.degree)
        runs = self.groups.runs
        shortest = first_windows(runs, ROUGH)
        plane = replace(structure, hidden=2, bend=1)
        on_plane = plane in self.structures(structure.degree)
        if structure.hidden == 1 and structure.bend <= 2 and on_plane:
            begin = laws.curve(self.whole(plane).family, structure.bend)
        elif structure.hidden == 0 or structure.bend == 1:
            begin = laws.start(structure)
        else:
            before = self.whole(replace(structure, bend=structure.bend - 1))
            begin = before.family.bent(structure.bend)
            shortest = before.duration
        return fitted(begin, laws.motion, runs, shortest, LONGEST)

    def without(self, structure: Structure, out: Tensor) -> Family:
        """Return laws of the groups but some: steps from those of all, as many as they need. A fixed
        number, of the jackknife to first order, left some fits at fifty times the noise.
        """
        kept = self.groups.kept(out)
        stage = self.whole(structure)
        begin = stage._replace(family=stage.family.only(kept))
        of_degree = self.own(structure.degree).motion
        runs = self.groups.only(kept)
        # laws of long steps are biased, and one more parameter would make up for that
        end = polished(begin, of_degree, runs, relative=SETTLED, negligible=NEGLIGIBLE)
        return end.family

    def trial(self, structure: Structure) -> Trial:
        """Return errors of a structure on left-out groups."""
        if structure not in self._trials:
            errors = torch.zeros(len(self.groups), dtype=torch.float64)
            for out in self.groups.folds():
                family = self.without(structure, out)
                for group in out.tolist():
                    errors[group] = _error(family, self.own(structure.degree), self.groups, group)
            self._trials[structure] = Trial(structure, errors)
        return self._trials[structure]

    @property
    def trials(self) -> list[Trial]:
        """All trials, from the simplest on: few hidden parameters first, then low degrees of the law,
        then of its context.
        """
        return sorted(
            self._trials.values(),
            key=lambda t: (t.structure.hidden, t.structure.degree, t.structure.bend),
        )


def _error(family: Family, own: OwnLaws, groups: Groups, group: int) -> float:
    """Return error of the forecast of the second part of a group."""
    runs = groups.only(torch.tensor([group]))
    recorded = groups.known[group : group + 1]
    at = placed(family, own.motion, first_part(runs), recorded, NEGLIGIBLE)
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
    best = _best(trials)
    fewest = next(candidate for candidate in trials if is_as_good(candidate, best))
    alike = [trial for trial in trials if trial.structure.hidden == fewest.structure.hidden]
    least = min(trial.error for trial in alike)
    return next(trial for trial in alike if trial.error <= (1 + Policy.tie) * least)


def structures(
    degree: int,
    groups: int,
    known: int,
    *,
    paths: tuple[Shape, ...] = (
        (1, 1),
        (1, 2),
        (1, 3),
        (1, 4),
        (2, 1),
        (2, 2),
        (3, 1),
    ),
) -> list[Structure]:
    """Structures of laws of a degree that so many groups can tell apart, from the simplest on.

    `paths`: numbers of hidden parameters with the degree of the coefficients in them, from the
    simplest on.
    """
    candidates = [Structure(degree, 0, bend) for bend in ((1, 2) if known else (0,))]
    kept = groups - -(-groups // folds_of(groups))
    for hidden, bend in paths:
        if hidden + known + 2 <= kept and bend + 1 < kept:
            candidates.append(Structure(degree, hidden, bend))
    return candidates


def degrees(
    groups: Groups,
    *,
    of_few: Shape = (1, 2, 3, 5),
    of_many: Shape = (1, 2, 3),
    per_coefficient: int = 2,
) -> list[int]:
    """Degrees of laws that the numbers in the data can tell, from the lowest on.

    `of_few`, `of_many`: degrees of laws of one or two latents, and of more.

    `per_coefficient`: numbers in the data, at least, for each coefficient of a law of all
    groups.
    """
    latents = groups.runs.states.shape[-1]
    numbers = int(groups.runs.observed.sum()) * latents
    every = of_few if latents <= 2 else of_many
    return [d for d in every if latents * math.comb(latents + d, d) * per_coefficient <= numbers]


def search(fits: Fits) -> None:
    """Try structures: degrees are judged by laws without a hidden parameter and with two; those that
    a lower one matches, or of which both are far from the best, are left at that.
    """
    scouts = _scouts(fits)
    farthest = FAR * min(trial.error for trial in fits.trials)
    near = [scout for scout in scouts if scout.error <= farthest]
    promising = _unmatched(near)
    for scout in promising:
        _try_others(fits, scout.structure.degree)
    chosen = simplest(fits.trials)
    if chosen.error <= EXACT * (1 + Policy.tie):
        return
    if chosen.error > FAR * max(EXACT, fits.groups.noise):
        # one parameter more may be no better, and two more all that is missing; until then a higher
        # degree makes up for some of it
        few = chosen.structure
        _try_structures(
            fits,
            near,
            lambda s: s.degree <= few.degree and s.hidden > few.hidden and s.bend == 1,
        )
        chosen = simplest(fits.trials)
    # degrees that more hidden parameters made alike may differ with this number of them
    other = [scout for scout in near if scout not in promising]
    _try_structures(fits, other, lambda s: s.hidden == chosen.structure.hidden)


def _try_structures(
    fits: Fits, scouts: Sequence[Trial], is_wanted: Callable[[Structure], bool]
) -> None:
    """Try the structures that are wanted, of the degrees of some trials."""
    for scout in scouts:
        for structure in fits.structures(scout.structure.degree):
            if is_wanted(structure):
                fits.trial(structure)


def _scouts(fits: Fits, *, high: int = 3) -> list[Trial]:
    """Judge degrees from the lowest on, until a high one is no better than the one before, and
    return the trials with the most hidden parameters, by which they are compared.

    `high`: degree above which higher ones are tried only if it is better than the one before.
    """
    scouts: list[Trial] = []
    for degree in degrees(fits.groups):
        if degree > high and is_as_good(scouts[-2], scouts[-1]):
            break
        every = fits.structures(degree)
        judging = [s for s in every if s.hidden == 0 or (s.bend == 1 and s.hidden <= SCOUT)]
        for structure in judging:
            if structure.hidden == 0 or structure == judging[-1]:
                scout = fits.trial(structure)
        scouts.append(scout)
    return scouts


def _unmatched(scouts: Sequence[Trial]) -> list[Trial]:
    """Keep the degrees that no lower one matches."""
    kept: list[Trial] = []
    for scout in scouts:
        if not any(is_as_good(lower, scout) for lower in kept):
            kept.append(scout)
    return kept


def _try_others(fits: Fits, degree: int) -> None:
    """Try the other structures of a degree, with more hidden parameters, and with higher powers of
    one, as long as these are better than fewer.
    """
    for structure in fits.structures(degree):
        if structure.hidden == 1 and structure.bend > 2:
            # tell whether the power before the highest one of a parameter was better than without it
            lower, low = (replace(structure, bend=structure.bend - k) for k in (2, 1))
            tried = {trial.structure: trial for trial in fits.trials}
            gains = low in tried and not is_as_good(tried[lower], tried[low])
        else:
            gains = structure.hidden < SCOUT or _parameters_gain(fits, structure)
        if gains:
            fits.trial(structure)


def _parameters_gain(fits: Fits, structure: Structure) -> bool:
    """Tell whether as many hidden parameters as were judged are better than fewer."""
    together = [trial for trial in fits.trials if trial.structure.degree == structure.degree]
    most = min(SCOUT, structure.hidden)
    fewer = [trial for trial in together if trial.structure.hidden < most]
    richer = [trial for trial in together if trial.structure.hidden >= most]
    return not is_as_good(_best(fewer), _best(richer))


def _best(trials: Sequence[Trial]) -> Trial:
    return min(trials, key=lambda trial: trial.error)


def is_as_good(one: Trial, other: Trial) -> bool:
    """Tell whether a trial is within one standard error of another one."""
    return Policy().is_as_good(one.errors.log().numpy(), other.errors.log().numpy())
