"""Discovery of hidden contexts: search, last fit, and factors on its errors by left-out groups."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import scipy.stats
import torch
from torch import Tensor

from romkit.hidden.errors import Estimate, Posterior, factor
from romkit.hidden.family import Family
from romkit.hidden.gauge import gauged
from romkit.hidden.joint import Expanded, Plan, fitted, polished
from romkit.hidden.placing import placed
from romkit.hidden.search import (
    Groups,
    Trial,
    first_part,
    laws_of,
    searched,
    second_part,
    simplest,
    start,
)
from romkit.hidden.starts import OwnLaws
from romkit.laws.courses import Runs
from romkit.laws.sensitivities import Motion
from romkit.laws.shooting import ROUGH

LEVEL, WIDTH = 0.9, 1.6449
"""Level at which factors are told, and the deviations of a normal law that have it."""


SURE = 0.99
"""Level of the test whether runs of a group share a parameter."""

MOST = 4
"""Runs of a group, at most, whose own contexts are compared."""


@dataclass(frozen=True, eq=False)
class Discovery:
    """Laws of a family with hidden contexts.

    Attributes:
        motion: of the laws.
        posterior: laws and contexts in the gauge, with their errors.
        chosen: trial whose structure was taken.
        trials: all of them, from the simplest on.
        of_contexts, of_forecasts: factors on deviations, by left-out groups.
    """

    motion: Motion
    posterior: Posterior
    chosen: Trial
    trials: list[Trial]
    of_contexts: float
    of_forecasts: float


def discovered(groups: Groups) -> Discovery:
    """Hidden contexts of groups of runs.

    A parameter of a group is one that its runs agree on. Where runs of one group differ as much as
    those of several, a parameter makes up for what the law lacks: structures of fewer are taken.
    """
    trials = searched(groups)
    allowed = trials
    while True:
        chosen = simplest(allowed)
        own = laws_of(chosen.structure.degree, groups)
        posterior = _fit(chosen, own, groups, torch.arange(len(groups)))
        check = _checked(chosen, own, groups, posterior)
        if check.shared >= chosen.structure.hidden:
            break
        allowed = [t for t in allowed if t.structure.hidden < chosen.structure.hidden]
    return Discovery(own.motion, posterior, chosen, trials, check.of_contexts, check.of_forecasts)


class Check(NamedTuple):
    """Evidence of groups that were left out of a fit.

    Attributes:
        of_contexts, of_forecasts: factors on deviations.
        shared: number of hidden parameters that runs of a group share.
    """

    of_contexts: float
    of_forecasts: float
    shared: int


def _fit(chosen: Trial, own: OwnLaws, groups: Groups, kept: Tensor) -> Posterior:
    """Return laws and contexts of some groups."""
    runs = groups.only(kept)
    stage = fitted(start(chosen.structure, own, groups, kept), own.motion, runs, Plan(ROUGH))
    end: Expanded = polished(stage, own.motion, runs)
    return Posterior.of(end, gauged(end.family, own.information, int(runs.group[0])))


def _checked(chosen: Trial, own: OwnLaws, groups: Groups, posterior: Posterior) -> Check:
    """Return contexts and forecasts of groups that are left out, placed by their first part, and
    compared with contexts of all and with their second part; and contexts of their single runs.
    """
    of_contexts, of_forecasts, single, group_of = [], [], [], []
    for out in groups.folds():
        kept = groups.kept(out)
        without = _fit(chosen, own, groups, kept)
        to_all = _alignment(without.family, posterior.family.only(kept))
        for group in out.tolist():
            runs = groups.only(torch.tensor([group]))
            known = groups.known[group : group + 1]
            at = placed(without.family, own.motion, first_part(runs), known)
            estimate = Estimate.of(at, without)
            of_contexts.append(_context_ratios(estimate, to_all, posterior, group))
            late = second_part(runs)
            for run in range(len(late.states)):
                reached, deviation = estimate.forecast(late.times, run)
                of_forecasts.append(((reached - late.states[run]) / deviation).flatten())
            for piece in _pieces(runs):
                alone = placed(without.family, own.motion, piece, known)
                single.append((_with_one(alone.family.context) @ to_all)[0])
                group_of.append(group)
    shared = number_shared(torch.stack(single), torch.tensor(group_of))
    return Check(
        factor(torch.cat(of_contexts), LEVEL, WIDTH),
        factor(torch.cat(of_forecasts), LEVEL, WIDTH),
        shared,
    )


def _pieces(runs: Runs) -> list[Runs]:
    """Single runs of a group, or halves of the only one."""
    if len(runs.states) > 1:
        return [runs.only(torch.tensor([run])) for run in range(min(MOST, len(runs.states)))]
    half = len(runs.times) // 2
    early = replace(runs, states=runs.states[:, : half + 1], times=runs.times[: half + 1])
    late = replace(runs, states=runs.states[:, half:], times=runs.times[half:])
    return [early, late]


def number_shared(contexts: Tensor, group: Tensor) -> int:
    """Return number of parameters (N, r) of pieces that differ more between groups than within
    them, by the F test of the analysis of variance of their ranks, which a few lost pieces do not
    change.

    Source: Conover, Iman (1981), Rank transformations as a bridge between parametric and
    nonparametric statistics.
    """
    shared = 0
    members = [group == number for number in range(int(group.max()) + 1)]
    for column in contexts.T.numpy():
        ranks = scipy.stats.rankdata(column)
        test = scipy.stats.f_oneway(*(ranks[rows.numpy()] for rows in members))
        shared += bool(test.pvalue < 1 - SURE)
    return shared


def _alignment(family: Family, other: Family) -> Tensor:
    """Affine map (1 + p + r, r) from the contexts of a family to the hidden ones of another one, of
    the same groups.
    """
    return torch.linalg.lstsq(_with_one(family.context), other.hidden, driver="gelsd").solution


def _with_one(context: Tensor) -> Tensor:
    return torch.cat([torch.ones_like(context[:, :1]), context], -1)


def _context_ratios(estimate: Estimate, to_all: Tensor, posterior: Posterior, group: int) -> Tensor:
    """Return errors (r,) of a placed context relative to their deviations."""
    family = estimate.at.family
    r = family.hidden.shape[1]
    if r == 0:
        return family.hidden.new_zeros(0)
    hidden = (_with_one(family.context) @ to_all)[0]
    linear = to_all[-r:]
    variance = (linear.mT @ estimate.covariance @ linear).diagonal()
    variance = variance + posterior.deviations[group].square()
    return (hidden - posterior.family.hidden[group]) / variance.sqrt()
