"""Summaries of snapshots: what two of them know is merged without the snapshots themselves."""

from typing import NamedTuple

import torch
from torch import Tensor

from romkit.bases.decomposition import Weigher, decompose


class Summary(NamedTuple):
    """What is kept of snapshots: their number, mean (n,), factor V σ (n, k) of what deviates, and energy of all of it.

    Mean and energy are exact; the factor leaves out what does not fit into its columns.
    """

    count: int
    mean: Tensor
    factor: Tensor
    energy: Tensor

    @classmethod
    def of(cls, x: Tensor, columns: int, weigh: Weigher) -> "Summary":
        """That of snapshots (N, n)."""
        mean = x.mean(0)
        found = decompose(x - mean, columns, weigh)
        return cls(len(x), mean, found.modes * found.singular_values, found.energy)

    def merged(self, other: "Summary", columns: int, weigh: Weigher) -> "Summary":
        """That of both sets of snapshots.

        Source: Himpe, Leibner, Rave (2018), Hierarchical approximate proper orthogonal decomposition; Ross et al.
        (2008) for the mean.
        """
        count = self.count + other.count
        apart = (self.count * other.count / count) ** 0.5 * (self.mean - other.mean)
        rows = torch.cat([self.factor, other.factor, apart.unsqueeze(-1)], dim=-1).mT
        found = decompose(rows, columns, weigh)
        energy = self.energy + other.energy + apart @ weigh(apart.unsqueeze(-1)).squeeze(-1)
        mean = (self.count * self.mean + other.count * other.mean) / count
        return Summary(count, mean, found.modes * found.singular_values, energy)
