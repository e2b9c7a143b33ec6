"""Discovery of hidden contexts: search, last fit, and factors on its errors by left-out groups."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.once import remembered
from romkit.core.types import frozen
from romkit.hidden.errors import Estimate, Posterior, factor
from romkit.hidden.family import Structure, gauged, motion
from romkit.hidden.joint import Expanded, Stage, fitted, polished
from romkit.hidden.placing import independent_numbers, placed
from romkit.hidden.search import Fits, Groups, Trial, first_part, search, second_part, simplest
from romkit.hidden.starts import OwnLaws
from romkit.laws.sensitivities import Motion
from romkit.laws.shooting import NEAR, NOISY, SETTLED


@frozen
class Discovery:
    """Laws of a family with hidden contexts.

    Attributes:
        posterior: laws and contexts in the gauge, with their errors.
        trials: all that were tried, from the simplest on.
        taken: number of the trial whose structure was taken.
        of_contexts, of_forecasts: factors on deviations, by left-out groups.
    """

    posterior: Posterior
    trials: Sequence[Trial]
    taken: int
    of_contexts: float
    of_forecasts: float

    @property
    def chosen(self) -> Trial:
        """The trial whose structure was taken."""
        return self.trials[self.taken]

    @functools.cached_property
    def motion(self) -> Motion:
        """Motion of the laws."""
        return motion(self.posterior.family.theta.shape[2], self.chosen.structure.degree)


def discovered(groups: Groups) -> Discovery:
    """Hidden contexts of groups of runs.

    Forecasts choose the structure. A parameter of a group is one that its runs agree on: where runs
    of one group differ as much as those of several, it makes up for what the law lacks, and
    structures of fewer are taken. Where residuals are noise alone, the law lacks nothing, and the
    likelihood tells more: a parameter has to explain more than noise would, and one more is taken
    that does, if forecasts are better with it.
    """
    fits = Fits(groups)
    search(fits)
    evidence = _Evidence(fits)
    allowed = fits.trials
    while True:
        chosen = simplest(allowed)
        if evidence.is_real(chosen):
            break
        allowed = [t for t in allowed if t.structure.hidden < chosen.structure.hidden]
    while (trial := evidence.one_more(chosen)) is not None:
        chosen = trial
    check = evidence.check(chosen)
    posterior = evidence.fit(chosen.structure).posterior
    taken = fits.trials.index(chosen)
    return Discovery(posterior, fits.trials, taken, check.of_contexts, check.of_forecasts)


class _Fit(NamedTuple):
    """Fit of some groups in windows of some length, and the same laws in the gauge with their errors."""

    stage: Stage
    end: Expanded
    posterior: Posterior


class _Evidence:
    """Evidence of all groups for structures; fits and checks are made once.

    Args:
        fits: of the search.
    """

    def __init__(self, fits: Fits):
        self._of_search = fits
        self._groups = fits.groups

    @remembered
    def fit(self, structure: Structure) -> _Fit:
        """Return the fit of all groups, in windows as long as can be followed."""
        laws = self._of_search.own(structure.degree)
        family, duration, _ = self._of_search.whole(structure)
        runs = self._groups.runs
        stage = fitted(family, laws.motion, runs, duration)
        end: Expanded = polished(stage, laws.motion, runs)
        family = gauged(end.family, laws.information, int(runs.group[0]))
        end = replace(end, family=family)
        return _Fit(stage, end, Posterior.estimate(end))

    @remembered
    def check(self, chosen: Trial) -> "Check":
        """Return what left-out groups say."""
        laws = self._of_search.own(chosen.structure.degree)
        return _checked(self.fit(chosen.structure), laws, self._groups)

    def is_real(self, chosen: Trial) -> bool:
        """Tell whether the last hidden parameter belongs to the groups."""
        above = self.exceeds_noise(chosen.structure)
        if above is None:
            return self.check(chosen).shared >= chosen.structure.hidden
        return above

    def exceeds_noise(self, structure: Structure, *, largest: float = 2.0234) -> bool | None:
        """Tell whether the last hidden parameter explains more than noise would; None where residuals
        are not noise alone, or there is no hidden parameter.

        Of coefficients that differ by noise alone, the direction in which they differ most explains
        as much as the largest eigenvalue of a Wishart matrix says, in variances of the noise.

        `largest`: quantile of the Tracy-Widom law of order one, at level 0.99.

        Source: Johnstone (2001), On the distribution of the largest eigenvalue in principal
        components analysis, theorem 1.
        """
        if structure.hidden == 0 or self._groups.noise <= NOISY:
            return None
        end = self.fit(structure).end
        if float(end.cost) > NEAR * self._groups.noise**2:
            return None
        fewer = replace(structure, hidden=structure.hidden - 1)
        if fewer.hidden == 0 and self._groups.known.shape[1] == 0:
            fewer = replace(fewer, bend=0)
        before = self.fit(fewer).end
        a = end.family.theta.numel() - before.family.theta.numel() - fewer.hidden
        b = len(self._groups) - structure.hidden
        edge = (a**0.5 + b**0.5) ** 2
        scale = (a**0.5 + b**0.5) * (a**-0.5 + b**-0.5) ** (1 / 3)
        numbers = independent_numbers(end.fit.shots, self._groups.runs)
        unknowns = end.family.theta.numel() + end.family.hidden.numel() + end.start.numel()
        gain = float(before.cost - end.cost) / float(end.cost) * (numbers - unknowns)
        return gain > edge + largest * scale

    def one_more(self, chosen: Trial) -> Trial | None:
        """Return the trial with another hidden parameter, if there is one beyond doubt: with the same
        powers, or, where groups are too few for these, a straight one that explains more than the
        powers do, with fewer coefficients.
        """
        structure = chosen.structure
        allowed = self._of_search.structures(structure.degree)
        wanted = replace(structure, hidden=structure.hidden + 1, bend=max(1, structure.bend))
        if wanted not in allowed:
            wanted = replace(wanted, bend=1)
        if wanted not in allowed or not self.exceeds_noise(wanted):
            return None
        explains_more = bool(self.fit(wanted).end.cost < self.fit(structure).end.cost)
        trial = self._of_search.trial(wanted)
        return trial if explains_more and trial.error < chosen.error else None


class Check(NamedTuple):
    """Evidence of groups that were left out of a fit.

    Attributes:
        of_contexts, of_forecasts: factors on deviations.
        shared: number of hidden parameters that runs of a group share.
    """

    of_contexts: float
    of_forecasts: float
    shared: int


def _nearby(fit: _Fit, own: OwnLaws, groups: Groups, kept: Tensor) -> Posterior:
    """Return laws and contexts of some groups, a few steps from those of all, as many as they need."""
    begin = fit.stage._replace(family=fit.end.family.only(kept))
    resolution = fit.end.fit.resolution
    runs = groups.only(kept)
    end = polished(begin, own.motion, runs, relative=SETTLED, resolution=resolution)
    return Posterior.estimate(end)


def _checked(
    fit: _Fit,
    own: OwnLaws,
    groups: Groups,
    *,
    level: float = 0.9,
    width: float = 1.6449,
    most: int = 4,
) -> Check:
    """Return contexts and forecasts of single runs of groups that are left out, placed by their first
    part, compared with contexts of all and with their second part, and with each other.

    `level`, `width`: level at which factors are told, and the deviations of a normal law that
    have it.

    `most`: runs of a group that are compared.
    """
    posterior = fit.posterior
    of_contexts, of_forecasts, single = [], [], []
    group_of: list[int] = []
    for out in groups.folds():
        kept = groups.kept(out)
        without = _nearby(fit, own, groups, kept)
        to_all = torch.linalg.lstsq(
            _select(without.family.context), posterior.family.only(kept).hidden, driver="gelsd"
        ).solution
        for group in out.tolist():
            runs = groups.only(torch.tensor([group]))
            recorded = groups.known[group : group + 1]
            for run in range(min(most, len(runs.states))):
                alone = runs.only(torch.tensor([run]))
                at = placed(without.family, own.motion, first_part(alone), recorded)
                estimate = Estimate.evaluate(at, without)
                of_contexts.append(_context_ratios(estimate, to_all, posterior, group))
                late = second_part(alone)
                reached, deviation = estimate.forecast(late.times)
                of_forecasts.append(((reached - late.states[0]) / deviation).flatten())
                single.append((_select(at.family.context) @ to_all)[0])
            if len(runs.states) == 1:
                half = len(runs.times) // 2
                late = runs.between(half, len(runs.times) - 1)
                at = placed(without.family, own.motion, late, recorded)
                single.append((_select(at.family.context) @ to_all)[0])
            group_of += [group] * (len(single) - len(group_of))
    return Check(
        factor(torch.cat(of_contexts), level, width),
        factor(torch.cat(of_forecasts), level, width),
        number_shared(torch.stack(single), torch.tensor(group_of)),
    )


def number_shared(contexts: Tensor, group: Tensor, *, sure: float = 0.99) -> int:
    """Return number of parameters (N, r) of pieces that differ more between groups than within
    them, by the F test of the analysis of variance of their ranks, which a few lost pieces do not
    change.

    `sure`: level of the test whether runs of a group share a parameter.

    Source: Conover, Iman (1981), Rank transformations as a bridge between parametric and
    nonparametric statistics.
    """
    from scipy import stats  # slow to import, and seldom needed

    shared = 0
    members = [group == number for number in range(int(group.max()) + 1)]
    for column in contexts.T.numpy():
        ranks = stats.rankdata(column)
        test = stats.f_oneway(*(ranks[rows.numpy()] for rows in members))
        shared += bool(test.pvalue < 1 - sure)
    return shared


def _select(context: Tensor) -> Tensor:
    return torch.cat([torch.ones_like(context[:, :1]), context], -1)


def _context_ratios(estimate: Estimate, to_all: Tensor, posterior: Posterior, group: int) -> Tensor:
    """Return errors (r,) of a placed context relative to their deviations."""
    family = estimate.at.family
    r = family.hidden.shape[1]
    if r == 0:
        return family.hidden.new_zeros(0)
    hidden = (_select(family.context) @ to_all)[0]
    linear = to_all[-r:]
    variance = (linear.mT @ estimate.covariance @ linear).diagonal()
    variance = variance + posterior.deviations[group].square()
    return (hidden - posterior.family.hidden[group]) / variance.sqrt()
