"""`romkit.learn`: from runs at several contexts to a reduced model whose errors are measured."""

import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
import torch
import xarray as xr

import romkit.data as datasets
from romkit.bases import basis
from romkit.core.boundary import Count, FilePath, Natural, Part, Positive, Seed, validated
from romkit.core.errors import ExtrapolationWarning, FitWarning, InputError
from romkit.data.context import context_matrix, context_ranges
from romkit.integrators import LAWS, Estimator, LearnedField
from romkit.integrators.laws.baselines import nearest_runs, shifted_in_time
from romkit.learning.learned import Errors, Learned, Trial
from romkit.projections import Projection
from romkit.verbs.ensemble import Ensemble, bootstrap
from romkit.verbs.fit import fit
from romkit.verbs.law import law as fit_law
from romkit.verbs.runs import rollout
from romkit.verbs.storage import open as open_files

T = TypeVar("T")

LATENT = (2, 3, 4, 5)
"""Latent dimensions that are tried, as long as a further one gains."""

GAINS = 0.85
"""Share of the projection's error that one more latent has to reach."""

ENOUGH, NEGLIGIBLE = 1.5, 0.005
"""Error of a law, relative to the projection's or in deviations, that needs no further latents."""

WIDE = 1_000
"""Number of components from which on states are described by coordinates in a basis."""

IN_MEMORY = 2e9
"""Size of data [bytes] up to which they are read as a whole."""

KEPT = 1e-4
"""Share of the energy that a basis may leave out."""


@validated
def learn(
    source: xr.Dataset | FilePath | Sequence[FilePath],
    context: str | Sequence[str] | None = None,
    *,
    held_out: Part = 0.25,
    latent_dim: Count | None = None,
    members: Natural = 3,
    seconds: Positive = 60.0,
    seed: Seed = 0,
) -> Learned:
    """Learn a reduced model from runs: read them, choose manifold and law, and measure the errors.

    Whole contexts are held out, and nothing is chosen by them but the width of the intervals. A
    polynomial manifold is fitted to the others, behind a basis where states are large, and a law of
    its latents. More latents are tried as long as they gain. The steps are those of
    `romkit.data.describe`, `romkit.data.split`, `romkit.fit`, `romkit.law`, `romkit.rollout` and
    `romkit.bootstrap`, which can be taken alone.

    Args:
        source: runs in a dataset of any habit, or the names of their files, with wildcards.
        context: names of the parameters in which runs differ; by default what the data declare.
        held_out: share of the runs that judge the result, by contexts between the others.
        latent_dim: number of latents; by default chosen.
        members: of the ensemble that gives intervals; 0 for none.
        seconds: of the processor, about how long the choice of a law may take.
        seed: of all random numbers.

    Returns:
        The model with its errors: `forecast`, `plot`, `report`, `save` and `export` use it, and
        `advice` says in a sentence what would help most.

    Raises:
        InputError: fewer than three contexts, or data that cannot be read.

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
    data = _described(source, context)
    _check_contexts(data)
    train, test = datasets.split(data, held_out)
    best, trials = _chosen(train, latent_dim, seconds, seed)
    run = _quietly(rollout, test, best.projection, dynamics=best.law)
    ensemble = _ensemble(best, train, test, members, seed)
    return Learned(
        projection=best.projection,
        law=best.law,
        ensemble=ensemble,
        train=train,
        test=test,
        run=run if "trajectory" in run.dims else run.expand_dims("trajectory"),
        errors=_errors(run, train, test),
        trials=trials,
        seconds=time.process_time() - began,
    )


class Model(NamedTuple):
    """A manifold with a law."""

    projection: Projection
    law: LearnedField


def _described(source: object, context: str | Sequence[str] | None) -> xr.Dataset:
    """Runs in romkit's schema."""
    names = [context] if isinstance(context, str) else context
    data = source if isinstance(source, xr.Dataset) else _opened(source)
    if "state" in data and "component" in data.dims:
        return data
    return datasets.describe(data, context=names)


def _opened(source: object) -> xr.Dataset:
    """Runs in files, one in each where there are several; in memory where they fit."""
    paths = [source] if isinstance(source, str | Path) else list(source)
    if len(paths) == 1 and str(paths[0]).endswith(".csv"):
        return datasets.describe(pd.read_csv(paths[0]))
    several = len(paths) > 1 or "*" in str(paths[0])
    data = open_files(paths if len(paths) > 1 else paths[0], along="run" if several else None)
    return data.compute() if data.nbytes < IN_MEMORY else data


