"""Forecasts of runs by models with the same settings that have not seen them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr

from romkit.core.runtime import track
from romkit.core.tensors import on_device
from romkit.core.types import Array
from romkit.data.context import contexts_of
from romkit.integrators import LearnedField
from romkit.laws.choice import ALL
from romkit.laws.phase import with_phase
from romkit.laws.refine import refined
from romkit.laws.shooting import POLISHED
from romkit.learning.candidates import ModelCandidate, RunsCandidate, Spaces
from romkit.learning.contexts import scaled
from romkit.learning.errors import Forecasts, forecasts_of
from romkit.learning.rollouts import quiet, quietly, rolled_out
from romkit.metrics import per_unit
from romkit.projections import Projection
from romkit.verbs.law import short
from romkit.verbs.sizes import gaps, sizes_between

SHORTENING = 30.0
"""CPU seconds after which no shorter equation is tried."""


class Fitted(NamedTuple):
    """A manifold with a law, and the errors (C,) of its forecasts of all runs [deviations]."""

    projection: Projection
    law: LearnedField
    errors: Array


class LeftOut(NamedTuple):
    """Forecasts of runs by models that were fitted without them.

    Attributes:
        test: the runs.
        run: `romkit.rollout` along them.
        forecasts: beside forecasts that need no model.
        learned: (V,) errors of the models on the runs that they were fitted to, around each of the
            runs [deviations].
        gaps: (V,) widths of the gaps that these leave there.
    """

    test: xr.Dataset
    run: xr.Dataset
    forecasts: Forecasts
    learned: Array
    gaps: Array


def fitted_model(candidate: ModelCandidate, fold: int) -> Fitted:
    """Fit manifold and law of a candidate to the runs that a fold keeps; to all for `ALL`."""
    with quiet():
        law = candidate.fit(fold)
        judge = candidate.space(fold).judge
        train, rows = candidate.kept(fold)
        if candidate.estimator.refine:
            law = refined(law, train, judge, rows)
        if fold == ALL and candidate.latents == 0:
            # equations of physical quantities are read
            law = short(law, candidate, SHORTENING)
        # steps so short that their error is none of the law's, as forecasts have it
        rows = torch.arange(len(judge.states))
        errors = judge.errors(law, rows, POLISHED).numpy(force=True)
        projection = candidate.spaces.projection(candidate.latents, fold)
        law = with_phase(on_device(law, "cpu"), projection, candidate.spaces.kept(fold))
    return Fitted(projection, law, errors)


def left_out(candidate: ModelCandidate) -> LeftOut:
    """Forecast the runs of each fold by a model that was fitted to the others."""
    spaces = candidate.spaces
    contexts = scaled(contexts_of(spaces.data), spaces.data)
    tests, runs, several, learned, widths = [], [], [], [], []
    for fold in track(range(len(spaces.folds)), "runs that are left out"):
        rows = spaces.folds[fold].numpy()
        projection, law, errors = fitted_model(candidate, fold)
        missed = spaces.left_out(fold)
        run = rolled_out(projection, law, missed)
        tests.append(missed)
        runs.append(run)
        several.append(forecasts_of(run, spaces.kept(fold), missed))
        kept = np.setdiff1d(np.arange(len(contexts)), rows)
        learned.append(sizes_between(contexts[kept], errors[kept], contexts[rows]))
        widths.append(gaps(contexts[kept], contexts[rows]))
    return LeftOut(
        joined(tests),
        joined(runs),
        together(several, spaces.data),
        np.concatenate(learned),
        np.concatenate(widths),
    )


def held_out_runs(whole: Fitted, spaces: Spaces, test: xr.Dataset) -> LeftOut:
    """Forecast runs that nothing was chosen by and nothing was fitted to."""
    test = spaces.like(test)
    run = rolled_out(whole.projection, whole.law, test)
    unknown = np.full(test.sizes["trajectory"], np.nan)
    return LeftOut(test, run, forecasts_of(run, spaces.data, test), unknown, unknown)


def followed_by_runs(candidate: RunsCandidate, projection: Projection) -> Array:
    """Interpolate the runs of each fold between the others: states (V, T, n)."""
    spaces = candidate.spaces
    several = []
    for fold in range(len(spaces.folds)):
        runs = candidate.interpolation.fitted(projection, spaces.kept(fold), with_bars=False)
        several.append(quietly(runs.follow, spaces.left_out(fold))["state"].values)
    return np.concatenate(several)


def joined(runs: Sequence[xr.Dataset]) -> xr.Dataset:
    """Join runs of several datasets."""
    return xr.concat(runs, "trajectory", data_vars="minimal", coords="minimal", compat="override")


def together(several: Sequence[Forecasts], data: xr.Dataset) -> Forecasts:
    """Join forecasts, in the deviations of all runs."""
    states = {}
    for name in several[0].states:
        states[name] = np.concatenate([forecasts.states[name] for forecasts in several])
    truth = np.concatenate([forecasts.truth for forecasts in several])
    deviation = np.nanstd(data["state"].values, axis=(0, 1))
    return Forecasts(states, truth, deviation, per_unit(deviation, data))
