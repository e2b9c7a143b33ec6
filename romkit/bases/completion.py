"""Snapshots of which components are missing, filled from their leading modes."""

from collections.abc import Iterator

import torch
from torch import Tensor

from romkit.bases.modes import decompose
from romkit.core.types import Pair


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
    for _ in range(rounds):
        modes, sigma, energy = decompose(sample, min(most, *sample.shape))
        variance = sigma.square() / len(sample)  # along each mode
        beside = (energy / len(sample) - variance.sum()).clamp(min=0) / y.shape[1]
        noise = beside.clamp(min=rounding * float(variance[0]))
        for rows, present in patterns(missing):
            E = modes[present]  # (k, r)
            precision = E.mT @ E + noise * torch.diag(1 / variance)
            z = torch.linalg.solve(precision, E.mT @ snapshots[rows][:, present].mT).mT
            estimate = z @ modes.mT
            snapshots[rows] = torch.where(missing[rows], estimate, snapshots[rows])
        sample = snapshots
    return snapshots


def patterns(missing: Tensor) -> Iterator[Pair]:
    """Yield rows that lack the same components, and the components that they have."""
    kinds, number = missing.unique(dim=0, return_inverse=True)
    for k, kind in enumerate(kinds):
        if bool(kind.any()):
            yield torch.nonzero(number == k).flatten(), torch.nonzero(~kind).flatten()