def _check_contexts(data: xr.Dataset) -> None:
    names = datasets.context_names(data)
    number = len(np.unique(_contexts(data), axis=0)) if names else 0
    if number < 3:
        got = f"{number} in {', '.join(names) or 'no parameter'}"
        fix = "name the parameters, context=[...], or give more runs"
        raise InputError("context", expected="three contexts or more", got=got, fix=fix)


def _chosen(
    train: xr.Dataset, latent_dim: int | None, seconds: float, seed: int
) -> tuple[Model, list[Trial]]:
    """The manifold and law that forecast held-out contexts of the training data best."""
    front = None
    if train.sizes["component"] > WIDE:
        front = basis(train, tolerance=KEPT)
    trials, best, least = [], None, np.inf
    for number in LATENT if latent_dim is None else (latent_dim,):
        projection = fit("polynomial-manifold", train, latent_dim=number, basis=front)
        left_out = float(projection.report["left_out_error"])
        if projection.latent_dim < number:
            # further directions hold nothing: the number before had them all
            if best is not None:
                break
        elif best is not None and left_out > GAINS * trials[-1].projection_error:
            break
        law = _quietly(fit_law, projection, train, seconds=seconds, seed=seed)
        row = next(row for row in law.report if row["chosen"])
        trials.append(Trial(projection.latent_dim, projection.config, left_out, row))
        if row["error"] < least:
            best, least = Model(projection, law), row["error"]
        if row["error"] < max(ENOUGH * left_out, NEGLIGIBLE):
            break
    return best, trials


def _ensemble(
    model: Model, train: xr.Dataset, test: xr.Dataset, members: int, seed: int
) -> Ensemble | None:
    """Laws of bootstraps, calibrated by the held-out runs; None where there are too few."""
    if members < 2 or train.sizes["trajectory"] < 3:
        return None
    settings = _settings(model.law)
    ensemble = _quietly(bootstrap, model.projection, settings, train, members=members, seed=seed)
    return _quietly(ensemble.calibrated, test)


def _settings(law: LearnedField) -> Estimator:
    """Settings of a law of the kind that was chosen, with its degrees."""
    kind = LAWS[next(row["law"] for row in law.report if row["chosen"])]
    if kind is LAWS["polynomial"]:
        library, context = law.basis.library, law.basis.context_library
        return kind(degree=library.degree, context_degree=context.degree)
    return kind()


def _errors(run: xr.Dataset, train: xr.Dataset, test: xr.Dataset) -> Errors:
    """Errors of each held-out run, beside forecasts that need no model."""
    deviation = np.nanstd(train["state"].values, axis=(0, 1))
    scale = np.where(deviation > 0, deviation, 1.0)
    states, truth = (torch.from_numpy(x["state"].values / scale) for x in (train, test))
    contexts = [torch.from_numpy(_scaled_contexts(x, train)) for x in (train, test)]
    number = len(states)
    nearest = nearest_runs(
        states,
        torch.cat(contexts),
        torch.arange(number, number + len(truth)),
        torch.arange(number),
    )
    shifted = torch.stack(
        [shifted_in_time(path, start[0]) for path, start in zip(nearest, truth, strict=True)]
    )
    mean = states.nanmean((0, 1))
    forecasts = {
        "forecast": torch.from_numpy(run["rom"].values / scale).reshape(truth.shape),
        "projection": torch.from_numpy(run["projected"].values / scale).reshape(truth.shape),
        "nearest run": nearest,
        "nearest run, shifted": shifted,
        "rest": mean.expand(truth.shape),
    }
    return {name: _error(states, truth) for name, states in forecasts.items()}


def _error(states: torch.Tensor, truth: torch.Tensor) -> np.ndarray:
    """Error (C,) of each run [deviations]: root mean square over components, mean over time."""
    apart = (states - truth).square().nanmean(-1).sqrt()
    lost = states.isnan().any(-1) & ~truth.isnan().all(-1)
    return apart.masked_fill(lost, torch.inf).nanmean(-1).numpy()


def _scaled_contexts(data: xr.Dataset, train: xr.Dataset) -> np.ndarray:
    """Contexts (C, p), in the ranges of the training data."""
    low, high = context_ranges(train)
    width = np.where(high > low, high - low, 1.0)
    return (_contexts(data) - low) / width


def _contexts(data: xr.Dataset) -> np.ndarray:
    """Contexts (C, p), the means over time of those that move."""
    contexts = context_matrix(data)
    return contexts.mean(1) if contexts.ndim == 3 else contexts


def _quietly(call: Callable[..., T], *arguments: object, **named: object) -> T:
    """Result of a step whose warnings the report says in its own words."""
    with warnings.catch_warnings():
        for kind in (FitWarning, ExtrapolationWarning):
            warnings.simplefilter("ignore", kind)
        return call(*arguments, **named)
