"""Runs that something outside drives with one period: its rhythm, found and as an input of a law."""

import numpy as np
import xarray as xr

from romkit.core.errors import InputError
from romkit.data.controls import LINEAR

PURE, IN_STEP = 0.5, 0.95
"""Share of the power at one frequency, and coherence of the runs, from which on they have one
rhythm.
"""

FRACTIONS = np.linspace(-0.5, 0.5, 101)
"""Places between two frequencies of a spectrum at which a peak is sought."""


INPUTS = ("sin of the rhythm", "cos of the rhythm")
"""Names of the inputs of a law of driven runs."""


def rhythm(data: xr.Dataset) -> float | None:
    """Period with which all runs swing in step; None where they do not, or times are uneven."""
    times = data["time"].values.astype(float)
    states = data["state"].values
    steps = np.diff(times)
    if len(steps) < 8 or np.ptp(steps) > 1e-6 * steps.mean() or not np.isfinite(states).all():
        return None
    swings = states - states.mean(1, keepdims=True)  # (C, T, n)
    deviation = swings.std((0, 1))
    swings = swings / np.where(deviation > 0, deviation, 1.0)
    spectra = np.fft.rfft(swings, axis=1)  # (C, F, n)
    power = np.square(np.abs(spectra)).sum((0, 2))  # (F,)
    peak = int(np.argmax(power))
    is_pure = power[max(peak - 1, 0) : peak + 2].sum() >= PURE * power.sum()
    # a single swing is a course of the run, and no rhythm
    if peak < 2 or not is_pure:
        return None
    amplitudes = spectra[:, peak]  # (C, n)
    coherence = np.abs(amplitudes.sum(0)).sum() / np.abs(amplitudes).sum()
    if coherence < IN_STEP:
        return None
    frequencies = (peak + FRACTIONS) / (len(times) * steps.mean())
    residuals = [_residual(times - times[0], swings.mean(0), f) for f in frequencies]
    return float(1 / frequencies[int(np.argmin(residuals))])


def _residual(times: np.ndarray, course: np.ndarray, frequency: float) -> float:
    """What a straight line with one wave leaves of a course (T, n), by least squares.

    A spectrum of few periods has its peak beside the frequency of the wave.
    """
    line = np.stack([np.ones_like(times), times], axis=-1)
    terms = np.concatenate([line, waves(times, 1 / frequency)], axis=-1)  # (T, 4)
    coefficients = np.linalg.lstsq(terms, course, rcond=None)[0]
    return float(np.square(course - terms @ coefficients).sum())


def waves(times: np.ndarray, period: float) -> np.ndarray:
    """Sine and cosine (T, 2) at times since the rhythm began."""
    phase = 2 * np.pi * np.asarray(times, dtype=float) / period
    return np.stack([np.sin(phase), np.cos(phase)], axis=-1)


def with_rhythm(data: xr.Dataset, period: float) -> xr.Dataset:
    """Data with a rhythm as their inputs, which begins with the first time.

    Raises:
        InputError: data with inputs.
    """
    if "control" in data:
        fix = "give sin(2πt/period) and cos(2πt/period) among the inputs"
        raise InputError("period", expected="runs without inputs", got="inputs", fix=fix)
    times = data["time"].values.astype(float)
    inputs = waves(times - times[0], period)
    runs = np.broadcast_to(inputs, (data.sizes["trajectory"], *inputs.shape))
    dims = ("trajectory", "time", "input")
    driven = data.assign(control=(dims, runs.copy(), {"between": LINEAR}))
    return driven.assign_coords(input=list(INPUTS))
