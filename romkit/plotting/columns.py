"""Columns of panels of a rollout: contexts, or the beginning and the end of one long run."""

from typing import NamedTuple

import numpy as np
import xarray as xr

from romkit.core.types import Array
from romkit.plotting import style


class Column(NamedTuple):
    """One column of panels: a context, a stretch of time, and its title."""

    trajectory: int
    times: slice
    title: str


def columns_of(run: xr.Dataset) -> list[Column]:
    """One column per context; for a single context the whole run, or its beginning and its end."""
    time = run["time"].values
    samples = len(time)
    truth = run["truth"].isel(seed=0, missing_dims="ignore")
    window = _window(time, truth.values)
    duration = time[window - 1] - time[0]
    length = f"{duration:.3g} {_time_unit(run)}"
    beginning = slice(0, window)
    end = slice(samples - window, samples)
    count = run.sizes["trajectory"]
    if count > 1:
        extent = ""
        if window < samples:
            extent = f"\nlast {length}"
        columns = []
        for k in range(count):
            title = style.context(run, k, varying=True)
            columns.append(Column(k, end, f"{title}{extent}"))
        return columns
    if window == samples:
        return [Column(0, beginning, "")]
    return [
        Column(0, beginning, f"first {length}"),
        Column(0, end, f"last {length}"),
    ]


def _time_unit(run: xr.Dataset) -> str:
    unit = style.unit(run["time"], "{}")
    if unit:
        return unit
    return "time units"


def _window(time: Array, truth: Array, *, periods: int = 6, long: float = 2.5) -> int:
    """Return number of samples of a readable stretch; all samples where two such stretches cover
    most of the run.

    `periods`: periods of the dominant oscillation in a stretch of time: more of them blur into
    a texture.

    `long`: length of a run, in stretches, from which on its beginning and its end are shown
    alone.
    """
    since_start = time - time[0]
    span = since_start[-1]
    period = span / _median_cycles(truth)
    readable = _rounded_up(periods * period)
    if span <= long * readable:
        return len(time)
    last = int(np.searchsorted(since_start, readable))
    return last + 1


def _median_cycles(truth: Array) -> float:
    """Cycles in a run (..., T, n) below which half of the power lies; at least one."""
    mean = truth.mean(-2, keepdims=True)
    anomalies = np.nan_to_num(truth - mean)
    spectrum = np.fft.rfft(anomalies, axis=-2)  # (..., cycles, n)
    power = np.square(np.abs(spectrum)).sum((0, -1))
    power_up_to = power.cumsum()
    half = power_up_to[-1] / 2
    median = int(np.searchsorted(power_up_to, half))
    return max(1, median)


def _rounded_up(length: float, *, round: tuple[float, ...] = (1.0, 2.0, 2.5, 5.0, 10.0)) -> float:
    """Return the next larger length whose stretch begins and ends at round numbers.

    `round`: lengths of a stretch, in powers of ten, whose ends are round numbers on an axis.
    """
    if length <= 0:
        return 1.0
    decade = 10.0 ** np.floor(np.log10(length))
    for multiple in round:
        # a length that is round itself must not be lost to rounding
        if decade * multiple >= length * (1 - 1e-9):
            return decade * multiple
    return decade * round[-1]
