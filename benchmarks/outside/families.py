"""Families of systems over parameters, as the literature on context-informed dynamics has them,
solved anew at tight tolerance.

Source: equations, values and horizons of Gen-Dynamics, the data of Nzoyem, Barton & Deakin (2024),
arXiv:2405.02154, and before of Kirchmeyer et al. (2022), arXiv:2202.01889. The published sets are
solved at a tolerance of 1e-3, and their starts are other ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

SEED = 62_000
"""Of the starts."""

SPLITS = ("train", "test", "new", "new test")
"""Runs to learn from; new starts in the same environments; a run in each new environment, for
methods that are not told its parameters; new starts in the new environments."""


class Runs(NamedTuple):
    """Runs of a family.

    Attributes:
        times: (T,).
        states: (environments, runs, T, n).
        parameters: (environments, p).
    """

    times: np.ndarray
    states: np.ndarray
    parameters: np.ndarray

    def flat(self) -> tuple[np.ndarray, np.ndarray]:
        """Return states (E R, T, n) and parameters (E R, p) of each run."""
        E, R, T, n = self.states.shape
        return self.states.reshape(E * R, T, n), self.parameters.repeat(R, 0)


@dataclass(frozen=True)
class Family:
    """A system over parameters.

    Attributes:
        rate: of t, state and parameters.
        start: a first state, from a generator of random numbers.
        names: of the parameters.
        known, new: parameters of the environments, and of the new ones, (environments, p).
        runs: of each environment, by split.
        times: (T,).
        same_starts: whether all environments have the same starts.
        grid: shape of the grid of its two fields; none of other states.
    """

    rate: Callable
    start: Callable
    names: tuple[str, ...]
    known: np.ndarray
    new: np.ndarray
    runs: tuple[int, int, int, int]
    times: np.ndarray
    same_starts: bool = False
    grid: tuple[int, ...] = ()

    def solved(self, split: str, most: int | None = None) -> Runs:
        """Return runs of a split, at most so many of each environment."""
        number = SPLITS.index(split)
        parameters = self.new if split.startswith("new") else self.known
        runs = self.runs[number] if most is None else min(most, self.runs[number])
        states = []
        for k, values in enumerate(parameters):
            draw = np.random.default_rng([SEED, number, 0 if self.same_starts else k])
            states.append([self._run(self.start(draw), values) for _ in range(runs)])
        return Runs(self.times, np.array(states), parameters)

    def _run(self, start: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return a run (T, n)."""
        solution = solve_ivp(
            self.rate,
            (0, self.times[-1]),
            start,
            args=tuple(values),
            t_eval=self.times,
            method="LSODA" if len(start) < 20 else "DOP853",
            rtol=1e-9,
            atol=1e-10,
        )
        return solution.y.T


def grid(*axes: object) -> np.ndarray:
    """Return all combinations of values, (points, axes)."""
    return np.array(list(product(*axes)), dtype=float)


def laplacian(u: np.ndarray) -> np.ndarray:
    """Nine-point Laplacian of a field (..., k, k) on a torus."""
    sides, corners = np.zeros_like(u), np.zeros_like(u)
    for step in (-1, 1):
        sides += np.roll(u, step, -1) + np.roll(u, step, -2)
        for other in (-1, 1):
            corners += np.roll(u, (step, other), (-2, -1))
    return 0.5 * sides + 0.25 * corners - 3 * u


def lotka_volterra(t, s, beta, delta):
    x, y = s
    return [0.5 * x - beta * x * y, delta * x * y - 0.5 * y]


def selkov(t, s, b):
    x, y = s
    return [-x + 0.1 * y + x * x * y, b - 0.1 * y - x * x * y]


def glycolysis(t, s, k1, K1):
    """Seven substances of yeast's glycolysis, with a rational rate."""
    a, b, c, d, e, f, g = s
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


def brusselator(t, s, A, B):
    u, v = s.reshape(2, 8, 8)
    reaction = u * u * v
    du = laplacian(u) + A - (B + 1) * u + reaction
    dv = 0.1 * laplacian(v) + B * u - reaction
    return np.concatenate([du.ravel(), dv.ravel()])


def gray_scott(t, s, F, k):
    u, v = s.reshape(2, 32, 32)
    reaction = u * v * v
    du = 0.2097 * laplacian(u) - reaction + F * (1 - u)
    dv = 0.105 * laplacian(v) + reaction - (F + k) * v
    return np.concatenate([du.ravel(), dv.ravel()])


def _cells(draw: np.random.Generator) -> np.ndarray:
    """Return a first state of the glycolysis."""
    low = [0.15, 0.19, 0.04, 0.10, 0.08, 0.14, 0.05]
    high = [1.60, 2.16, 0.20, 0.35, 0.30, 2.67, 0.10]
    return draw.uniform(low, high)


def _uniform_and_noise(draw: np.random.Generator) -> np.ndarray:
    """Return a first state of the Brusselator."""
    A, B = draw.uniform(0.5, 2.0), draw.uniform(1.25, 5.0)
    return np.concatenate([np.full(64, A), B / A + 0.1 * draw.standard_normal(64)])


def _squares(draw: np.random.Generator) -> np.ndarray:
    """Return a first state of Gray and Scott's equations."""
    u, v = np.full((32, 32), 0.95), np.full((32, 32), 0.05)
    for i, j in draw.integers(0, 29, (3, 2)):
        u[i : i + 3, j : j + 3] = 0.0
        v[i : i + 3, j : j + 3] = 1.0
    return np.concatenate([u.ravel(), v.ravel()])


SELKOV = np.concatenate([np.linspace(*ends, 7) for ends in ((-1, -0.25), (-0.1, 0.1), (0.25, 1))])

FAMILIES = {
    "Lotka-Volterra": Family(
        lotka_volterra,
        lambda draw: draw.uniform(1, 3, 2),
        ("beta", "delta"),
        grid([0.5, 0.75, 1.0], [0.5, 0.75, 1.0]),
        grid([0.625, 1.125], [0.625, 1.125]),
        (4, 32, 1, 32),
        np.arange(20) * 0.5,
    ),
    "Selkov": Family(
        selkov,
        lambda draw: draw.uniform(0, 3, 2),
        ("b",),
        SELKOV[:, None],
        np.array([[-1.25], [-0.65], [-0.05], [0.02], [0.6], [1.2]]),
        (4, 4, 1, 4),
        np.arange(11) * 4.0,
    ),
    "glycolysis": Family(
        glycolysis,
        _cells,
        ("k1", "K1"),
        grid([100, 90, 80], [1, 0.75, 0.5]),
        grid([85, 95], [0.625, 0.875]),
        (32, 32, 1, 32),
        np.arange(20) * 0.05,
    ),
    "Brusselator": Family(
        brusselator,
        _uniform_and_noise,
        ("A", "B"),
        grid([0.75, 1.0, 1.25], [3.25, 3.5, 3.75]),
        grid([0.875, 1.125, 1.375], [3.125, 3.375, 3.625, 3.875]),
        (4, 32, 1, 32),
        np.arange(20) * 0.5,
        same_starts=True,
        grid=(8, 8),
    ),
    "Gray-Scott": Family(
        gray_scott,
        _squares,
        ("F", "k"),
        np.array([[0.030, 0.062], [0.039, 0.058], [0.030, 0.058], [0.039, 0.062]]),
        grid([0.033, 0.036], [0.059, 0.061]),
        (1, 32, 1, 32),
        np.arange(10) * 40.0,
        grid=(32, 32),
    ),
}
"""By name; the order is that of the literature."""
