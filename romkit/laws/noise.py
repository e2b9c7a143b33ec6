"""Noise of measured trajectories: how large it is, and states without most of it."""

from functools import partial
from math import comb

import numpy as np
import torch
from torch import Tensor

from romkit.core.tensors import divisor
from romkit.data import even_step
from romkit.data.times import stretches
from romkit.data.velocity import differentiated, smoothest

ORDERS = 4, 6
"""Orders of the differences by which noise is measured."""

AGREED = 0.9
"""Noise by those differences, likewise relative, from which on both are the noise itself."""

NOISY = 1e-3
"""Noise [standard deviations of a variable] from which on a fit has to allow for it."""


def noise_level(z: Tensor, order: int = ORDERS[1]) -> Tensor:
    """Return standard deviation (d,) of white noise in paths (C, T, d), by differences of
    neighbours.

    NaN where no stretch of samples is long enough.
    """
    if z.shape[1] <= order:
        return z.new_full(z.shape[-1:], torch.nan)
    differences = z.diff(n=order, dim=1)
    squares = comb(2 * order, order)  # sum of the squared weights of a difference
    variance = differences.square().nanmean((0, 1)) / squares
    return variance.sqrt()


def white_noise(z: Tensor) -> Tensor:
    """Return standard deviation (d,) of noise in measured paths (C, T, d); NaN where differences of
    two orders do not agree on it, as of smooth paths that are sampled coarsely.
    """
    low, high = (noise_level(z, order) for order in ORDERS)
    return torch.where(high > AGREED * low, high, torch.nan)


def is_noisy(z: Tensor, *, white: float = 0.5) -> bool:
    """Tell whether measured paths (C, T, d) have white noise that matters in some variable.

    `white`: noise by differences of the higher order, relative to that of the lower, from which
    on it is noise: a smooth signal, sampled coarsely, has much less of it.
    """
    low, high = (noise_level(z, order) for order in ORDERS)
    mean = z.nanmean((0, 1))
    deviation = (z - mean).square().nanmean((0, 1)).sqrt()
    matters = high > NOISY * deviation
    is_white = high > white * low
    return bool((matters & is_white).any())


def smoothed(z: Tensor, times: Tensor) -> Tensor:
    """Return paths (C, T, d) without most of their noise: polynomials in windows that predict
    left-out samples best.

    At uneven times, and in stretches between gaps that are shorter than a window, they stay.
    """
    if even_step(times.numpy()) is None:
        return z
    paths = z.numpy(force=True)
    complete = np.isfinite(paths).all(-1)
    deviation = divisor(np.nanstd(paths, axis=(0, 1)))
    rule = smoothest(paths / deviation, complete)
    pieces = stretches(complete, rule.window)
    smooth = differentiated(paths, times.numpy(), pieces, partial(rule, order=0))
    return torch.from_numpy(np.where(np.isfinite(smooth), smooth, paths)).to(z)


def is_map(z: Tensor, *, jumps: float = -0.2) -> bool:
    """Tell whether paths (C, T, d) jump from sample to sample, as iterates of a map do.

    `jumps`: correlation of neighbours in time below which samples are those of a map, not of a
    motion: noise has none, and a sine a negative one from four samples a period on.
    """
    apart = z - z.nanmean((0, 1))
    variance = apart.square().nanmean((0, 1))
    products = apart[:, 1:] * apart[:, :-1]
    covariance = products.nanmean((0, 1))
    correlation = covariance / variance
    return bool((correlation[variance > 0] < jumps).any())
