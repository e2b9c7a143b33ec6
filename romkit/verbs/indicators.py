"""Indicators of the error of a rollout: short runs of the full model on its path, or the
disagreement of an ensemble.
"""

from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from scipy import integrate, interpolate

from romkit.core.runtime import track
from romkit.core.types import Array
from romkit.data import times_of
from romkit.data.context import context_columns
from romkit.metrics import per_unit
from romkit.systems import System

SMALLEST = 1e-12
"""Smallest error, in standard deviations: logarithms are taken of errors."""

ROWS = 1000
"""Components, drawn at random, that distances of larger states are taken over."""


class Indicators(NamedTuple):
    """Numbers that errors are estimated from, at times t (T,) from the start.

    Attributes:
        t: (T,).
        local: (C, T) error at the end of a window.
        shift: (C, T) error by the lag, as far as it explains the windows.
        drift: (C,) lag in a unit of time.
        predictors: (C, T, 5) logarithms of the regression.
        share: of the truth, which the windows cost.
    """

    t: Array
    local: Array
    shift: Array
    drift: Array
    predictors: Array
    share: float


def indicators_of(run: xr.Dataset, system: System | None, windows: int, share: float) -> Indicators:
    """Return indicators of a checked run."""
    times = times_of(run)
    t = times.numpy() - float(times[0])
    std = per_unit(run["state_std"].values.astype(float), run)
    count = min(len(std), ROWS)
    chosen = np.random.default_rng(0).choice(len(std), count, replace=False)
    rows = np.sort(chosen)
    states = run["state"].values
    x = np.take(states, rows, axis=-1) / std[rows]  # (C, T, r), a copy
    variance = np.ma.masked_invalid(x).var(1).mean(-1)
    extent = np.sqrt(variance.filled(np.inf))  # (C,) of the path, from its mean
    if system is None:
        return _of_ensemble(run, t, std, extent)
    begins = _begins(len(t) - 1, windows, share)
    gaps = _windows(run, system, t, x, std[rows], rows, begins)
    return _of_windows(x, t, gaps, begins, extent)


def _of_ensemble(run: xr.Dataset, t: Array, std: Array, extent: Array) -> Indicators:
    """Return indicators by the disagreement of an ensemble, in place of windows."""
    square = np.square(run["spread"].values / std).mean(-1)
    spread = np.nan_to_num(np.sqrt(square), nan=np.inf)  # (C, T)
    none = np.zeros_like(spread)
    predictors = _predictors(spread, spread, (none, none), extent)
    return Indicators(t, spread, none, none[:, 0], predictors, 0.0)


class Begins(NamedTuple):
    """Steps (k,) at which windows begin, and how many steps each has."""

    steps: Array
    length: int


def _begins(steps: int, windows: int, share: float) -> Begins:
    """Windows over a run of so many steps; a single one is at its end."""
    length = max(1, round(share * steps / windows))
    last = steps - length
    begin = 0 if windows > 1 else last
    places = np.linspace(begin, last, windows)
    return Begins(places.round().astype(int), length)


class Gaps(NamedTuple):
    """Distances of the full model from the path in k windows.

    Attributes:
        early, local: (k, C) after the first step, and at the end.
        rates: (k, C) of the lag.
        trust: (k, C) share of the distances that the lag explains.
    """

    early: Array
    local: Array
    rates: Array
    trust: Array


def _windows(
    run: xr.Dataset,
    system: System,
    t: Array,
    x: Array,
    std: Array,
    rows: Array,
    begins: Begins,
) -> Gaps:
    """Return distances of the full model from the path x (C, T, r), on which each of its windows
    begins.

    They are taken over some components, `rows`, in their deviations.
    """
    times = times_of(run)
    columns = context_columns(run, system.context_names).copy()
    contexts = torch.from_numpy(columns).expand(len(x), -1)  # (C, p)
    names = ("state", "velocity")[: system.order]
    fields = [run[name].values for name in names]  # (C, T, n)
    shape = (4, len(begins.steps), len(x))
    gaps = Gaps(*np.empty(shape))
    for k, i in enumerate(track(begins.steps, "windows of the full model")):
        end = i + begins.length + 1
        start = [torch.from_numpy(values[:, i].astype(float)) for values in fields]
        motion = system.solution(tuple(start), contexts, times[i:end], label="window")
        y = motion.states.numpy()
        path = x[:, i:end]
        after = t[i:end] - t[i]
        scaled = np.take(y, rows, axis=-1) / std
        gap = scaled - path  # (C, w + 1, r)
        speed = np.gradient(path, after, axis=1)
        gaps.rates[k], gaps.trust[k] = _lag(gap, speed, after)
        gaps.early[k] = _root_mean_square(gap[:, 1])
        gaps.local[k] = _root_mean_square(gap[:, -1])
    return gaps


