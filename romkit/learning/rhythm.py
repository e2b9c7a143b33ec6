"""Runs that something outside drives with one period: its rhythm, found and as an input of a law."""

import numpy as np
import torch
import xarray as xr

from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.tensors import divisor
from romkit.core.types import Array
from romkit.data import even_step
from romkit.data.controls import LINEAR, Control, interpolated

FRACTIONS = np.linspace(-0.5, 0.5, 101)
"""Places between two frequencies of a spectrum at which a peak is sought."""

TURNS = np.linspace(-0.3, 0.3, 61)
"""Turns over the whole time by which a period is sought beside the one that the runs show: what fades
since the start moves the peak of a spectrum.
"""

DIRECTIONS = 6
"""Main directions of the states, at most, of which steps are looked at."""

INPUTS = ("sin of the rhythm", "cos of the rhythm")
"""Names of the inputs of a law of driven runs."""


def rhythm(data: xr.Dataset, *, fewest: int = 8) -> float | None:
    """Return period with which all runs swing in step; None where they do not, or times are uneven.

    `fewest`: fewest intervals of time.
    """
    times = data["time"].values.astype(float)
    states = data["state"].values
    if len(times) <= fewest or not np.isfinite(states).all():
        return None
    step = even_step(times)
    if step is None:
        return None
    swings = _swings(states)
    peak = _common_peak(swings)
    if peak is None:
        return None
    duration = len(times) * step
    frequencies = (peak + FRACTIONS) / duration
    course = swings.mean(0)  # (T, n)
    residuals = [_residual(times - times[0], course, frequency) for frequency in frequencies]
    best = int(np.argmin(residuals))
    return float(1 / frequencies[best])


