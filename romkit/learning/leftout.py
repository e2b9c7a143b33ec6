"""Forecasts of runs by models with the same settings that have not seen them."""

from functools import partial
from typing import NamedTuple

import numpy as np
import xarray as xr

from romkit.core import runtime
from romkit.core.runtime import track
from romkit.core.tensors import copy_to_device
from romkit.core.types import Array
from romkit.data import context_names
from romkit.data.context import contexts_of
from romkit.integrators import LearnedField
from romkit.laws.bounded import bounded_law
from romkit.laws.choice import ALL
from romkit.laws.equations import Equation
from romkit.laws.joint import fit_terms, jointly
from romkit.laws.phase import add_phase
from romkit.laws.refine import refined
from romkit.laws.samples import LatentSamples
from romkit.laws.shooting import POLISHED
from romkit.laws.shorten import FitTo, refit_terms
from romkit.learning.candidates import ModelCandidate, RunsCandidate, Spaces
from romkit.learning.contexts import scaled
from romkit.learning.errors import Forecasts, Measure, forecasts_of, together
from romkit.learning.rollouts import quiet, quietly, roll
from romkit.projections import Projection
from romkit.select import Policy
from romkit.verbs.law import short
from romkit.verbs.sizes import gap_sizes, gaps


class Fitted(NamedTuple):
    """A manifold with a law.

    Attributes:
        projection: the manifold.
        law: of its latents.
        errors: (C,) of its forecasts of all runs [deviations].
        refit: fits the terms of the law to other samples, where not all terms of its kind are left.
    """

    projection: Projection
    law: LearnedField
    errors: Array
    refit: FitTo | None = None


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


def fitted_model(
    candidate: ModelCandidate,
    fold: int,
    refit: FitTo | None = None,
    *,
    bounded: bool = False,
    shortening: float = 30.0,
) -> Fitted:
    """Fit manifold and law of a candidate to the runs that a fold keeps; to all for `ALL`.

    An equation of all runs is shortened, and where they have noise fitted together with their
    states, if it is as good then; equations of folds have the same terms.

    `refit`: fits the terms of the equation of all runs, where not all of its kind are left.

    `bounded`: whether to make it a law that cannot blow up.

    `shortening`: CPU seconds after which no shorter equation is tried.
    """
    judge = candidate.space(fold).judge
    train, rows = candidate.kept(fold)
    with quiet():
        if refit is not None:
            law: LearnedField = refit(train)
        else:
            law = candidate.fit(fold)
            if candidate.estimator.refine:
                law = refined(law, train, judge, rows)
        # the laws of the folds, of the same terms, need as long as that of all runs
        seconds = min(shortening, runtime.left() / 2)
        if fold == ALL and seconds > 0:
            law, refit = _denoise_law(law, candidate, train, seconds)
        if bounded:
            law = bounded_law(law, train)
        # steps so short that their error is none of the law's; that of the solver of forecasts is
        # the same in all gaps between runs
        errors = judge.errors(law, judge.runs, POLISHED).clamp(min=Policy().floor)
        projection = candidate.spaces.projection(candidate.latents, fold)
        law = add_phase(copy_to_device(law, "cpu"), projection, candidate.spaces.kept(fold))
    return Fitted(projection, law, errors.numpy(force=True), refit)


def _denoise_law(
    law: LearnedField, candidate: ModelCandidate, train: LatentSamples, seconds: float
) -> tuple[LearnedField, FitTo | None]:
    """Return the law of a complete state without the noise of its runs, or a shorter one, and what
    fits its terms to other samples: equations of physical quantities are read, and latents of
    fields are means over noise.
    """
    if candidate.latents > 0:
        return law, None
    without_noise = jointly(law, train, seconds)
    if without_noise is not law and candidate.is_as_good(without_noise, law):
        assert isinstance(without_noise, Equation)
        return without_noise, partial(fit_terms, without_noise.basis)
    shorter = short(law, candidate, seconds)
    if shorter is law:
        return law, None
    assert isinstance(shorter, Equation)
    return shorter, partial(refit_terms, shorter)


def left_out(
    candidate: ModelCandidate, refit: FitTo | None = None, *, bounded: bool = False
) -> LeftOut:
    """Forecast the runs of each fold by a model that was fitted to the others, as `fitted_model`."""
    spaces = candidate.spaces
    contexts = scaled(contexts_of(spaces.data), spaces.data)
    measure = Measure.build(spaces.data)
    runs, forecasts_of_folds, learned, widths = [], [], [], []
    for fold in track(range(len(spaces.folds)), "runs that are left out"):
        rows = spaces.folds[fold].numpy()
        projection, law, errors, _ = fitted_model(candidate, fold, refit, bounded=bounded)
        missed = spaces.left_out(fold)
        run = roll(projection, law, missed)
        forecasts = forecasts_of(run, spaces.kept(fold), missed, measure)
        forecasts_of_folds.append(forecasts._replace(state=None, truth=None))
        runs.append(run.drop_vars("truth"))
        del missed, run, forecasts
        kept = np.setdiff1d(np.arange(len(contexts)), rows)
        learned.append(gap_sizes(contexts[kept], errors[kept], contexts[rows]))
        widths.append(gaps(contexts[kept], contexts[rows]))
    test = spaces.data.isel(trajectory=np.concatenate([rows.numpy() for rows in spaces.folds]))
    # of single runs they are numbers, of which joining keeps one
    run = joined(runs).assign_coords({name: test[name] for name in context_names(test)})
    truth = test["state"]
    about = truth.assign_attrs(long_name="data")
    return LeftOut(
        test,
        run.assign(truth=(run["rom"].dims, about.data, about.attrs)),
        together(forecasts_of_folds, run["rom"].values, truth.values),
        np.concatenate(learned),
        np.concatenate(widths),
    )


def forecast_test_runs(whole: Fitted, spaces: Spaces, test: xr.Dataset) -> LeftOut:
    """Forecast runs that nothing was chosen by and nothing was fitted to."""
    test = spaces.like(test)
    run = roll(whole.projection, whole.law, test)
    unknown = np.full(test.sizes["trajectory"], np.nan)
    return LeftOut(test, run, forecasts_of(run, spaces.data, test), unknown, unknown)


def interpolate_folds(candidate: RunsCandidate, projection: Projection) -> Array:
    """Interpolate the runs of each fold between the others: states (V, T, n)."""
    spaces = candidate.spaces
    states = []
    for fold in range(len(spaces.folds)):
        runs = candidate.interpolation.fitted(projection, spaces.kept(fold), with_bars=False)
        states.append(quietly(runs.follow, spaces.left_out(fold))["state"].values)
    return np.concatenate(states)


def joined(parts: list[xr.Dataset]) -> xr.Dataset:
    """Join runs of several datasets, whose fields are taken from them one by one: all of them twice
    would be most of the memory.
    """
    along = [name for name in parts[0] if "component" in parts[0][name].dims]
    fields = [name for name in along if "trajectory" in parts[0][name].dims]
    how = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}
    small = [fold.drop_vars(fields) for fold in parts]
    dataset = xr.concat(small, "trajectory", **how)
    for name in fields:
        dataset[name] = xr.concat(
            [fold[name] for fold in parts], "trajectory", coords="different", compat="equals"
        )
        parts[:] = [fold.drop_vars(name) for fold in parts]
    return dataset
