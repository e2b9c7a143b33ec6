"""Snapshots of which components are missing, filled from their leading modes."""

import torch
from torch import Tensor

from romkit.bases.gaps import Prior
from romkit.bases.modes import decompose


def filled(y: Tensor, *, rounds: int = 4, most: int = 64, rounding: float = 1e-12) -> Tensor:
    """Return snapshots (N, n) without NaN: the expectation of what is missing, given what is there,
    of a normal distribution about zero along the leading modes.

    `rounds`: rounds in which snapshots are filled by modes, and modes made of the filled
    snapshots.

    `most`: largest number of modes.

    `rounding`: least variance beside the modes, as a share of the largest along one: below it
    rounding decides.

    Source: Everson, Sirovich (1995), Karhunen-Loève procedure for gappy data; Tipping, Bishop
    (1999), Probabilistic principal component analysis, for the spread along the modes as a prior.

    Raises:
        IndexError: no complete snapshot to begin with.
    """
    missing = y.isnan()
    complete = ~missing.any(1)
    if bool(complete.all()):
        return y
    snapshots = torch.where(missing, 0.0, y)
    sample = y[complete]
    unweighted = torch.ones_like(y[0])
    kinds, number = missing.unique(dim=0, return_inverse=True)
    for _ in range(rounds):
        modes, sigma, energy = decompose(sample, min(most, *sample.shape))
        variance = sigma.square() / len(sample)  # along each mode
        beside = (energy / len(sample) - variance.sum()).clamp(min=0) / y.shape[1]
        noise = beside.clamp(min=rounding * float(variance[0]))
        prior = Prior(modes, unweighted, variance, noise)
        for k in torch.nonzero(kinds.any(1)).flatten():
            rows = torch.nonzero(number == k).flatten()  # that lack the same components
            z, _ = prior.coordinates(y[rows])
            snapshots[rows] = torch.where(missing[rows], z @ modes.mT, y[rows])
        sample = snapshots
    return snapshots
