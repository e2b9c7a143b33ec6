"""Folds: runs whose contexts are left out of a fit together."""

import numpy as np

from romkit.core.types import Array


def folds(contexts: Array, number: int, seed: int = 0) -> list[Array]:
    """Divide runs into folds of whole contexts, which lie between constant contexts.

    Contexts at an end of a parameter are in no fold, since a fit without them extrapolates, unless
    fewer than two lie between others: then all are. A fold has every k-th context, so that those
    left out together are far apart; of several parameters in random order, since no order of these
    is one of distance. Runs that share a single context are left out one by one.

    Args:
        contexts: (C, p) of the runs; without columns each run is a context of its own.
        number: of the folds, at most; there are no more than contexts in folds.
        seed: of the order of contexts of several parameters.

    Returns:
        Rows of the runs of each fold, in rising order; no folds of a single run.

    Source: Stone (1974), Cross-validatory choice; whole contexts, because runs of one context tell
    of each other.

    Example:
        >>> import numpy as np
        >>> from romkit.numerics import folds
        >>> [rows.tolist() for rows in folds(np.array([[0.0], [1.0], [1.0], [2.0], [3.0], [4.0]]), 2)]
        [[1, 2, 4], [3]]
    """
    if len(contexts) < 2:
        return []
    groups = groups_of(contexts)
    if len(groups) == 1:
        groups = [np.array([run]) for run in range(len(contexts))]
        inner = np.arange(len(groups))
    else:
        representatives = np.array([group[0] for group in groups])
        inner = np.flatnonzero(find_interior(contexts[representatives]))
    if len(inner) < 2:
        inner = np.arange(len(groups))
    if contexts.shape[1] > 1:
        inner = np.random.default_rng(seed).permutation(inner)
    chosen = []
    for k in range(min(number, len(inner))):
        rows = np.concatenate([groups[group] for group in inner[k::number]])
        chosen.append(np.sort(rows))
    return chosen


def groups_of(contexts: Array) -> list[Array]:
    """Divide runs at contexts (C, p) by context, in rising order of these; rows of each."""
    if contexts.shape[1] == 0:
        return [np.array([run]) for run in range(len(contexts))]
    values, number = np.unique(contexts, axis=0, return_inverse=True)
    return [np.flatnonzero(number.ravel() == k) for k in range(len(values))]


def find_interior(contexts: Array) -> Array:
    """Tell which contexts (C, p) are at no end of a parameter that varies, (C,)."""
    low = contexts.min(0)
    high = contexts.max(0)
    at_end = (contexts == low) | (contexts == high)  # (C, p)
    return ~at_end[:, low < high].any(-1)
