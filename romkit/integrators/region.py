"""Regions of the latent space: where a law was fitted, and where a decoder was trained."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

POINTS = 512
"""Most samples that a region keeps, evenly out of all."""

REACH = 3.0
"""Distance that counts as 1, relative to the 95 % quantile of the distances between neighbouring
samples.
"""

CLOSEST = 0.2
"""Smallest distance that counts as 1, in standard deviations: dense samples do not make a law
worthless beside them.
"""

ROWS = 100_000
"""Latent states whose distances are computed at once, to bound the memory."""

FARTHEST = 1.5
"""Distance to which `Region.clamp` brings states back: half as far again as the farthest training
datum.
"""


@dataclass(frozen=True, eq=False)
class Region:
    """Latent states around known ones. Distance 1 is `reach` from the nearest point, in units of
    `scale`.

    A stack of regions has a leading axis on all parts.

    Attributes:
        points: (..., P, m) samples, or the centre of an ellipsoid alone.
        scale: (..., m) unit of length along each axis.
        reach: (...) distance from the nearest point that counts as 1.
    """

    points: Tensor
    scale: Tensor
    reach: Tensor

    @classmethod
    def of(cls, z: Tensor, times: Tensor | None = None) -> "Region":
        """Build the region around the latent states (..., N, m) that a law was fitted to.

        Of whole trajectories at `times`, distance 1 is no less than the 95 % quantile of the
        distances of a trajectory from the others: states between waves that only travel, each of
        them a point, are as near as those are.

        Where some of them are missing, the last point fills the places that are left, so that
        regions of as many samples can be stacked.
        """
        z = z.detach().double().cpu()
        most = min(POINTS, z.shape[-2])
        run = torch.arange(z.shape[-2]) // (z.shape[-2] if times is None else len(times))
        there = z.isfinite().all(-1).reshape(-1, z.shape[-2]).all(0)
        z, run = z[..., there, :], run[there]
        scale = torch.where((spread := z.std(-2)) > 0, spread, 1.0)
        rows = torch.linspace(0, z.shape[-2] - 1, min(most, z.shape[-2])).round().long()
        points = z[..., rows, :].contiguous()
        y = points / scale.unsqueeze(-2)
        apart = torch.cdist(y, y) + torch.diag(torch.full((len(rows),), torch.inf, dtype=y.dtype))
        nearest = apart.amin(-1) if len(rows) > 1 else torch.zeros_like(y[..., 0])
        reach, run = (REACH * nearest.quantile(0.95, dim=-1)).clamp(min=CLOSEST), run[rows]
        if len(runs := run.unique()) > 1:
            other = apart.masked_fill(run == run.unsqueeze(-1), torch.inf).amin(
                -1
            )  # nearest of another trajectory
            between = torch.stack([other[..., run == each].amin(-1) for each in runs], dim=-1)
            reach = torch.maximum(reach, between.quantile(0.95, dim=-1))
        points = torch.cat(
            [points, points[..., -1:, :].expand(*(-1,) * (z.ndim - 2), most - len(rows), -1)],
            dim=-2,
        )
        return cls(points, scale, reach)

    @classmethod
    def ellipsoid(cls, z: Tensor) -> "Region":
        """Smallest ellipsoid about the mean of latent states (N, m), with their deviations as axes,
        that holds all.
        """
        center, spread = z.mean(0), z.std(0, correction=0)
        spread = torch.where(spread > 0, spread, 1.0)
        longest = ((z - center) / spread).norm(dim=-1).max().clamp(min=1.0)
        return cls(center.unsqueeze(0), spread * longest, torch.ones_like(longest))

    def distance(self, z: Tensor) -> Tensor:
        """Distance (...) of latent states (..., m) from the nearest point; from 1 on they are
        outside.

        Leading axes of z begin with those of a stack of regions, if it is one.
        """
        stack, scale = self.reach.shape, self.scale
        scale = scale.reshape(*scale.shape[:-1], *(1,) * (z.ndim - scale.ndim), scale.shape[-1])
        rows = (z.double() / scale).reshape(*stack, -1, z.shape[-1])
        known = (self.points / self.scale.unsqueeze(-2)).double()
        parts = [torch.cdist(part, known).amin(-1) for part in rows.split(ROWS, dim=-2)]
        return (torch.cat(parts, dim=-1) / self.reach.unsqueeze(-1)).reshape(z.shape[:-1])

    def clamp(self, z: Tensor) -> Tensor:
        """States (..., m), those beyond `FARTHEST` from the centre of an ellipsoid brought back to
        there.
        """
        center = self.points[0].to(z)
        apart = ((z - center) / self.scale.to(z)).norm(dim=-1)
        return center + (z - center) / (apart / FARTHEST).clamp(min=1.0).unsqueeze(-1)

    def repeated(self, number: int) -> "Region":
        """Stack of this many equal regions, or stacks of regions."""
        return Region(*(part.expand(number, *part.shape) for part in self._parts()))

    def __getitem__(self, index: int) -> "Region":
        return Region(*(part[index] for part in self._parts()))

    def _parts(self) -> list[Tensor]:
        return [getattr(self, field.name) for field in fields(self)]
