"""`romkit.learn`: from runs at several contexts to a reduced model whose errors are measured."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

import numpy as np
import pandas as pd
import xarray as xr
from annotated_types import MinLen

import romkit.data as datasets
from romkit.core import runtime
from romkit.core.boundary import Count, FilePath, Natural, Part, Positive, Seconds, Seed, validated
from romkit.data import Layout
from romkit.laws import Estimator
from romkit.laws.folds import FEW
from romkit.learning.advice import USEFUL
from romkit.learning.bars import intervals_of, reason_without
from romkit.learning.choice import Choice, chosen_with_inputs
from romkit.learning.confirmed import errors_without
from romkit.learning.contexts import number_of_contexts
from romkit.learning.errors import Forecasts, forecasts_of
from romkit.learning.interpolation import InterpolatedRuns
from romkit.learning.kinds import Allowed, Use
from romkit.learning.learned import Learned
from romkit.learning.preference import (
    BETTER,
    BETTER_THAN_DRIVEN,
    Compared,
    Way,
    can_interpolate,
    check_can_interpolate,
    compared,
    way_that_helps,
)
from romkit.learning.reading import described
from romkit.learning.rhythm import warn_of_another, with_rhythm
from romkit.learning.rollouts import rolled_out
from romkit.learning.trials import least_error
from romkit.learning.turns import HeldOut, held_out_in_turn, held_out_once
from romkit.learning.weights import splines

FEWEST_FOR_BARS = 5
"""Contexts from which on two are held out: intervals need them, and laws three others."""

SEEN = 4
"""Most runs of the training that are forecast, to be compared with the held-out ones."""


@validated
def learn(
    source: xr.Dataset | pd.DataFrame | FilePath | Sequence[FilePath],
    context: str | Sequence[str] | None = None,
    *,
    held_out: Part = 0.25,
    latent_dim: Count | None = None,
    kinds: Annotated[Sequence[str | Estimator], MinLen(1)] | None = None,
    period: Positive | None = None,
    members: Natural = 3,
    seconds: Seconds = 60.0,
    seed: Seed = 0,
) -> Learned:
    """Learn a reduced model from runs: read them, choose manifold and law, and measure the errors.

    Whole contexts are held out, and nothing is chosen by them but the width of the intervals. Where
    five contexts or fewer give no model of use without those, manifold and law are chosen by all
    contexts, each held out in turn, and fitted to all; errors are then those of models with the same
    settings, each of all contexts but one. A
    polynomial manifold is fitted to the others, behind a basis where states are large, and a law of
    its latents. More latents are tried as long as they gain. Where runs interpolated in the context
    typically err by less than half as much on training runs that were left out, several at once and
    each context alone, forecasts are these: they hold for the starts and times of the runs alone.
    They are interpolated at equal times, or, where that halves the error, at equal phases of clocks:
    of runs that are about the same motion at several speeds, one clock for each, which is
    interpolated in the context, too. Runs of
    individuals, which differ by more than their context tells, are forecast by a regression in the
    context, or by their mean, where that errs by less than the law. Laws and interpolations depend on
    a positive parameter c by 1/c or log c where that halves the error on left-out training runs;
    forecasts take the parameter itself. Inputs of which nobody has stated whether they are held
    between samples are taken as the steps of the runs show. Where all runs swing in step and no law
    follows them, one with their period is tried, and taken where that halves the error, too. The
    steps are those of
    `romkit.data.describe`, `romkit.data.split`, `romkit.fit`, `romkit.law`, `romkit.rollout` and
    `romkit.bootstrap`, which can be taken alone.

    Args:
        source: runs in a dataset of any habit, in a table of pandas, or the names of their files,
            with wildcards. Runs with times of their own are brought to common ones by
            `romkit.data.resampled`.
        context: names of the parameters in which runs differ; by default what the data declare.
        held_out: share of the runs that judge the result, by contexts between the others.
        latent_dim: number of latents; by default chosen.
        kinds: of laws to choose from, as of `romkit.law`, by name or by their settings,
            `SINDy(degree=2)`; by default polynomials, closed orbits and networks. Of the name
            "interpolation" are runs that are interpolated: among these kinds where they are better, as
            by default, and alone in any case.
        period: of what drives all runs from outside, in step since their first time; its sine and
            cosine are then inputs of the law, and `forecast` gives them by itself; by default sought.
        members: laws that miss a context each, whose forecasts of it, beside those of the held-out
            runs, set the width of the intervals; 0 for no intervals. Intervals are those of a
            measurement: noise of these runs is a part.
        seconds: of the processor, about how long the choice of a law may take.
        seed: of all random numbers.

    Returns:
        The model with its errors: `forecast`, `plot`, `report`, `save` and `export` use it, and
        `advice` says in a sentence what would help most.

    Raises:
        InputError: fewer than three contexts, data that cannot be read, an unknown kind, or runs
            that cannot be interpolated, where this alone was asked for.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> t, speed = np.linspace(0, 6, 61), np.linspace(1.0, 2.0, 6)
        >>> phase = speed[:, None, None] * t[:, None] - np.arange(4)
        >>> runs = romkit.data.from_arrays(np.sin(phase), t, context={"speed": speed})
        trajectories  6 of up to 61 samples, n = 4
        state         state (component 4), float64
        context       speed 1 ... 2 (float)
        time          0 ... 6, every 0.1
        velocity      none; estimated where it is needed
        >>> model = romkit.learn(runs, members=0, latent_dim=2)
        >>> model.projection.latent_dim, bool(model.errors["forecast"].max() < 0.01)
        (2, True)
        >>> model.forecast(initial_state=runs.state[0, 0], duration=1, dt=0.1, speed=1.5).state.dims
        ('time', 'component')
    """
    began = time.process_time()
    data = described(source, context)
    if period is not None:
        warn_of_another(data, period)
        data = with_rhythm(data, period)
    wanted = Allowed.of(kinds)
    if wanted.interpolation is Use.ALWAYS:
        check_can_interpolate(data, period)
    train, test = datasets.split(data, _held_out(data, held_out, members))
    choose = partial(
        chosen_with_inputs,
        latent_dim=latent_dim,
        seconds=seconds,
        seed=seed,
        kinds=wanted.laws,
    )
    choice, judged = _chosen_and_judged(train, test, data, choose, seed)
    runs = data if judged.in_turn else train
    if choice.period is not None:
        period = choice.period
    best = choice.model
    train = choice.train
    # as many runs of the training tell an error of what is unseen from one of the fit
    seen = _evenly(train, SEEN)
    of_seen = forecasts_of(rolled_out(best.projection, best.law, seen), train, seen)
    took = time.process_time() - began
    after = "" if reason_without(train, judged.further, members) else ". Next, its bars"
    runtime.told(f"learn: law of {best.projection.latent_dim} latents; {took:.0f} s{after}")
    layout = datasets.layout_of(data)
    intervals = intervals_of(best, train, judged, members, seed)
    of_law = Learned(
        projection=best.projection,
        law=best.law,
        settings=best.settings,
        ensemble=intervals.ensemble,
        without_bars=intervals.without,
        train=train,
        test=judged.test,
        run=judged.run,
        errors=judged.forecasts.errors(),
        errors_of_variables=judged.forecasts.errors_of_variables(layout),
        errors_of_seen=of_seen.errors(),
        trials=choice.trials,
        seconds=time.process_time() - began,
        fitted_to_all=judged.in_turn,
        period=period,
        coordinates=choice.coordinates,
        between=choice.between,
        rhythm=choice.rhythm,
    )
    if wanted.interpolation is Use.NEVER or not can_interpolate(runs, period):
        return of_law
    way = way_that_helps(runs, best.left_out, with_clocks=not judged.in_turn)
    comparison = _compared(way, choice, seed)
    of_law = replace(of_law, compared=comparison)
    is_better = comparison is not None and comparison.is_better
    if not is_better and wanted.interpolation is not Use.ALWAYS:
        return of_law
    between = InterpolatedRuns.of(
        best.projection,
        way.train,
        judged.further,
        members >= 2,
        way.clocks,
        way.weights_of,
    )
    of_seen = of_seen.made_by(between.follow(seen))
    return _with_runs_between(of_law, between, judged, of_seen, layout)


def _chosen_and_judged(
    train: xr.Dataset,
    test: xr.Dataset,
    data: xr.Dataset,
    choose: Callable[[xr.Dataset], Choice],
    seed: int,
) -> tuple[Choice, HeldOut]:
    """The best model of the runs of the training, judged by the others; where these are few, and it
    is of no use, the best of all runs, if it is better, judged by each context in turn.
    """
    choice = choose(train)
    judged = held_out_once(choice.model, choice.train, choice.with_its_inputs(test))
    if number_of_contexts(data) > FEW or judged.mean_error <= USEFUL:
        return choice, judged
    of_all = choose(data)
    # by pieces of runs: without one of a few contexts a law may lose a whole run
    if least_error(of_all.trials) < judged.mean_error:
        return of_all, held_out_in_turn(of_all.model, of_all.train, seed)
    return choice, judged


def _with_runs_between(
    of_law: Learned, between: InterpolatedRuns, judged: HeldOut, of_seen: Forecasts, layout: Layout
) -> Learned:
    """The model with interpolated runs as forecasts, and their errors in place of those of the law."""
    run = between.follow(judged.test)
    forecasts = judged.forecasts.made_by(run)
    dims = judged.run["rom"].dims
    return replace(
        of_law,
        interpolated=between,
        run=judged.run.assign(between=(dims, run["state"].values)),
        errors=forecasts.errors(),
        errors_of_variables=forecasts.errors_of_variables(layout),
        errors_of_seen=of_seen.errors(),
    )


def _compared(way: Way, choice: Choice, seed: int) -> Compared | None:
    """Errors of interpolated runs and of the law on runs left out of both; the first ones in which the
    law is as good, several contexts at once or each alone.
    """
    limit = BETTER if choice.period is None else BETTER_THAN_DRIVEN
    several = compared(way, choice.model.left_out, limit)
    if several is None or not several.is_better or way.weights_of is not splines:
        return several
    # several runs less at once hurt a law more than an interpolation; of individuals there are many
    return compared(way, errors_without(choice.model, choice.train, seed), limit)


def _evenly(data: xr.Dataset, number: int) -> xr.Dataset:
    """At most so many runs, evenly by number."""
    runs = data.sizes["trajectory"]
    rows = np.linspace(0, runs - 1, min(number, runs)).round().astype(int)
    return data.isel(trajectory=rows)


def _held_out(data: xr.Dataset, share: float, members: int) -> float:
    """Share of the contexts to hold out: two or more where intervals need them and can be had."""
    number = number_of_contexts(data)
    if members < 2 or number < FEWEST_FOR_BARS:
        return share
    return max(share, 2 / number)
