"""Errors of an interpolation that are expected where its contexts lie: by how much it changes without
one of its runs, and by how alike runs are that are near.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from romkit import numerics
from romkit.core.types import Array
from romkit.numerics import Kriging, Smoother, Spline
from romkit.numerics.smoothers import smooth_matern

REACHES = tuple(np.geomspace(0.1, 3.0, 11).tolist())
"""Distances, in the ranges of the contexts, over which runs may be alike."""

NOISES = tuple(np.geomspace(1e-10, 1.0, 21).tolist())
"""Variances of noise, relative to those of the runs, that they may have; the least one is that of
rounding."""

LEAST = 1e-3
"""Least change at a time, in the largest one of the run: runs may begin alike."""

LOCAL = 0.6
"""Share of the square of a change that is that of a component and time, and not of all components
together: where a component changes by chance as little without any run, it may err more.
"""

SPLINE = Spline()
"""Runs are interpolated by splines through them."""


def make_kriging(reach: float, noise: float) -> Kriging:
    """Return how alike runs are: as values of a function of the context with two derivatives, like
    errors of laws in a gap.

    Functions with all derivatives, of which errors vanish between runs that are near, are likely with
    a noise that data have not: bars of an exact pulse were 2.7 times too wide.
    """
    return Kriging(smooth_matern, reach=reach, noise=noise)


def combined(weights: Tensor, runs: Tensor) -> Tensor:
    """Weighted sums (k, T, n) of runs (C, T, n)."""
    return torch.einsum("kc,ctn->ktn", weights, runs.double())


def changes(
    states: Tensor,
    contexts: Tensor,
    wanted: Tensor,
    groups: Sequence[Array],
    clocks: Tensor | None = None,
    by_clock: Tensor | None = None,
    smoother: Smoother = SPLINE,
) -> Array:
    """Change (k, T, n) of interpolated runs without those of each group, root of the sum of squares.

    Errors of an interpolation are of the size of these changes: both are small between runs that
    are near and alike, and both move with a front.

    Args:
        states: (C, T, n) of the runs, in deviations.
        contexts: (C, p) of these, scaled.
        wanted: contexts (k, p), scaled likewise.
        groups: numbers of the runs that are left out together.
        clocks: (C,) of the runs, where these are interpolated too.
        by_clock: (T, n) change by the clock of a run.
        smoother: of the runs.

    Source: Efron, Stein (1981), The jackknife estimate of variance.
    """
    square = torch.zeros(len(wanted), *states.shape[1:], dtype=torch.float64)
    for weights in numerics.changes(smoother, contexts, wanted, groups):
        change = torch.einsum("kc,ctn->ktn", weights, states)
        if clocks is not None and by_clock is not None:
            change -= (weights @ clocks)[:, None, None] * by_clock
        square += change.square()
    together = square.mean(-1).sqrt().numpy()  # (k, T)
    smooth = _smoothed(together)
    largest = smooth.max(1, keepdims=True)
    typical = np.maximum(smooth, np.maximum(LEAST * largest, np.finfo(float).tiny))
    of_all = np.square(typical)[..., None]  # (k, T, 1)
    return np.sqrt(LOCAL * square.numpy() + (1 - LOCAL) * of_all)


def _smoothed(size: Array, *, smoothed: int = 20) -> Array:
    """Return the moving mean over time of error sizes (k, T).

    `smoothed`: the window is the length of the run divided by this number.
    """
    from scipy.ndimage import uniform_filter1d  # slow to import, and seldom needed

    window = 2 * (size.shape[1] // (2 * smoothed)) + 1
    return uniform_filter1d(size, window, axis=1, mode="nearest")


def likely(states: Tensor, contexts: Tensor) -> Kriging:
    """Return the most likely covariance of runs and their noise, with a trend that is linear in the
    context.

    Args:
        states: (C, T, n) of runs, in deviations.
        contexts: (C, p) of these, scaled.

    Source: Patterson, Thompson (1971), restricted maximum likelihood; Cressie (1993), Statistics for
    spatial data.
    """
    trend = torch.cat([torch.ones(len(contexts), 1), contexts], -1).double()
    basis, singular, _ = torch.linalg.svd(trend, full_matrices=True)
    rank = int((singular > 1e-9 * singular[0]).sum())
    contrasts = basis[:, rank:]  # (C, r), that no trend moves
    data = contrasts.mT @ states.flatten(1).double()  # (r, T n)
    best = make_kriging(REACHES[-1], NOISES[0])
    # with a single contrast no covariance is more likely than another
    if contrasts.shape[1] < 2 or not bool(data.any()):
        return best
    products = data @ data.mT / data.shape[1]  # (r, r)
    largest = -np.inf
    for reach in REACHES:
        for noise in NOISES:
            kriging = make_kriging(reach, noise)
            likelihood = _likelihood(contrasts.mT @ kriging.among(contexts) @ contrasts, products)
            if likelihood > largest:
                best, largest = kriging, likelihood
    return best


def _likelihood(covariance: Tensor, products: Tensor) -> float:
    """Logarithm of the likelihood, at its best scale, of a covariance (r, r) of contrasts with these
    products (r, r).
    """
    factor, info = torch.linalg.cholesky_ex(covariance)
    if info > 0:
        return -np.inf
    scale = torch.cholesky_solve(products, factor).trace() / len(products)
    logarithms = factor.diagonal().log().sum()
    return float(-logarithms - len(products) / 2 * scale.log())


def expected_errors(
    kriging: Kriging, contexts: Tensor, wanted: Tensor, smoother: Smoother = SPLINE
) -> Array:
    """Return expected error (k,) at wanted contexts (k, p), noise of what is forecast included, in
    deviations of the covariance.
    """
    weights = smoother.weights(contexts, wanted)  # (k, C)
    square = kriging.noise + kriging.variance(contexts, wanted, weights)
    # rounding may take all of a small one
    return square.clamp(min=kriging.noise).sqrt().numpy()


def expected_changes(
    kriging: Kriging,
    contexts: Tensor,
    wanted: Tensor,
    groups: Sequence[Array],
    smoother: Smoother = SPLINE,
) -> Array:
    """Return expected change (k,) of the interpolation without the runs of each group."""
    change = numerics.changes(smoother, contexts, wanted, groups)  # (G, k, C)
    square = (change @ kriging.among(contexts) * change).sum((0, -1))
    return square.clamp(min=np.finfo(float).tiny).sqrt().numpy()
