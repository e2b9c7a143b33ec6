"""Whether a variable is the rate of another: compared with difference quotients."""

import numpy as np
import xarray as xr

from romkit.core import runtime
from romkit.core.errors import DataWarning, warn
from romkit.core.types import Array
from romkit.data.schema import DIMS
from romkit.data.times import stretches

FEWEST = 4
"""Samples of a stretch that can be compared."""


def disagreement(states: xr.DataArray, rates: xr.DataArray, times: Array, order: int = 1) -> str:
    """Say why `rates` are not the derivatives of states by time, "" where they may be.

    The differences of states over an interval, and those of an antiderivative of a cubic spline
    through the rates, lie on a line of slope one. Noise of states does not change its slope.

    Args:
        states: (trajectory, time, ...), NaN where missing.
        rates: with the same dimensions.
        times: (T,).
        order: 1, or 2 for second derivatives.
    """
    from scipy.interpolate import CubicSpline  # slow to import, and seldom needed

    x, v = (_sampled(values.transpose(*states.dims)) for values in (states, rates))  # (C, T, k)
    is_known = np.asarray(np.isfinite(x) & np.isfinite(v))
    # components that are never there, land and solids, are none
    x, v, is_known = (values[..., is_known.any((0, 1))] for values in (x, v, is_known))
    observed, predicted = [], []
    for run, stretch in stretches(np.asarray(is_known.all(-1)), FEWEST):
        t = times[: x.shape[1]].astype(np.float64)[stretch]
        # integrated rather than x differentiated: integration does not amplify noise
        antiderivative = CubicSpline(t, v[run, stretch]).antiderivative(order)(t)
        observed.append(_quotients(x[run, stretch], t, order))
        predicted.append(_quotients(antiderivative, t, order))
    if not observed:
        return ""
    return _describe_slope(np.concatenate(observed), np.concatenate(predicted))


def warn_rates(data: xr.Dataset) -> None:
    """Warn where velocities of data in romkit's schema are not the rates of their states.

    Those of a system are computed from its equations, and need no comparison.
    """
    if data.attrs.get("system") or data.sizes["time"] < FEWEST:
        return
    reason = disagreement(data["state"], data["velocity"], data["time"].values)
    if reason:
        fix = "check its unit of time, or leave it out: data.drop_vars('velocity')"
        warn(f"velocity disagrees with state: {reason}; {fix}", DataWarning)


def _quotients(x: Array, t: Array, order: int) -> Array:
    """Return divided differences of x (T, n), (T - order, n)."""
    interval = np.diff(t)[:, None]
    quotients = np.diff(x, axis=0) / interval
    if order == 2:
        middle = (interval[1:] + interval[:-1]) / 2
        quotients = np.diff(quotients, axis=0) / middle
    return quotients


def _describe_slope(
    observed: Array, predicted: Array, *, tolerance: float = 0.1, significant: float = 3.0
) -> str:
    """Return words where the slope of observed over predicted rates (N, n) is not one.

    `tolerance`: largest deviation of the slope of difference quotients over rates from one,
    beside its error.

    `significant`: standard errors of the slope that are a difference.
    """
    # regression through the origin: a constant offset of rates is a difference, too
    power = float(np.square(predicted).sum())
    if power == 0:
        return "" if not observed.any() else "it is zero, and the state changes"
    slope = float((observed * predicted).sum()) / power
    residual = observed - slope * predicted
    variance = np.square(residual).mean() / power
    error = significant * float(np.sqrt(variance))
    # rates of noise alone have a slope within its error of both zero and one
    if abs(slope - 1) <= tolerance + error and slope > error:
        return ""
    return f"difference quotients are {slope:.3g} times its values, where a rate has 1"


def _sampled(values: xr.DataArray, *, largest: int = 200_000) -> Array:
    """Return some of the components of values (runs, times, ...), (runs, times, k), for a
    comparison.

    `largest`: numbers that are compared at most.
    """
    runs, times = values.shape[:2]
    flat = values.transpose(*DIMS[:2], ...).data.reshape(runs, times, -1)
    n = flat.shape[2]
    run_step, component_step = max(1, runs // 20), max(1, n // 50)
    # whole runs of few numbers, the beginnings of larger ones
    longest = max(FEWEST, largest * run_step * component_step // max(1, runs * n))
    sample = flat[::run_step, :longest, ::component_step]
    (sample,) = runtime.computed("check of the rates", sample)
    return np.asarray(sample, dtype=np.float64)
