"""Manifolds that were tried, with the best law on each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Trial:
    """One manifold that was tried, with the best law on it.

    Attributes:
        latent_dim: number of latents.
        config: settings of the manifold.
        projection_error: on contexts that were left out, relative to the deviation of the data.
        law: row of the report of `romkit.law` for the law that it took; None where none was tried.
        in_pieces: error of this law in pieces of the same runs, some periods each [deviations].
    """

    latent_dim: int
    config: Mapping[str, object]
    projection_error: float
    law: Mapping[str, object] | None
    in_pieces: float | None = None

    @property
    def law_error(self) -> float | None:
        """Error of the law on training runs that were left out [deviations]; None without a law."""
        if self.law is None:
            return None
        return float(self.law["error"])


def least_error(trials: Sequence[Trial]) -> float:
    """Error of the best law on training runs that were left out; infinite without any."""
    errors = [trial.law_error for trial in trials if trial.law is not None]
    return min(errors, default=np.inf)
