"""Weights of runs in forecasts at other contexts: of splines through the runs, and of regressions,
which share the differences of individuals out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from romkit.core.types import Array
from romkit.laws.baselines import interpolated_runs

Weights = Callable[[Tensor, Tensor], Tensor]
"""Weights (k, C) of runs at contexts (C, p) in those at wanted ones (k, p)."""


def splines(contexts: Tensor, wanted: Tensor) -> Tensor:
    """Return weights (k, C) of runs in splines through them, as `interpolated_runs` has these."""
    single = torch.eye(len(contexts), dtype=torch.float64).unsqueeze(1)  # (C, 1, C)
    return interpolated_runs(single, contexts, wanted).squeeze(1)


@dataclass(frozen=True)
class Regression:
    """Planes in the context by ridge regression: from least squares to the mean of the runs.

    Attributes:
        ridge: penalty of the slopes, in squares of the ranges of contexts for each run; infinite for
            the mean.

    Source: Hoerl, Kennard (1970), Ridge regression.
    """

    ridge: float

    @property
    def is_mean(self) -> bool:
        """Whether all contexts have one forecast."""
        return bool(np.isinf(self.ridge))

    def __call__(self, contexts: Tensor, wanted: Tensor) -> Tensor:
        """Return weights (k, C) of runs at contexts (C, p) at wanted ones (k, p)."""
        runs, p = contexts.shape
        equal = torch.full((len(wanted), runs), 1 / runs, dtype=torch.float64)
        if self.is_mean:
            return equal
        centre = contexts.mean(0)
        around = (contexts - centre).double()
        moments = around.mT @ around / runs + self.ridge * torch.eye(p, dtype=torch.float64)
        slopes = torch.linalg.solve(moments, around.mT / runs)  # (p, C)
        return equal + (wanted - centre).double() @ slopes


RIDGES = (1e-6, 0.01, 0.03, 0.1, 0.3, 1.0, np.inf)
"""Penalties that are tried: the variance of contexts is about a twelfth."""


def combined(weights: Tensor, runs: Tensor) -> Tensor:
    """Weighted sums (k, T, n) of runs (C, T, n)."""
    return torch.einsum("kc,ctn->ktn", weights, runs.double())


def weight_changes(
    contexts: Tensor, wanted: Tensor, groups: Sequence[Array], weights_of: Weights
) -> list[Tensor]:
    """Change (k, C) of the weights of runs without those of each group."""
    weights = weights_of(contexts, wanted)
    changes = []
    for left_out in groups:
        kept = np.setdiff1d(np.arange(len(contexts)), left_out)
        fewer = torch.zeros_like(weights)
        fewer[:, kept] = weights_of(contexts[kept], wanted)
        changes.append(fewer - weights)
    return changes
