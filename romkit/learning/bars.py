"""Intervals of a learned model: laws that miss a context each, judged by what they have not seen."""

from typing import NamedTuple

import numpy as np
import xarray as xr

from romkit.core import tensors
from romkit.core.errors import InputError
from romkit.core.runtime import track
from romkit.core.types import Array
from romkit.data import DIMS, trajectories
from romkit.laws import Estimator, LimitCycle
from romkit.learning.contexts import groups_between, number_of_contexts
from romkit.learning.interpolation import InterpolatedRuns
from romkit.learning.manifolds import Model
from romkit.learning.quiet import quiet
from romkit.learning.refit import refitted_projection
from romkit.learning.scale import shared
from romkit.learning.turns import HeldOut
from romkit.models import in_double
from romkit.projections import Projection
from romkit.verbs.bootstrap import centred_ensemble
from romkit.verbs.ensemble import Ensemble
from romkit.verbs.missed import size_of

NOT_ASKED, FEW_CONTEXTS, ALL_LOST = "not asked for", "few contexts", "all lost"
"""Reasons why a model has no intervals."""

LEVEL = 0.9
"""Level of the intervals that are measured and shown."""


class Bars(NamedTuple):
    """Basis of intervals, and their widths on held-out runs.

    Attributes:
        runs: number of forecasts that they were calibrated by, of runs that their law had not seen.
        inside: share of the held-out runs within their intervals, NaN for a model that has learned from
            them; forecasts that are lost are left out here and below.
        lost: number of further such forecasts that are lost, which they leave out.
        width: half of their width [deviations], root mean square over components, mean over time,
            median of the runs.
    """

    runs: int
    lost: int
    inside: float
    width: float


class Intervals(NamedTuple):
    """An ensemble that gives intervals, or why there is none.

    Attributes:
        ensemble: None where there are no intervals.
        without: reason, "" where there are some.
    """

    ensemble: Ensemble | None
    without: str = ""


def intervals_of(
    model: Model,
    train: xr.Dataset,
    judged: HeldOut | None,
    members: int,
    seed: int,
) -> Intervals:
    """The law of a model with members around it that miss a context each.

    Contexts at the ends of a range are in all members: without them a law extrapolates, which the
    wanted forecast does not. Intervals are calibrated by the held-out runs and by the runs that
    each member misses, so that they rest on more runs than were held out.

    Args:
        model: of the training runs.
        train: these.
        judged: forecasts by models that have not seen a run, of further runs, or of those of the
            training; None without any.
        members: laws that miss a context each.
        seed: of the fits.
    """
    test = None if judged is None else judged.further
    without = reason_without(train, test, members)
    if without:
        return Intervals(None, without)
    rows = _left_out(train, members)
    draws = []
    for left_out in rows:
        draws.append(np.setdiff1d(np.arange(train.sizes["trajectory"]), left_out))
    parts = _parts(model.settings, train)
    with quiet():
        ensemble = centred_ensemble(
            model.projection, model.settings, model.law, train, draws, seed, parts
        )
        runs, unseen = _runs(train, test, rows)
        # members share a projection that knows what they miss
        lacking = np.zeros(runs.sizes["trajectory"])
        for left_out in track(rows, "manifolds for bars"):
            lacking[left_out] = _lacking(model.projection, train, left_out)
        least = None
        if judged is not None and judged.in_turn:
            least = _sizes_in_turn(model.projection, train, judged)
        try:
            # a forecast that is lost says so itself, and leaves the others their intervals
            calibrated = ensemble.calibrated_by_missed(runs, unseen, least, lacking)
        except InputError:
            # forecasts that are lost calibrate nothing
            return Intervals(None, ALL_LOST)
    return Intervals(calibrated)


def _lacking(projection: Projection, train: xr.Dataset, left_out: Array) -> Array:
    """Sizes (k,) of the further errors of a projection with the same settings that has not seen some
    runs [deviations].
    """
    if projection.name == "identity":
        return np.zeros(len(left_out))
    kept = np.setdiff1d(np.arange(train.sizes["trajectory"]), left_out)
    other = refitted_projection(projection, train.isel(trajectory=kept))
    missed = train.isel(trajectory=left_out)
    of_other = _size_of_projection(other, missed, projection)
    of_own = _size_of_projection(projection, missed, projection)
    return np.sqrt(np.maximum(np.square(of_other) - np.square(of_own), 0.0))


