"""Short runs of six textbook systems, and the terms of their equations."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp


class Textbook(NamedTuple):
    """Runs of a system.

    Attributes:
        times: (T,).
        states: (C, T, m).
        parameters: (C, T, p) inputs or parameters; None without any.
        terms: names of the true terms of each equation.
        degree, threshold: of the library, and below the smallest true coefficient.
    """

    times: np.ndarray
    states: np.ndarray
    parameters: np.ndarray | None
    terms: tuple[frozenset[str], ...]
    degree: int
    threshold: float

    def noisy(self, level: float, seed: int) -> np.ndarray:
        """Return states with white noise of this size, in standard deviations of each variable."""
        draw = np.random.default_rng(seed)
        deviation = self.states.std((0, 1))
        return self.states + level * deviation * draw.normal(size=self.states.shape)


def _runs(
    field: Callable,
    starts: np.ndarray,
    duration: float,
    step: float,
    values: Sequence[float] | None,
) -> tuple[np.ndarray, np.ndarray]:
    times = np.arange(0, duration, step)
    paths = []
    for k, start in enumerate(starts):
        more = () if values is None else (values[k],)
        solution = solve_ivp(
            field, (0, times[-1]), start, t_eval=times, args=more, rtol=1e-10, atol=1e-12
        )
        paths.append(solution.y.T)
    return times, np.array(paths)


def _terms(*equations: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(equation.split(", ")) for equation in equations)


def lorenz(number: int = 3) -> Textbook:
    """Lorenz (1963)."""

    def field(t, y):
        return [10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]]

    starts = np.random.default_rng(4242).normal(0, 8, (number, 3)) + np.array([0, 0, 25])
    times, states = _runs(field, starts, 6, 0.01, None)
    terms = _terms("z0, z1", "z0, z1, z0 z2", "z0 z1, z2")
    return Textbook(times, states, None, terms, 2, 0.1)


def roessler() -> Textbook:
    """Rössler (1976)."""

    def field(t, y):
        return [-y[1] - y[2], y[0] + 0.2 * y[1], 0.2 + y[2] * (y[0] - 5.7)]

    starts = np.random.default_rng(1).normal(0, 3, (3, 3)) + np.array([0, 0, 1.5])
    times, states = _runs(field, starts, 25, 0.02, None)
    return Textbook(times, states, None, _terms("z1, z2", "z0, z1", "1, z0 z2, z2"), 2, 0.1)


def van_der_pol() -> Textbook:
    """Van der Pol, μ = 2."""

    def field(t, y):
        return [y[1], 2 * (1 - y[0] ** 2) * y[1] - y[0]]

    times, states = _runs(field, np.random.default_rng(2).uniform(-2, 2, (4, 2)), 10, 0.02, None)
    return Textbook(times, states, None, _terms("z1", "z0, z1, z0^2 z1"), 3, 0.1)


def lotka_volterra() -> Textbook:
    """Lotka and Volterra."""

    def field(t, y):
        return [y[0] - 0.5 * y[0] * y[1], -0.75 * y[1] + 0.25 * y[0] * y[1]]

    times, states = _runs(field, np.random.default_rng(3).uniform(1, 5, (4, 2)), 12, 0.03, None)
    return Textbook(times, states, None, _terms("z0, z0 z1", "z1, z0 z1"), 2, 0.1)


def duffing() -> Textbook:
    """Duffing's oscillator, driven at four frequencies; the drive is an input."""
    frequencies = np.array([0.8, 1.2, 1.6, 2.1])

    def field(t, y, w):
        return [y[1], -0.3 * y[1] + y[0] - y[0] ** 3 + 0.5 * np.cos(w * t)]

    starts = np.random.default_rng(4).uniform(-1.5, 1.5, (4, 2))
    times, states = _runs(field, starts, 15, 0.03, frequencies)
    drive = 0.5 * np.cos(frequencies[:, None] * times)[..., None]
    return Textbook(times, states, drive, _terms("z1", "z0, z1, z0^3, c0"), 3, 0.1)


def cubic() -> Textbook:
    """Return a cubic oscillator with a parameter, at six values of it."""
    values = np.linspace(-1, 1, 6)

    def field(t, y, mu):
        return [
            -0.1 * y[0] ** 3 + 2 * y[1] ** 3,
            -2 * y[0] ** 3 - 0.1 * y[1] ** 3 + 0.5 * mu * y[0],
        ]

    starts = np.random.default_rng(5).uniform(0.6, 1.6, (6, 2))
    times, states = _runs(field, starts, 8, 0.02, values)
    parameter = np.broadcast_to(values[:, None, None], (6, len(times), 1)).copy()
    return Textbook(times, states, parameter, _terms("z0^3, z1^3", "z0^3, z1^3, z0 c0"), 3, 0.05)


def cells() -> dict[str, tuple[Textbook, float]]:
    """Return the twenty cells: six systems at three levels of noise, and Lorenz63 by two runs
    alone.
    """
    systems = {
        "Lorenz63": lorenz(),
        "Rössler": roessler(),
        "van der Pol": van_der_pol(),
        "Lotka-Volterra": lotka_volterra(),
        "driven Duffing": duffing(),
        "cubic oscillator": cubic(),
    }
    found = {
        f"{name}, {level:.0%}": (system, level)
        for name, system in systems.items()
        for level in (0.0, 0.02, 0.05)
    }
    two = lorenz(2)
    return found | {f"Lorenz63 by two runs, {level:.0%}": (two, level) for level in (0.02, 0.05)}
