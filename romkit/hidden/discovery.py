"""Discovery of hidden contexts: search, last fit, and factors on its errors by left-out groups."""

from dataclasses import dataclass

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
)
from romkit.hidden.starts import OwnLaws
from romkit.laws.sensitivities import Motion
from romkit.laws.shooting import ROUGH

LEVEL, WIDTH = 0.9, 1.6449
"""Level at which factors are told, and the deviations of a normal law that have it."""


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
    """Hidden contexts of groups of runs."""
    trials = searched(groups)
    chosen = simplest(trials)
    own = laws_of(chosen.structure.degree, groups)
    every = torch.arange(len(groups))
    posterior = _fit(chosen, own, groups, every)
    of_contexts, of_forecasts = _factors(chosen, own, groups, posterior)
    return Discovery(own.motion, posterior, chosen, trials, of_contexts, of_forecasts)


def _fit(chosen: Trial, own: OwnLaws, groups: Groups, kept: Tensor) -> Posterior:
    """Laws and contexts of some groups."""
    runs = groups.only(kept)
    family = fitted(own.start(chosen.structure, kept), own.motion, runs, Plan(ROUGH))
    end: Expanded = polished(family, own.motion, runs)
    return Posterior.of(end, gauged(end.family, own.information, int(runs.group[0])))


def _factors(
    chosen: Trial, own: OwnLaws, groups: Groups, posterior: Posterior
) -> tuple[float, float]:
    """Factors on the deviations of contexts and of forecasts, by groups that are left out, placed by
    their first part, and compared with contexts of all and with their second part.
    """
    of_contexts, of_forecasts = [], []
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
    return (
        factor(torch.cat(of_contexts), LEVEL, WIDTH),
        factor(torch.cat(of_forecasts), LEVEL, WIDTH),
    )


def _alignment(family: Family, other: Family) -> Tensor:
    """Affine map (1 + p + r, r) from the contexts of a family to the hidden ones of another one, of
    the same groups.
    """
    return torch.linalg.lstsq(_with_one(family.context), other.hidden, driver="gelsd").solution


def _with_one(context: Tensor) -> Tensor:
    return torch.cat([torch.ones_like(context[:, :1]), context], -1)


def _context_ratios(estimate: Estimate, to_all: Tensor, posterior: Posterior, group: int) -> Tensor:
    """Errors (r,) of a placed context relative to their deviations."""
    family = estimate.at.family
    r = family.hidden.shape[1]
    if r == 0:
        return family.hidden.new_zeros(0)
    hidden = (_with_one(family.context) @ to_all)[0]
    linear = to_all[-r:]
    variance = (linear.mT @ estimate.covariance @ linear).diagonal()
    variance = variance + posterior.deviations[group].square()
    return (hidden - posterior.family.hidden[group]) / variance.sqrt()
