"""Whether a variable is the rate of another: compared with difference quotients."""

import numpy as np
import xarray as xr

from romkit.core import runtime
from romkit.data.layout import Layout

LARGEST = 200_000
"""Numbers that are compared at most."""

TOLERANCE = 0.1
"""Largest deviation of the slope of difference quotients over rates from one, beside its error."""

SIGNIFICANT = 3.0
"""Standard errors of the slope that are a difference."""

FEWEST = 4
"""Samples of a stretch that can be compared."""


def disagreement(x: np.ndarray, rates: np.ndarray, times: np.ndarray, order: int = 1) -> str:
    """Why `rates` are not the derivatives of x by time, "" where they may be.

    The differences of x over an interval, and those of an antiderivative of a cubic spline through
    the rates, lie on a line of slope one. Noise of x does not change its slope.

    Args:
        x: (C, T, n), NaN where missing.
        rates: (C, T, n).
        times: (T,).
        order: 1, or 2 for second derivatives.
    """
    from scipy.interpolate import CubicSpline  # slow to import, and seldom needed

    observed, predicted = [], []
    is_whole = np.isfinite(x).all(-1) & np.isfinite(rates).all(-1)
    for run, whole in enumerate(is_whole):
        for stretch in _stretches(whole):
            t = times[stretch]
            antiderivative = CubicSpline(t, rates[run, stretch]).antiderivative(order)(t)
            observed.append(_quotients(x[run, stretch], t, order))
            predicted.append(_quotients(antiderivative, t, order))
    if not observed:
        return ""
    return _slope_in_words(np.concatenate(observed), np.concatenate(predicted))


def _stretches(whole: np.ndarray) -> list[slice]:
    """Stretches of samples without a gap that are long enough."""
    edges = np.flatnonzero(np.diff(whole.astype(np.int8), prepend=0, append=0))
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return [slice(start, stop) for start, stop in pairs if stop - start >= FEWEST]


def _quotients(x: np.ndarray, t: np.ndarray, order: int) -> np.ndarray:
    """Divided differences of x (T, n), (T - order, n)."""
    interval = np.diff(t)[:, None]
    quotients = np.diff(x, axis=0) / interval
    if order == 2:
        middle = (interval[1:] + interval[:-1]) / 2
        quotients = np.diff(quotients, axis=0) / middle
    return quotients


def _slope_in_words(observed: np.ndarray, predicted: np.ndarray) -> str:
    """Words where the slope of observed over predicted rates (N, n) is not one."""
    power = float(np.square(predicted).sum())
    if power == 0:
        return "" if not observed.any() else "it is zero, and the state changes"
    slope = float((observed * predicted).sum()) / power
    residual = observed - slope * predicted
    error = float(np.sqrt(np.square(residual).mean() / power))
    if abs(slope - 1) <= TOLERANCE + SIGNIFICANT * error and slope > SIGNIFICANT * error:
        return ""
    return f"difference quotients are {slope:.3g} times its values, where a rate has 1"


def sampled(data: xr.Dataset, layout: Layout, lead: tuple[str, ...]) -> np.ndarray:
    """Some of the components of the variables of a layout, (runs, times, k), for a comparison."""
    values = layout.gather(data, lead)
    runs, _, n = values.shape
    run_step = max(1, runs // 20)
    component_step = max(1, n // 50)
    longest = max(FEWEST, LARGEST * run_step * component_step // max(1, runs * n))
    some = values[::run_step, :longest, ::component_step]
    return np.asarray(runtime.computed("check of the rates", some)[0], dtype=np.float64)
