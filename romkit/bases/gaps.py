"""Coordinates, in a basis, of snapshots of which components are missing."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from romkit.core.types import Array


class Prior(NamedTuple):
    """Distribution of snapshots: coordinates y ~ N(0, Λ) along modes, and e ~ N(0, s W⁻¹) beside.

    Attributes:
        modes: V (n, r).
        weights: w (n,) with W V = diag(w) V where W is diagonal; else a lumped form of W.
        variance: (r,) diagonal of Λ.
        noise: s.

    Source: Everson, Sirovich (1995), Karhunen-Loève procedure for gappy data, there without a prior;
    Tipping, Bishop (1999), Probabilistic principal component analysis.
    """

    modes: Tensor
    weights: Tensor
    variance: Tensor
    noise: Tensor

    @classmethod
    def estimate(
        cls, modes: Tensor, dual: Tensor, y: Tensor, x: Tensor, *, rounding: float = 1e-12
    ) -> "Prior":
        """Estimate the distribution of complete deviations x (N, n) from the mean, with coordinates
        y (N, r), for modes V and W V (n, r).

        `rounding`: least variance along a mode, as a share of the largest: below it rounding
        decides.
        """
        n, r = modes.shape
        tiny = torch.finfo(modes.dtype).tiny
        weights = (dual * modes).sum(1) / modes.square().sum(1).clamp(min=tiny)
        # a lumped weight may be negative, and that of a component that no mode moves is unknown
        weights = torch.where(weights > 0, weights, weights[weights > 0].min())
        variance = y.square().mean(0)
        energy = ((x - y @ modes.mT).square() @ weights).mean()
        least = (rounding * variance.max()).clamp(min=tiny)
        noise = (energy / max(1, n - r)).clamp(min=least)
        return cls(modes, weights, variance.clamp(min=least), noise)

    def coordinates(self, x: Tensor) -> tuple[Tensor, float]:
        """Return coordinates (k, r) of deviations (k, n) from the mean that lack the same components,
        which are NaN: least squares on those that are there, weighed against the prior; and the
        share of the variance of coordinates that the missing ones leave open.
        """
        present = ~x[0].isnan()
        V = self.modes[present]
        weighted = self.weights[present].unsqueeze(-1) * V
        # in coordinates of variance one, so that the least of them is not lost beside the largest
        scale = self.variance.sqrt()
        precision = scale.unsqueeze(-1) * (V.mT @ weighted) * scale / self.noise
        covariance = torch.linalg.inv(precision + torch.eye(len(scale), dtype=scale.dtype))
        remaining = (covariance.diagonal() * self.variance).sum() / self.variance.sum()
        projected = scale * (x[:, present] @ weighted) / self.noise
        return scale * (projected @ covariance), float(remaining)


def complete_coordinates(
    modes: Tensor,
    dual: Tensor,
    coordinates: Array,
    deviations: Callable[[int], Array],
    *,
    sample: int = 2000,
    unknown: float = 1e-2,
) -> int:
    """Fill in coordinates of snapshots of which components are missing, from the others.

    Args:
        modes: V (n, r).
        dual: W V (n, r).
        coordinates: (C, T, r), NaN where a component is missing; changed in place.
        deviations: number of a trajectory to its deviations (T, n) from the mean.
        sample: complete snapshots that tell how others are spread, at least if there are as many.
        unknown: share of the variance of coordinates that missing components may leave open.

    Returns:
        number of snapshots whose components do not determine their coordinates.
    """
    complete = np.isfinite(coordinates).all(-1)  # (C, T)
    every = max(1, int(complete.sum()) // sample)
    y, rows = [], []
    for k in np.flatnonzero(complete.any(1)).tolist():
        chosen = np.flatnonzero(complete[k])[::every]
        y.append(torch.from_numpy(coordinates[k, chosen]).double())
        rows.append(torch.from_numpy(deviations(k)[chosen]).double())
    prior = None
    if y:
        prior = Prior.estimate(modes, dual, torch.cat(y), torch.cat(rows))
    undetermined = 0
    for k in np.flatnonzero(~complete.all(1)).tolist():
        x = torch.from_numpy(deviations(k)).double()
        # a snapshot without any component is a missing sample, and no gap
        for t in np.flatnonzero(~complete[k] & ~np.isnan(x.numpy()).all(-1)):
            remaining = np.inf
            if prior is not None:
                found, remaining = prior.coordinates(x[t : t + 1])
            if remaining > unknown:
                undetermined += 1
            else:
                coordinates[k, t] = found[0].numpy()
    return undetermined
