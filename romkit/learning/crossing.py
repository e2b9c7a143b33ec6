"""States that do not tell where a run goes next: at nearly equal ones it goes in opposite
directions.
"""

import numpy as np
import xarray as xr

from romkit.core.types import Array
from romkit.data import even_step

NEAR, LEFT = 0.1, 0.3
"""Distances [deviations of a component] up to which two states are nearly equal, and from which on a
run has left a state, in the direction that is compared.
"""

FEWEST = 10
"""Fewest returns from which a share is known."""

ROUNDING = 1e-9
"""Deviation of a component, in its largest value, up to which it is at rest."""

RUNS, SAMPLES = 8, 400
"""Most runs, and samples of each, that are compared with each other."""


def share_of_opposite_ways(data: xr.Dataset) -> float:
    """Return share of the returns to a state from which a run goes in the opposite direction; 0
    where runs hardly return.

    A law of first order gives each state one direction. Positions of what swings have two: there
    and back.
    """
    states = _in_deviations(data["state"].values)
    rows = np.linspace(0, len(states) - 1, min(RUNS, len(states))).round().astype(int)
    cosines: list[float] = []
    for run in states[rows]:
        complete = run[np.isfinite(run).all(-1)]
        step = max(1, int(np.ceil(len(complete) / SAMPLES)))
        cosines += _cosines_of_returns(complete[::step])
    if len(cosines) < FEWEST:
        return 0.0
    return float(np.mean(np.array(cosines) < 0))


def quarter_of_period(data: xr.Dataset) -> int | None:
    """Return samples after which the states of the runs are first uncorrelated with what they were,
    a quarter of a period; None where they never are, or times are uneven.
    """
    if even_step(data["time"].values.astype(float)) is None:
        return None
    states = _in_deviations(data["state"].values)
    swings = np.nan_to_num(states - np.nanmean(states, axis=1, keepdims=True))  # (C, T, n)
    for lag in range(1, swings.shape[1]):
        correlation = (swings[:, lag:] * swings[:, :-lag]).sum()
        if correlation <= 0:
            return lag
    return None


def _in_deviations(states: Array) -> Array:
    """Return states (C, T, n), divided by the deviations of their components, of those that move."""
    deviation = np.nanstd(states, axis=(0, 1))
    largest = np.nanmax(np.abs(states), axis=(0, 1))
    moves = deviation > ROUNDING * largest
    return states[..., moves] / deviation[moves]


def _cosines_of_returns(run: Array) -> list[float]:
    """Cosines between the directions in which a run (T, n) leaves a state, and leaves it again after
    it has come back to it.
    """
    if run.size == 0:
        return []
    distance = _distances(run)
    leaves = [_first(row[t:] >= LEFT, t) for t, row in enumerate(distance)]
    cosines: list[float] = []
    for t, away in enumerate(leaves):
        if away is None:
            continue
        later = [k for k in range(away, len(run)) if leaves[k] is not None]
        if not later:
            continue
        back = min(later, key=distance[t].__getitem__)
        if distance[t, back] > NEAR:
            continue
        first = run[away] - run[t]
        second = run[leaves[back]] - run[back]
        size = np.linalg.norm(first) * np.linalg.norm(second)
        cosines.append(float(first @ second / size))
    return cosines


def _distances(run: Array) -> Array:
    """Root mean square distances (T, T) of the states of a run."""
    products = run @ run.T
    squares = np.diag(products)
    distances = squares[:, None] + squares - 2 * products
    return np.sqrt(np.maximum(distances, 0.0) / run.shape[-1])


def _first(fulfilled: Array, start: int) -> int | None:
    """Return number of the first place that fulfils a condition, counted from `start`; None without
    one.
    """
    if not fulfilled.any():
        return None
    return start + int(np.argmax(fulfilled))