def _size_of_projection(projection: Projection, runs: xr.Dataset, scaled_by: Projection) -> Array:
    """Root mean square errors (k,) of states that are encoded and decoded, in the deviations of a
    projection.
    """
    std = scaled_by.frame.state_std.double().numpy()
    truth = trajectories(runs, "state").double().numpy()
    image = in_double(projection)(runs)(truth)
    return size_of((truth - np.asarray(image)) / std)


def _sizes_in_turn(projection: Projection, train: xr.Dataset, judged: HeldOut) -> Array:
    """Sizes (R,) of the errors of models that have seen neither run nor context [deviations], 0 at
    runs that no model has missed; infinite where one is lost.
    """
    std = projection.frame.state_std.double().numpy()
    truth = trajectories(judged.test, "state").numpy()
    forecast = judged.run["rom"].values
    is_lost = np.isfinite(truth) & np.isnan(forecast)
    differences = np.where(is_lost, np.inf, (truth - forecast) / std)
    sizes = np.zeros(train.sizes["trajectory"])
    sizes[np.concatenate(groups_between(train))] = size_of(differences)
    return sizes


def _parts(settings: Estimator, train: xr.Dataset) -> int:
    """Number of contexts, where each has a share in all coefficients; 0 where orbits are interpolated
    between contexts: the distance of a member then measures a gap twice as wide.
    """
    if isinstance(settings, LimitCycle):
        return 0
    return number_of_contexts(train)


def reason_without(train: xr.Dataset, test: xr.Dataset | None, members: int) -> str:
    """Why there can be no intervals, before any law is fitted for them; "" where there can."""
    if members < 2:
        return NOT_ASKED
    rows = _left_out(train, members)
    runs = sum(map(len, rows))
    if test is not None:
        runs += test.sizes["trajectory"]
    # a single forecast calibrates nothing
    if not rows or runs < 2:
        return FEW_CONTEXTS
    return ""


def _left_out(train: xr.Dataset, members: int) -> list[Array]:
    """Runs of each context that a member misses: contexts between others, evenly among them."""
    groups = groups_between(train)
    if not groups:
        return []
    return [groups[place] for place in tensors.evenly(len(groups), members).tolist()]


def _runs(
    train: xr.Dataset, test: xr.Dataset | None, rows: list[Array]
) -> tuple[xr.Dataset, Array]:
    """Runs of the training and held-out ones, and (members, runs) who has not seen which."""
    runs = train
    if test is not None:
        runs = joined(train, test)
    number = train.sizes["trajectory"]
    unseen = np.zeros((len(rows) + 1, runs.sizes["trajectory"]), dtype=bool)
    unseen[:, number:] = True
    for member, missed in enumerate(rows, start=1):
        unseen[member, missed] = True
    return runs, unseen


def joined(runs: xr.Dataset, further: xr.Dataset) -> xr.Dataset:
    """Runs of two datasets."""
    return xr.concat([runs, further], "trajectory", data_vars="minimal", coords="minimal")


def measured(
    ensemble: Ensemble | InterpolatedRuns, runs: xr.Dataset, level: float, *, are_true: bool
) -> Bars:
    """Widths of intervals along runs, and what they rest on.

    Args:
        ensemble: source of the intervals.
        runs: held-out ones, or contexts and starts without a truth.
        level: of the intervals.
        are_true: whether the states of the runs are those at their contexts.
    """
    band = ensemble.follow(runs, level=level)
    lower = band["lower"].transpose(*DIMS).values
    upper = band["upper"].transpose(*DIMS).values
    scale = shared(band["state_std"].values.astype(float), runs)
    half = (upper - lower) / 2 / scale
    width = np.nanmedian(np.sqrt(np.square(half).mean(-1)).mean(-1))
    share = np.nan
    if are_true:
        truth = trajectories(runs, "state").numpy()
        observed = np.isfinite(truth) & np.isfinite(lower)
        inside = (truth >= lower) & (truth <= upper)
        share = float(inside[observed].mean())
    calibration = ensemble.calibration
    return Bars(calibration.trajectories, calibration.lost, share, float(width))
