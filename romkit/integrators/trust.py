"""A trust region: latent states among which a decoder was trained, and the way back to them."""

from dataclasses import dataclass

import torch
from torch import Tensor

FARTHEST = 1.5
"""Distance at which states are held, in that of the farthest training datum from the centre."""


@dataclass(frozen=True, eq=False)
class TrustRegion:
    """An ellipsoid about latent states, along the axes.

    Attributes:
        center, scale: (m,) mean, and standard deviations times the length of the longest deviation in these.
    """

    center: Tensor
    scale: Tensor

    @classmethod
    def of(cls, z: Tensor) -> "TrustRegion":
        """That of latent states (N, m)."""
        center, spread = z.mean(0), z.std(0, correction=0)
        spread = torch.where(spread > 0, spread, 1.0)
        return cls(center, spread * ((z - center) / spread).norm(dim=-1).max().clamp(min=1.0))

    def distance(self, z: Tensor) -> Tensor:
        """(...) distance of latent states (..., m) from the centre, 1 where the training data end."""
        return ((z - self.center.to(z)) / self.scale.to(z)).norm(dim=-1)

    def held(self, z: Tensor) -> Tensor:
        """States (..., m) themselves, and those that are farther than `FARTHEST` brought back to there."""
        center = self.center.to(z)
        return center + (z - center) / (self.distance(z) / FARTHEST).clamp(min=1.0).unsqueeze(-1)