def driving_period(data: xr.Dataset, *, clearly: float = 0.5) -> float | None:
    """Return period of what may drive all runs: near the one with which they swing in step, that with
    whose sine and cosine linear maps leave the least of their steps; None where they do not.

    States of a linear law with such a drive have such maps exactly.

    `clearly`: share of what is left of the steps up to which another period is taken than the
    one that shows.
    """
    shown = rhythm(data)
    if shown is None:
        return None
    times = data["time"].values.astype(float)
    runs = _main_directions(_swings(data["state"].values))  # (C, T, m)
    # beside the coefficients of a run there are as many samples, at least
    if len(times) <= 2 * (runs.shape[-1] + 3):
        return shown
    periods = 1 / (1 / shown + TURNS / (times[-1] - times[0]))
    remainders = [_remainder_of_steps(times - times[0], runs, period) for period in periods]
    best = int(np.argmin(remainders))
    # states that also follow from themselves say nothing of what drives them
    if remainders[best] > clearly * remainders[len(TURNS) // 2]:
        return shown
    return float(periods[best])


def _main_directions(swings: Array) -> Array:
    """Return coordinates (C, T, m) of states along their main directions."""
    C, T, n = swings.shape
    _, _, directions = np.linalg.svd(swings.reshape(C * T, n), full_matrices=False)
    return swings @ directions[:DIRECTIONS].T


def _remainder_of_steps(times: Array, runs: Array, period: float) -> float:
    """Return share of the steps of runs (C, T, m) that maps of each leave, by least squares."""
    inputs = waves(times[:-1], period)
    remainder = 0.0
    for run in runs:
        terms = np.concatenate([np.ones((len(inputs), 1)), run[:-1], inputs], axis=-1)
        steps = np.diff(run, axis=0)
        coefficients = np.linalg.lstsq(terms, steps, rcond=None)[0]
        remainder += np.square(steps - terms @ coefficients).sum() / divisor(np.square(steps).sum())
    return remainder


def _swings(states: Array) -> Array:
    """Return states (C, T, n) of runs from their means, in deviations."""
    swings = states - states.mean(1, keepdims=True)
    deviation = swings.std((0, 1))
    return swings / divisor(deviation)


def _common_peak(swings: Array, *, pure: float = 0.5, in_step: float = 0.95) -> int | None:
    """Return number of the frequency at which all runs (C, T, n) swing in step; None where there is
    none.

    `pure`, `in_step`: share of the power at one frequency, and coherence of the runs, from
    which on they have one rhythm.
    """
    spectra = np.fft.rfft(swings, axis=1)  # (C, F, n)
    power = np.square(np.abs(spectra)).sum((0, 2))  # (F,)
    peak = int(np.argmax(power))
    # a single swing is a course of the run, and no rhythm
    if peak < 2:
        return None
    around = power[peak - 1 : peak + 2].sum()
    if around < pure * power.sum():
        return None
    amplitudes = spectra[:, peak]  # (C, n)
    together = np.abs(amplitudes.sum(0)).sum()
    if together < in_step * np.abs(amplitudes).sum():
        return None
    return peak


def _residual(times: Array, course: Array, frequency: float) -> float:
    """Remainder of a straight line with one wave, of a course (T, n), by least squares.

    A spectrum of few periods has its peak beside the frequency of the wave.
    """
    line = np.stack([np.ones_like(times), times], axis=-1)
    terms = np.concatenate([line, waves(times, 1 / frequency)], axis=-1)  # (T, 4)
    coefficients = np.linalg.lstsq(terms, course, rcond=None)[0]
    return float(np.square(course - terms @ coefficients).sum())


def waves(times: Array, period: float) -> Array:
    """Sine and cosine (T, 2) at times since the rhythm began."""
    phase = 2 * np.pi * np.asarray(times, dtype=float) / period
    return np.stack([np.sin(phase), np.cos(phase)], axis=-1)


def warn_of_another(
    data: xr.Dataset, period: float, *, off: float = 0.1, harmonics: int = 5
) -> None:
    """Warn where all runs swing in step, but with another period than the one that was given, and
    with none of its harmonics.

    `off`: turns by which a period may miss the swings of the runs at their end.

    `harmonics`: waves of a drive, at most, of which the strongest may be the one that runs
    show.
    """
    shown = rhythm(data)
    if shown is None:
        return
    times = data["time"].values.astype(float)
    duration = float(times[-1] - times[0])
    turns = duration / period * np.arange(1, harmonics + 1)
    if np.abs(turns - duration / shown).min() <= off:
        return
    warn(
        f"period: expected that of the runs, which all swing with {shown:.4g}, got {period:.4g}; give "
        f"period={shown:.4g}, or check the times",
        DataWarning,
    )


def with_rhythm(data: xr.Dataset, period: float) -> xr.Dataset:
    """Return data with a rhythm as their inputs, which begins with the first time.

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


def drive(data: xr.Dataset, period: float, start: float, duration: float) -> tuple[Control, Array]:
    """Return inputs of a law of driven runs as a function of the time since a start, and the times
    of their kinks: the straight lines between samples that `with_rhythm` gives, which the law was
    fitted and judged with, continued at the mean interval.

    Waves without these corners are another drive, of larger amplitude between coarse samples.

    Args:
        data: runs that the law was fitted to.
        period: of the rhythm.
        start: time of the start since the rhythm began.
        duration: of the forecast.
    """
    times = data["time"].values.astype(float)
    nodes = continued(times - times[0], start, start + duration)
    inputs = interpolated(torch.from_numpy(nodes), torch.from_numpy(waves(nodes, period)))
    return lambda t: inputs(t + start), nodes - start


def continued(times: Array, begin: float, end: float) -> Array:
    """Return those times (T,) that are needed to go from one to another, continued at their mean
    interval.

    Raises:
        InputError: so many that a run has no end, or a begin at which they are no longer told apart.
    """
    interval = (times[-1] - times[0]) / (len(times) - 1)
    _check_span(begin, end, interval)
    before = int(np.ceil(max(0.0, times[0] - begin) / interval))
    after = int(np.ceil(max(0.0, end - times[-1]) / interval))
    earlier = times[0] - interval * np.arange(before, 0, -1)
    later = times[-1] + interval * np.arange(1, after + 1)
    everywhere = np.concatenate([earlier, times, later])
    first = np.searchsorted(everywhere, begin, side="right") - 1
    last = np.searchsorted(everywhere, end)
    return everywhere[max(first, 0) : last + 1]


def _check_span(begin: float, end: float, interval: float, *, most_samples: int = 10**6) -> None:
    """Refuse times that are too many, or too far from the first ones.

    `most_samples`: intervals between samples, at most, that a forecast may last, and begin away
    from the first one.
    """
    number = (end - begin) / interval
    if number > most_samples:
        expected = f"at most {most_samples:.0e} intervals of the runs, {interval:.3g} each"
        raise InputError("duration", expected=expected, got=f"{number:.1e}", fix="shorten it")
    farthest = most_samples * interval
    if abs(begin) > farthest:
        expected = f"a time within {farthest:.3g} of the first sample, from which the rhythm counts"
        fix = "subtract whole periods"
        raise InputError("start", expected=expected, got=f"{begin:g}", fix=fix)
