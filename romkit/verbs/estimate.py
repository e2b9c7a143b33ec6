"""Error of a rollout without its truth, from short runs of the full model on its path, or from an
ensemble.
"""

from typing import Annotated, NamedTuple

import numpy as np
import torch
import xarray as xr
from annotated_types import Ge
from scipy import integrate, interpolate, optimize

from romkit.core.boundary import Part, validated
from romkit.core.errors import InputError
from romkit.core.runtime import track
from romkit.data import DIMS, times_of
from romkit.data.context import context_columns
from romkit.systems import System

SMALLEST = 1e-12
"""Smallest error, in standard deviations: logarithms are taken of errors."""

RIDGE = 0.1
"""Deviation that an exponent of the regression is held by, in deviations of what the regression
explains.
"""

ROWS = 1000
"""Components, drawn at random, that distances of larger states are taken over."""

NAMES = {
    "local": "error at the end of a window",
    "shift": "error by the lag",
    "drift": "lag for each unit of time",
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
    share: Part = 0.09,
) -> xr.Dataset:
    """Estimate the error of rollouts without their truth.

    The full model starts at some states of the reduced path and runs for a short window each. Its
    distance from the path at the end of a window is the error that appears at once; the part along
    the path is a lag, which accumulates: a lag ℓ changes a state x̂(t) by x̂(t - ℓ) - x̂(t), which
    counts in proportion to how well it explains the windows. Rollouts whose truth is known tell the
    mean error at each time, and by a regression how rollouts differ from it: in both of these, the
    distance after the first step of a window (the residual), and the deviation of the path from its
    mean. The interval is conformal. Without equations, the disagreement of an ensemble takes the
    place of windows.

    Args:
        run: what `romkit.follow`, `romkit.rollout` or, for first order, `romkit.forecast` returned,
            at contexts that stay; or without a system what `Ensemble.follow` returned.
        system: the full model, or its image in a basis for a run in coordinates.
        known: `romkit.rollout` of the same model at other contexts, ten or more, or any run with
            its `nrmse`. Contexts that the model was trained on are optimistic: intervals from them
            may be too narrow. Runs as long as the others: behind its end, the mean error is that of
            the end.
        coverage: of the interval, over times and trajectories.
        windows: number of windows; a long one sees drift behind the relaxation to the attractor.
        share: of the run that the windows make up together, as near as whole steps allow: the cost
            beside the truth.

    Returns:
        `error` (trajectory, time), in the units of `nrmse`: infinite where a run or its full model
        is lost; `local` and `shift`, its parts, `drift` (trajectory), seconds of lag in a second;
        with `known`, `lower` and `upper`. Without `known`, the error is √(local² + shift²).
        `run.merge(estimate)` is the run with these as its columns.

    Raises:
        InputError: a run without a system and without an ensemble, a stack of seeds, a context that
            moves, a run of fewer steps than windows, fewer than two known rollouts.

    Source: local errors of the full model along the path: Lions, Maday, Turinici (2001), parareal;
    regression from indicators to errors: Drohmann, Carlberg (2015), ROMES; Dunn, Wasserman, Ramdas
    (2022), Distribution-free prediction sets for two-layer hierarchical models, for conformal
    intervals of many times of few rollouts.

    Example:
        >>> import romkit
        >>> system, flow = romkit.systems.Lorenz96(transient=0.0), romkit.load("flow-lorenz96")
        >>> data = system.dataset(F=[3.14, 3.16, 3.18], duration=1.0)
        >>> estimate = romkit.error_estimate(romkit.follow(flow, data), system, windows=2)
        >>> estimate.error.dims, estimate.drift.sizes["trajectory"]
        (('trajectory', 'time'), 3)
    """
    whole = _checked("run", run, system, windows)
    known = known if known is None else _checked("known", known, system, windows, "nrmse")
    found = _parts(whole, system, windows, share)
    values = found._asdict() | {"error": np.hypot(found.local, found.shift)}
    if known is not None:
        values |= _regression(
            found, _parts(known, system, windows, share), known["nrmse"].values, coverage
        )
    named = {
        name: {"units": "1", "long_name": said} for name, said in NAMES.items() if name in values
    }
    variables = {
        name: (DIMS[: values[name].ndim], values[name], attrs) for name, attrs in named.items()
    }
    coords = {
        name: coord for name, coord in whole.coords.items() if set(coord.dims) <= set(DIMS[:2])
    }
    estimate = xr.Dataset(variables, coords, {"share": found.share, "coverage": coverage})
    return estimate if "trajectory" in run.dims else estimate.squeeze("trajectory")


