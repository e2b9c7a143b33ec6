"""Lorenz and Kuramoto-Sivashinsky by the twelve scores of the Common Task Framework.

Source: Wyder et al. (2025), arXiv:2510.23166, and its evaluator ctf4science; equations, intervals,
lengths, scores are theirs. Own draws: starts, noise, and values of the parameter, which are not
stated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.outside import ours, rivals

LONG, SHORT, AHEAD = 10_000, 100, 1_000
"""Samples of a long run, of a short one, and of a forecast."""

FIRST = 20
"""Steps of a forecast by which the first ones are scored."""

SCORES = {
    "E1": "short, clean",
    "E2": "long, clean",
    "E3": "denoising, medium noise",
    "E4": "long, medium noise",
    "E5": "denoising, high noise",
    "E6": "long, high noise",
    "E7": "short, 100 samples",
    "E8": "long, 100 samples",
    "E9": "short, 100 noisy samples",
    "E10": "long, 100 noisy samples",
    "E11": "parameter inside",
    "E12": "parameter outside",
}
"""Scores of the framework, and what they are of."""


def short(truth: np.ndarray, path: np.ndarray) -> float:
    """Relative error of the first steps, in the spectral norm: 100 is perfect, zeros have 0."""
    return _relative(truth[:FIRST], path[:FIRST])


def denoised(truth: np.ndarray, path: np.ndarray) -> float:
    """Relative error of a whole run, in the spectral norm."""
    return _relative(truth, path)


def _relative(truth: np.ndarray, path: np.ndarray) -> float:
    path = np.nan_to_num(path, posinf=0.0, neginf=0.0)
    error = np.linalg.norm(truth - path, 2) / np.linalg.norm(truth, 2)
    return max(100 * (1 - float(error)), -100.0)


def histograms(truth: np.ndarray, path: np.ndarray, last: int = 500, bins: int = 41) -> float:
    """Return difference of the histograms of each component over the last samples."""
    path = np.nan_to_num(path, posinf=0.0, neginf=0.0)
    shares = []
    for a, b in zip(truth[-last:].T, path[-last:].T, strict=True):
        ends = min(a.min(), b.min()), max(a.max(), b.max())
        counts, found = (np.histogram(values, bins, ends)[0] for values in (a, b))
        shares.append(np.abs(counts - found).sum() / counts.sum())
    return 100 * (1 - float(np.mean(shares)))


def spectrum(truth: np.ndarray, path: np.ndarray, last: int = 20, modes: int = 100) -> float:
    """Return difference of the power of the first wave numbers over the last samples."""
    path = np.nan_to_num(path, posinf=0.0, neginf=0.0)
    power = [
        (np.abs(np.fft.rfft(values[-last:], axis=1)) ** 2).mean(0)[:modes]
        for values in (truth, path)
    ]
    error = np.linalg.norm(power[0] - power[1]) / np.linalg.norm(power[0])
    return max(100 * (1 - float(error)), -100.0)


def lorenz(
    start: np.ndarray | None, number: int, rho: float, draw: np.random.Generator
) -> np.ndarray:
    """Return samples (number, 3) every 0.05, from a start or from one on the attractor."""

    def rate(t, s):
        x, y, z = s
        return [10 * (y - x), x * (rho - z) - y, x * y - 8 / 3 * z]

    settings = {"method": "DOP853", "rtol": 1e-10, "atol": 1e-10}
    if start is None:
        start = solve_ivp(rate, (0, 20), draw.normal([1, 1, 20], 1.0), **settings).y[:, -1]
    times = 0.05 * np.arange(number)
    return solve_ivp(rate, (0, times[-1]), start, t_eval=times, **settings).y.T


def kuramoto_sivashinsky(
    start: np.ndarray | None, number: int, mu: float, draw: np.random.Generator
) -> np.ndarray:
    """Return samples (number, 1024) every 0.025, from a start or from one on the attractor:
    u_t = -u u_x - u_xx - μ u_xxxx on a ring of length 32 π.

    Solved in 256 points by exponential time differencing (Kassam & Trefethen 2005), and
    interpolated by the Fourier series.
    """
    points, length = 256, 32 * np.pi
    k = 2 * np.pi / length * np.arange(points // 2 + 1)
    stiff = k**2 - mu * k**4

    def stepper(h: float) -> Callable:
        whole, half = np.exp(h * stiff), np.exp(h * stiff / 2)
        circle = np.exp(1j * np.pi * (np.arange(1, 33) - 0.5) / 32)
        r = h * stiff[:, None] + circle
        q = h * ((np.exp(r / 2) - 1) / r).mean(1).real
        f1 = h * ((-4 - r + np.exp(r) * (4 - 3 * r + r**2)) / r**3).mean(1).real
        f2 = h * ((2 + r + np.exp(r) * (-2 + r)) / r**3).mean(1).real
        f3 = h * ((-4 - 3 * r - r**2 + np.exp(r) * (4 - r)) / r**3).mean(1).real
        g = -0.5j * k

        def product(v):
            return g * np.fft.rfft(np.fft.irfft(v, points) ** 2)

        def step(v):
            n = product(v)
            a = half * v + q * n
            na = product(a)
            b = half * v + q * na
            nb = product(b)
            c = half * a + q * (2 * nb - n)
            return whole * v + n * f1 + 2 * (na + nb) * f2 + product(c) * f3

        return step

    step = stepper(0.025)
    if start is None:
        waves = 1 + np.cos(2 * np.pi * np.arange(points) / 64)
        v = np.fft.rfft(draw.normal(0, 0.5, points) * waves)
        v[0], v[64:] = 0.0, 0.0
        early = stepper(0.1)
        for _ in range(2_000):
            v = early(v)
    else:
        v = np.fft.rfft(start)[: points // 2 + 1] * points / len(start)
    states = []
    for _ in range(number):
        states.append(v)
        v = step(v)
    fine = np.zeros((number, 513), complex)
    fine[:, : points // 2 + 1] = np.array(states)
    return np.fft.irfft(fine, 1024, axis=1) * 1024 / points


@dataclass(frozen=True)
class System:
    """A system of the framework.

    Attributes:
        samples: a run, from its start, length, a parameter and random numbers.
        interval: between samples.
        known, inside, outside: values of the parameter, the one in the middle that of the tests
            with one value.
        noise: standard deviations, medium and high.
        long: score of the long run of a forecast.
    """

    samples: Callable
    interval: float
    known: tuple[float, float, float]
    inside: float
    outside: float
    noise: tuple[float, float]
    long: Callable

    def draw(self, seed: int, test: int) -> np.random.Generator:
        return np.random.default_rng([62, seed, test])


SYSTEMS = {
    "Lorenz": System(lorenz, 0.05, (26.0, 28.0, 30.0), 27.0, 32.0, (0.5, 1.0), histograms),
    "KS": System(kuramoto_sivashinsky, 0.025, (0.9, 1.0, 1.1), 0.95, 1.2, (0.08, 0.16), spectrum),
}


@cache
def clean(name: str, seed: int, number: int) -> np.ndarray:
    """Return a run at the middle value, with the samples that follow it."""
    system = SYSTEMS[name]
    return system.samples(None, number + AHEAD, system.known[1], system.draw(seed, 1))


@cache
def at_other(name: str, seed: int, value: float) -> np.ndarray:
    """Return a short run at another value, with the samples that follow it."""
    system = SYSTEMS[name]
    return system.samples(None, SHORT + AHEAD, value, system.draw(seed, int(100 * value)))


def of_clean(name: str, seed: int, method: rivals.Method) -> dict[str, float]:
    """Return forecasts from many samples without noise."""
    return _both(name, ("E1", "E2"), clean(name, seed, LONG), LONG, method)


def of_noisy(
    name: str, seed: int, method: rivals.Method, labels: tuple[str, str], level: int
) -> dict[str, float]:
    """Many noisy samples without their noise, and forecasts from them."""
    system, run = SYSTEMS[name], clean(name, seed, LONG)
    noise = system.noise[level] * system.draw(seed, 2 + level).standard_normal(run.shape)
    noisy = (run + noise)[:LONG]
    forecast = method(noisy, system.interval)
    path = forecast(noisy, AHEAD)
    clear, later = labels
    clean_of = getattr(forecast, "denoised", rivals.smoothed)
    found = {clear: denoised(run[:LONG], clean_of(noisy))}
    return found | {later: system.long(run[LONG:], path)}


def of_few(name: str, seed: int, method: rivals.Method) -> dict[str, float]:
    """Return forecasts from 100 samples without noise."""
    return _both(name, ("E7", "E8"), clean(name, seed, LONG), SHORT, method)


def of_few_noisy(name: str, seed: int, method: rivals.Method) -> dict[str, float]:
    """Return forecasts from 100 noisy samples."""
    system, run = SYSTEMS[name], clean(name, seed, LONG)
    noise = system.noise[1] * system.draw(seed, 5).standard_normal((SHORT, run.shape[1]))
    return _both(name, ("E9", "E10"), run, SHORT, method, noise)


def of_parameters(name: str, seed: int, method: rivals.Method) -> dict[str, float]:
    """Return forecasts at other values of the parameter, which nobody tells, from 100 samples of
    these runs alone.
    """
    system, found = SYSTEMS[name], {}
    for label, value in (("E11", system.inside), ("E12", system.outside)):
        found |= _both(name, (label, ""), at_other(name, seed, value), SHORT, method)
    return found


def of_length(name: str, seed: int, method: rivals.Method, number: int) -> dict[str, float]:
    """Return forecasts from another number of samples without noise."""
    labels = (f"short, {number} samples", f"long, {number} samples")
    return _both(name, labels, clean(name, seed, LONG), number, method)


def _both(
    name: str,
    labels: tuple[str, str],
    run: np.ndarray,
    number: int,
    method: rivals.Method,
    noise: np.ndarray | float = 0.0,
) -> dict[str, float]:
    """Scores of the first steps and, with a label, of the last ones of a forecast."""
    system = SYSTEMS[name]
    samples, ahead = run[:number] + noise, run[number : number + AHEAD]
    forecast = method(samples, system.interval)
    path = forecast(samples, AHEAD)
    first, last = labels
    found = {first: short(ahead, path)}
    if last:
        found[last] = system.long(ahead, path)
    for terms in getattr(forecast, "terms", {}).values():
        found[f"terms, {_described(number, noise)}"] = terms
    return found


def _described(number: int, noise: np.ndarray | float) -> str:
    return f"{number} {'noisy ' if np.any(noise) else ''}samples"


def of_equations(
    name: str, seed: int, *, starts: int = 20, moved: float = 1e-6
) -> dict[str, float]:
    """Return long scores of the exact equations, means over starts that are moved by this much: in
    chaos a perfect model has no more.
    """
    system, run, draw = SYSTEMS[name], clean(name, seed, LONG), SYSTEMS[name].draw(seed, 6)
    found = {}
    for number, labels in LAST.items():
        ahead, scores = run[number : number + AHEAD], []
        for _ in range(starts):
            start = run[number - 1] + moved * draw.standard_normal(run.shape[1])
            path = system.samples(start, AHEAD + 1, system.known[1], draw)[1:]
            scores.append(system.long(ahead, path))
        found |= dict.fromkeys(labels, float(np.mean(scores)))
    return found


LAST = {LONG: ("E2", "E4", "E6"), SHORT: ("E8", "E10")}
"""Scores of the last samples of a forecast, by the samples that it follows."""

TESTS = {
    "clean": of_clean,
    "medium noise": partial(of_noisy, labels=("E3", "E4"), level=0),
    "high noise": partial(of_noisy, labels=("E5", "E6"), level=1),
    "100 samples": of_few,
    "100 noisy samples": of_few_noisy,
    "other parameters": of_parameters,
}
"""Tests of the framework, as functions of system, seed and method."""

LENGTHS = {f"{number} samples": partial(of_length, number=number) for number in (500, 2_000)}
"""Further lengths, of Lorenz alone."""

SEEDS = {"Lorenz": range(2), "KS": range(1)}
"""Draws: all boards together take less than half an hour."""


def tasks(name: str) -> dict[str, dict[str, Callable[[], dict[str, float]]]]:
    """By test and seed, what each method does."""
    found = {}
    tests = TESTS | (LENGTHS if name == "Lorenz" else {})
    methods = {ours.NAME: ours.of_run} | rivals.METHODS
    for seed in SEEDS[name]:
        for test, run in tests.items():
            found[f"{test}, seed {seed}"] = {
                method: partial(run, name, seed, call) for method, call in methods.items()
            }
        found[f"exact, seed {seed}"] = {"equations": partial(of_equations, name, seed)}
    return found
