"""`romkit.learn`: from runs at several contexts to a reduced model whose errors are measured."""

import glob
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
import torch
import xarray as xr

import romkit.data as datasets
from romkit.core import runtime
from romkit.core.boundary import Count, FilePath, Natural, Part, Positive, Seconds, Seed, validated
from romkit.core.errors import (
    DataWarning,
    FileError,
    InputError,
    warn,
)
from romkit.core.files import expanded
from romkit.data.context import context_ranges
from romkit.data.schema import complete, with_trajectories
from romkit.data.several import joined_runs
from romkit.data.tables import joined_tables
from romkit.integrators import LAWS, Estimator, LearnedField
from romkit.integrators.laws.baselines import nearest_runs, shifted_in_time
from romkit.integrators.laws.choice import HELD_OUT, order_of_preference
from romkit.integrators.laws.phase import with_phase
from romkit.learning.advice import Errors, contexts_of
from romkit.learning.bars import ensemble_of, quiet
from romkit.learning.learned import Learned, Trial
from romkit.learning.refit import METHOD, basis_of
from romkit.learning.rhythm import with_rhythm
from romkit.projections import Projection
from romkit.verbs.fit import fit
from romkit.verbs.law import Comparison
from romkit.verbs.runs import rollout

T = TypeVar("T")

LATENT = (2, 3, 4, 5)
"""Latent dimensions that are tried, as long as a further one gains, or the one after it: the modes
of a wave come in pairs."""

GAINS = 0.85
"""Share of the projection's error that a manifold with more latents has to reach."""

PAIR = 2
"""Latent dimensions, one after the other, that may fail to gain."""

NEGLIGIBLE = 0.005
"""Error of a law [deviations] that needs no further latents."""

CLOSE_CALL = 3.0
"""Ratio of errors up to which two manifolds are compared on other contexts, too."""

LIMITED = 2.0
"""Error of a law, relative to the projection's, from which on a manifold is not what limits it."""

FEWEST_FOR_BARS = 5
"""Contexts from which on two are held out: intervals need them, and laws three others."""

OWN_TIMES = 1.5
"""Interval between the samples of a run, in that of all runs together, from which on runs have times
of their own.
"""

VERY_UNEVEN, DENSE = 4.0, 0.25
"""Ratio of the long intervals of runs to the short ones from which on common times have the interval
of this quantile.
"""

SEEN = 4
"""Most runs of the training that are forecast, to be compared with the held-out ones."""


