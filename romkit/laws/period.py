"""Period and closed orbit of a run that repeats itself."""

import hashlib
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from romkit.core import tensors

COARSE, FINE = 4, 40
"""Harmonics with which the period is searched, and most harmonics of an orbit."""

SAMPLES, STRETCH = 400, 200.0
"""Most samples by which the period is searched, and the duration of the stretch that they are from,
in the same times: few samples of a long run would leave out whole periods."""

LAPS = 20
"""Most numbers of laps after which a run is compared with itself."""

USUAL = 0.7
"""Share of the returns that count, the nearest ones: where a motion jumps between two samples, states
of it at other times are not known."""

FOLLOWED = 2
"""Times that an orbit is fitted anew along its own length."""

GRID = 8192
"""Even phases at which the place along an orbit is known."""


class Cycle(NamedTuple):
    """Closed orbit of a run.

    The place s in [0, 1) along it is half the phase and half the length: a corner that the motion
    passes in no time has a part of it, and so has a place where it rests.

    Attributes:
        frequency: periods in a unit of time.
        series: (2 h + 1, m) Fourier series in s.
        places: (GRID,) s at even phases.
        residual: root mean square distance of the samples [deviations of the run].
    """

    frequency: float
    series: Tensor
    places: Tensor
    residual: float

    @property
    def harmonics(self) -> int:
        """h."""
        return (len(self.series) - 1) // 2

    def find_phase(self, s: Tensor) -> Tensor:
        """Return phase (K,) at places (K,), increasing with them beyond one period."""
        laps = s.floor()
        closed = torch.cat([self.places, self.places[:1] + 1])
        number = torch.searchsorted(closed, s - laps, right=True) - 1
        number = number.clamp(0, GRID - 1)
        share = (s - laps - closed[number]) / (closed[number + 1] - closed[number])
        return laps + (number + share) / GRID


_recent: dict[bytes, Cycle | None] = {}


def find_cycle(times: Tensor, z: Tensor, *, recent: int = 256) -> Cycle | None:
    """Orbit of a run z (T, m) at times (T,), which may be uneven; None where it is too short.

    Those of recent runs are kept: laws of several settings are compared on the same ones.

    `recent`: most orbits that are kept, for laws of other settings and contexts of the same
    runs.
    """
    numbers = torch.cat([times.unsqueeze(-1), z], -1).contiguous()
    key = hashlib.sha256(numbers.numpy().tobytes()).digest() + str(z.shape).encode()
    if key not in _recent:
        cycle = _cycle(times, z)
        if len(_recent) >= recent:
            del _recent[next(iter(_recent))]
        _recent[key] = cycle
    return _recent[key]


