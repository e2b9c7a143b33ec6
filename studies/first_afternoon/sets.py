"""Ten data sets that romkit did not make: equations in NumPy, solved by SciPy, in units from 1e-6
to 1e6.

Each has ten runs at values of one parameter, no velocities, and variables and dimensions of its
own.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

RUNS, SAMPLES = 10, 151

Rate = Callable[[float, np.ndarray, float], np.ndarray]


class Source(NamedTuple):
    """A system: its parameter and range, duration, and transient that is left out, both in times of
    its equation.

    `measured` makes a dict of variables (T, ...) of the states (T, n). A time of the equation is
    `second` seconds, and variables are multiplied by `size`; `noise` is relative to the deviation
    of each variable.
    """

    parameter: str
    low: float
    high: float
    rate: Rate
    start: Callable[[float], np.ndarray]
    measured: Callable[[np.ndarray], dict[str, np.ndarray]]
    duration: float
    transient: float = 0.0
    second: float = 1.0
    size: float = 1.0
    noise: float = 0.0


def ring(u: np.ndarray) -> np.ndarray:
    """Second difference on a ring."""
    return np.roll(u, 1, -1) - 2 * u + np.roll(u, -1, -1)


def pair(x: np.ndarray) -> np.ndarray:
    """Return states (..., 2k) as (2, ..., k)."""
    return np.moveaxis(x.reshape(*x.shape[:-1], 2, -1), -2, 0)


def named(*names: str) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """Return variables that lie one after the other."""
    return lambda x: dict(zip(names, np.split(x, len(names), axis=-1), strict=True))


def van_der_pol(t: float, s: np.ndarray, mu: float) -> np.ndarray:
    x, v = pair(s)
    left = np.pad(x, 1, mode="edge")
    tuned = np.linspace(1.0, 1.5, len(x))
    return np.concatenate([v, mu * (1 - x**2) * v - tuned * x + (left[:-2] - 2 * x + left[2:])])


def fitzhugh_nagumo(t: float, s: np.ndarray, epsilon: float) -> np.ndarray:
    v, w = pair(s)
    return np.concatenate([v - v**3 / 3 - w + 1.2 * ring(v), epsilon * (v + 0.7 - 0.8 * w)])


def pulse(epsilon: float) -> np.ndarray:
    place = np.arange(64)
    return np.concatenate([np.where(place < 8, 2.0, -1.2), np.where(place > 40, 0.4, -0.6)])


def brusselator(t: float, s: np.ndarray, b: float) -> np.ndarray:
    u, v = pair(s)
    edge = [np.pad(each, 1, mode="edge") for each in (u, v)]
    du, dv = (each[:-2] - 2 * each[1:-1] + each[2:] for each in edge)
    return np.concatenate([1 - (b + 1) * u + u**2 * v + du, b * u - u**2 * v + 0.5 * dv])


def lambda_omega(t: float, s: np.ndarray, omega: float) -> np.ndarray:
    u, v = pair(s)
    r = u**2 + v**2
    growth, turn = 1 - r, omega * (1 + 0.5 * r)
    return np.concatenate(
        [growth * u - turn * v + 2 * ring(u), turn * u + growth * v + 2 * ring(v)]
    )


def stuart_landau(t: float, s: np.ndarray, mu: float) -> np.ndarray:
    a = s[0] + 1j * s[1]
    rate = (mu + 1j) * a - (1 + 0.3j) * abs(a) ** 2 * a
    return np.array([rate.real, rate.imag])


def shed(s: np.ndarray) -> dict[str, np.ndarray]:
    """Return a field (T, y, x) of a mode, its harmonic and its mean-flow correction."""
    y, x = np.meshgrid(np.linspace(-1, 1, 10), np.linspace(0, 2 * np.pi, 20), indexing="ij")
    a = (s[:, 0] + 1j * s[:, 1])[:, None, None]
    first, second = np.exp(1j * x - 2 * y**2), np.exp(2j * x) * y * np.exp(-(y**2))
    return {
        "p": (a * first).real + (0.4 * a**2 * second).real - 0.3 * abs(a) ** 2 * np.exp(-4 * y**2)
    }


def burgers(t: float, u: np.ndarray, nu: float) -> np.ndarray:
    dx = 2 * np.pi / len(u)
    return -(np.roll(u**2, -1) - np.roll(u**2, 1)) / (4 * dx) + nu * ring(u) / dx**2 - 0.2 * u


def two_clocks(t: float, s: np.ndarray, ratio: float) -> np.ndarray:
    x, y, a, b = s
    r, q = 1 - x**2 - y**2, 1 - a**2 - b**2
    return np.array([r * x - y, r * y + x, q * a - ratio * b, q * b + ratio * a])


def modulated(s: np.ndarray) -> dict[str, np.ndarray]:
    """24 sensors around a wave whose amplitude is modulated."""
    x, y, a, b = s.T[..., None]
    place = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    wave = (2 + 0.8 * a) * (x * np.cos(place) + y * np.sin(place))
    return {"pressure": wave + 0.8 * b * np.cos(2 * place) + 0.1 * wave**2}


def driven_chain(t: float, s: np.ndarray, omega: float) -> np.ndarray:
    x, v, (c, d) = s[:8], s[8:16], s[16:]
    wall = np.pad(x, 1)
    force = 2 * (wall[:-2] - 2 * x + wall[2:]) - 0.5 * x**3 - 0.3 * v
    force[0] += 2 * c
    return np.concatenate([v, force, [-omega * d, omega * c]])


def predators(t: float, s: np.ndarray, k: float) -> np.ndarray:
    """Rosenzweig and MacArthur's, in twelve patches."""
    n, p = pair(s)
    eaten = n / (0.5 + n) * p
    return np.concatenate(
        [n * (1 - n / k) - eaten + 0.2 * ring(n), 0.6 * eaten - 0.2 * p + 0.2 * ring(p)]
    )


