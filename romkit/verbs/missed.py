"""Calibration of a law by runs that it has not seen, and by runs that laws around it have missed."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from romkit.core.errors import InputError
from romkit.core.types import Array
from romkit.verbs.calibration import (
    Calibration,
    growth_and_profile,
    largest_disagreement,
    quantiles_of,
    scale,
)
from romkit.verbs.sizes import Sizes, gaps, sizes_between

CHANCE = 1.5
"""Ratio of the errors of a law to those of its members up to which a few trajectories differ by
chance.
"""


class Runs(NamedTuple):
    """Runs that a law and members around it have learned from, or not.

    Attributes:
        contexts: (R, p), in their ranges.
        unseen: (B, R) true where the law, or a member, has not seen a run.
    """

    contexts: Array
    unseen: Array

    @property
    def judge(self) -> Array:
        """Number (R,) of the first one that has not seen a run; the law, where all have."""
        return self.unseen.argmax(0)

    @property
    def are_unseen(self) -> Array:
        """Which runs (R,) have such a judge."""
        return self.unseen.any(0)


class Judged(NamedTuple):
    """Forecasts of runs, each by its judge.

    Attributes:
        errors: (R, T, n) [deviations]; NaN where the truth is missing, infinite where a forecast is
            lost.
        sizes: (B, R) errors of the law and of each member, root mean square; infinite where one is
            lost.
        spread: (R, T, n) deviation by the members that have seen a run, or by all where the law has
            not seen it, either [deviations].
        own: (R, T, n) part of the member that has missed it; 0 where there is none.
    """

    errors: Array
    sizes: Array
    spread: Array
    own: Array

    @classmethod
    def of(cls, truth: Array, states: Array, std: Array, runs: Runs, parts: int) -> "Judged":
        """Return forecasts of some runs.

        Args:
            truth: (R, T, n), NaN where it is missing.
            states: (B, R, T, n) of the law and of members, NaN where they are lost.
            std: (n,) of the components in training.
            runs: the same.
            parts: of the data, of which each member misses one, and is one term of the jackknife; 0
                where members measure a spread by their mean square.
        """
        is_lost = np.isfinite(truth) & np.isnan(states)
        errors = np.where(is_lost, np.inf, (truth - states) / std)
        numbers = np.arange(len(truth))
        squares = np.ma.masked_invalid(np.square((states[1:] - states[0]) / std))
        is_own = runs.unseen[1:] & ~runs.unseen[0]  # (B - 1, R)
        of_others = _masked(squares, is_own)
        of_own = _masked(squares, ~is_own)
        if parts > 0:
            # Σ distance² (parts - 1)/parts, where parts that no member misses are like the others
            number = parts - is_own.any(0)  # (R,)
            share = (parts - 1) / parts
            spread = share * number[:, None, None] * of_others.mean(0)
            own = share * of_own.sum(0)
        else:
            spread = of_others.sum(0) / len(squares)
            own = of_own.sum(0) / len(squares)
        return cls(
            errors[runs.judge, numbers],
            size_of(errors),
            np.ma.sqrt(spread).filled(0.0),
            np.ma.sqrt(own).filled(0.0),
        )

    def with_sizes(self, sizes: Array, runs: Runs) -> "Judged":
        """Return forecasts whose errors at runs that their judge has not seen are at least of sizes
        (R,); infinite ones are lost.
        """
        numbers = np.arange(len(self.errors))
        of_judges = self.sizes[runs.judge, numbers]
        is_larger = runs.are_unseen & (sizes > of_judges)
        usable = is_larger & np.isfinite(sizes) & (of_judges > 0)
        factor = np.divide(sizes, of_judges, out=np.ones_like(of_judges), where=usable)
        changed = self.sizes.copy()
        changed[runs.judge, numbers] = np.where(is_larger, sizes, of_judges)
        scaled = factor[:, None, None] * self.errors
        return self._replace(errors=scaled, sizes=changed, own=factor[:, None, None] * self.own)

    def with_errors_of_manifolds(self, lacking: Array, runs: Runs) -> "Judged":
        """Return forecasts whose errors have a further part of sizes (R,), that of a manifold that
        has not seen a run beyond that of the manifold that has.
        """
        of_judges = self.sizes[runs.judge, np.arange(len(self.errors))]
        return self.with_sizes(np.hypot(of_judges, lacking), runs)


def joined(several: Sequence[Judged]) -> Judged:
    """Return forecasts of all runs from those of some."""
    errors, sizes, spread, own = zip(*several, strict=True)
    return Judged(
        np.concatenate(errors),
        np.concatenate(sizes, axis=1),
        np.concatenate(spread),
        np.concatenate(own),
    )


def calibration_of(
    judged: Judged, runs: Runs, width: Array, std: Array, times: Array
) -> Calibration:
    """Calibration by the forecasts of runs that their judge has not seen.

    The scale of an error is √(spread² + (size(c) growth(t) profile(k))²) at context c, time t and
    component k. A size is that of `romkit.verbs.sizes.Sizes`: the error on runs around c that the law
    has learned from, and more in a gap. A run that a law has missed is measured in the size of this
    law there: by its errors on the runs that it has learned from, and by the gap that the run has
    left. So bars are not wider because the laws that were judged had fewer runs, and wider gaps, than
    the law of all. Members begin at the law, and may still know what they miss: where there are
    further runs, their errors are raised to those of the law on these. Quantiles are those of errors
    in this scale, each by growth and profile of the other runs.

    Args:
        judged: forecasts of all runs (R,).
        runs: the same.
        width: (p,) of the ranges of contexts.
        std: (n,) of the components in training.
        times: (T,).

    Raises:
        InputError: fewer than two finite forecasts of runs that their judge has not seen.

    Source: Lei, G'Sell, Rinaldo, Tibshirani, Wasserman (2018), locally weighted conformal inference;
    Barber, Candès, Ramdas, Tibshirani (2021), jackknife+.
    """
    sizes = judged.sizes[runs.judge, np.arange(len(runs.judge))]  # (R,)
    is_finite = np.isfinite(sizes)
    usable = np.flatnonzero(runs.are_unseen & is_finite)
    if len(usable) < 2:
        fix = "hold more trajectories out, or raise the number of members"
        got = f"{len(usable)}"
        raise InputError("validation", expected="two trajectories or more", got=got, fix=fix)
    learned, gap = _around(usable, judged, runs)
    by_member = runs.judge[usable] > 0
    understated = _understated(sizes[usable] / learned, by_member)
    factor = np.where(by_member, understated, 1.0)  # (V,)
    widening = _widening(factor * sizes[usable] / learned, gap)
    measure = learned * np.sqrt(1 + widening * np.square(gap))
    errors = factor[:, None, None] * judged.errors[usable]
    relative = errors / measure[:, None, None]  # (V, T, n)
    spread = np.hypot(judged.spread[usable], factor[:, None, None] * judged.own[usable])
    # runs that all have learned from tell of growth and profile as well
    seen = np.flatnonzero(~runs.are_unseen & is_finite)
    of_seen = judged.errors[seen] / sizes[seen, None, None]
    growth, profile = _shape(relative, of_seen)
    scores = np.empty_like(errors)
    for k in range(len(usable)):
        growth_of_others, profile_of_others = _shape(np.delete(relative, k, axis=0), of_seen)
        unit = scale(spread[k], measure[k] * growth_of_others, profile_of_others)
        scores[k] = np.abs(errors[k]) / unit
    law = np.flatnonzero(~runs.unseen[0] & np.isfinite(judged.sizes[0]))
    return Calibration(
        lead=times - times[0],
        growth=growth,
        profile=std * profile,
        quantiles=quantiles_of(scores),
        trajectories=len(usable),
        lost=int((runs.are_unseen & ~is_finite).sum()),
        disagreement=largest_disagreement(spread, profile),
        sizes=Sizes(runs.contexts[law] * width, judged.sizes[0, law], width, widening),
    )


def _around(usable: Array, judged: Judged, runs: Runs) -> tuple[Array, Array]:
    """Return errors (V,) of judges on runs around those that they have not seen, which they have
    learned from, and the gaps that these leave.
    """
    learned = np.ones(len(usable))
    gap = np.zeros(len(usable))
    for k, run in enumerate(usable):
        judge = runs.judge[run]
        of_judge = judged.sizes[judge]
        has_learned = ~runs.unseen[judge] & np.isfinite(of_judge)
        if not has_learned.any():
            continue
        around = runs.contexts[has_learned]
        wanted = runs.contexts[[run]]
        (learned[k],) = sizes_between(around, of_judge[has_learned], wanted)
        (gap[k],) = gaps(around, wanted)
    return learned, gap


def _understated(sizes: Array, by_members: Array) -> float:
    """Return ratio of the errors (V,) of a law to those of members around it, each the median over
    runs; 1 where one of the two is not known, or the ratio may be chance.
    """
    if by_members.all() or not by_members.any():
        return 1.0
    of_law = np.median(sizes[~by_members])
    of_members = np.median(sizes[by_members])
    if of_law <= CHANCE * of_members:
        return 1.0
    return float(of_law / of_members)


def _widening(ratio: Array, gap: Array) -> float:
    """Widening of errors (V,), in those on runs around, by gaps (V,): the median over runs."""
    excess = np.maximum(np.square(ratio) - 1, 0.0)
    widening = excess[gap > 0] / np.square(gap[gap > 0])
    if len(widening) == 0:
        return 0.0
    return float(np.median(widening))


def _shape(relative: Array, of_seen: Array) -> tuple[Array, Array]:
    """Growth (T,) and profile (n,) of errors (V, T, n) and (S, T, n), each run in units of its own
    error; the growth times the median of the former.
    """
    level = np.median(size_of(relative))
    together = np.concatenate([relative / level, of_seen])
    ones = np.ones(relative.shape[-1])
    growth, profile = growth_and_profile(together, ones, typical=True)
    return level * growth, profile


def size_of(errors: Array) -> Array:
    """Root mean square (...) of errors (..., T, n) where they are known; infinite where none is."""
    number = (~np.isnan(errors)).sum((-2, -1))
    total = np.nansum(np.square(errors), (-2, -1))
    mean = np.divide(total, number, out=np.full(total.shape, np.inf), where=number > 0)
    return np.sqrt(mean)


def _masked(squares: np.ma.MaskedArray, of_runs: Array) -> np.ma.MaskedArray:
    """Return numbers (B, R, T, n) without those of some runs (B, R)."""
    unused = np.broadcast_to(of_runs[:, :, None, None], squares.shape)
    return np.ma.masked_where(unused, squares)