def _cycle(times: Tensor, z: Tensor) -> Cycle | None:
    times = times - times[0]
    mean = z.mean(0)
    deviation = (z - mean).square().mean().sqrt()
    scaled = (z - mean) / deviation
    frequency = _frequency(times, scaled)
    if frequency is None:
        return None
    frequency = _refined(times, scaled, frequency)
    most = max(1, min(FINE, len(times) // 4))
    phase = frequency * times
    places = torch.arange(GRID, dtype=times.dtype) / GRID
    fit = _smoothed(phase, scaled, most)
    for _ in range(FOLLOWED):
        places = _half_length(fit.series, places)
        fit = _smoothed(find_place(places, phase), scaled, most)
    series = fit.series * deviation
    series[0] = series[0] + mean
    return Cycle(frequency, series, places, fit.residual)


def _refined(
    times: Tensor,
    z: Tensor,
    frequency: float,
    *,
    refinements: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-5),
) -> float:
    """Frequency near another one with which a run returns to itself most closely.

    `refinements`: widths of the searches around the best period, in periods.
    """
    from scipy.interpolate import CubicSpline  # slow to import, and seldom needed

    path = CubicSpline(times.numpy(), z.numpy())
    end = float(times[-1])
    rows = tensors.evenly(len(times), SAMPLES)
    starts, states = times[rows].numpy(), z[rows].numpy()
    period = 1 / frequency
    for width in refinements:
        # after more laps the periods of this width are a whole one apart
        most = min(int(end / period / (1 + width)), round(1 / width))
        laps = 1 + tensors.evenly(most, LAPS).numpy()
        periods = period * (1 + width * np.linspace(-1, 1, 21))
        distances = [_return_distance(starts, states, end, path, T * laps) for T in periods]
        period = periods[np.argmin(distances)]
    return float(1 / period)


def _return_distance(
    times: np.ndarray,
    z: np.ndarray,
    end: float,
    path: Callable[[np.ndarray], np.ndarray],
    intervals: np.ndarray,
) -> float:
    """Return mean square distance of states from those some intervals later, of the usual ones."""
    distances = []
    for interval in intervals:
        later = times + interval
        inside = later <= end
        apart = np.square(path(later[inside]) - z[inside]).sum(-1)
        usual = max(1, int(USUAL * inside.sum()))
        distances.append(np.sort(apart)[:usual])
    return float(np.concatenate(distances).mean())


def find_place(places: Tensor, phase: Tensor) -> Tensor:
    """Place s (...) at phases (...) in periods, between those of even ones (GRID,)."""
    position = (phase % 1) * GRID
    number = position.long().clamp(max=GRID - 1)
    closed = torch.cat([places, places[:1] + 1])
    share = position - number
    return closed[number] + share * (closed[number + 1] - closed[number])


def _half_length(series: Tensor, places: Tensor) -> Tensor:
    """Half the phase and half the length (GRID,) along an orbit, at even phases."""
    harmonics = (len(series) - 1) // 2
    points = fourier(places, harmonics) @ series
    steps = (points.roll(-1, 0) - points).norm(dim=-1)
    length = steps.cumsum(0) - steps  # up to each phase
    phase = torch.arange(GRID, dtype=places.dtype) / GRID
    return (phase + length / steps.sum()) / 2


def _frequency(times: Tensor, z: Tensor) -> float | None:
    """Frequency whose few first harmonics leave least of a run; None where it is too short."""
    speed = (z.diff(dim=0).square().sum(-1) / times.diff().square()).mean().sqrt()
    deviation = z.square().sum(-1).mean().sqrt()
    stretch = int((times <= STRETCH * deviation / speed).sum())
    rows = tensors.evenly(stretch, SAMPLES)
    times, z = times[rows], z[rows]
    frequencies = _candidates(times, float(speed / deviation))
    if frequencies is None:
        return None
    residuals = torch.cat([_remainder(times, z, chunk) for chunk in frequencies.split(128)])
    return _best_frequency(frequencies, residuals)


def _candidates(
    times: Tensor,
    rate: float,
    *,
    least_periods: float = 1.5,
    shortest: float = 3.0,
    per_period: int = 20,
) -> Tensor | None:
    """Frequencies (F,) to try for samples at times, of a motion by its deviation in 1 / rate; None
    where the samples are too few or too short for any.

    `least_periods`: periods that a run has to hold.

    `shortest`: shortest period that is tried, in times in which the motion goes through one
    deviation.

    `per_period`: frequencies that are tried while the run gains one period.
    """
    duration = float(times[-1])
    lowest = least_periods / duration
    # harmonics that are not resolved by the samples would take the place of others
    resolved = 1 / (2 * COARSE * float(times.diff().median()))
    highest = min(rate / shortest, resolved)
    if not lowest < highest < math.inf:
        return None
    number = math.ceil((highest - lowest) * duration * per_period) + 1
    return torch.linspace(lowest, highest, number, dtype=times.dtype)


def _best_frequency(frequencies: Tensor, residuals: Tensor, *, as_good: float = 1.2) -> float:
    """Frequency of the least residual (F,), or a multiple of it that leaves about as little: half
    the frequency of a motion fits it as well, and a third.

    `as_good`: residual, relative to the least one, up to which a shorter period is the period.
    """
    best = int(residuals.argmin())
    for multiple in (2, 3):
        wanted = multiple * frequencies[best]
        if wanted > frequencies[-1]:
            break
        place = int((frequencies - wanted).abs().argmin())
        near = slice(max(0, place - 2 * multiple), place + 2 * multiple + 1)
        rival = near.start + int(residuals[near].argmin())
        if float(residuals[rival]) <= as_good * float(residuals[best]):
            return float(frequencies[rival])
    return float(frequencies[best])


def fourier(phase: Tensor, harmonics: int) -> Tensor:
    """1, cosines and sines (..., 2 h + 1) of phases (...) in periods."""
    k = torch.arange(1, harmonics + 1, dtype=phase.dtype)
    angles = 2 * math.pi * phase.unsqueeze(-1) * k
    return torch.cat([torch.ones_like(phase).unsqueeze(-1), angles.cos(), angles.sin()], -1)


def _remainder(times: Tensor, z: Tensor, frequencies: Tensor) -> Tensor:
    """Root mean square (F,) of what a few harmonics of each frequency leave of a run (T, m)."""
    terms = fourier(frequencies.unsqueeze(-1) * times, COARSE)  # (F, T, 2 h + 1)
    solution = torch.linalg.lstsq(terms, z.expand(len(terms), *z.shape)).solution
    return (terms @ solution - z).square().mean((1, 2)).sqrt()


class Smoothed(NamedTuple):
    """Fourier series through samples.

    Attributes:
        series: (2 h + 1, m).
        score: of generalised cross-validation.
        residual: root mean square.
    """

    series: Tensor
    score: float
    residual: float


def _smoothed(
    places: Tensor, z: Tensor, harmonics: int, *, ridges: tuple[float, ...] = (1e-6, 1e-5, 1e-4)
) -> Smoothed:
    """Series through a run z (T, m) at places (T,), as smooth as cross-validation likes it.

    `ridges`: weights of the fourth powers of the harmonics, of which cross-validation chooses.
    """
    T = len(places)
    terms = fourier(places, harmonics)
    k = torch.arange(1, harmonics + 1, dtype=places.dtype)
    # the fourth power of the harmonic is the square of a second derivative
    roughness = torch.cat([torch.zeros(1, dtype=places.dtype), k**4, k**4])
    gram = terms.mT @ terms / T
    moment = terms.mT @ z / T
    smooth = []
    for ridge in ridges:
        inverse = torch.linalg.inv(gram + ridge * torch.diag(1 + roughness))
        series = inverse @ moment
        residual = float((terms @ series - z).square().mean().sqrt())
        freedom = float((inverse * gram).sum())
        score = residual / max(1 / T, 1 - freedom / T)
        smooth.append(Smoothed(series, score, residual))
    return min(smooth, key=lambda fit: fit.score)
