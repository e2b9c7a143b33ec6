"""Columns of panels of a rollout: contexts, or the beginning and the end of one long run."""

from typing import NamedTuple

import numpy as np
import xarray as xr

from romkit.plotting import style

PERIODS = 6
"""Periods of the dominant oscillation in a stretch of time: more of them blur into a texture."""

ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Lengths of a stretch, in powers of ten, whose ends are round numbers on an axis."""

LONG = 2.5
"""Length of a run, in stretches, from which on its beginning and its end are shown alone."""


class Column(NamedTuple):
    """One column of panels: a context, a stretch of time, and its title."""

    trajectory: int
    times: slice
    title: str


def columns_of(run: xr.Dataset) -> list[Column]:
    """One column per context; for a single context the whole run, or its beginning and its end."""
    time = run["time"].values
    samples = len(time)
    count = run.sizes["trajectory"]
    window = _window(time, run["truth"].isel(seed=0, missing_dims="ignore").values)
    duration = time[window - 1] - time[0]
    length = f"{duration:.3g} {_time_unit(run)}"
    end = slice(samples - window, samples)
    if count > 1:
        extent = ""
        if window < samples:
            extent = f"\nlast {length}"
        titles = [style.context(run, k, varying=True) + extent for k in range(count)]
        return [Column(k, end, title) for k, title in enumerate(titles)]
    if window == samples:
        return [Column(0, slice(0, samples), "")]
    return [Column(0, slice(0, window), f"first {length}"), Column(0, end, f"last {length}")]


def _time_unit(run: xr.Dataset) -> str:
    unit = style.unit(run["time"], "{}")
    if unit:
        return unit
    return "time units"


def _window(time: np.ndarray, truth: np.ndarray) -> int:
    """Number of samples of a readable stretch; all samples where two such stretches cover most of
    the run.
    """
    span = time[-1] - time[0]
    readable = _rounded_up(PERIODS * span / _median_cycles(truth))
    if span <= LONG * readable:
        return len(time)
    return int(np.searchsorted(time - time[0], readable)) + 1


def _median_cycles(truth: np.ndarray) -> float:
    """Cycles in a run (..., T, n) below which half of the power lies; at least one."""
    anomalies = np.nan_to_num(truth - truth.mean(-2, keepdims=True))
    amplitudes = np.abs(np.fft.rfft(anomalies, axis=-2))  # (..., cycles, n)
    power = np.square(amplitudes).sum((0, -1)).cumsum()
    median = int(np.searchsorted(power, power[-1] / 2))
    return max(1, median)


def _rounded_up(length: float) -> float:
    """The next larger length whose stretch begins and ends at round numbers."""
    if length <= 0:
        return 1.0
    decade = 10.0 ** np.floor(np.log10(length))
    for multiple in ROUND:
        # a length that is round itself must not be lost to rounding
        if decade * multiple >= length * (1 - 1e-9):
            return decade * multiple
    return decade * ROUND[-1]
