"""Expected errors of an interpolation by where its contexts lie, for runs as smooth in the context,
and as noisy, as they are.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from romkit.core.types import Array
from romkit.learning.weights import Weights, splines, weight_changes

REACHES = tuple(np.geomspace(0.1, 3.0, 11).tolist())
"""Distances, in the ranges of the contexts, over which runs may be alike."""

NOISES = tuple(np.geomspace(1e-10, 1.0, 21).tolist())
"""Variances of noise, relative to those of the runs, that they may have; the least one is that of
rounding."""


class Kernel(NamedTuple):
    """Covariance of runs, k(c, c') = exp(-‖c - c'‖² / 2 reach²), with independent noise.

    Attributes:
        reach: in the ranges of the contexts.
        noise: its variance, relative to that of the runs.
    """

    reach: float
    noise: float

    @classmethod
    def of(cls, states: Tensor, contexts: Tensor) -> "Kernel":
        """Return the most likely one, with a trend that is linear in the context.

        Args:
            states: (C, T, n) of runs, in deviations.
            contexts: (C, p) of these, scaled.

        Source: Patterson, Thompson (1971), restricted maximum likelihood; Cressie (1993), Statistics
        for spatial data.
        """
        trend = torch.cat([torch.ones(len(contexts), 1), contexts], -1).double()
        left, singular, _ = torch.linalg.svd(trend, full_matrices=True)
        rank = int((singular > 1e-9 * singular[0]).sum())
        contrasts = left[:, rank:]  # (C, r), that no trend moves
        data = contrasts.mT @ states.flatten(1).double()  # (r, T n)
        # with a single contrast no kernel is more likely than another
        if contrasts.shape[1] < 2 or not bool(data.any()):
            return cls(REACHES[-1], NOISES[0])
        products = data @ data.mT / data.shape[1]  # (r, r)
        best = cls(REACHES[-1], NOISES[0])
        largest = -np.inf
        for reach in REACHES:
            for noise in NOISES:
                kernel = cls(reach, noise)
                likelihood = kernel._likelihood(products, contrasts, contexts)
                if likelihood > largest:
                    best, largest = kernel, likelihood
        return best

    def _likelihood(self, products: Tensor, contrasts: Tensor, contexts: Tensor) -> float:
        """Logarithm of the likelihood, at its best scale, of contrasts (C, r) with these products
        (r, r).
        """
        covariance = contrasts.mT @ self._covariance(contexts) @ contrasts
        factor, info = torch.linalg.cholesky_ex(covariance)
        if info > 0:
            return -np.inf
        scale = torch.cholesky_solve(products, factor).trace() / len(products)
        logarithms = factor.diagonal().log().sum()
        return float(-logarithms - len(products) / 2 * scale.log())

    def _covariance(self, contexts: Tensor) -> Tensor:
        """Covariance (C, C) of noisy runs."""
        smooth = self._between(contexts, contexts)
        return smooth + self.noise * torch.eye(len(contexts), dtype=smooth.dtype)

    def _between(self, contexts: Tensor, others: Tensor) -> Tensor:
        """Covariance (k, C) of runs without noise."""
        distance = torch.cdist(contexts, others)
        return torch.exp(-(distance**2) / (2 * self.reach**2))

    def errors(self, contexts: Tensor, wanted: Tensor, weights_of: Weights = splines) -> Array:
        """Return expected error (k,) at wanted contexts (k, p), noise of what is forecast included,
        in deviations of the kernel.
        """
        weights = weights_of(contexts, wanted)  # (k, C)
        together = self._between(wanted, contexts)  # (k, C)
        variance = 1 + self.noise
        shared = (weights * together).sum(-1)
        of_runs = (weights @ self._covariance(contexts) * weights).sum(-1)
        square = variance - 2 * shared + of_runs
        # rounding may take all of a small one
        return square.clamp(min=self.noise).sqrt().numpy()

    def changes(
        self,
        contexts: Tensor,
        wanted: Tensor,
        groups: Sequence[Array],
        weights_of: Weights = splines,
    ) -> Array:
        """Return expected change (k,) of the interpolation without the runs of each group, as of
        `romkit.learning.jackknife.changes`.
        """
        covariance = self._covariance(contexts)
        square = torch.zeros(len(wanted), dtype=covariance.dtype)
        for change in weight_changes(contexts, wanted, groups, weights_of):
            square += (change @ covariance * change).sum(-1)
        return square.clamp(min=np.finfo(float).tiny).sqrt().numpy()
