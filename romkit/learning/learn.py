"""`romkit.learn`: from runs at several contexts to a reduced model whose errors are measured."""

from collections.abc import Sequence
from dataclasses import replace
from time import process_time
from typing import Annotated, NamedTuple, cast

import numpy as np
import pandas as pd
import torch
import xarray as xr
from annotated_types import MinLen

import romkit.data as datasets
from romkit.core import checks, runtime
from romkit.core.boundary import Count, FilePath, Part, Positive, Seconds, Seed, validated
from romkit.core.errors import InputError
from romkit.core.memory import give_back_arrays, refuse_too_large
from romkit.data.context import check_number, contexts_of
from romkit.engine import Device
from romkit.engine.threads import one_thread
from romkit.hidden import HiddenContext, wants_hidden, with_hidden_context
from romkit.hidden.context import HIDDEN
from romkit.laws import Estimator
from romkit.laws.choice import fitted
from romkit.laws.folds import FOLDS
from romkit.learning.bars import calibrated
from romkit.learning.candidates import (
    ALL,
    VARIANTS,
    ModelCandidate,
    RunsCandidate,
    Spaces,
    interpolations,
    rational_laws,
    rungs,
)
from romkit.learning.interpolation import obstacle
from romkit.learning.learned import Learned
from romkit.learning.leftout import (
    LeftOut,
    fitted_model,
    forecast_test_runs,
    interpolate_folds,
    left_out,
)
from romkit.learning.reading import Source, described
from romkit.learning.rhythm import add_rhythm
from romkit.learning.steady import SteadyModel, learned_steady, steady_fields
from romkit.numerics import folds
from romkit.select import Policy, Trial, preferred, search
from romkit.verbs.law import BOUNDED, trial_rows

SEARCHED = 2 / 3
"""Share of the time in which candidates are tried: fits to whole runs take about a third of it."""

INTERPOLATION = "interpolation"
"""Name of runs that are interpolated, among those of laws."""


