"""Error of a rollout without its truth, from short runs of the full model on its path, or from an ensemble."""

import math
from typing import Annotated, NamedTuple

import numpy as np
import torch
import xarray as xr
from annotated_types import Ge
from scipy.optimize import nnls

from romkit.core.boundary import Part, validated
from romkit.core.errors import InputError
from romkit.core.runtime import track
from romkit.data import DIMS, times_of
from romkit.data.context import context_columns
from romkit.systems import System

SMALLEST = 1e-12
"""Smallest error, in standard deviations: logarithms are taken of errors."""

RIDGE = 0.1
"""Deviation that an exponent of the regression is held by, in deviations of what the regression explains."""

ROWS = 2000
"""Components, drawn at random, that distances of larger states are taken over."""

NAMES = {
    "local": "error at the end of a window",
    "shift": "error by the lag",
    "error": "estimate of the error",
    "lower": "lower end of the interval",
    "upper": "upper end of the interval",
}
"""Names of the variables of an estimate."""


@validated
def error_estimate(
    run: xr.Dataset,
    system: System | None = None,
    *,
    known: xr.Dataset | None = None,
    coverage: Part = 0.9,
    windows: Annotated[int, Ge(1)] = 5,
    share: Part = 0.1,
) -> xr.Dataset:
    """Estimate the error of rollouts without their truth.

    The full model starts at some states of the reduced path and runs for a short window each. Its distance from the
    path at the end of a window is the error that appears at once; the part along the path is a lag, which accumulates:
    a lag ℓ changes a state x̂(t) by x̂(t - ℓ) - x̂(t). Both are logarithms in a regression for the error of rollouts
    whose truth is known; the interval is conformal. Without equations, the disagreement of an ensemble takes their
    place.

    Args:
        run: what `romkit.follow`, `romkit.rollout` or, for first order, `romkit.forecast` returned, at contexts that
            stay; or without a system what `Ensemble.follow` returned.
        system: the full model, or its image in a basis for a run in coordinates.
        known: `romkit.rollout` of the same model at other contexts, ten or more, or any run with its `nrmse`. Contexts
            that the model was trained on are optimistic: intervals from them may be too narrow.
        coverage: of the interval, over times and trajectories.
        windows: number of windows; a long one sees drift behind the relaxation to the attractor.
        share: of the run that the windows make up together: this share of the cost of the truth is paid.

    Returns:
        `error` (trajectory, time), in the units of `nrmse`: infinite where a run or its full model is lost; `local`
        and `shift`, of which it is made, `drift` (trajectory), seconds of lag in a second; with `known`, `lower` and
        `upper`. Without `known`, the error is √(local² + shift²), the shift in proportion to how well it explains the
        windows.

    Raises:
        InputError: a run without a system and without an ensemble, a stack of seeds, a context that moves, a run that
            is shorter than its windows, fewer than two known rollouts.

    Source: local errors of the full model along the path: Lions, Maday, Turinici (2001), parareal; regression from
    indicators to errors: Drohmann, Carlberg (2015), ROMES; Vovk, Gammerman, Shafer (2005), conformal prediction.

    Example:
        >>> import romkit
        >>> system, flow = romkit.systems.Lorenz96(transient=0.0), romkit.load("flow-lorenz96")
        >>> data = system.dataset(F=[3.14, 3.16, 3.18], duration=1.0)
        >>> estimate = romkit.error_estimate(romkit.follow(flow, data), system, windows=2)
        >>> estimate.error.dims, estimate.drift.sizes["trajectory"]
        (('trajectory', 'time'), 3)
    """
    found = _parts("run", run, system, windows, share)
    values = {"local": found.local, "shift": found.shift, "error": np.hypot(found.local, found.trust * found.shift)}
    if known is not None:
        if "nrmse" not in known or known.sizes.get("trajectory", 1) < 2:
            fix = "give romkit.rollout(system, projection, ...) at two contexts or more"
            raise InputError("known", expected="two rollouts with their nrmse", got="fewer", fix=fix)
        truth = known["nrmse"].transpose(*DIMS[:2]).values
        values |= _regression(found, _parts("known", known, system, windows, share), truth, coverage)
    variables = {name: (DIMS[:2], value, {"units": "1", "long_name": NAMES[name]}) for name, value in values.items()}
    variables["drift"] = ("trajectory", found.drift, {"units": "1", "long_name": "lag for each unit of time"})
    coords = {name: coord for name, coord in run.coords.items() if set(coord.dims) <= set(DIMS[:2])}
    return xr.Dataset(variables, coords, {"share": found.share, "coverage": coverage})


