"""Choice between a law and runs interpolated in the context, at equal times or at equal phases of
their clocks, by training runs that are left out.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core.errors import InputError
from romkit.core.types import Array
from romkit.data import context_matrix, trajectories
from romkit.data.coordinates import with_coordinates
from romkit.learning.clocks import between_phases, clocks_of, comes_to_rest
from romkit.learning.contexts import groups_between, scaled_contexts
from romkit.learning.coordinates import better_coordinates
from romkit.learning.errors import without_gaps
from romkit.learning.scale import deviations
from romkit.learning.weights import RIDGES, Regression, Weights, combined, splines

BETTER = 0.5
"""Error of the interpolation, in that of the law, geometric mean of the runs, below which it is taken:
a law holds for other starts and longer times, too.
"""

BETTER_FOR_INDIVIDUALS = 0.9
"""Limit of this ratio for a regression of individuals, whose spread is in both errors."""

BETTER_THAN_DRIVEN = 1.0
"""Limit of this ratio for a law with a period that nobody has given, which is taken where it errs by
less.
"""

FEWEST_LEFT_OUT = 3
"""Contexts between others from which on a regression is compared with splines."""

SMOOTHER = 0.8
"""Error of a regression, in that of splines, up to which it may be taken."""

AS_GOOD = 1.05
"""Error of a flatter regression, in that of the best one, up to which it is taken."""

SAME = 0.01
"""Range of the logarithms of clocks up to which runs have the same one."""

END = 0.1
"""Share of the time of the runs by which one may end before the others, and stays where it is."""

NEGLIGIBLE = 0.005
"""Error of a law [deviations] that needs no replacement."""


def can_interpolate(train: xr.Dataset, period: float | None) -> bool:
    """Whether runs can be interpolated: of contexts that stay, to about one end or until they rest,
    and without inputs of their own.
    """
    return not _obstacle(train, period)


def check_can_interpolate(train: xr.Dataset, period: float | None) -> None:
    """Raise InputError where runs cannot be interpolated."""
    obstacle = _obstacle(train, period)
    if obstacle:
        raise InputError(
            "kinds",
            expected="runs that can be interpolated, without inputs, at contexts that stay, and of one length",
            got=obstacle,
            fix="leave it out, kinds=None: a law learns from these",
        )


def _obstacle(train: xr.Dataset, period: float | None) -> str:
    """Reason that keeps runs from being interpolated, empty where nothing does."""
    if "control" in train and period is None:
        return "runs with inputs"
    if context_matrix(train).ndim == 3:
        return "contexts that move"
    if not _have_one_end(train):
        return "runs that end early"
    return ""


def _have_one_end(train: xr.Dataset) -> bool:
    """Whether all runs go to about one end, or until they rest."""
    is_known = np.isfinite(train["state"].values).any(-1)  # (C, T)
    times = train["time"].values.astype(float)
    last = np.where(is_known, times, -np.inf).max(1)  # (C,)
    ends = last >= times[-1] - END * (times[-1] - times[0])
    return bool((ends | _rest_at_the_end(train, is_known)).all())


def _rest_at_the_end(train: xr.Dataset, is_known: Array) -> Array:
    """Which runs (C,), known at times (C, T), hardly move in the last part of their time, so that they
    go on as they end.
    """
    relative = without_gaps(train) / deviations(train)
    rest = np.zeros(len(relative), dtype=bool)
    for run, known in enumerate(is_known):
        rest[run] = comes_to_rest(relative[run, known])
    return rest


class Way(NamedTuple):
    """Way between runs.

    Attributes:
        train: the runs, with the coordinates of their contexts.
        clocks: logarithms (C,) of the clocks of the runs, at equal phases of which they are
            interpolated; None at equal times.
        weights_of: of the runs.
    """

    train: xr.Dataset
    clocks: Array | None = None
    weights_of: Weights = splines

    def errors_left_out(self, rows: Tensor) -> Tensor:
        """Errors (k,) of the interpolation between the other runs on these [deviations]."""
        return errors_left_out(self.train, rows, self.clocks, self.weights_of)


class Compared(NamedTuple):
    """Errors of the choice between the law and the interpolation, on training runs that were left out.

    Attributes:
        law, interpolation: means over the runs [deviations].
        ratio: error of the interpolation in that of the law, geometric mean of the runs.
        limit: of this ratio, below which the interpolation is taken.
    """

    law: float
    interpolation: float
    ratio: float
    limit: float

    @property
    def is_better(self) -> bool:
        """Whether the interpolation is better than the law: in the mean, and typically by far; a
        regression of individuals, by what their spread leaves.
        """
        if self.law <= NEGLIGIBLE:
            return False
        return self.interpolation < self.law and self.ratio < self.limit


def way_that_helps(
    train: xr.Dataset, of_law: Sequence[tuple[Tensor, Tensor]], with_clocks: bool
) -> Way:
    """The way between runs that errs least on runs that are left out: at equal times, or at equal
    phases of clocks where these halve the error; in the contexts themselves, or in coordinates of
    them that do.

    Args:
        train: the runs.
        of_law: as of `compared`; its runs are those that are left out.
        with_clocks: whether runs may have clocks of their own.
    """
    if not of_law:
        return Way(train, None, weights_that_help(train))
    at_times = _in_better_coordinates(Way(train), of_law)
    if with_clocks:
        clocks = clocks_of_runs(train)
        if np.ptp(clocks) >= SAME:
            at_phases = _in_better_coordinates(Way(train, clocks), of_law)
            if _mean_error(at_phases, of_law) < BETTER * _mean_error(at_times, of_law):
                return at_phases
    return at_times._replace(weights_of=weights_that_help(at_times.train))


def _in_better_coordinates(way: Way, of_law: Sequence[tuple[Tensor, Tensor]]) -> Way:
    """A way in coordinates of the contexts in which it errs clearly less."""
    names = better_coordinates(
        way.train, lambda train: _mean_error(way._replace(train=train), of_law)
    )
    return way._replace(train=with_coordinates(way.train, names))


def _mean_error(way: Way, of_law: Sequence[tuple[Tensor, Tensor]]) -> float:
    """Mean error on the runs that a law was compared by [deviations]."""
    return float(torch.cat([way.errors_left_out(rows) for rows, _ in of_law]).mean())


def clocks_of_runs(train: xr.Dataset) -> Array:
    """Logarithms (C,) of the clocks of runs."""
    relative = without_gaps(train) / deviations(train)
    times = train["time"].values.astype(float)
    return clocks_of(relative, times, scaled_contexts(train, train))


def weights_that_help(train: xr.Dataset) -> Weights:
    """Weights of runs: splines through them, or the flattest regression that is about the best one,
    where splines follow what runs have by chance: individuals, and noise.
    """
    groups = groups_between(train)
    if len(groups) < FEWEST_LEFT_OUT:
        return splines
    regressions = [Regression(ridge) for ridge in RIDGES]
    errors = [_mean_error_left_out(train, groups, regression) for regression in regressions]
    least = min(errors)
    of_splines = _mean_error_left_out(train, groups, splines)
    if least > min(SMOOTHER * of_splines, _error_of_rest(train)):
        return splines
    # ridges grow: the last one that is good is the flattest
    good = [place for place, error in enumerate(errors) if error <= AS_GOOD * least]
    return regressions[good[-1]]


def _mean_error_left_out(train: xr.Dataset, groups: Sequence[Array], weights_of: Weights) -> float:
    """Mean error on the runs of each group from all others, at equal times [deviations]."""
    several = []
    for left_out in groups:
        rows = torch.from_numpy(left_out)
        several.append(errors_left_out(train, rows, None, weights_of))
    return float(torch.cat(several).mean())


def _error_of_rest(train: xr.Dataset) -> float:
    """Error of rest at the mean of all runs and times [deviations]."""
    relative = train["state"].values / deviations(train)
    apart = relative - np.nanmean(relative, axis=(0, 1))
    square = torch.from_numpy(np.square(apart)).nanmean(-1)
    return float(square.sqrt().nanmean())


def compared(
    way: Way, of_law: Sequence[tuple[Tensor, Tensor]], limit: float = BETTER
) -> Compared | None:
    """Errors of the interpolation and of the law on training runs that are left out; None where none
    is, or all forecasts are lost.

    Args:
        way: of the interpolation.
        of_law: numbers of the runs that a fold leaves out, and the errors (k,) of the law on these.
        limit: of the ratio of errors, below which an interpolation by splines is taken.
    """
    if not of_law:
        return None
    interpolation = torch.cat([way.errors_left_out(rows) for rows, _ in of_law])
    law = torch.cat([errors for _, errors in of_law]).double()
    is_finite = law.isfinite() & interpolation.isfinite()
    law = law[is_finite]
    interpolation = interpolation[is_finite]
    if len(law) == 0:
        return None
    # a run at the edge, where both err, does not hide what holds for the others
    ratio = interpolation / law.clamp(min=NEGLIGIBLE)
    geometric_mean = ratio.log().mean().exp()
    if way.weights_of is not splines:
        # individuals differ by as much from any forecast that does not know them
        limit = BETTER_FOR_INDIVIDUALS
    return Compared(float(law.mean()), float(interpolation.mean()), float(geometric_mean), limit)


def errors_left_out(
    train: xr.Dataset,
    rows: Tensor,
    clocks: Array | None = None,
    weights_of: Weights = splines,
) -> Tensor:
    """Errors (k,) of the interpolation between the other training runs on these [deviations], by
    clocks (C,) of the runs where there are some.
    """
    states = torch.from_numpy(without_gaps(train))
    relative = states / torch.from_numpy(deviations(train))
    contexts = torch.from_numpy(scaled_contexts(train, train))
    is_kept = torch.ones(len(states), dtype=torch.bool)
    is_kept[rows] = False
    known = contexts[is_kept]
    if clocks is None:
        between = combined(weights_of(known, contexts[rows]), relative[is_kept])
    else:
        times = train["time"].values.astype(float)
        of_runs = relative[is_kept].numpy()
        own = clocks[is_kept.numpy()]
        at_phases = between_phases(of_runs, times, own, known, contexts[rows], times, weights_of)
        between = torch.from_numpy(at_phases)
    is_observed = trajectories(train, "state").isfinite()[rows]
    error = torch.where(is_observed, between - relative[rows], torch.nan)
    return error.square().nanmean(-1).sqrt().nanmean(-1)