def _of_windows(x: Array, t: Array, gaps: Gaps, begins: Begins, extent: Array) -> Indicators:
    """Return indicators of a path (C, T, r) at all times, from its windows."""
    ends = begins.steps + begins.length
    middle = (t[begins.steps] + t[ends]) / 2
    local = between(t, middle, gaps.local)
    rates = between(t, middle, gaps.rates)
    trust = between(t, middle, gaps.trust)
    lag = integrate.cumulative_trapezoid(rates, t, initial=0)  # (C, T)
    pairs = zip(x, np.abs(lag), strict=True)
    shift = np.stack([_shifted(path, late, t) for path, late in pairs])
    known = np.isfinite(local) & np.isfinite(x).all(-1)
    local = np.where(known, local, np.inf)
    shift = np.where(known, shift, 0.0)
    trusted = np.where(known, trust * shift, 0.0)
    predictors = _predictors(gaps.early.T, local, (shift, trusted), extent)
    steps = len(t) - 1
    share = len(begins.steps) * begins.length / steps
    speed = lag[:, -1] / t[-1]
    return Indicators(t, local, trusted, speed, predictors, share)


def between(t: Array, middle: Array, values: Array) -> Array:
    """(C, T) values of windows (k, C) with these middles, at all times."""
    return np.stack([np.interp(t, middle, column) for column in values.T])


def _root_mean_square(values: Array) -> Array:
    return np.sqrt(np.square(values).mean(-1))


def _predictors(
    early: Array,
    local: Array,
    shifts: tuple[Array, Array],
    extent: Array,
) -> Array:
    """Logarithms (C, T, 5): each part alone can explain an error, and the larger of two does; whole
    and trusted shifts.

    Residuals `early` are (C, k), `local` is (C, T), and so are the shifts; `extent` is (C,).
    """
    early = np.median(np.nan_to_num(early, nan=np.inf), axis=1, keepdims=True)
    by_lag = np.hypot(local, shifts[0])
    by_trusted_lag = np.hypot(local, shifts[1])
    columns = np.broadcast_arrays(early, local, by_lag, by_trusted_lag, extent[:, None])
    predictors = np.stack(columns, axis=-1)
    bounded = np.clip(predictors, SMALLEST, 1 / SMALLEST)
    return np.log(bounded)


def _lag(gap: Array, speed: Array, t: Array) -> tuple[Array, Array]:
    """Return rate (C,) of a lag a + b t that explains gaps (C, w, n) from a path best, and the
    share that it explains.
    """
    tiny = np.finfo(float).tiny
    weight = np.square(speed).sum(-1)  # (C, w)
    along = (gap * speed).sum(-1)  # (C, w)
    total = np.maximum(weight.sum(1), tiny)
    mean = (weight * t).sum(1) / total
    late = t - mean[:, None]
    moment = (weight * np.square(late)).sum(1)
    spread = np.maximum(moment, tiny)
    # it is not a number of a run that is lost, and without bound of a path at rest
    rate = (along * late).sum(1) / spread
    rate = np.clip(np.nan_to_num(rate), -1, 1)
    # a lag grows from zero
    lag = rate[:, None] * t
    across = gap - lag[..., None] * speed
    squares = np.square(gap).sum((1, 2))
    total = np.maximum(squares, tiny)
    unexplained = np.square(across).sum((1, 2)) / total
    return rate, np.nan_to_num(np.maximum(1 - unexplained, 0))


def _shifted(x: Array, lag: Array, t: Array) -> Array:
    """Return distances (T,) of states (T, n) from those a lag before."""
    path = interpolate.interp1d(t, x, axis=0)
    before = path(np.clip(t - lag, 0, None))
    return _root_mean_square(before - x)