@validated
def learn(
    source: xr.Dataset | pd.DataFrame | FilePath | Sequence[FilePath],
    context: str | Sequence[str] | None = None,
    *,
    held_out: Part = 0.25,
    latent_dim: Count | None = None,
    period: Positive | None = None,
    members: Natural = 3,
    seconds: Seconds = 60.0,
    seed: Seed = 0,
) -> Learned:
    """Learn a reduced model from runs: read them, choose manifold and law, and measure the errors.

    Whole contexts are held out, and nothing is chosen by them but the width of the intervals. A
    polynomial manifold is fitted to the others, behind a basis where states are large, and a law of
    its latents. More latents are tried as long as they gain. The steps are those of
    `romkit.data.describe`, `romkit.data.split`, `romkit.fit`, `romkit.law`, `romkit.rollout` and
    `romkit.bootstrap`, which can be taken alone.

    Args:
        source: runs in a dataset of any habit, in a table of pandas, or the names of their files,
            with wildcards. Runs with times of their own are brought to common ones by
            `romkit.data.resampled`.
        context: names of the parameters in which runs differ; by default what the data declare.
        held_out: share of the runs that judge the result, by contexts between the others.
        latent_dim: number of latents; by default chosen.
        period: of what drives all runs from outside, in step since their first time; its sine and
            cosine are then inputs of the law, and `forecast` gives them by itself.
        members: laws that miss a context each, whose forecasts of it, beside those of the held-out
            runs, set the width of the intervals; 0 for no intervals. Intervals are those of a
            measurement: noise of these runs is a part.
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
    if period is not None:
        data = with_rhythm(data, period)
    train, test = datasets.split(data, _held_out(data, held_out, members))
    best, trials = _chosen(train, latent_dim, seconds, seed)
    run = _rolled_out(best, test)
    # as many runs of the training tell an error of what is unseen from one of the fit
    seen = _evenly(train, SEEN)
    errors_of_seen = _errors(_rolled_out(best, seen), train, seen)
    took = time.process_time() - began
    after = ". Next, its bars" if members > 1 else ""
    runtime.told(f"learn: law of {best.projection.latent_dim} latents; {took:.0f} s{after}")
    ensemble = ensemble_of(best.projection, best.settings, best.law, train, test, members, seed)
    return Learned(
        projection=best.projection,
        law=best.law,
        settings=best.settings,
        ensemble=ensemble,
        train=train,
        test=test,
        run=run,
        errors=_errors(run, train, test),
        errors_of_seen=errors_of_seen,
        trials=trials,
        seconds=time.process_time() - began,
        period=period,
    )


def _rolled_out(model: "Model", data: xr.Dataset) -> xr.Dataset:
    """Rollout along runs, with an axis of trajectories."""
    return with_trajectories(_quietly(rollout, data, model.projection, dynamics=model.law))


def _evenly(data: xr.Dataset, number: int) -> xr.Dataset:
    """At most so many runs, evenly by number."""
    runs = data.sizes["trajectory"]
    rows = np.linspace(0, runs - 1, min(number, runs)).round().astype(int)
    return data.isel(trajectory=rows)


class Model(NamedTuple):
    """A manifold with a law, and the settings of the law."""

    projection: Projection
    law: LearnedField
    settings: Estimator


def _described(source: object, context: str | Sequence[str] | None) -> xr.Dataset:
    """Runs in romkit's schema."""
    data = source
    if not isinstance(source, xr.Dataset | pd.DataFrame):
        data = _read(source)
    if _has_schema(data):
        data = data.transpose(*datasets.DIMS, ..., missing_dims="ignore")
    else:
        names = context
        if isinstance(context, str):
            names = [context]
        data = datasets.describe(data, context=names)
    return _from_complete_start(_with_common_times(data))


def _has_schema(data: xr.Dataset | pd.DataFrame) -> bool:
    """Whether data have romkit's variables and dimensions."""
    if not isinstance(data, xr.Dataset):
        return False
    return "state" in data and "component" in data.dims


def _from_complete_start(data: xr.Dataset) -> xr.Dataset:
    """Data from the first time on at which no run lacks a part of its state.

    Forecasts begin there, and need it whole.
    """
    is_complete = complete(data, ["state"]).all(0)  # (T,) of every run
    first = int(is_complete.argmax())
    if first == 0:
        return data
    time = data["time"].values
    warn(
        f"begins at time {time[first]:.4g}: a run lacks a part of its state before it", DataWarning
    )
    return data.isel(time=slice(first, None))


def _with_common_times(data: xr.Dataset) -> xr.Dataset:
    """Data as they are, or resampled, with a warning, where most runs have times of their own."""
    times = data["time"].values.astype(float)
    known = np.asarray(np.isfinite(data["state"].data).any(-1))  # (C, T)
    intervals = [np.diff(times[row]) for row in known if row.sum() > 1]
    if not intervals:
        return data
    usual = np.median([np.median(steps) for steps in intervals])
    if usual < OWN_TIMES * np.median(np.diff(times)):
        return data
    common = datasets.resampled(data, _step(np.concatenate(intervals)))
    step = float(common["time"][1] - common["time"][0])
    warn(
        f"runs have times of their own; brought to common ones, every {step:.3g}, by "
        "romkit.data.resampled",
        DataWarning,
    )
    return common


def _step(intervals: np.ndarray) -> float | None:
    """Interval of common times: where samples are dense at first and rare later, that of the dense
    ones; else that of `resampled`.
    """
    short, long = np.quantile(intervals, [0.1, 0.9])
    if long < VERY_UNEVEN * short:
        return None
    return float(np.quantile(intervals, DENSE))


def _read(source: object) -> xr.Dataset | pd.DataFrame:
    """Tables, or runs in files, joined where there are several."""
    names = source
    if isinstance(source, str | Path):
        names = [source]
    paths: list[Path] = []
    for name in names:
        paths += _matching(name)
    if paths[0].suffix.lower() == ".csv":
        return joined_tables(paths)
    return joined_runs(paths)


