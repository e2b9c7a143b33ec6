"""Runs that differ by more than their context explains: individuals, or repeats."""

import numpy as np
import xarray as xr

from romkit.core.tensors import divisor
from romkit.core.types import Array
from romkit.data.context import contexts_of
from romkit.learning.contexts import number_of_contexts

ALIKE = 0.01
"""Distance of contexts, in their range, up to which runs should be nearly equal."""

FEWEST = 6
"""Contexts from which on runs are compared with those beside them."""

UNEXPLAINED = 0.7
"""Share of the differences between runs that runs beside them do not tell, from which on they are of
individuals.
"""

STARTS = 0.2
"""Distance of the starts of two runs, in that of the runs, from which on it is the starts that differ,
and not individuals.
"""

TURNS = 3.0
"""Length of the way of a variable, in its range, up to which a run does not oscillate: those that do
differ from the runs beside them by their phases.
"""


def spread_of_individuals(data: xr.Dataset) -> float:
    """Root mean square difference of runs from what their context tells [deviations]; NaN where it
    tells nearly all, or cannot be told, as of runs whose inputs differ.

    Runs at equal contexts show it, and else runs of one parameter that do not oscillate: from the
    straight line between the runs beside them they differ as much as from the mean of all.

    Source: Gasser, Sroka, Jennen-Steinmetz (1986), Residual variance and residual pattern in
    nonlinear regression, for the line between neighbours.
    """
    if "control" in data:
        return np.nan
    of_repeats = difference_of_repeats(data)
    if of_repeats > 0:
        return of_repeats
    contexts = contexts_of(data)
    if contexts.shape[1] != 1 or number_of_contexts(data) < FEWEST:
        return np.nan
    scaled = _scaled(data["state"].values)  # (C, T, n)
    if _oscillates(scaled):
        return np.nan
    order = np.argsort(contexts[:, 0], kind="stable")
    spread = _from_neighbours(contexts[order, 0], scaled[order])
    # of the mean of C runs, each is a part
    runs = len(scaled)
    all_differences = np.square(scaled - np.nanmean(scaled, 0)) * runs / (runs - 1)
    total = np.sqrt(np.nanmean(all_differences))
    if spread < UNEXPLAINED * total:
        return np.nan
    return spread


def difference_of_repeats(data: xr.Dataset) -> float:
    """Root mean square difference of runs at nearly equal contexts that start alike, for one run of
    each pair [deviations]; NaN where there are none.
    """
    contexts = contexts_of(data)  # (C, p)
    width = np.ptp(contexts, axis=0)
    places = contexts / divisor(width)
    scaled = _scaled(data["state"].values)  # (C, T, n)
    squares = []
    for first in range(len(places)):
        for second in range(first):
            if np.abs(places[first] - places[second]).max() > ALIKE:
                continue
            square = np.nanmean(np.square(scaled[first] - scaled[second]), axis=-1)  # (T,)
            observed = square[np.isfinite(square)]
            if len(observed) > 0 and observed[0] < STARTS**2 * observed.mean():
                squares.append(observed.mean())
    if not squares:
        return np.nan
    # the difference of two runs is √2 times that of each from their mean
    return float(np.sqrt(np.mean(squares) / 2))


def way(course: Array) -> float:
    """Length of the way of a variable."""
    return float(np.abs(np.diff(course)).sum())


def _scaled(states: Array) -> Array:
    """Return states (C, T, n) in the deviations of the components."""
    deviation = np.nanstd(states, axis=(0, 1))
    return states / divisor(deviation)


def _oscillates(scaled: Array) -> bool:
    """Tell whether components (C, T, n) of most runs go back and forth."""
    ways = []
    for run in scaled:
        for course in run.T:
            present = course[np.isfinite(course)]
            if len(present) > 2 and np.ptp(present) > 0:
                ways.append(way(present) / np.ptp(present))
    return len(ways) == 0 or bool(np.median(ways) > TURNS)


def _from_neighbours(values: Array, scaled: Array) -> float:
    """Root mean square difference of runs (C, T, n) from the line between those beside them."""
    squares = []
    for run in range(1, len(values) - 1):
        low, middle, high = values[run - 1 : run + 2]
        share = (middle - low) / (high - low) if high > low else 0.5
        line = (1 - share) * scaled[run - 1] + share * scaled[run + 1]
        # what the three runs have by chance adds up
        variances = 1 + (1 - share) ** 2 + share**2
        squares.append(np.nanmean(np.square(scaled[run] - line)) / variances)
    return float(np.sqrt(np.mean(squares)))