class Parts(NamedTuple):
    """`local`, `shift` and the `trust` in it, each (C, T), `drift` (C,), and the share of the truth that they cost."""

    local: np.ndarray
    shift: np.ndarray
    trust: np.ndarray
    drift: np.ndarray
    share: float


def _parts(argument: str, run: xr.Dataset, system: System | None, windows: int, share: float) -> Parts:
    """Parts of the estimate of a dataset, refused under the name of its argument."""
    name = "rom" if "rom" in run else "state"
    if name not in run or "state_std" not in run or "seed" in run[name].dims:
        got, fix = (
            f"variables {sorted(map(str, run.data_vars))}",
            "give a run of romkit.follow, of a stack isel(seed=0)",
        )
        raise InputError(argument, expected="the run of one model", got=got, fix=fix)
    if system is None and "spread" not in run:
        fix = "give the system; for data without equations, follow romkit.bootstrap(...)"
        raise InputError(argument, expected="a system, or the run of an ensemble", got="neither", fix=fix)
    run = run if "trajectory" in run[name].dims else run.expand_dims("trajectory")
    full, std, times = run[name].transpose(*DIMS), run["state_std"].values, times_of(run)
    n = full.sizes["component"]
    rows = slice(None) if n <= ROWS else np.sort(np.random.default_rng(0).choice(n, ROWS, replace=False))
    x = full.values[..., rows] / std[rows]  # a copy, in standard deviations
    if system is None:
        spread = np.sqrt(((run["spread"].transpose(*DIMS).values / std) ** 2).mean(-1))
        spread[np.isnan(spread)] = np.inf
        return Parts(spread, *np.zeros((2, *spread.shape)), np.zeros(len(x)), 0.0)
    t, T = times.numpy() - float(times[0]), len(times) - 1
    w = int(share * T / windows)
    if w < 2:
        fix = "give a run with more times, or fewer windows, or a larger share"
        raise InputError(argument, expected=f"{math.ceil(2 * windows / share)} steps or more", got=f"{T}", fix=fix)
    if any("time" in run[name].dims for name in system.context_names):
        fix = "follow it at a constant context"
        raise InputError(argument, expected="contexts that stay", got="one that moves in time", fix=fix)
    contexts = np.broadcast_to(context_columns(run, system.context_names), (len(x), len(system.context_names)))
    contexts = torch.from_numpy(contexts.copy())
    if system.order == 2 and "velocity" not in run:
        fix = "give what romkit.follow returned, which has them"
        raise InputError(argument, expected="velocities beside the states", got="states alone", fix=fix)
    paths = [full, *([run["velocity"].transpose(*DIMS)] if system.order == 2 else [])]
    starts = [T - w] if windows == 1 else np.linspace(0, T - w, windows).round().astype(int)
    local, lags, trust = np.empty((3, windows, len(x)))
    for k, i in enumerate(track(starts, "windows of the full model")):
        parts = tuple(torch.from_numpy(path[:, i].values.astype(float)) for path in paths)
        y = system.simulate(parts, contexts, times[i : i + w + 1], label="window").state.numpy()
        path = x[:, i : i + w + 1]
        gap = y[..., rows] / std[rows] - path
        speed = np.gradient(path, t[: w + 1], axis=1)
        lags[k], trust[k] = _lag(gap, speed, t[: w + 1])
        local[k] = np.sqrt((gap[:, -1] ** 2).mean(-1))
    middle = t[starts] + t[w] / 2
    local, lags, trust = (np.stack([np.interp(t, middle, one) for one in each.T]) for each in (local, lags, trust))
    lag = np.concatenate([np.zeros((len(x), 1)), np.cumsum((lags[:, 1:] + lags[:, :-1]) / 2 * np.diff(t), 1)], 1)
    shift = np.stack([_shifted(*each, t) for each in zip(x, np.abs(lag), strict=True)])
    lost = ~np.isfinite(local) | ~np.isfinite(x).all(-1)
    drift = lag[:, -1] / t[-1]
    return Parts(np.where(lost, np.inf, local), np.where(lost, 0.0, shift), trust, drift, windows * w / T)


