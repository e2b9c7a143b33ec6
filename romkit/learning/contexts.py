"""Contexts of runs: as numbers, in words, and where more of them would help."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import xarray as xr

from romkit.core import display
from romkit.core.types import Array
from romkit.data import context_names
from romkit.data.context import context_ranges, contexts_of, find_interior
from romkit.data.coordinates import COORDINATES, PLAIN, coordinates_of, transform_contexts

FEWEST = 3
"""Contexts from which on there is one between two others."""


def number_of_contexts(*datasets: xr.Dataset) -> int:
    """Return number of different contexts of runs."""
    contexts = np.concatenate([contexts_of(data) for data in datasets])
    return len(np.unique(contexts, axis=0))


def inner_groups(data: xr.Dataset) -> list[Array]:
    """Return numbers of the runs at each context between others; at each, where none is between;
    none of fewer than three contexts.
    """
    values, group = np.unique(contexts_of(data), axis=0, return_inverse=True)
    if len(values) < FEWEST:
        return []
    inner = np.flatnonzero(find_interior(values))
    if len(inner) == 0:
        inner = np.arange(len(values))
    return [np.flatnonzero(group.ravel() == number) for number in inner]


def scaled_contexts(data: xr.Dataset, train: xr.Dataset) -> Array:
    """Return contexts (C, p) of runs, in the coordinates and ranges of the training data."""
    return scaled(contexts_of(data), train)


def scaled(contexts: Array, train: xr.Dataset) -> Array:
    """Return contexts (C, p), in the coordinates and ranges of the training data."""
    ends = context_ranges(train)
    names = coordinates_of(train)
    if {*names} - {PLAIN}:
        lowest = torch.from_numpy(ends[0])
        contexts = transform_contexts(torch.from_numpy(contexts), names, lowest).numpy()
        ends = transform_contexts(torch.from_numpy(ends), names, lowest).numpy()
    low = ends.min(0)
    high = ends.max(0)
    width = np.where(high > low, high - low, 1.0)
    return (contexts - low) / width


def halfway(contexts: Array, scale: Array) -> Array:
    """Return contexts (k, p) halfway between neighbouring ones of (C, p), distances in a scale (p,).

    Two are neighbours where no other one is in the ball between them: of one parameter those that
    follow each other.

    Source: Gabriel, Sokal (1969), A new statistical approach to geographic variation analysis.
    """
    unique = np.unique(contexts, axis=0)
    squares = [np.square((unique - context) / scale).sum(-1) for context in unique]
    pairs = []
    for row, from_first in enumerate(squares):
        for second in range(row + 1, len(unique)):
            sums = from_first + squares[second]
            # both ends are on the ball
            if (sums < from_first[second] * (1 - 1e-9)).any():
                continue
            pairs.append((unique[row] + unique[second]) / 2)
    return np.array(pairs).reshape(-1, contexts.shape[1])


def are_interior(wanted: Array, known: Array, *, most_for_a_hull: int = 4) -> Array:
    """Which contexts (k, p) are in the convex hull of others (C, p); all where there is no hull.

    `most_for_a_hull`: parameters up to which contexts are told to be between those of the runs.
    """
    from scipy.spatial import Delaunay, QhullError  # slow to import, and seldom needed

    p = known.shape[1]
    if not 1 < p <= most_for_a_hull:
        return np.ones(len(wanted), dtype=bool)
    try:
        hull = Delaunay(known)
    except QhullError:  # contexts on a line or plane
        return np.ones(len(wanted), dtype=bool)
    return hull.find_simplex(wanted, tol=1e-9) >= 0


def describe_context(data: xr.Dataset, run: int) -> str:
    """Context of a run in words, of one that moves its range."""
    values = display.parameters(data.isel(trajectory=run))
    named = []
    for name in context_names(data):
        low, high = np.nanmin(values[name]), np.nanmax(values[name])
        span = f"{low:.4g}" if low == high else f"{low:.4g} ... {high:.4g}"
        named.append(f"{name} = {span}")
    return ", ".join(named)


def widest_gaps(contexts: Array, number: int) -> list[float]:
    """Middles of the widest gaps between contexts (C, 1) of one parameter, in order."""
    values = np.unique(contexts[:, 0])
    gaps = np.diff(values)
    widest = np.argsort(-gaps, kind="stable")[:number]
    middles = values[:-1] + gaps / 2
    return sorted(middles[widest].tolist())


def further_contexts(names: Sequence[str], contexts: Array, number: int) -> str:
    """Return contexts (C, p) between those of the runs at which so many more would help most, in
    words.
    """
    if len(names) > 1:
        return f"{', '.join(names)} between those of the runs"
    values = [f"{value:.4g}" for value in widest_gaps(contexts, number)]
    return f"{names[0]} = {' and '.join(values)}"


def describe_coordinates(names: Mapping[str, str]) -> str:
    """List the coordinates of parameters as text, `1/R, log K`."""
    return ", ".join(COORDINATES[name].of(parameter) for parameter, name in names.items())
