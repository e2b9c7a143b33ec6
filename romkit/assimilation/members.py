"""Members of an ensemble Kalman filter: settings, state, and what an observation changes in it."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.linalg import solve_triangular

from romkit.assimilation.noisy import Exact, Noisy
from romkit.core.types import Array

ANALOGUES = 0.05
"""Share of the training states, those nearest to the first observation, that members start from."""

TESTS = ("residual", "range", "jump")


@dataclass(frozen=True, eq=False)
class Setup:
    """Settings that a filter does not change.

    Attributes:
        model: that forecasts.
        parameters: names of the parameters that are estimated.
        free: their numbers among all p.
        known: (p,) values of the parameters; those of free ones have no meaning.
        noise: (s,) standard deviations of the observations.
        drift: (f,) standard deviations of the walk of free parameters in one unit of time.
        count, inflation, window: as of `Tracker`.
        library: (L, d + f) training states and free parameters.
        views: (L, s) what sensors see of them.
        deviation: (s,) of observations: noise and error of the model's manifold.
        size: d.
        correlated: (s, s) covariance of the noise of sensors that err together; None for others.
    """

    model: Exact | Noisy
    parameters: list[str]
    free: list[int]
    known: Array
    noise: Array
    drift: Array
    count: int
    inflation: float
    window: int
    library: Array
    views: Array
    deviation: Array
    size: int
    correlated: Array | None = None

    def parted(self, members: Array) -> tuple[Array, Array]:
        """Return states (N, d) and contexts (N, p), known parameters included, of members (N, d +
        f).
        """
        w, free = np.split(members, [self.size], axis=1)
        c = np.repeat(self.known[None], len(members), axis=0)
        c[:, self.free] = free
        return w, c

    def distances(self, values: Array, seen: Array) -> Array:
        """Squared distances (L,) of training states from an observation, in deviations."""
        apart = self.whitened(self.views - values, seen)
        return (apart**2).sum(1)

    def whitened(self, numbers: Array, seen: Array) -> Array:
        """Numbers (..., s) that sensors see, in units of deviations that are independent; what is
        missing weighs nothing.
        """
        numbers = np.where(seen, numbers, 0.0)
        if self.correlated is None:
            return numbers * (seen / self.deviation)
        of_manifold = np.square(self.deviation) - np.diag(self.correlated)
        covariance = self.correlated + np.diag(of_manifold)
        # numbers that are missing are independent of the others, whose marginal stays
        covariance = np.where(np.outer(seen, seen), covariance, np.eye(len(seen)))
        root = np.linalg.cholesky(covariance)
        return solve_triangular(root, numbers.T, lower=True).T

    def drawn_noise(self, rng: Generator) -> Array:
        """Draw noise (s,) of the sensors."""
        normal = rng.standard_normal(len(self.noise))
        if self.correlated is None:
            return self.noise * normal
        return np.linalg.cholesky(self.correlated) @ normal


@dataclass(eq=False)
class State:
    """State that observations change.

    Attributes:
        rng: of members, noise and reflections.
        members: (N, d + f) states and free parameters.
        time: of the last observation; None before the first.
        informed: whether an observation had numbers.
        map: (N, N) members after the last observation by those before, inflation left out; None
            where they started anew.
        residual: root mean square of the last innovation in deviations, and its expectation.
        record: (window, 2 + 2f) of the last observations: χ² of the innovation and its degrees of
            freedom, changes of the estimate, and what its variance lost.
        taken: observations in the record, and those that left it.
        tests: values of the tests by name.
        alarm: whether they raise it.
        unexplained: whether the first test failed at the last observation.
    """

    rng: Generator
    members: Array
    record: Array
    time: float | None = None
    informed: bool = False
    map: Array | None = None
    residual: tuple[float, float] = (np.nan, np.nan)
    taken: int = 0
    tests: dict[str, float] = field(default_factory=lambda: dict.fromkeys(TESTS, np.nan))
    alarm: bool = False
    unexplained: bool = False

    @classmethod
    def initial(cls, setup: Setup, seed: int) -> "State":
        """No observation yet: members are drawn from all training states."""
        rng = np.random.default_rng(seed)
        columns = 2 + 2 * len(setup.free)
        record = np.empty((setup.window, columns))
        return cls(rng, setup.library[:0], record)


def predict(setup: Setup, state: State, t: float) -> Array:
    """Return forecast members to a time; what sensors see of them (N, s)."""
    assert state.time is not None  # behind an observation
    std = np.sqrt(t - state.time) * setup.drift
    forecast = functools.partial(setup.model.forecast, start=state.time, end=t, rng=state.rng)
    return walk(setup, state, std, forecast)


def walk(setup: Setup, state: State, std: Array, move: Callable[..., Any]) -> Array:
    """Change the contexts of members by random numbers, and states by `view` or `forecast`; what
    sensors see of them (N, s).
    """
    w, c = setup.parted(state.members)
    shape = (setup.count, len(setup.free))
    steps = state.rng.standard_normal(shape)
    # the mean does not walk, so that the estimate has no noise of its own
    steps = steps - steps.mean(0)
    moved = c.copy()
    moved[:, setup.free] += std * steps
    views, w = move(w, c, moved)
    free = moved[:, setup.free]
    state.members = np.concatenate([w, free], axis=1)
    return views


def revive(setup: Setup, state: State, views: Array, values: Array, seen: Array) -> Array:
    """Put copies of others in the place of members that diverged; if none is left, start anew."""
    numbers = np.hstack([state.members, views])
    alive = np.isfinite(numbers).all(1)
    if alive.any():
        lost = ~alive
        alive_rows = np.flatnonzero(alive)
        copied = state.rng.choice(alive_rows, lost.sum())
        state.members[lost] = state.members[copied]
        views[lost] = views[copied]
        return views
    if seen.any():
        begin(setup, state, values, seen)
    else:
        draw(setup, state)
    return look(setup, state)


def look(setup: Setup, state: State) -> Array:
    """Observations of the members by the sensors (N, s)."""
    w, c = setup.parted(state.members)
    views, _ = setup.model.view(w, c, c)
    return views


def draw(setup: Setup, state: State) -> None:
    """Members from all training states: what is known before the first observation."""
    _initialise(setup, state, np.arange(len(setup.library)))


def _initialise(setup: Setup, state: State, numbers: Array) -> None:
    """Draw members from the training states of these numbers."""
    is_repeated = len(numbers) < setup.count
    chosen = state.rng.choice(numbers, setup.count, replace=is_repeated)
    state.members = setup.library[chosen]
    state.map = None


def begin(setup: Setup, state: State, values: Array, seen: Array, limit: float = np.inf) -> None:
    """Members from training states that resemble an observation, if one is nearer than the
    limit.
    """
    state.taken = 0
    apart = setup.distances(values, seen)
    if apart.min() >= limit:
        return
    analogues = int(ANALOGUES * len(apart))
    count = max(setup.count, analogues)
    nearest = np.argsort(apart)[:count]
    _initialise(setup, state, nearest)


def widen(setup: Setup, state: State, *, wider: float = 0.5) -> None:
    """Spread the contexts of members by that of training, while their full states stay.

    `wider`: spread of the contexts after a jump, relative to that of the training contexts.
    """
    spread = setup.library[:, setup.size :].std(0)
    walk(setup, state, wider * spread, setup.model.view)
    state.taken = 0
    state.map = None


def analyse(setup: Setup, state: State, values: Array, views: Array, number: int) -> None:
    """Update members by so many observed numbers (s,), which they see as (N, s), both in units of
    their deviations (ETKF).
    """
    n = setup.count - 1
    basis = _mean_free(setup.count)  # (N, n)
    anomalies = basis.T @ views  # (n, s)
    parameters = basis.T @ state.members[:, setup.size :]  # (n, f)
    innovation = values - views.mean(0)
    gram = anomalies @ anomalies.T
    precision = gram + n * np.eye(n)
    spread, axes = np.linalg.eigh(precision)
    root = (axes / np.sqrt(spread)) @ axes.T  # (n I + Y Yᵀ)^-1/2
    projected = root @ (anomalies @ innovation)
    gain = projected @ root  # (n,) weights of the mean
    transform = np.sqrt(n) * _reflected(root, state.rng)  # (n, n)
    deviations = basis @ transform @ basis.T  # (N, N)
    state.map = 1 / setup.count + gain @ basis.T + deviations
    inflated = state.map + (setup.inflation - 1) * deviations
    state.members = inflated @ state.members
    square = innovation @ innovation
    expected = 1 + gram.trace() / n / number
    state.residual = np.sqrt(square / number), np.sqrt(expected)
    after = transform @ parameters
    squares = (parameters**2).sum(0)
    squares_after = (after**2).sum(0)
    variance_lost = (squares - squares_after) / n
    chi = square - projected @ projected
    row = state.taken % setup.window
    change = gain @ parameters
    state.record[row] = np.hstack([chi, number, change, variance_lost])
    state.taken += 1


def _reflected(root: Array, rng: Generator) -> Array:
    """Return a root (n, n) times a random reflection, which keeps mean and covariance: no member
    keeps its place for ever.
    """
    mirror = rng.standard_normal(len(root))
    normal = 2 / (mirror @ mirror) * mirror
    return root - np.outer(normal, mirror @ root)


def measured(
    setup: Setup, state: State, ends: tuple[Array, Array], *, tiny: float = 1e-300
) -> dict[str, float]:
    """Return values of the three tests on the last observations; `ends` (f,) are those of the
    range.
    """
    total = state.record.sum(0)
    chi, freedom = total[:2]
    change, lost = np.split(total[2:], 2)
    c = state.members[:, setup.size :]
    mean = c.mean(0)
    std = c.std(0).clip(tiny)
    low, high = ends
    residual = (chi - freedom) / np.sqrt(2 * freedom)
    beyond = np.maximum(low - mean, mean - high) / std
    deviation = np.sqrt(lost.clip(tiny))
    moved = np.abs(change) / deviation
    values = residual, beyond.max(initial=-np.inf), moved.max(initial=0.0)
    return dict(zip(TESTS, map(float, values), strict=True))


@functools.cache
def _mean_free(n: int) -> Array:
    """Orthonormal basis (n, n - 1) of vectors whose mean is zero."""
    constant = np.ones(n)
    units = np.eye(n)[:, 1:]
    columns = np.column_stack([constant, units])
    orthonormal, _ = np.linalg.qr(columns)
    return orthonormal[:, 1:]