@validated
@one_thread()  # sums, and with them close choices, depend on the number of threads
def learn(
    source: xr.Dataset | pd.DataFrame | FilePath | Annotated[Sequence[FilePath], MinLen(1)],
    context: str | Sequence[str] | None = None,
    *,
    time: str | None = None,
    group: str | None = None,
    held_out: Part | None = None,
    latent_dim: Count | None = None,
    kinds: Annotated[Sequence[str | Estimator], MinLen(1)] | None = None,
    variants: Sequence[str] = VARIANTS,
    period: Positive | None = None,
    seconds: Seconds = 60.0,
    bounded: bool = False,
    device: Device | None = None,
    seed: Seed = 0,
) -> Learned | SteadyModel:
    """Learn a reduced model from runs: read them, choose manifold and law, and measure the errors.

    Candidates are polynomial manifolds of several numbers of latents, behind a basis where states
    are large, and the complete state where it is small; on each, laws of several kinds and degrees;
    and runs interpolated in the context. They are raced on at most five folds of left-out contexts,
    and the simplest one within a standard error of the best is fitted to **all** runs. `errors` are
    those of models with the same settings that were fitted without the runs of a fold, and their
    residuals calibrate the intervals of forecasts. `error` is what is expected of the model itself
    halfway between the runs, whose gaps are half as wide, by the scale of these intervals.

    Where it is preferred on left-out runs, a law depends on a positive parameter c by 1/c or log c
    (forecasts take the parameter itself). Interpolated runs hold for the starts and times of the
    runs alone.

    Args:
        source: runs in a dataset of any habit, in a table of pandas, or the names of their files,
            with wildcards. Runs with times of their own are brought to common ones by
            `romkit.data.resampled`.
        context: names of the parameters in which runs differ; by default what the data declare.
            "hidden", alone or among them, stands for parameters that nobody recorded:
            `romkit.hidden_context` finds them, and `place` those of new runs.
        time: name of the column, coordinate or dimension of time; by default "time", "t", or dates.
        group: name of the coordinate that tells which runs share hidden parameters; by default each
            run has its own.
        held_out: share of the contexts, between others, that nothing is chosen by and nothing is
            fitted to: they judge the result in place of left-out runs. None by default.
        latent_dim: number of latents; by default chosen.
        kinds: of laws to choose from, as of `romkit.law`, by name or by their settings,
            `SINDy(degree=2)`; by default polynomials, closed orbits and rational laws, of small
            states sparse equations too. Of the name "interpolation" are runs that are interpolated:
            among these kinds where they are better, as by default, and alone in any case.
        variants: of these candidates that are tried, all of `romkit.learning.VARIANTS` by default:
            "clocks" of interpolated runs, and "coordinates" 1/c and log c.
        period: of what drives all runs from outside, in step since their first time; its sine and
            cosine are then inputs of the law, and `forecast` gives them by itself.
        seconds: of the processor, about how long all of it may take, but for hidden parameters. Two
            thirds are for the choice; fits to whole runs, of all runs and of the folds, share the rest,
            and end early where it is used up. A first candidate is always fitted, to all runs and
            without those of each fold, whatever that takes.
        bounded: make it a law that cannot blow up, as in `romkit.law`.
        device: "cpu" (default) or "cuda", where laws are fitted, as in `romkit.law`.
        seed: of all random numbers.

    Returns:
        The model with its errors: `forecast`, `plot`, `report`, `save` and `export` use it, and
        `advice` says in a sentence what would help most. Of steady fields a
        `romkit.learning.SteadyModel`.

    Raises:
        InputError: fewer than three contexts, data that cannot be read, an unknown kind, rollouts
            that are all lost, runs that cannot be interpolated, where this alone was asked for, or
            memory that does not suffice: a search takes up to ten times the size of the runs in
            double precision.

    Source: `romkit.select.Policy` has the rule of the choice and its sources.

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
        rates         none given; estimated where needed
        >>> model = romkit.learn(runs, latent_dim=2)
        >>> model.projection.latent_dim, bool(model.error < 0.02)
        (2, True)
        >>> model.forecast(initial_state=runs.state[0, 0], duration=1, dt=0.1, speed=1.5).state.dims
        ('time', 'component')
    """
    began = process_time()
    data, hidden = _describe_hidden(source, context, time, group)
    for variant in variants:
        checks.one_of("variants", variant, VARIANTS)
    check_number(data, 3)
    refuse_too_large("source", 8 * data["state"].size)
    give_back_arrays()
    policy = Policy()
    fields = steady_fields(data)
    if fields is not None:
        _refuse_motion_options(latent_dim=latent_dim, kinds=kinds, period=period)
        train, test = _divided(fields, held_out)
        spaces = Spaces(train, _rows(train, train.sizes["trajectory"]), device=device)
        return learned_steady(spaces, test, seconds, policy)
    if period is not None:
        data = add_rhythm(data, period)
    train, test = _divided(data, held_out)
    spaces = Spaces(train, _rows(train, FOLDS), device=device, variants=variants)
    if bounded and kinds is None:
        kinds = (*BOUNDED, INTERPOLATION)
    with runtime.budget("candidates and fits", seconds):
        order = _tried(spaces, latent_dim, kinds, SEARCHED * seconds, seed, policy)
        chosen = _chosen(order, policy)
        of_all = fitted_model(chosen.model, ALL, bounded=bounded)
        of_folds = left_out(chosen.model, of_all.refit, bounded=bounded)
    chosen.model.spaces.warn_basis()
    judged = of_folds
    if test is not None:
        judged = forecast_test_runs(of_all, chosen.model.spaces, test)
    calibration, inside = calibrated(of_all, of_folds, chosen.model.spaces.data)
    law = replace(of_all.law, report=trial_rows(order, chosen.trial.candidate, policy))
    model = Learned(
        projection=of_all.projection,
        law=law,
        settings=chosen.model.estimator,
        calibration=calibration,
        inside=inside if test is None else np.nan,
        train=chosen.model.spaces.data,
        test=judged.test,
        run=judged.run,
        errors=judged.forecasts.errors,
        errors_of_variables=judged.forecasts.errors_of_variables,
        errors_of_seen={"forecast": of_all.errors},
        seconds=process_time() - began,
        held_out=test is not None,
        period=period,
        hidden=hidden,
    )
    if isinstance(chosen.trial.candidate, RunsCandidate):
        return _interpolated(model, chosen.trial.candidate, judged, test is not None)
    return model


def _describe_hidden(
    source: Source, context: str | Sequence[str] | None, time: str | None, group: str | None
) -> tuple[xr.Dataset, HiddenContext | None]:
    """Describe runs, with the parameters that nobody recorded where they are asked for."""
    if wants_hidden(context):
        if time is not None:
            names = [] if isinstance(context, str) else [*(context or ())]
            source = described(source, [name for name in names if name != HIDDEN], time)
        source, hidden = with_hidden_context(source, context, group)
        return described(source, None), hidden  # the runs declare it now
    if group is not None:
        fix = "give context='hidden', or leave group out"
        raise InputError("group", expected="hidden parameters", got="none", fix=fix)
    return described(source, context, time), None


