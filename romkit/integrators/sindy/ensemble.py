"""Bagging: equations of many bootstrap samples, how often each term is in one, and their median or mean."""

import itertools
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from romkit.boundary import Share, checked
from romkit.integrators.sindy.model import SINDyModel


class Bootstrap(NamedTuple):
    """Bounds of J blocks of samples, and how often each member has each block: counts (B, J)."""

    bounds: list[tuple[int, int]]
    counts: Tensor

    def sample_weights(self) -> Tensor:
        """(B, N) how often each member has each sample."""
        sizes = torch.tensor([stop - start for start, stop in self.bounds], device=self.counts.device)
        return self.counts.repeat_interleave(sizes, dim=-1)


def bootstrap(samples: int, models: int, blocks: int, seed: int, device: torch.device) -> Bootstrap:
    """As many blocks as there are, drawn with replacement for each member; the same for a seed on every device."""
    edges = np.linspace(0, samples, blocks + 1).round().astype(int).tolist()
    counts = np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1 / blocks), size=models)
    return Bootstrap(list(itertools.pairwise(edges)), torch.from_numpy(counts).double().to(device))


@checked
@dataclass(frozen=True)
class SINDyEnsemble:
    """Equations of bootstrap samples of one data set.

    Attributes:
        members: a stack of equations; members are its first axis.
    """

    members: SINDyModel

    @property
    def inclusion(self) -> Tensor:
        """(..., terms, latent) share of the members that have each term."""
        return self.members.support.double().mean(0)

    @property
    def spread(self) -> Tensor:
        """(..., terms, latent) standard deviation of each coefficient over the members."""
        return self.members.coefficients.std(0)

    @checked
    def median(self, *, inclusion: Share = 0.0) -> SINDyModel:
        """Median of each coefficient; zero for terms that fewer than this share of the members have.

        Attributes of the result that describe a fit are those of the members: the largest condition and residual.
        """
        coefficients = self.members.coefficients.quantile(0.5, dim=0)
        return replace(
            self.members,
            basis=self.members.basis[0],
            coefficients=torch.where(self.inclusion >= inclusion, coefficients, 0.0),
            condition=self.members.condition.amax(0),
            converged=self.members.converged.all(0),
            residual=self.members.residual.amax(0),
            source=f"median of {self.members.source}",
            domain=None if self.members.domain is None else self.members.domain[0],
        )

    def __len__(self) -> int:
        return len(self.members)