class Parts(NamedTuple):
    """Parts of estimates at times t (T,) from the start, and the share of the truth that they cost.

    `local` and `shift` are (C, T), `drift` (C,); `predictors` (C, T, 5) the logarithms of the
    regression.
    """

    t: np.ndarray
    local: np.ndarray
    shift: np.ndarray
    drift: np.ndarray
    predictors: np.ndarray
    share: float


def _checked(
    argument: str, run: xr.Dataset, system: System | None, windows: int, *more: str
) -> xr.Dataset:
    """Run of one model with a state in standard order, refused under the name of its argument."""
    run = run.rename(rom="state") if "rom" in run else run
    more += ("velocity",) if system is not None and system.order == 2 else ()
    missing = [name for name in ("state", "state_std", *more) if name not in run]
    if missing or "seed" in run.dims:
        got = f"no {', '.join(missing)}" if missing else "a stack of seeds"
        fix = "give what romkit.follow or, with its errors, romkit.rollout returned, of a stack isel(seed=0)"
        raise InputError(argument, expected="the run of one model", got=got, fix=fix)
    if system is None and "spread" not in run:
        fix = "give the system; for data without equations, follow romkit.bootstrap(...)"
        raise InputError(
            argument, expected="a system, or the run of an ensemble", got="neither", fix=fix
        )
    run = (run if "trajectory" in run.dims else run.expand_dims("trajectory")).transpose(*DIMS, ...)
    if system is None:
        return run
    if (steps := run.sizes["time"] - 1) < windows:
        raise InputError(
            argument,
            expected=f"{windows} steps or more",
            got=steps,
            fix="give more, or fewer windows",
        )
    if any("time" in run[name].dims for name in system.context_names):
        raise InputError(
            argument, expected="a context that stays", got="one that moves", fix="follow it at one"
        )
    return run


def _parts(run: xr.Dataset, system: System | None, windows: int, share: float) -> Parts:
    """Parts of the estimate of a checked run."""
    paths, std, times = [run["state"].values], run["state_std"].values, times_of(run)
    t, n, T = times.numpy() - float(times[0]), len(std), len(times) - 1
    rows = np.sort(np.random.default_rng(0).choice(n, min(n, ROWS), replace=False))
    x = np.take(paths[0], rows, axis=-1) / std[rows]  # a copy, in standard deviations
    extent = np.sqrt(
        np.ma.masked_invalid(x).var(1).mean(-1).filled(np.inf)
    )  # of the path, from its mean
    if system is None:
        spread = np.nan_to_num(np.sqrt(((run["spread"].values / std) ** 2).mean(-1)), nan=np.inf)
        nothing = np.zeros((2, *spread.shape))
        return Parts(
            t,
            spread,
            nothing[0],
            nothing[0, :, 0],
            _predictors(spread, spread, nothing, extent),
            0.0,
        )
    contexts = torch.from_numpy(context_columns(run, system.context_names).copy()).expand(
        len(x), -1
    )
    paths += [run["velocity"].values] if system.order == 2 else []
    w = max(1, round(share * T / windows))
    starts = np.linspace(0 if windows > 1 else T - w, T - w, windows).round().astype(int)
    early, local, rates, trust = np.empty((4, windows, len(x)))
    for k, i in enumerate(track(starts, "windows of the full model")):
        begin = tuple(torch.from_numpy(path[:, i].astype(float)) for path in paths)
        y = system.solution(begin, contexts, times[i : i + w + 1], label="window").states.numpy()
        path, late = x[:, i : i + w + 1], t[i : i + w + 1] - t[i]
        gap = np.take(y, rows, axis=-1) / std[rows] - path
        rates[k], trust[k] = _lag(gap, np.gradient(path, late, axis=1), late)
        early[k], local[k] = (np.sqrt((gap[:, j] ** 2).mean(-1)) for j in (1, -1))
    middle = (t[starts] + t[starts + w]) / 2
    local, rates, trust = (
        np.stack([np.interp(t, middle, one) for one in each.T]) for each in (local, rates, trust)
    )
    lag = integrate.cumulative_trapezoid(rates, t, initial=0)
    shift = np.stack([_shifted(*each, t) for each in zip(x, np.abs(lag), strict=True)])
    lost = ~np.isfinite(local) | ~np.isfinite(x).all(-1)
    local, shifts = np.where(lost, np.inf, local), np.where(lost, 0.0, [shift, trust * shift])
    return Parts(
        t,
        local,
        shifts[1],
        lag[:, -1] / t[-1],
        _predictors(early.T, local, shifts, extent),
        windows * w / T,
    )