def wave(number: int, size: float, middle: float = 0.0) -> np.ndarray:
    return middle + size * np.cos(2 * np.pi * np.arange(number) / number)


SETS = {
    "van der Pol chain": Source(
        "mu", 0.5, 2.0, van_der_pol, lambda c: np.r_[2.0, 1.5, 1.0, 0.5, np.zeros(4)], named("x", "v"), 30.0, 60.0, 1e-6
    ),
    "FitzHugh-Nagumo pulse": Source(
        "epsilon", 0.05, 0.09, fitzhugh_nagumo, pulse, named("v", "w"), 60.0, 80.0, 1e-3, 1e-3
    ),
    "Brusselator": Source(
        "B", 2.3, 3.2, brusselator, lambda c: np.r_[wave(32, 0.5, 1.0), wave(32, 0.5, 2.5)], named("u", "v"),
        30.0, 20.0, 1e6,
    ),
    "lambda-omega wave": Source(
        "omega", 0.6, 1.4, lambda_omega, lambda c: np.r_[wave(32, 0.8), np.roll(wave(32, 0.8), 8)], named("u", "v"),
        25.0, 5.0, 1.0, 1e-6,
    ),
    "Stuart-Landau field": Source(
        "mu", 0.3, 1.0, stuart_landau, lambda c: np.array([0.1, 0.0]), shed, 40.0, 0.0, 1.0, 1e6
    ),
    "decay to a fixed point": Source(
        "nu", 0.05, 0.3, burgers, lambda c: wave(64, 1.0, 0.5), lambda x: {"u": x}, 12.0, 0.0, 1e-2
    ),
    "torus": Source(
        "ratio", 0.35, 0.45, two_clocks, lambda c: np.array([1.0, 0.0, 1.0, 0.0]), modulated, 60.0, 0.0, 1e3
    ),
    "driven and damped": Source(
        "omega", 0.8, 1.2, driven_chain, lambda c: np.r_[np.zeros(16), 1.0, 0.0],
        lambda x: {"x": x[:, :8], "v": x[:, 8:16], "drive": x[:, 16:]}, 40.0, 40.0, 1e-6, 1e-3,
    ),
    "predators and prey": Source(
        "K", 1.6, 2.4, predators, lambda c: np.r_[wave(12, 0.1, 0.5), wave(12, 0.1, 0.7)], named("prey", "predators"),
        80.0, 60.0, 86400.0, 1e4,
    ),
    "noisy pulse": Source(
        "epsilon", 0.05, 0.09, fitzhugh_nagumo, pulse, named("v", "w"), 60.0, 80.0, 1.0, 1.0, 0.05
    ),
}  # fmt: skip


def measure(source: Source, *, runs: int = RUNS, seed: int = 0) -> tuple[xr.Dataset, xr.Dataset]:
    """Return a set as its owner has it, (run, t, ...), and the same without noise."""
    draw = np.random.default_rng(seed)
    values = np.linspace(source.low, source.high, runs)
    times = source.transient + np.linspace(0.0, source.duration, SAMPLES)
    several = [
        solve_ivp(
            source.rate,
            (0, times[-1]),
            source.start(c),
            t_eval=times,
            args=(c,),
            method="LSODA",
            rtol=1e-8,
            atol=1e-8,
        ).y.T
        for c in values
    ]
    parts = [source.measured(states) for states in several]
    clean, noisy = {}, {}
    for key in parts[0]:
        x = source.size * np.stack([part[key] for part in parts])
        dims = ("run", "t", *(f"{key}_{k}" for k in range(x.ndim - 2)))
        clean[key], noisy[key] = (
            (dims, x),
            (dims, x + source.noise * x.std() * draw.normal(size=x.shape)),
        )
    coords = {"t": source.second * (times - times[0]), source.parameter: ("run", values)}
    return xr.Dataset(noisy, coords), xr.Dataset(clean, coords)
