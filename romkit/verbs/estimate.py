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
from romkit.core.types import Array, ArrayPair
from romkit.data import DIMS, times_of
from romkit.data.context import context_columns
from romkit.data.schema import add_trajectories
from romkit.data.trajectories import check_components
from romkit.data.units import same_unit, state_units
from romkit.metrics import pool_units
from romkit.systems import System

# -- indicators of the error --------------------------------------------------------------------------

SMALLEST = 1e-12
"""Smallest error, in standard deviations: logarithms are taken of errors."""


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


def compute_indicators(
    run: xr.Dataset, system: System | None, windows: int, share: float, *, most: int = 1000
) -> Indicators:
    """Return indicators of a checked run.

    `most`: components, drawn at random, that distances of larger states are taken over.
    """
    times = times_of(run)
    t = times.numpy() - float(times[0])
    std = pool_units(run["state_std"].values.astype(float), run)
    count = min(len(std), most)
    chosen = np.random.default_rng(0).choice(len(std), count, replace=False)
    rows = np.sort(chosen)
    states = run["state"].values
    x = np.take(states, rows, axis=-1) / std[rows]  # (C, T, r), a copy
    variance = np.ma.masked_invalid(x).var(1).mean(-1)
    extent = np.sqrt(variance.filled(np.inf))  # (C,) of the path, from its mean
    if system is None:
        # indicators by the disagreement of an ensemble, in place of windows
        square = np.square(run["spread"].values / std).mean(-1)
        spread = np.nan_to_num(np.sqrt(square), nan=np.inf)  # (C, T)
        none = np.zeros_like(spread)
        predictors = _predictors(spread, spread, (none, none), extent)
        return Indicators(t, spread, none, none[:, 0], predictors, 0.0)
    steps = len(t) - 1
    # windows over a run of so many steps; a single one is at its end
    length = max(1, round(share * steps / windows))
    end = steps - length
    begin = 0 if windows > 1 else end
    places = np.linspace(begin, end, windows)
    begins = Begins(places.round().astype(int), length)
    gaps = _windows(run, system, t, x, std[rows], rows, begins)
    return _window_indicators(x, t, gaps, begins, extent)


class Begins(NamedTuple):
    """Steps (k,) at which windows begin, and how many steps each has."""

    steps: Array
    length: int


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


def _window_indicators(x: Array, t: Array, gaps: Gaps, begins: Begins, extent: Array) -> Indicators:
    """Return indicators of a path (C, T, r) at all times, from its windows."""
    ends = begins.steps + begins.length
    middle = (t[begins.steps] + t[ends]) / 2
    local = between(t, middle, gaps.local)
    rates = between(t, middle, gaps.rates)
    trust = between(t, middle, gaps.trust)
    lag = integrate.cumulative_trapezoid(rates, t, initial=0)  # (C, T)
    pairs = zip(x, np.abs(lag), strict=True)
    shift = np.stack([_shifted(path, late, t) for path, late in pairs])
    is_known = np.isfinite(local) & np.isfinite(x).all(-1)
    local = np.where(is_known, local, np.inf)
    shift = np.where(is_known, shift, 0.0)
    trusted = np.where(is_known, trust * shift, 0.0)
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
    shifts: ArrayPair,
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


def _lag(gap: Array, speed: Array, t: Array) -> ArrayPair:
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


# -- the estimate ----------------------------------------------------------------------------------

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
            at constant contexts; or without a system what `Ensemble.follow` returned.
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
    paths = _checked("run", run, system, windows)
    if known is not None:
        known = _checked("known", known, system, windows, "nrmse")
    indicators = compute_indicators(paths, system, windows, share)
    values = {
        "local": indicators.local,
        "shift": indicators.shift,
        "drift": indicators.drift,
        "error": np.hypot(indicators.local, indicators.shift),
    }
    if known is not None:
        rollouts = compute_indicators(known, system, windows, share)
        values |= _regression(indicators, rollouts, known["nrmse"].values, coverage)
    variables = {}
    for name, array in values.items():
        about = {"units": "1", "long_name": NAMES[name]}
        variables[name] = (DIMS[: array.ndim], array, about)
    coords = {
        name: coord for name, coord in paths.coords.items() if set(coord.dims) <= set(DIMS[:2])
    }
    attrs = {"share": indicators.share, "coverage": coverage}
    estimate = xr.Dataset(variables, coords, attrs)
    return estimate if "trajectory" in run.dims else estimate.squeeze("trajectory")


class Fit(NamedTuple):
    """Logarithms of errors: their means over rollouts at times (T,), and how rollouts differ.

    Attributes:
        exponents: (k,) of the predictors, not negative.
        t: (T,).
        means: (T, k + 1) of predictors and errors.
    """

    exponents: Array
    t: Array
    means: Array


