"""Runs that something outside drives with one known period: its sine and cosine as inputs of a law."""

import numpy as np
import torch
import xarray as xr

from romkit.core.errors import InputError
from romkit.core.types import Array
from romkit.data.controls import LINEAR, Control, course

INPUTS = ("sin of the rhythm", "cos of the rhythm")
"""Names of the inputs of a law of driven runs."""


def waves(times: Array, period: float) -> Array:
    """Sine and cosine (T, 2) at times since the rhythm began."""
    phase = 2 * np.pi * np.asarray(times, dtype=float) / period
    return np.stack([np.sin(phase), np.cos(phase)], axis=-1)


def add_rhythm(data: xr.Dataset, period: float) -> xr.Dataset:
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
    of their kinks: the straight lines between samples that `add_rhythm` gives, which the law was
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
    inputs = course(torch.from_numpy(nodes), torch.from_numpy(waves(nodes, period)))
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
    start = np.searchsorted(everywhere, begin, side="right") - 1
    stop = np.searchsorted(everywhere, end)
    return everywhere[max(start, 0) : stop + 1]


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
