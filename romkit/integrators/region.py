"""Regions of the latent space: where a law was fitted, and where a decoder was trained."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

POINTS = 512
"""Samples that are kept, evenly out of all."""

REACH = 3.0
"""Distance that counts as 1, in that of neighbours among the kept samples (their 95 % quantile)."""

CLOSEST = 0.2
"""Smallest distance that counts as 1, in standard deviations: dense samples do not make a law worthless beside them."""

ROWS = 100_000
"""Latent states whose distances are computed at once."""


@dataclass(frozen=True, eq=False)
class Domain:
    """Latent states that a law was fitted to. A stack of laws has a leading axis on all parts.

    Attributes:
        points: (..., P, m).
        scale: (..., m) standard deviations.
        reach: (...) distance from the nearest point that counts as 1.
    """

    points: Tensor
    scale: Tensor
    reach: Tensor

    @classmethod
    def of(cls, z: Tensor) -> "Domain":
        """Build the region from the latent states (..., N, m) that a law was fitted to."""
        z = z.detach().double().cpu()
        z = z[..., z.isfinite().all(-1).reshape(-1, z.shape[-2]).all(0), :]
        scale = torch.where((spread := z.std(-2)) > 0, spread, 1.0)
        rows = torch.linspace(0, z.shape[-2] - 1, min(POINTS, z.shape[-2])).round().long()
        points = z[..., rows, :].contiguous()
        y = points / scale.unsqueeze(-2)
        apart = torch.cdist(y, y) + torch.diag(torch.full((len(rows),), torch.inf, dtype=y.dtype))
        nearest = apart.amin(-1) if len(rows) > 1 else torch.zeros_like(y[..., 0])
        return cls(points, scale, (REACH * nearest.quantile(0.95, dim=-1)).clamp(min=CLOSEST))

    def distance(self, z: Tensor) -> Tensor:
        """(...) distance of latent states (..., m) from the nearest sample; from 1 on they are outside.

        Leading axes of z begin with those of a stack of laws, if it is one.
        """
        stack = self.reach.shape
        rows = (z.double() / self._beside(self.scale, z)).reshape(*stack, -1, z.shape[-1])
        known = self.points / self.scale.unsqueeze(-2)
        parts = [torch.cdist(part, known).amin(-1) for part in rows.split(ROWS, dim=-2)]
        return (torch.cat(parts, dim=-1) / self.reach.unsqueeze(-1)).reshape(z.shape[:-1])

    def repeated(self, number: int) -> "Domain":
        """That of a stack of this many laws, or stacks of laws, of the same samples."""
        return Domain(*(part.expand(number, *part.shape) for part in (self.points, self.scale, self.reach)))

    def __getitem__(self, index: int) -> "Domain":
        """That of one law of a stack."""
        return replace(self, points=self.points[index], scale=self.scale[index], reach=self.reach[index])

    @staticmethod
    def _beside(scale: Tensor, z: Tensor) -> Tensor:
        return scale.reshape(*scale.shape[:-1], *(1,) * (z.ndim - scale.ndim), scale.shape[-1])


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