def _divided(data: xr.Dataset, held_out: float | None) -> tuple[xr.Dataset, xr.Dataset | None]:
    """Divide runs into those of training and those that are held out, if any."""
    return (data, None) if held_out is None else datasets.split(data, held_out)


def _rows(data: xr.Dataset, number: int) -> list[torch.Tensor]:
    """Numbers (k,) of the runs that each of at most so many folds leaves out."""
    return [torch.from_numpy(fold) for fold in folds(contexts_of(data), number)]


def _refuse_motion_options(**options: object) -> None:
    """Refuse what runs without a motion have no use for."""
    for name, value in options.items():
        if value is not None:
            got = "fields without a time, or that do not move"
            raise InputError(name, expected="runs that move", got=got, fix="leave it out")


class Chosen(NamedTuple):
    """The preferred trial, and the manifold with the best law, which it is but for interpolated
    runs.
    """

    trial: Trial
    model: ModelCandidate


def _tried(
    spaces: Spaces,
    latent_dim: int | None,
    kinds: Sequence[str | Estimator] | None,
    seconds: float,
    seed: int,
    policy: Policy,
) -> list[Trial]:
    """Race the candidates, the preferred one first.

    Raises:
        InputError: runs that cannot be interpolated, where this alone was asked for.
    """
    laws = None if kinds is None else [kind for kind in kinds if kind != INTERPOLATION]
    of_runs_alone: list[RunsCandidate] = []
    if kinds is None or INTERPOLATION in kinds:
        hindrance = obstacle(spaces.data)
        if laws == [] and hindrance:
            raise InputError(
                "kinds",
                expected="runs that can be interpolated: without inputs, at constant contexts, "
                "and of one length",
                got=hindrance,
                fix="leave it out, kinds=None: a law learns from these",
            )
        if not hindrance:
            of_runs_alone = interpolations(spaces)
    ladder = rungs(spaces, latent_dim, laws or None, seconds, seed)
    number = len(spaces.folds)
    if laws == []:  # they alone were asked for; a law is beside them, for model.of_law()
        of_runs = preferred(search([of_runs_alone], number, policy, seconds), policy)
        return of_runs + preferred(search(ladder, number, policy, seconds), policy)
    plain, changed = of_runs_alone[:1], of_runs_alone[1:]
    others = [*plain, *rational_laws(spaces, latent_dim, laws, seconds, seed), *changed]
    return preferred(search(ladder, number, policy, seconds, others), policy)


def _chosen(order: Sequence[Trial], policy: Policy) -> Chosen:
    """Take the preferred trial, with the first law that stays near the data.

    Raises:
        InputError: rollouts of all laws are lost.
    """
    of_laws = [trial for trial in order if isinstance(trial.candidate, ModelCandidate)]
    of_runs = [trial for trial in order if isinstance(trial.candidate, RunsCandidate)]
    best = fitted(of_laws, policy)
    if best is not None:
        _, trial = best
        # runs that were preferred to the first law that stays near the data forecast in its place
        leader = next(each for each in order if each in of_runs or each is trial)
        return Chosen(leader, cast("ModelCandidate", trial.candidate))
    if of_runs and of_laws:
        # a law that is lost stands beside interpolated runs, which forecast
        return Chosen(of_runs[0], of_laws[0].candidate)
    raise InputError(
        "source",
        expected="runs that a law follows",
        got="rollouts that are all lost",
        fix="give more runs or shorter ones, more seconds, or kinds=['interpolation']",
    )


def _interpolated(
    model: Learned, candidate: RunsCandidate, judged: LeftOut, held_out: bool
) -> Learned:
    """Let interpolated runs forecast in place of the law, with their errors."""
    spaces = candidate.spaces
    runs = candidate.interpolation.fitted(model.projection, spaces.data)
    if held_out:
        followed = runs.follow(judged.test)["state"].values
    else:
        followed = interpolate_folds(candidate, model.projection)
    forecasts = judged.forecasts.made_by(followed)
    dims = judged.run["rom"].dims
    return replace(
        model,
        interpolated=runs,
        run=judged.run.assign(between=(dims, followed)),
        errors=forecasts.errors,
        errors_of_variables=forecasts.errors_of_variables,
    )
