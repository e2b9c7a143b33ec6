"""Families of systems whose parameters are hidden: those of the literature, solved anew, and others
by lot.

Equations, values and horizons of the first are those of the published sets of context-informed
dynamics (Kirchmeyer et al. 2022; Nzoyem, Barton, Deakin 2025); starts are drawn by own seeds.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from romkit.core.types import Array

SPLITS = ("train", "test", "new", "new test")
"""Runs to learn from, new starts in the same environments, one run in each new environment, and new
starts there.
"""


class Family(NamedTuple):
    """Systems that differ in parameters.

    Attributes:
        rates: (t, state, *parameters) -> rates.
        names: of the parameters.
        times: of the samples.
        values: parameters (environments, p), of training or of new environments.
        start: generator -> state.
        runs: in each environment, by split.
        shared: whether environments share their starts.
    """

    rates: Callable
    names: tuple[str, ...]
    times: Array
    values: Callable[[bool], Array]
    start: Callable[[np.random.Generator], Array]
    runs: tuple[int, int, int, int] = (4, 32, 1, 32)
    shared: bool = False

    def solved(self, split: str, seed: int = 0) -> tuple[Array, Array]:
        """Return states (environments, runs, T, n) and parameters (environments, p)."""
        number = SPLITS.index(split)
        values = self.values(split.startswith("new"))
        states = []
        for row, parameters in enumerate(values):
            draw = np.random.default_rng([seed, number, 0 if self.shared else row])
            starts = [self.start(draw) for _ in range(self.runs[number])]
            states.append([self._run(start, parameters) for start in starts])
        return np.array(states), values

    def _run(self, start: Array, parameters: Array) -> Array:
        """Return states (T, n) from a start."""
        solution = solve_ivp(
            self.rates,
            (0, self.times[-1]),
            start,
            args=tuple(parameters),
            t_eval=self.times,
            method="LSODA",
            rtol=1e-9,
            atol=1e-10,
        )
        return solution.y.T


def _grid(*axes: list[float]) -> Array:
    return np.array(list(itertools.product(*axes)), dtype=float)


def _lattice(u: Array) -> Array:
    """Nine-point Laplacian of a field on a torus (k, k)."""
    shifted = lambda i, j: np.roll(u, (i, j), (-2, -1))  # noqa: E731
    sides = shifted(1, 0) + shifted(-1, 0) + shifted(0, 1) + shifted(0, -1)
    corners = shifted(1, 1) + shifted(1, -1) + shifted(-1, 1) + shifted(-1, -1)
    return 0.5 * sides + 0.25 * corners - 3 * u


def lotka_volterra(t: float, state: Array, beta: float, delta: float) -> list[float]:
    """Predators and prey."""
    x, y = state
    return [0.5 * x - beta * x * y, delta * x * y - 0.5 * y]


def selkov(t: float, state: Array, b: float) -> list[float]:
    """Glycolysis of Selkov."""
    x, y = state
    return [-x + 0.1 * y + x * x * y, b - 0.1 * y - x * x * y]


def glycolytic(t: float, state: Array, k1: float, K1: float) -> list[float]:
    """Glycolysis of seven species, with a rational rate."""
    a, b, c, d, e, f, g = state
    v = k1 * a * f / (1 + (f / K1) ** 4)
    return [
        2.5 - v,
        2 * v - 6 * b * (1 - e) - 12 * b * e,
        6 * b * (1 - e) - 16 * c * (4 - f),
        16 * c * (4 - f) - 100 * d * e - 13 * (d - g),
        6 * b * (1 - e) - 100 * d * e - 12 * b * e,
        -2 * v + 32 * c * (4 - f) - 1.28 * f,
        1.3 * (d - g) - 1.8 * g,
    ]


def brusselator(t: float, state: Array, A: float, B: float) -> Array:
    """Two fields on a torus of 8 by 8."""
    u, v = state.reshape(2, 8, 8)
    of_u = _lattice(u) + A - (B + 1) * u + u * u * v
    of_v = 0.1 * _lattice(v) + B * u - u * u * v
    return np.concatenate([of_u.ravel(), of_v.ravel()])


def gray_scott(t: float, state: Array, F: float, k: float) -> Array:
    """Two fields on a torus of 32 by 32."""
    u, v = state.reshape(2, 32, 32)
    w = u * v * v
    of_u = 0.2097 * _lattice(u) - w + F * (1 - u)
    of_v = 0.105 * _lattice(v) + w - (F + k) * v
    return np.concatenate([of_u.ravel(), of_v.ravel()])


def _brusselator_start(draw: np.random.Generator) -> Array:
    a, b = draw.uniform(0.5, 2.0), draw.uniform(1.25, 5.0)
    return np.concatenate([np.full(64, a), b / a + 0.1 * draw.standard_normal(64)])


def _gray_scott_start(draw: np.random.Generator) -> Array:
    u, v = np.full((32, 32), 0.95), np.full((32, 32), 0.05)
    for i, j in draw.integers(0, 29, (3, 2)):
        u[i : i + 3, j : j + 3], v[i : i + 3, j : j + 3] = 0.0, 1.0
    return np.concatenate([u.ravel(), v.ravel()])


def _selkov_values(new: bool) -> Array:
    if new:
        return np.array([[-1.25], [-0.65], [-0.05], [0.02], [0.6], [1.2]])
    pieces = np.linspace(-1, -0.25, 7), np.linspace(-0.1, 0.1, 7), np.linspace(0.25, 1, 7)
    return np.concatenate(pieces)[:, None]


LOW = np.array([0.15, 0.19, 0.04, 0.10, 0.08, 0.14, 0.05])
HIGH = np.array([1.60, 2.16, 0.20, 0.35, 0.30, 2.67, 0.10])
"""Ranges of the starts of the seven species."""

FAMILIES = {
    "lotka-volterra": Family(
        lotka_volterra,
        ("beta", "delta"),
        np.arange(20) * 0.5,
        lambda new: _grid(*[[0.625, 1.125] if new else [0.5, 0.75, 1.0]] * 2),
        lambda draw: draw.uniform(1, 3, 2),
    ),
    "selkov": Family(
        selkov,
        ("b",),
        np.arange(11) * 4.0,
        _selkov_values,
        lambda draw: draw.uniform(0, 3, 2),
        (4, 4, 1, 4),
    ),
    "glycolytic": Family(
        glycolytic,
        ("k1", "K1"),
        np.arange(20) * 0.05,
        lambda new: (
            _grid([85, 95], [0.625, 0.875]) if new else _grid([100, 90, 80], [1, 0.75, 0.5])
        ),
        lambda draw: draw.uniform(LOW, HIGH),
        (32, 32, 1, 32),
    ),
    "brusselator": Family(
        brusselator,
        ("A", "B"),
        np.arange(20) * 0.5,
        lambda new: (
            _grid([0.875, 1.125, 1.375], [3.125, 3.375, 3.625, 3.875])
            if new
            else _grid([0.75, 1.0, 1.25], [3.25, 3.5, 3.75])
        ),
        _brusselator_start,
        shared=True,
    ),
    "gray-scott": Family(
        gray_scott,
        ("F", "k"),
        np.arange(10) * 40.0,
        lambda new: (
            _grid([0.033, 0.036], [0.059, 0.061])
            if new
            else np.array([[0.030, 0.062], [0.039, 0.058], [0.030, 0.058], [0.039, 0.062]])
        ),
        _gray_scott_start,
        (1, 32, 1, 32),
    ),
}
"""Families of the literature, and below one of our own."""


def duffing(t: float, state: Array, stiffness: float, cubic: float, damping: float) -> list[float]:
    """Oscillator with a cubic spring."""
    x, v = state
    return [v, -stiffness * x - cubic * x**3 - damping * v]


def van_der_pol(t: float, state: Array, stiffness: float, gain: float, shift: float) -> list[float]:
    """Oscillator that excites itself."""
    x, v = state
    return [v, -stiffness * (x - shift) + gain * (1 - x * x) * v]


def prey(t: float, state: Array, growth: float, beta: float, delta: float) -> list[float]:
    """Predators and prey with another growth."""
    x, y = state
    return [growth * x - beta * x * y, delta * x * y - 0.6 * y]


def pendulum(t: float, state: Array, gravity: float, damping: float, spring: float) -> list[float]:
    """Pendulum, no polynomial, with a spring."""
    x, v = state
    return [v, -gravity * np.sin(x) - damping * v - spring * x]


def gyroscope(t: float, state: Array, first: float, second: float, damping: float) -> list[float]:
    """Rigid body that turns, with friction."""
    x, y, z = state
    return [
        first * y * z - damping * x,
        -second * z * x - damping * y,
        0.3 * (second - first) * x * y - damping * z,
    ]


OTHERS = {
    "duffing": (duffing, (1.0, 0.6, 0.15)),
    "van der pol": (van_der_pol, (1.0, 0.6, 0.3)),
    "prey": (prey, (0.6, 0.8, 0.7)),
    "pendulum": (pendulum, (1.2, 0.15, 0.3)),
    "gyroscope": (gyroscope, (1.3, 0.9, 0.1)),
}
"""Systems of which families are drawn, with the middle of their parameters."""

FAMILIES["gyroscope"] = Family(
    lambda t, state, first, second: gyroscope(t, state, first, second, 0.1),
    ("first", "second"),
    np.linspace(0, 9, 30),
    lambda new: _grid(*[[1.1, 1.5] if new else [0.9, 1.3, 1.7]] * 2),
    lambda draw: draw.uniform(0.5, 2.0, 3),
)


class Lot(NamedTuple):
    """A family by lot.

    Attributes:
        name: of the system.
        states: (groups, runs, T, n) without noise.
        times: (T,).
        parameters: (groups, 3).
        varied: numbers of the parameters that differ.
    """

    name: str
    states: Array
    times: Array
    parameters: Array
    varied: list[int]


def by_lot(number: int, groups: int = 12, runs: int = 3, samples: int = 30) -> Lot:
    """Family of a number: its system, none (one in three) to three parameters that differ, and
    starts.
    """
    draw = np.random.default_rng([2026, number])
    name = list(OTHERS)[draw.integers(len(OTHERS))]
    rates, middle = OTHERS[name]
    hidden = 0 if number % 3 == 0 else int(draw.integers(1, 4))
    varied = sorted(draw.choice(3, hidden, replace=False).tolist())
    parameters = np.tile(middle, (groups, 1))
    for column in varied:
        parameters[:, column] *= 2 ** draw.uniform(-0.6, 0.6, groups)
    times = np.linspace(0, 9, samples)
    size = 3 if name == "gyroscope" else 2
    low, high = (0.5, 2.0) if name in ("prey", "gyroscope") else (-1.5, 1.5)
    start = lambda generator: generator.uniform(low, high, size)  # noqa: E731
    family = Family(rates, (), times, lambda new: parameters, start, (runs, runs, 1, runs))
    states, _ = family.solved("train", number)
    return Lot(name, states, times, parameters, varied)