def _lag(gap: np.ndarray, speed: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rate (C,) of a lag a + b t that explains gaps (C, w, n) from a path best, and the share that it explains."""
    weight, along = (speed**2).sum(-1), (gap * speed).sum(-1)
    total = np.maximum(weight.sum(1), np.finfo(float).tiny)
    mean = (weight * t).sum(1) / total
    late = t - mean[:, None]
    spread = np.maximum((weight * late**2).sum(1), np.finfo(float).tiny)
    rate = np.nan_to_num((along * late).sum(1) / spread)  # of a run that is lost
    rest = gap - (rate[:, None] * t)[..., None] * speed  # a lag grows from zero
    left = (rest**2).sum((1, 2)) / np.maximum((gap**2).sum((1, 2)), np.finfo(float).tiny)
    return rate, np.nan_to_num(np.maximum(1 - left, 0))


def _shifted(x: np.ndarray, lag: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Distances (T,) of states (T, n) from those a lag before."""
    place = np.interp(np.clip(t - lag, 0, None), t, np.arange(len(t)))
    left = np.minimum(place.astype(int), len(t) - 2)
    part = (place - left)[:, None]
    return np.sqrt(((x[left] * (1 - part) + x[left + 1] * part - x) ** 2).mean(-1))


def _regression(found: Parts, seen: Parts, truth: np.ndarray, coverage: float) -> dict[str, np.ndarray]:
    """Error and its interval, from the errors (C, T) of known rollouts."""
    y, A, new = np.log(np.maximum(truth, SMALLEST)), _logarithms(seen), _logarithms(found)
    use = np.isfinite(y) & np.isfinite(A).all(-1) & (truth > SMALLEST)
    left = []
    for k in range(len(y)):  # each rollout by a regression without it, as a new one will be
        others = _fit(*(np.delete(each, k, 0) for each in (A, y, use)))
        left.append(np.abs(y[k] - _predicted(others, A[k]))[use[k]])
    width = np.exp(np.quantile(np.concatenate(left), min(1.0, coverage * (1 + 1 / len(y)))))
    error = np.exp(_predicted(_fit(A, y, use), new))
    return {"error": error, "lower": error / width, "upper": error * width}


def _logarithms(parts: Parts) -> np.ndarray:
    """Predictors (C, T, 2): each part alone can explain an error, and the larger one does."""
    both = np.hypot(parts.local, parts.shift)
    return np.log(np.maximum(np.stack([parts.local, both], axis=-1), SMALLEST))


def _fit(A: np.ndarray, y: np.ndarray, use: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Exponents, not negative, around the mean of predictors (C, T, k) and logarithms of errors (C, T)."""
    A, y = A[use], y[use]
    mean, middle = A.mean(0), y.mean()
    ridge = RIDGE * np.sqrt(len(y)) * np.diag(A.std(0).mean(keepdims=True).repeat(A.shape[1]))
    exponents, _ = nnls(np.vstack([A - mean, ridge]), np.concatenate([y - middle, np.zeros(len(ridge))]))
    return exponents, mean, middle


def _predicted(fit: tuple[np.ndarray, np.ndarray, float], A: np.ndarray) -> np.ndarray:
    exponents, mean, middle = fit
    return (A - mean) @ exponents + middle