def _checked(
    argument: str, run: xr.Dataset, system: System | None, windows: int, *names: str
) -> xr.Dataset:
    """Run of one model with a state in standard order, refused under the name of its argument."""
    if "rom" in run:
        run = run.rename(rom="state")
    names = ("state", "state_std", *names)
    if system is not None and system.order == 2:
        names += ("velocity",)
    # refuse what is no run of one model with these variables
    missing = [name for name in names if name not in run]
    got = ""
    if "seed" in run.dims:
        got = "a stack of seeds"
    if missing:
        got = f"no {', '.join(missing)}"
    if got:
        raise InputError(
            argument,
            expected="the run of one model",
            got=got,
            fix="give what romkit.follow or, with its errors, romkit.rollout returned, "
            "of a stack isel(seed=0)",
        )
    run = add_trajectories(run).transpose(*DIMS, ...)
    if system is not None:
        _check_system(argument, run, system, windows)
    elif "spread" not in run:
        raise InputError(
            argument,
            expected="a system, or the run of an ensemble",
            got="neither",
            fix="give the system; for data without equations, follow romkit.bootstrap(...)",
        )
    return run


def _check_system(argument: str, run: xr.Dataset, system: System, windows: int) -> None:
    """Refuse a run that a system cannot go on from."""
    steps = run.sizes["time"] - 1
    if steps < windows:
        raise InputError(
            argument,
            expected=f"{windows} steps or more",
            got=steps,
            fix="give more, or fewer windows",
        )
    if any("time" in run[name].dims for name in system.context_names):
        raise InputError(
            argument, expected="a constant context", got="one that moves", fix="follow it at one"
        )
    check_components(argument, run, system.state_names)
    if run.sizes["component"] != len(system.state_units):
        return
    for unit, expected in zip(state_units(run), system.state_units, strict=True):
        if not same_unit(unit, expected):
            raise InputError(
                argument,
                expected=f"states in {expected}",
                got=unit,
                fix="follow data in the units of the system",
            )


def _regression(
    indicators: Indicators, rollouts: Indicators, truth: Array, coverage: float
) -> dict[str, Array]:
    """Return error and its interval, from the errors (C, T) of known rollouts."""
    t = rollouts.t
    predictors = rollouts.predictors
    use = np.isfinite(truth) & np.isfinite(rollouts.local)
    use &= truth > SMALLEST
    y = np.log(np.where(use, truth, 1.0))
    usable = np.flatnonzero(use.any(1))
    if len(usable) < 2:
        raise InputError(
            "known",
            expected="two rollouts that are not lost",
            got=len(usable),
            fix="give more of them",
        )
    residuals = []
    for k in usable:
        # each rollout by a regression without it, as a new one will be
        without = [np.delete(values, k, axis=0) for values in (predictors, y, use)]
        fit = _fit(t, *without)
        predicted = _predicted(fit, t, predictors[k])
        apart = np.abs(y[k] - predicted)
        residuals.extend(apart[use[k]])
    # a new rollout has a vote as well
    level = min(1.0, coverage * (1 + 1 / len(usable)))
    width = np.exp(np.quantile(residuals, level))
    fit = _fit(t, predictors, y, use)
    error = np.exp(_predicted(fit, indicators.t, indicators.predictors))
    error[np.isinf(indicators.local)] = np.inf
    return {"error": error, "lower": error / width, "upper": error * width}


def _fit(t: Array, predictors: Array, y: Array, use: Array, *, hold: float = 0.1) -> Fit:
    """Exponents by which rollouts differ at the same time, from predictors (C, T, k) and logarithms
    y of errors (C, T).

    `hold`: deviation that an exponent is held by, in deviations of what the regression explains.
    """
    columns = np.concatenate([predictors, y[..., None]], axis=-1)  # (C, T, k + 1)
    count = np.maximum(use.sum(0), 1)[:, None]
    means = columns.sum(0, where=use[..., None]) / count  # (T, k + 1)
    deviations = (columns - means)[use]  # (samples, k + 1)
    size = predictors.shape[-1]
    spread = deviations[:, :-1].std(0).mean()
    weight = hold * np.sqrt(len(deviations)) * spread
    ridge = weight * np.eye(size + 1)[:-1]
    *explaining, target = np.concatenate([deviations, ridge]).T
    matrix = np.stack(explaining, axis=-1)
    exponents, _ = optimize.nnls(matrix, target)
    seen = use.any(0)
    return Fit(exponents, t[seen], means[seen])


def _predicted(fit: Fit, t: Array, predictors: Array) -> Array:
    """Logarithms (..., T) of errors at times t, from predictors (..., T, k); at others, means of
    the nearest time.
    """
    means = between(t, fit.t, fit.means)  # (k + 1, T)
    *of_predictors, target = means
    deviations = predictors - np.stack(of_predictors, axis=-1)
    return deviations @ fit.exponents + target