def _predictors(
    early: np.ndarray, local: np.ndarray, shifts: np.ndarray, extent: np.ndarray
) -> np.ndarray:
    """Logarithms (C, T, 5): each part alone can explain an error, and the larger of two does; whole
    and trusted shifts.

    Residuals `early` are (C, k), `local` is (C, T), shifts are (2, C, T), `extent` is (C,).
    """
    early = np.median(np.nan_to_num(early, nan=np.inf), axis=1, keepdims=True)
    parts = (early, local, *np.hypot(local, shifts), extent[:, None])
    return np.log(np.clip(np.stack(np.broadcast_arrays(*parts), axis=-1), SMALLEST, 1 / SMALLEST))


def _lag(gap: np.ndarray, speed: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rate (C,) of a lag a + b t that explains gaps (C, w, n) from a path best, and the share that
    it explains.
    """
    weight, along = (speed**2).sum(-1), (gap * speed).sum(-1)
    total = np.maximum(weight.sum(1), np.finfo(float).tiny)
    mean = (weight * t).sum(1) / total
    late = t - mean[:, None]
    spread = np.maximum((weight * late**2).sum(1), np.finfo(float).tiny)
    rate = np.clip(
        np.nan_to_num((along * late).sum(1) / spread), -1, 1
    )  # of a run that is lost, of a path at rest
    rest = gap - (rate[:, None] * t)[..., None] * speed  # a lag grows from zero
    left = (rest**2).sum((1, 2)) / np.maximum((gap**2).sum((1, 2)), np.finfo(float).tiny)
    return rate, np.nan_to_num(np.maximum(1 - left, 0))


def _shifted(x: np.ndarray, lag: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Distances (T,) of states (T, n) from those a lag before."""
    before = interpolate.interp1d(t, x, axis=0)(np.clip(t - lag, 0, None))
    return np.sqrt(((before - x) ** 2).mean(-1))


def _regression(
    found: Parts, seen: Parts, truth: np.ndarray, coverage: float
) -> dict[str, np.ndarray]:
    """Error and its interval, from the errors (C, T) of known rollouts."""
    use = np.isfinite(truth) & (truth > SMALLEST) & np.isfinite(seen.local)
    y, A, there = np.log(np.where(use, truth, 1.0)), seen.predictors, np.flatnonzero(use.any(1))
    if len(there) < 2:
        raise InputError(
            "known",
            expected="two rollouts that are not lost",
            got=len(there),
            fix="give more of them",
        )
    left = []
    for k in there:  # each rollout by a regression without it, as a new one will be
        others = _fit(seen.t, *(np.delete(each, k, 0) for each in (A, y, use)))
        left += [*np.abs(y[k] - _predicted(others, seen.t, A[k]))[use[k]]]
    width = np.exp(np.quantile(left, min(1.0, coverage * (1 + 1 / len(there)))))
    error = np.exp(_predicted(_fit(seen.t, A, y, use), found.t, found.predictors))
    error[np.isinf(found.local)] = np.inf
    return {"error": error, "lower": error / width, "upper": error * width}


def _fit(
    t: np.ndarray, A: np.ndarray, y: np.ndarray, use: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Exponents, not negative, by which rollouts differ at the same time; times, and means over the
    rollouts there.

    Predictors A are (C, T, k), logarithms y of errors (C, T).
    """
    both, some = np.concatenate([A, y[..., None]], axis=-1), use.any(0)
    means = both.sum(0, where=use[..., None]) / np.maximum(use.sum(0), 1)[:, None]
    both = (both - means)[use]
    ridge = RIDGE * np.sqrt(len(both)) * both[:, :-1].std(0).mean() * np.eye(A.shape[-1] + 1)[:-1]
    *columns, target = np.concatenate([both, ridge]).T
    exponents, _ = optimize.nnls(np.stack(columns, axis=-1), target)
    return exponents, t[some], means[some]


def _predicted(
    fit: tuple[np.ndarray, np.ndarray, np.ndarray], t: np.ndarray, A: np.ndarray
) -> np.ndarray:
    """Logarithms (..., T) of errors at times t, from predictors (..., T, k); at others, means of
    the nearest time.
    """
    exponents, at, means = fit
    means = np.stack([np.interp(t, at, column) for column in means.T], axis=-1)
    return (A - means[:, :-1]) @ exponents + means[:, -1]
