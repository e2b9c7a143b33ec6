"""Coordinates, in a basis, of snapshots of which components are missing."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from romkit.core.types import Array


class Metric(NamedTuple):
    """Modes V (n, r), and weights w (n,) with W V = diag(w) V where W is diagonal; else w is a
    lumped form of W.
    """

    modes: Tensor
    weights: Tensor

    @classmethod
    def measure(cls, modes: Tensor, dual: Tensor) -> "Metric":
        """Metric of V and W V."""
        tiny = torch.finfo(modes.dtype).tiny
        weights = (dual * modes).sum(1) / modes.square().sum(1).clamp(min=tiny)
        # a lumped weight may be negative, and that of a component that no mode moves is unknown
        least = weights[weights > 0].min()
        return cls(modes, torch.where(weights > 0, weights, least))


class Spread(NamedTuple):
    """Distribution of complete snapshots: coordinates y ~ N(0, Λ), and beside them e ~ N(0, s W⁻¹).

    Attributes:
        variance: (r,) diagonal of Λ.
        noise: s.
    """

    variance: Tensor
    noise: Tensor

    @classmethod
    def estimate(
        cls, metric: Metric, deviations: Tensor, y: Tensor, *, rounding: float = 1e-12
    ) -> "Spread":
        """Spread of complete deviations (N, n) from the mean, with coordinates y (N, r).

        `rounding`: least variance along a mode, as a share of the largest: below it rounding
        decides.
        """
        n, r = metric.modes.shape
        variance = y.square().mean(0)
        beside = deviations - y @ metric.modes.mT
        energy = (beside.square() @ metric.weights).mean()
        least = (rounding * variance.max()).clamp(min=torch.finfo(y.dtype).tiny)
        return cls(variance.clamp(min=least), (energy / max(1, n - r)).clamp(min=least))


def estimated(
    metric: Metric, deviation: Tensor, spread: Spread, *, unknown: float = 1e-2
) -> Tensor | None:
    """Return coordinates (r,) of a deviation (n,) from the mean of which components are NaN: least
    squares on those that are there, weighed against the spread of complete snapshots.

    None where the components that are missing leave more than the share `unknown` of the variance
    of coordinates open.

    Source: Everson, Sirovich (1995), Karhunen-Loève procedure for gappy data, there without a prior.
    """
    present = ~deviation.isnan()
    V = metric.modes[present]  # (k, r)
    weighted = metric.weights[present].unsqueeze(-1) * V
    # in coordinates of variance one, so that the least of them is not lost beside the largest
    scale = spread.variance.sqrt()
    precision = scale.unsqueeze(-1) * (V.mT @ weighted) * scale / spread.noise
    covariance = torch.linalg.inv(precision + torch.eye(len(scale), dtype=scale.dtype))
    remaining = (covariance.diagonal() * spread.variance).sum()
    if remaining > unknown * spread.variance.sum():
        return None
    projected = scale * (deviation[present] @ weighted) / spread.noise
    return scale * (covariance @ projected)


def complete_coordinates(
    modes: Tensor,
    dual: Tensor,
    coordinates: Array,
    deviations: Callable[[int], Array],
) -> int:
    """Fill in coordinates (C, T, r) that are NaN since components of a snapshot are missing.

    Args:
        modes: V.
        dual: W V.
        coordinates: of trajectories; those of snapshots with gaps are set in place.
        deviations: k to those (T, n) of trajectory k from the mean, read one at a time.

    Returns:
        The number of snapshots with gaps whose coordinates are not known.
    """
    complete = np.isfinite(coordinates).all(-1)
    lacking = np.flatnonzero(~complete.all(1))
    metric, spread = (
        Metric.measure(modes, dual),
        _spread(modes, dual, coordinates, deviations, complete),
    )
    unknown = 0
    for k in lacking.tolist():
        pieces = torch.from_numpy(deviations(k)).double()
        # a snapshot without any component is a missing sample, and no gap
        gaps = ~complete[k] & ~np.isnan(pieces.numpy()).all(-1)
        for t in np.flatnonzero(gaps):
            y = None if spread is None else estimated(metric, pieces[t], spread)
            if y is None:
                unknown += 1
            else:
                coordinates[k, t] = y.numpy()
    return unknown


def _spread(
    modes: Tensor,
    dual: Tensor,
    coordinates: Array,
    deviations: Callable[[int], Array],
    complete: Array,
    *,
    sample: int = 2000,
) -> Spread | None:
    """Spread of some complete snapshots; None where there is none.

    `sample`: complete snapshots from which the spread of coordinates is taken.
    """
    if not complete.any():
        return None
    every = max(1, int(complete.sum()) // sample)
    y, rows = [], []
    for k in np.flatnonzero(complete.any(1)).tolist():
        chosen = np.flatnonzero(complete[k])[::every]
        y.append(torch.from_numpy(coordinates[k, chosen]).double())
        rows.append(torch.from_numpy(deviations(k)[chosen]).double())
    return Spread.estimate(Metric.measure(modes, dual), torch.cat(rows), torch.cat(y))
