"""Regions of the latent space: where a law was fitted, and where a decoder was trained."""

from dataclasses import dataclass

import torch
from torch import Tensor

from romkit.core import tensors
from romkit.core.types import TensorMap


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
    def fit(cls, z: Tensor, times: Tensor | None = None, points: int = 512) -> "Region":
        """Build the region around the latent states (..., N, m) that a law was fitted to.

        Of whole trajectories at `times`, distance 1 is no less than the 95 % quantile of the
        distances of a trajectory from the others: states between waves that only travel, each of
        them a point, are as near as those are.

        Where some of them are missing, the last point fills the places that are left, so that
        regions of as many samples can be stacked. A region keeps `points` samples at most, evenly
        out of all.
        """
        z = z.detach().double()
        *lead, size, _ = z.shape
        length = size
        if times is not None:
            length = len(times)
        run = torch.arange(size) // length
        observed = z.isfinite().all(-1).reshape(-1, size).all(0)
        z = z[..., observed, :]
        run = run[observed.cpu()]
        spread = z.std(-2).cpu()
        # along a latent that never moves, distances count as they are
        scale = tensors.divisor(spread)  # (..., m)
        count = z.shape[-2]
        most = min(points, size)
        rows = tensors.evenly(count, most)
        kept = z[..., rows, :].cpu().contiguous()  # (..., P, m)
        reach = _reach(kept / scale.unsqueeze(-2), run[rows])
        # regions of a stack have as many points each
        missing = most - len(rows)
        filling = kept[..., -1:, :].expand(*lead, missing, -1)
        return cls(torch.cat([kept, filling], dim=-2), scale, reach)

    @classmethod
    def ellipsoid(cls, z: Tensor) -> "Region":
        """Return smallest ellipsoid about the mean of latent states (N, m), with their deviations
        as axes, that holds all.
        """
        center = z.mean(0)
        spread = z.std(0, correction=0)
        spread = tensors.divisor(spread)
        longest = ((z - center) / spread).norm(dim=-1).max().clamp(min=1.0)
        return cls(center.unsqueeze(0), spread * longest, torch.ones_like(longest))

    def distance(self, z: Tensor, at_once: int = 100_000) -> Tensor:
        """Return distance (...) of latent states (..., m) from the nearest point; from 1 on they
        are outside.

        Leading axes of z begin with those of a stack of regions, if it is one. States are taken
        `at_once`, to bound the memory.
        """
        *lead, m = self.scale.shape
        scale = self.scale.reshape(*lead, *((1,) * (z.ndim - self.scale.ndim)), m)
        rows = (z.double() / scale).reshape(*self.reach.shape, -1, m)
        points = (self.points / self.scale.unsqueeze(-2)).double()
        nearest = [torch.cdist(chunk, points).amin(-1) for chunk in rows.split(at_once, dim=-2)]
        distance = torch.cat(nearest, dim=-1)
        distance = distance / self.reach.unsqueeze(-1)
        return distance.reshape(z.shape[:-1])

    def clamp(self, z: Tensor, farthest: float = 1.5) -> Tensor:
        """Return states (..., m), those beyond the farthest distance from the centre of an
        ellipsoid brought back to there: by default half as far again as the farthest training
        datum.
        """
        center = self.points[0].to(z)
        scale = self.scale.to(z)
        away = z - center
        distance = (away / scale).norm(dim=-1, keepdim=True)
        return center + away / (distance / farthest).clamp(min=1.0)

    def repeated(self, number: int) -> "Region":
        """Stack of this many equal regions, or stacks of regions."""
        return self._mapped(lambda numbers: numbers.expand(number, *numbers.shape))

    def __getitem__(self, index: int) -> "Region":
        return self._mapped(lambda numbers: numbers[index])

    def _mapped(self, change: TensorMap) -> "Region":
        return Region(change(self.points), change(self.scale), change(self.reach))


def _reach(points: Tensor, run: Tensor, factor: float = 3.0, least: float = 0.2) -> Tensor:
    """(...) distance that counts as 1, of points (..., P, m) in units of the scale.

    Args:
        points: samples.
        run: (P,) number of the trajectory of each.
        factor: of the 95 % quantile of the distances between neighbouring samples.
        least: distance that counts as 1, since dense samples do not make a law worthless beside them.
    """
    count = points.shape[-2]
    # a point is not its own neighbour
    infinite = torch.full((count,), torch.inf, dtype=points.dtype)
    apart = torch.cdist(points, points) + torch.diag(infinite)  # (..., P, P)
    nearest = torch.zeros_like(points[..., 0])
    if count > 1:
        nearest = apart.amin(-1)
    # of nearly all points, so that a few far away do not widen the region
    reach = factor * nearest.quantile(0.95, dim=-1)
    reach = reach.clamp(min=least)
    runs = run.unique()
    if len(runs) == 1:
        return reach
    is_same_run = run == run.unsqueeze(-1)
    to_other_runs = apart.masked_fill(is_same_run, torch.inf).amin(-1)  # (..., P)
    between = [to_other_runs[..., run == k].amin(-1) for k in runs]
    typical = torch.stack(between, dim=-1).quantile(0.95, dim=-1)
    return torch.maximum(reach, typical)