def _matching(name: str | Path) -> list[Path]:
    """Files of a name, which may have wildcards.

    Raises:
        FileError: there is none.
    """
    path = expanded(name)
    if path.exists():
        return [path]
    paths = [Path(match) for match in sorted(glob.glob(str(path)))]
    if not paths:
        raise FileError(name, problem="does not exist", fix="check the path or pattern")
    return paths


def _check_contexts(data: xr.Dataset) -> None:
    """Refuse runs at fewer than three contexts."""
    names = datasets.context_names(data)
    number, parameters = 0, "no parameter"
    if names:
        number = len(np.unique(contexts_of(data), axis=0))
        parameters = ", ".join(names)
    if number < 3:
        got = f"{number} in {parameters}"
        fix = "name the parameters, context=[...], or give more runs"
        raise InputError("context", expected="three contexts or more", got=got, fix=fix)


class Candidate(NamedTuple):
    """A manifold, and the laws that were compared on it.

    Attributes:
        projection: fitted to the training data.
        error: of the projection on contexts that were left out.
        laws: compared by forecasts of other contexts.
    """

    projection: Projection
    error: float
    laws: Comparison

    @property
    def law_error(self) -> float:
        """Error of the best law, infinite where there is none."""
        best = self.laws.best
        return np.inf if best is None else best.error

    @property
    def complexity(self) -> int:
        """Number of coefficients of the best law, by which equal errors are told apart."""
        best = self.laws.best
        return 0 if best is None else best.complexity

    @property
    def good(self) -> bool:
        """Whether nothing more is needed."""
        return self.law_error < NEGLIGIBLE

    def trial(self) -> Trial:
        """Row of the report."""
        # a law with the least error may be lost when it is fitted to all runs, and the next one taken
        row = min(
            self.laws.rows, key=lambda row: (not row["chosen"], row["tried"] == 0, row["error"])
        )
        return Trial(self.projection.latent_dim, self.projection.config, self.error, row)


def _chosen(
    train: xr.Dataset, latent_dim: int | None, seconds: float, seed: int
) -> tuple[Model, list[Trial]]:
    """The manifold and law that forecast held-out contexts of the training data best."""
    began = time.process_time()
    candidates = _candidates(train, latent_dim, seconds, seed)
    best = _best(candidates)
    if not best.laws.good:
        # networks cost most, and are tried with the latents that the cheap laws prefer
        best.laws.seconds = seconds - (time.process_time() - began)
        _quietly(best.laws.add, LAWS["neural-ode"]())
    law = with_phase(_quietly(best.laws.chosen), best.projection, train)
    model = Model(best.projection, law, best.laws.settings)
    return model, [candidate.trial() for candidate in candidates]


def _best(candidates: list[Candidate]) -> Candidate:
    """The manifold whose law is best; where that is a close call, on other contexts too, and of
    laws that are as good the simplest one.
    """
    least = min(candidate.law_error for candidate in candidates)
    close = [candidate for candidate in candidates if candidate.law_error <= CLOSE_CALL * least]
    if len(close) == 1:
        return close[0]
    # a few contexts rank laws of nearly equal errors by chance
    errors = [_quietly(candidate.laws.confirmed) for candidate in close]
    complexities = [candidate.complexity for candidate in close]
    return close[order_of_preference(errors, complexities)[0]]


def _candidates(
    train: xr.Dataset, latent_dim: int | None, seconds: float, seed: int
) -> list[Candidate]:
    """Manifolds of more and more latents with cheap laws, as long as one gains by more."""
    front = basis_of(train)
    began, candidates, passed = time.process_time(), [], 0
    for number in _latent_dims(train, latent_dim):
        projection = fit(METHOD, train, latent_dim=number, basis=front)
        error = float(projection.report["left_out_error"])
        if projection.latent_dim < number and candidates:  # further directions hold nothing
            break
        if candidates and not _gains(error, candidates[-1]):
            passed += 1
            if passed == PAIR:
                break
            continue
        passed = 0
        remaining = seconds - (time.process_time() - began)
        laws = Comparison(*projection.for_law(train), HELD_OUT, seed, remaining)
        _quietly(laws.add, LAWS["polynomial"](), LAWS["limit-cycle"]())
        candidates.append(Candidate(projection, error, laws))
        runtime.told(
            f"learn: {number} latents, error of the manifold {error:.2g}, with its best law "
            f"{candidates[-1].law_error:.2g}; {time.process_time() - began:.0f} s"
        )
        # the best law is fitted once more, to all runs, which takes about as long
        if candidates[-1].good or remaining < seconds / 2:
            break
    return candidates


