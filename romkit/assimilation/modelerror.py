"""Error of a reduced model over contexts and latent states: its mean, and the covariance of what
the mean leaves.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.types import Floats, Pair, frozen
from romkit.numerics.smoothers import matern

MODES = 60
"""Largest number of modes of the error; what they leave out counts as noise."""

NEAR, FEWEST = 0.2, 5
"""Share of the training trajectories that a local covariance is made of, and how many at least."""

SMALLEST = 1e-9
"""Smallest length and distance."""


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
    def build(cls, modes: Tensor, covariance: Tensor, observed: Tensor) -> "Weight":
        """Return weights for V (N, r), Λ (M, r, r), and which numbers are observed (M, G, N)."""
        values, vectors = torch.linalg.eigh(covariance.unsqueeze(1))
        roots = values.clamp(min=0).sqrt()
        root = vectors * roots.unsqueeze(-2)  # (M, 1, r, r)
        seen_modes = modes
        if not bool(observed.all()):
            seen_modes = observed.unsqueeze(-1) * modes  # (M, G, N, r)
        gram = modes.mT @ seen_modes
        identity = torch.eye(root.shape[-1], dtype=root.dtype)
        middle = identity + root.mT @ gram @ root
        inner = root @ torch.linalg.solve(middle, root.mT)
        logdets = torch.logdet(middle).expand(observed.shape[:2])
        return cls(modes, inner, logdets.sum(1))

    def at(self, which: Tensor) -> "Weight":
        """Return weights of some members."""
        return Weight(self.modes, self.inner[which], self.logdet[which])

    def product(self, a: Tensor) -> Tensor:
        """aᵀ C⁻¹ a of a (M, G, N, k)."""
        along_modes = self.modes.mT @ a
        explained = along_modes.mT @ self.inner @ along_modes
        return a.mT @ a - explained


@frozen
class ModelError:
    """Errors of a reduced model in units of the noise: their mean, by a Gaussian process over
    contexts d, in half widths of their range, and latent states w; and their scatter.

    Attributes:
        points: (K, p + q) d and w of the training samples.
        trajectory: (K,) number of the trajectory that each is from.
        lengths: (p + q,) of the kernel.
        alpha: (K, r) coefficients of the mean.
        modes: (N, r), orthonormal.
        residuals: (K, r) errors that the mean leaves when a sample's own trajectory is left out.
        rest: mean square of what the modes leave out.
        context_size: p.

    Source: Kaipio, Somersalo (2007), Statistical inverse problems: discretization, model reduction
    and inverse crimes; Rasmussen, Williams (2006), section 5.4.2, of samples left out.
    """

    points: Tensor
    trajectory: Tensor
    lengths: Tensor
    alpha: Tensor
    modes: Tensor
    residuals: Tensor
    rest: Tensor
    context_size: int

    @classmethod
    def fit(
        cls,
        d: Tensor,
        w: Tensor,
        trajectory: Tensor,
        errors: Tensor,
        *,
        ridges: Floats = (1e-6, 1e-4, 1e-2, 1.0, 100.0),
    ) -> "ModelError":
        """Fit to errors (K, N); lengths and ridge are those with the smallest errors of
        trajectories left out.

        Errors well below the noise count alike, so that they do not decide.

        `ridges`: ridges that are tried, relative to the kernel; the largest leaves hardly a
        correction.
        """
        directions = torch.linalg.svd(errors, full_matrices=False).Vh
        modes = directions[:MODES].mT  # (N, r)
        a = errors @ modes  # (K, r)
        unresolved = errors - a @ modes.mT
        points = torch.cat([d, w], dim=1)
        by_size: dict[int, list[Tensor]] = {}
        for fold in trajectory_rows(trajectory):
            by_size.setdefault(len(fold), []).append(fold)
        folds = [torch.stack(rows) for rows in by_size.values()]
        least = torch.inf
        for lengths in _lengths(d, w):
            scaled = points / lengths
            kernel = gaussian_kernel(scaled, scaled)
            for ridge in ridges:
                alpha, residuals = _ridge_regression(kernel, ridge, a, folds)
                squares = residuals.square().sum(1)
                score = float(squares.log1p().mean())
                if score < least:
                    least = score
                    best = lengths, alpha, residuals
        lengths, alpha, residuals = best
        variance = unresolved.square().mean()
        return cls(points, trajectory, lengths, alpha, modes, residuals, variance, d.shape[1])

    def __call__(self, d: Tensor, w: Tensor) -> Tensor:
        """Return mean (M, N) at contexts and latent states."""
        points = torch.cat([d, w], dim=1) / self.lengths
        kernel = gaussian_kernel(points, self.points / self.lengths)
        return kernel @ self.alpha @ self.modes.mT

    def covariance(self, d: Tensor) -> Tensor:
        """Λ (M, r, r) of what is left at contexts d (M, p), from the nearest training trajectories."""
        gap = torch.cdist(d, self.points[:, : self.context_size])  # (M, K)
        samples = gap.shape[1]
        trajectories = len(self.trajectory.unique())
        near = max(FEWEST, NEAR * trajectories)
        count = min(round(near * samples / trajectories), samples)
        farthest = gap.sort(1).values[:, count - 1, None]
        # a little more, so that the farthest one has a weight
        reach = 1.1 * farthest.clamp(min=SMALLEST)
        share = gap / reach
        weight = (1 - share**3).clamp(min=0) ** 3  # tricube
        weight = weight / weight.sum(1, keepdim=True)
        return torch.einsum("mk,ki,kj->mij", weight, self.residuals, self.residuals)


def trajectory_rows(trajectory: Tensor) -> list[Tensor]:
    """Return rows of each trajectory, by its number (K,) at each sample."""
    rows = []
    for number in trajectory.unique():
        is_of_it = trajectory == number
        rows.append(torch.nonzero(is_of_it).squeeze(-1))
    return rows


def _lengths(
    d: Tensor,
    w: Tensor,
    *,
    context_lengths: Floats = (0.1, 0.2, 0.4, 1.0),
    latent_lengths: Floats = (0.5, 1.0, 2.0, 4.0),
) -> Iterator[Tensor]:
    """Lengths (p + q,) of the kernel that are tried.

    `context_lengths`: lengths of the kernel that are tried, in half widths of the context's
    range.

    `latent_lengths`: lengths of the kernel that are tried, in deviations of latent states.
    """
    unit = torch.ones_like(d[0])
    spread = w.std(0).clamp(min=SMALLEST)
    for context_length, latent_length in itertools.product(context_lengths, latent_lengths):
        yield torch.cat([context_length * unit, latent_length * spread])


def _ridge_regression(kernel: Tensor, ridge: float, a: Tensor, folds: list[Tensor]) -> Pair:
    """Return coefficients (K, r) of numbers a (K, r), and what is left of these when a fold is left
    out, of rows (F, k) of folds.

    Both follow from one inverse (Rasmussen, Williams 2006, section 5.4.2).
    """
    identity = torch.eye(len(a), dtype=a.dtype)
    matrix = kernel + ridge * identity
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if int(failed):
        inverse = torch.linalg.inv(matrix)
    else:
        inverse = torch.cholesky_inverse(factor)
    alpha = inverse @ a
    residuals = torch.empty_like(a)
    for rows in folds:
        blocks = inverse[rows.unsqueeze(-1), rows.unsqueeze(-2)]  # (F, k, k)
        residuals[rows] = torch.linalg.solve(blocks, alpha[rows])  # (F, k, r)
    return alpha, residuals


def gaussian_kernel(a: Tensor, b: Tensor, *, trend: float = 8.0) -> Tensor:
    """Matérn kernels of order 3/2 of two lengths: the long one carries a trend across gaps in the
    samples.

    `trend`: length of the trend, relative to that of the kernel.
    """
    # distances of equal points are zero exactly without products of matrices
    distance = torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
    return matern(distance) + matern(distance / trend)
