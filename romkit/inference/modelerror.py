"""Error of a reduced model over contexts and latent states: its mean, and the covariance of what
the mean leaves.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

CONTEXT_LENGTHS, LATENT_LENGTHS = (0.1, 0.2, 0.4, 1.0), (0.5, 1.0, 2.0, 4.0)
"""Lengths of the kernel that are tried, in half widths of the context's range, and in deviations of
latent states.
"""

RIDGES = (1e-6, 1e-4, 1e-2, 1.0, 100.0)
"""Ridges that are tried, relative to the kernel; the largest leaves hardly a correction."""

MODES = 60
"""Largest number of modes of the error; what they leave out counts as noise."""

TREND = 8.0
"""Length of the trend, relative to that of the kernel."""

NEAR = 0.2
"""Share of the training trajectories that a local covariance is made of."""


class Weight(NamedTuple):
    """Inverse of covariances I + V Λ Vᵀ, for numbers in units of the noise that are zero where
    missing.

    Attributes:
        modes: V (N, r).
        inner: (M, 1 or G, r, r), L (I + Lᵀ VᵀV L)⁻¹ Lᵀ with Λ = L Lᵀ.
        logdet: (M,) logarithm of the determinant, of all G samples of a member.
    """

    modes: Tensor
    inner: Tensor
    logdet: Tensor

    @classmethod
    def of(cls, modes: Tensor, covariance: Tensor, there: Tensor) -> "Weight":
        """Weights for V (N, r), Λ (M, r, r), and which numbers are there (M, G, N)."""
        values, vectors = torch.linalg.eigh(covariance.unsqueeze(1))
        root = vectors * values.clamp(min=0).sqrt().unsqueeze(-2)
        gram = modes.mT @ modes if bool(there.all()) else modes.mT @ (there.unsqueeze(-1) * modes)
        middle = torch.eye(root.shape[-1], dtype=root.dtype) + root.mT @ gram @ root
        logdet = torch.logdet(middle).expand(there.shape[:2]).sum(1)
        return cls(modes, root @ torch.linalg.solve(middle, root.mT), logdet)

    def at(self, which: Tensor) -> "Weight":
        """Weights of some members."""
        return Weight(self.modes, self.inner[which], self.logdet[which])

    def product(self, a: Tensor) -> Tensor:
        """aᵀ C⁻¹ a of a (M, G, N, k)."""
        seen = self.modes.mT @ a
        return a.mT @ a - seen.mT @ self.inner @ seen


@dataclass(frozen=True, eq=False)
class ModelError:
    """Errors of a reduced model in units of the noise: their mean, by a Gaussian process over (d,
    w), and scatter.

    Attributes:
        points: (K, p + q) contexts and latent states of the training samples.
        trajectory: (K,) number of the trajectory that each is from.
        lengths: (p + q,) of the kernel.
        alpha: (K, r) coefficients of the mean.
        modes: (N, r), orthonormal.
        left: (K, r) errors that the mean leaves when a sample's own trajectory is left out.
        rest: mean square of what the modes leave out.
        size: p.

    Source: Kaipio, Somersalo (2007), Statistical inverse problems: discretization, model reduction
    and inverse crimes; Rasmussen, Williams (2006), section 5.4.2, of samples left out.
    """

    points: Tensor
    trajectory: Tensor
    lengths: Tensor
    alpha: Tensor
    modes: Tensor
    left: Tensor
    rest: Tensor
    size: int

    @classmethod
    def of(cls, d: Tensor, w: Tensor, trajectory: Tensor, errors: Tensor) -> "ModelError":
        """Fit to errors (K, N); lengths and ridge are those with the smallest errors of
        trajectories left out.

        Errors well below the noise count alike, so that they do not decide.
        """
        modes = torch.linalg.svd(errors, full_matrices=False).Vh[:MODES].mT
        a, points = errors @ modes, torch.cat([d, w], dim=1)
        rest = (errors - a @ modes.mT).square().mean()
        blocks = [torch.nonzero(trajectory == k).squeeze(-1) for k in trajectory.unique()]
        one, spread, best = torch.ones_like(d[0]), w.std(0).clamp(min=1e-9), torch.inf
        for lengths in (
            torch.cat([c * one, z * spread]) for c in CONTEXT_LENGTHS for z in LATENT_LENGTHS
        ):
            kernel = kernel_of(points / lengths, points / lengths)
            for ridge in RIDGES:
                inverse = torch.linalg.inv(kernel + ridge * torch.eye(len(a), dtype=a.dtype))
                alpha, left = inverse @ a, torch.empty_like(a)
                for block in blocks:
                    left[block] = torch.linalg.solve(inverse[block[:, None], block], alpha[block])
                score = float(left.square().sum(1).log1p().mean())
                if score < best:
                    best, found = score, (lengths, alpha, modes, left)
        return cls(points, trajectory, *found, rest, d.shape[1])

    def __call__(self, d: Tensor, w: Tensor) -> Tensor:
        """Mean (M, N) at contexts and latent states."""
        kernel = kernel_of(torch.cat([d, w], dim=1) / self.lengths, self.points / self.lengths)
        return kernel @ self.alpha @ self.modes.mT

    def covariance(self, d: Tensor) -> Tensor:
        """Λ (M, r, r) of what is left at contexts d (M, p), from the nearest training trajectories."""
        gap = torch.cdist(d, self.points[:, : self.size])
        number = len(self.trajectory.unique())
        count = min(
            round(max(5, NEAR * number) * gap.shape[1] / number), int(gap.isfinite().sum(1).min())
        )
        reach = 1.1 * gap.sort(1).values[:, count - 1, None].clamp(min=1e-9)
        weight = (1 - (gap / reach) ** 3).clamp(min=0) ** 3
        weight = weight / weight.sum(1, keepdim=True)
        return torch.einsum("mk,ki,kj->mij", weight, self.left, self.left)


def kernel_of(a: Tensor, b: Tensor) -> Tensor:
    """Matérn kernels of order 3/2 of two lengths: the long one carries a trend across gaps in the
    samples.
    """
    s = 3**0.5 * torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
    return (1 + s) * torch.exp(-s) + (1 + s / TREND) * torch.exp(-s / TREND)
