"""Intervals of a learned model, by the errors of models that had not seen a run."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr

from romkit.core import tensors
from romkit.core.boundary import Part, validated
from romkit.core.types import Array
from romkit.data import DIMS, trajectories
from romkit.data.context import contexts_of
from romkit.data.schema import add_trajectories
from romkit.integrators import LearnedField
from romkit.laws.decoding import COMPONENTS
from romkit.learning.errors import Forecasts
from romkit.learning.interpolation import InterpolatedRuns
from romkit.learning.leftout import Fitted, LeftOut
from romkit.learning.rollouts import quietly, roll
from romkit.metrics import deviations, pool_units
from romkit.projections import Projection
from romkit.verbs.calibration import LEVELS, Calibration, conformal_quantiles, growth_and_profile
from romkit.verbs.ensemble import add_interval
from romkit.verbs.forecast import forecast
from romkit.verbs.sizes import Sizes, Widening

LEVEL = 0.9
"""Level of the intervals that are measured and shown."""

FEWEST = 2
"""Forecasts of runs that were left out, at least: a single one calibrates nothing."""


class Bars(NamedTuple):
    """Basis of intervals, and their widths.

    Attributes:
        runs: number of forecasts that they were calibrated by, of runs that a model had not seen.
        lost: number of further such forecasts that diverged, which they leave out.
        inside: share of the truth within the intervals of runs, each calibrated by the others.
        width: half of their width [deviations], root mean square over components, mean over time,
            and over places halfway between neighbouring runs, or over held-out runs.
        widest: the same at the widest of these.
    """

    runs: int
    lost: int
    inside: float
    width: float
    widest: float


@dataclass(frozen=True, eq=False)
class CalibratedLaw:
    """A manifold with a law, whose forecasts have intervals.

    Attributes:
        projection: the manifold.
        law: of its latents.
        calibration: of the errors.
    """

    projection: Projection
    law: LearnedField
    calibration: Calibration

    @validated
    def forecast(self, *, level: Part = LEVEL, **options: object) -> xr.Dataset:
        """Forecast from a state, as `romkit.forecast` does, with an interval."""
        run = forecast(self.projection, dynamics=self.law, on_components=True, **options)
        band = self._add_interval(add_trajectories(run), level)
        return band if "trajectory" in run.dims else band.squeeze("trajectory")

    @validated
    def follow(self, data: xr.Dataset, *, level: Part = LEVEL) -> xr.Dataset:
        """Forecast the runs of a dataset, with intervals."""
        run = roll(self.projection, self.law, data)
        states = run[["rom", "state_std"]].rename(rom="state")
        return self._add_interval(states, level)

    def _add_interval(self, run: xr.Dataset, level: float) -> xr.Dataset:
        state = run["state"].transpose(*DIMS)
        lead = run["time"].values - run["time"].values[0]
        contexts = np.stack(
            [np.broadcast_to(_mean(run[name]), len(state)) for name in self.law_contexts], -1
        )
        spread = np.zeros(state.shape)
        half = self.calibration.factor(level) * self.calibration.scale(lead, spread, contexts)
        return add_interval(run.assign(state=state), half, level)

    def expected(self, contexts: Array, deviation: Array) -> Array:
        """Return expected errors (k,) of runs at contexts (k, p), by the scale of the intervals and in
        deviations (n,): root mean square over components, mean over time.
        """
        calibration = self.calibration
        of_components = np.sqrt(np.square(calibration.profile / deviation).mean())
        return calibration.sizes.at(contexts) * calibration.growth.mean() * of_components

    @property
    def law_contexts(self) -> tuple[str, ...]:
        """Names of the parameters of the runs."""
        return self.projection.frame.context_names


def _mean(parameter: xr.DataArray) -> Array:
    """Return mean over time of a parameter that moves."""
    if "time" in parameter.dims:
        parameter = parameter.mean("time")
    return parameter.values


def calibrated(
    whole: Fitted, of_folds: LeftOut, data: xr.Dataset
) -> tuple[Calibration | None, float]:
    """Calibrate intervals of a model by the errors of models that had not seen a run.

    The scale of an error is size(c) growth(t) profile(k) at context c, time t and component k. A
    size is the error on runs around c that the model has learned from, and more in a gap between
    them: how much more, runs that were left out tell. So bars are not wider because the models that
    were judged had fewer runs, and wider gaps, than the model of all. Quantiles are those of errors
    in this scale, each by growth and profile of the other runs.

    Args:
        whole: the model of all runs.
        of_folds: forecasts of runs by models without them.
        data: all runs.

    Returns:
        The calibration, None where fewer than two forecasts are finite, and the share of the truth
        within the intervals of left-out runs, each by the scores of the others.

    Source: Lei, G'Sell, Rinaldo, Tibshirani, Wasserman (2018), locally weighted conformal inference;
    Barber, Candès, Ramdas, Tibshirani (2021), the jackknife+ and CV+.
    """
    std = deviations(data)
    of_all = of_folds.forecasts
    is_lost = _are_lost(of_all)
    usable = np.flatnonzero(~is_lost & np.isfinite(of_all.truth).any((1, 2)))
    if len(usable) < FEWEST:
        return None, np.nan
    # as laws are judged: some thousand components tell as much as all
    chosen = tensors.evenly(len(std), COMPONENTS).numpy()
    errors = _errors(of_all, usable, chosen) / std[chosen]  # (V, T, k)
    learned = of_folds.learned[usable]
    gap = of_folds.gaps[usable]
    widening = Widening.fitted(learned, gap, _sizes(errors))
    measure = widening.of(learned, gap)  # (V,)
    relative = errors / measure[:, None, None]
    ones = np.ones(len(chosen))
    growth, profile = growth_and_profile(relative, ones, typical=True)
    profile = _pooled_profile(of_all, usable, std, growth, relative, measure, profile)
    scores = np.empty_like(relative)
    weights = np.empty_like(relative)
    for k in range(len(relative)):
        kept = np.arange(len(relative))
        if len(relative) > FEWEST:
            kept = np.delete(kept, k)
        of_others = growth_and_profile(relative, ones, True, kept.tolist())
        own_scale = of_others[0][:, None] * of_others[1]
        scores[k] = np.abs(relative[k]) / own_scale
        weights[k] = np.square(measure[k] * own_scale)
    contexts = contexts_of(data)
    width = np.ptp(contexts, axis=0)
    times = data["time"].values.astype(float)
    calibration = Calibration(
        lead=times - times[0],
        growth=growth,
        profile=std * profile,
        quantiles=conformal_quantiles(scores, weights),
        trajectories=len(usable),
        lost=int(is_lost.sum()),
        sizes=Sizes(contexts, whole.errors, np.where(width > 0, width, 1.0), widening),
    )
    return calibration, _coverage(scores, weights)


def _are_lost(forecasts: Forecasts) -> Array:
    """Tell which forecasts (V,) are missing where the truth is there."""
    lost = []
    for truth, state in zip(forecasts.truth, forecasts.state, strict=True):
        lost.append((np.isfinite(truth) & np.isnan(state)).any())
    return np.array(lost)


def _errors(forecasts: Forecasts, rows: Array, columns: Array) -> Array:
    """Return errors (V, T, k) of forecasts of some runs and components; NaN where the truth is
    missing.
    """
    where = np.ix_(rows, range(forecasts.truth.shape[1]), columns)
    return forecasts.truth[where] - forecasts.state[where]


def _pooled_profile(
    forecasts: Forecasts,
    rows: Array,
    std: Array,
    growth: Array,
    relative: Array,
    measure: Array,
    profile: Array,
) -> Array:
    """Return the profile (n,) of all components, by the growth (T,) of some of them.

    Args:
        forecasts: of all runs.
        rows: of the runs whose errors count.
        std: (n,) of the components.
        growth: (T,).
        relative: errors (V, T, k) of some components, in those of their runs.
        measure: (V,) of these.
        profile: (k,) of these components.
    """
    n = len(std)
    if len(profile) == n:
        return profile
    sizes = np.nanmean(np.square(relative), axis=(1, 2))  # (V,)
    weights = np.median(sizes) / sizes / np.square(measure)
    of_all = np.empty(n)
    for columns in np.array_split(np.arange(n), math.ceil(n / COMPONENTS)):
        errors = _errors(forecasts, rows, columns) / std[columns] / growth[:, None]
        square = np.nanmean(np.square(errors), axis=1)  # (V, k)
        of_all[columns] = np.sqrt(np.nanmean(square * weights[:, None], axis=0))
    return np.maximum(np.nan_to_num(of_all), 1e-6)


def _sizes(errors: Array) -> Array:
    """Root mean square over components, mean over time (V,) of errors (V, T, n)."""
    square = torch.from_numpy(np.square(errors))
    return square.nanmean(-1).sqrt().nanmean(-1).numpy()


def _coverage(scores: Array, weights: Array) -> float:
    """Return share of scores (V, T, n) within the quantile of the scores of the other runs."""
    if len(scores) <= FEWEST:
        return np.nan
    shares = []
    for k in range(len(scores)):
        kept = np.delete(np.arange(len(scores)), k)
        limit = np.interp(LEVEL, LEVELS, conformal_quantiles(scores[kept], weights[kept]))
        finite = scores[k][np.isfinite(scores[k])]
        shares.append((finite <= limit).mean())
    return float(np.mean(shares))


def measured(
    intervals: CalibratedLaw | InterpolatedRuns, runs: xr.Dataset, level: float, inside: float
) -> Bars:
    """Measure the widths of intervals along runs.

    Args:
        intervals: their source.
        runs: with contexts and starts.
        level: of the intervals.
        inside: share of the truth within those of runs that were left out; NaN to measure it on
            these runs, which the model has not seen.
    """
    band = quietly(intervals.follow, runs, level=level)
    lower = band["lower"].transpose(*DIMS).values
    upper = band["upper"].transpose(*DIMS).values
    scale = pool_units(band["state_std"].values.astype(float), runs)
    half = (upper - lower) / 2 / scale
    widths = np.sqrt(np.square(half).mean(-1)).mean(-1)  # (C,)
    if np.isnan(inside):
        truth = trajectories(runs, "state").numpy()
        observed = np.isfinite(truth) & np.isfinite(lower)
        inside = float(((truth >= lower) & (truth <= upper))[observed].mean())
    calibration = intervals.calibration
    mean, widest = float(np.nanmean(widths)), float(np.nanmax(widths))
    return Bars(calibration.trajectories, calibration.lost, inside, mean, widest)
