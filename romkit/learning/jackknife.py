"""Change of an interpolation without one of its runs, from place to place."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from romkit.core.types import Array
from romkit.learning.weights import Weights, splines, weight_changes

SMOOTHED = 20
"""A change over time is a moving mean over this share of the run."""

LEAST = 1e-3
"""Least change at a time, in the largest one of the run: runs may begin alike."""


LOCAL = 0.6
"""Share of the square of a change that is that of a component and time, and not of all components
together: where a component changes by chance as little without any run, it may err more.
"""


def changes(
    states: Tensor,
    contexts: Tensor,
    wanted: Tensor,
    groups: Sequence[Array],
    shifts: Tensor | None = None,
    weights_of: Weights = splines,
) -> Array:
    """Change (k, T, n) of interpolated runs without those of each group, root of the sum of squares.

    Errors of an interpolation are of the size of these changes: both are small between runs that
    are near and alike, and both move with a front.

    Args:
        states: (C, T, n) of the runs, in deviations.
        contexts: (C, p) of these, scaled.
        wanted: contexts (k, p), scaled likewise.
        groups: numbers of the runs that are left out together.
        shifts: (C, T, n) changes by the clock of each run, where these are interpolated too.
        weights_of: of the runs in the interpolation.

    Source: Efron, Stein (1981), The jackknife estimate of variance.
    """
    square = torch.zeros(len(wanted), *states.shape[1:], dtype=torch.float64)
    for weights in weight_changes(contexts, wanted, groups, weights_of):
        change = torch.einsum("kc,ctn->ktn", weights, states)
        if shifts is not None:
            change = change - torch.einsum("kc,ctn->ktn", weights, shifts)
        square += change.square()
    together = square.mean(-1).sqrt().numpy()  # (k, T)
    smooth = _smoothed(together)
    largest = smooth.max(1, keepdims=True)
    typical = np.maximum(smooth, np.maximum(LEAST * largest, np.finfo(float).tiny))
    of_all = np.square(typical)[..., None]  # (k, T, 1)
    return np.sqrt(LOCAL * square.numpy() + (1 - LOCAL) * of_all)


def _smoothed(size: Array) -> Array:
    """Return moving mean over the times of sizes (k, T)."""
    window = 2 * (size.shape[1] // (2 * SMOOTHED)) + 1
    from scipy.ndimage import uniform_filter1d  # slow to import, and seldom needed

    return uniform_filter1d(size, window, axis=1, mode="nearest")