def _latent_dims(train: xr.Dataset, latent_dim: int | None) -> list[int]:
    """Numbers of latents to try; all of the state where it has fewer components than the least."""
    if latent_dim is not None:
        return [latent_dim]
    n = train.sizes["component"]
    return [number for number in LATENT if number <= n] or [n]


def _gains(error: float, before: Candidate) -> bool:
    """Whether a manifold with more latents, of this error, is worth a law."""
    # latents that add little to the states may still tell apart states with different futures
    law_limits = before.law_error > LIMITED * before.error
    return law_limits or error <= GAINS * before.error


def _held_out(data: xr.Dataset, share: float, members: int) -> float:
    """Share of the contexts to hold out: two or more where intervals need them and can be had."""
    number = len(np.unique(contexts_of(data), axis=0))
    if members < 2 or number < FEWEST_FOR_BARS:
        return share
    return max(share, 2 / number)


def _errors(run: xr.Dataset, train: xr.Dataset, test: xr.Dataset) -> Errors:
    """Errors of each held-out run, beside forecasts that need no model."""
    deviation = np.nanstd(train["state"].values, axis=(0, 1))
    scale = np.where(deviation > 0, deviation, 1.0)

    def scaled(variable: xr.DataArray) -> torch.Tensor:
        return torch.from_numpy(variable.values / scale)

    states, truth = torch.from_numpy(_without_gaps(train) / scale), scaled(test["state"])
    trained, held_out = len(states), len(truth)
    contexts = np.concatenate([_scaled_contexts(train, train), _scaled_contexts(test, train)])
    nearest = nearest_runs(
        states,
        torch.from_numpy(contexts),
        torch.arange(trained, trained + held_out),
        torch.arange(trained),
    )
    paths = []
    for path, exact in zip(nearest, truth, strict=True):
        paths.append(shifted_in_time(path, exact[0]))
    return {
        "forecast": _error(scaled(run["rom"]).reshape(truth.shape), truth),
        "projection": _error(scaled(run["projected"]).reshape(truth.shape), truth),
        "nearest run": _error(nearest, truth),
        "nearest run, shifted": _error(torch.stack(paths), truth),
        "rest": _error(states.nanmean((0, 1)).expand(truth.shape), truth),
    }


def _without_gaps(data: xr.Dataset) -> np.ndarray:
    """States (C, T, n) with straight lines over gaps: a gap in the data is no lost forecast."""
    states = data["state"].values
    if np.isfinite(states).all():
        return states
    runs = [pd.DataFrame(run, index=data["time"].values) for run in states]
    return np.stack([run.interpolate("index", limit_direction="both") for run in runs])


def _error(states: torch.Tensor, truth: torch.Tensor) -> np.ndarray:
    """Error (C,) of each run [deviations]: root mean square over components, mean over time."""
    distance = (states - truth).square().nanmean(-1).sqrt()
    missing = truth.isnan().all(-1)
    lost = states.isnan().any(-1) & ~missing
    return distance.masked_fill(lost, torch.inf).nanmean(-1).numpy()


def _scaled_contexts(data: xr.Dataset, train: xr.Dataset) -> np.ndarray:
    """Contexts (C, p), in the ranges of the training data."""
    low, high = context_ranges(train)
    width = np.where(high > low, high - low, 1.0)
    return (contexts_of(data) - low) / width


def _quietly(call: Callable[..., T], *arguments: object, **named: object) -> T:
    """Result of a step whose warnings the report says in its own words."""
    with quiet():
        return call(*arguments, **named)
