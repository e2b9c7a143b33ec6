"""From snapshots to batches: per seed its own order and its own noise, functions of (seed, epoch) alone.

So a run can be resumed at any epoch, and a seed sees the same data alone as in a stack.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import xarray as xr
from torch import Tensor

from romkit.data import snapshots
from romkit.projections import Normalization


class Batch(NamedTuple):
    """States y and velocities dy (..., n) with contexts c (..., p), in normalised coordinates on one device."""

    y: Tensor
    dy: Tensor
    c: Tensor

    @classmethod
    def from_dataset(cls, data: xr.Dataset, normalization: Normalization, every: int) -> "Batch":
        """Each `every`-th snapshot (N, ...) of a dataset."""
        state, velocity, context = (tensor.double() for tensor in snapshots(data, every=every))
        exact = copy.deepcopy(normalization).double()  # in float32 a large mean would swallow what varies about it
        parts = (exact.normalise(state), exact.normalise_tangent(velocity), exact.normalise_context(context))
        return cls(*(part.to(normalization.state_scale) for part in parts))


class ExtendedBatch(NamedTuple):
    """`Batch` with what a term of the loss attached to each snapshot, (..., k)."""

    y: Tensor
    dy: Tensor
    c: Tensor
    extra: Tensor


AnyBatch = Batch | ExtendedBatch


class Noise(NamedTuple):
    """Standard deviations of the Gaussian noise on states and on contexts, per component, normalised coordinates."""

    state: Tensor
    context: Tensor


def batches(
    rows: AnyBatch, seeds: Sequence[int], epoch: int, batch_size: int, noise: Noise | None
) -> Iterator[AnyBatch]:
    """Batches (S, batch_size, ...) of one epoch over rows (N, ...), each seed shuffled and perturbed on its own.

    Velocities stay clean. The last, incomplete batch is left out: which rows that hits changes every
    epoch.
    """
    n = len(rows.y)
    generators = [torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63) for seed in seeds]
    order = torch.stack([torch.randperm(n, generator=generator) for generator in generators]).to(rows.y.device)
    for start in range(0, n - min(batch_size, n) + 1, batch_size):
        batch = order[:, start : start + batch_size]
        chosen = rows._make(tensor[batch] for tensor in rows)
        yield chosen if noise is None else _perturbed(chosen, noise, generators)


def batches_per_epoch(n: int, batch_size: int) -> int:
    """How many batches `batches` yields."""
    return max(1, n // batch_size)


def _perturbed(rows: AnyBatch, noise: Noise, generators: Sequence[torch.Generator]) -> AnyBatch:
    def draw(like: Tensor, sigma: Tensor) -> Tensor:
        each = [torch.randn(like.shape[1:], generator=generator) for generator in generators]
        return like + torch.stack(each).to(like) * sigma

    return rows._replace(y=draw(rows.y, noise.state), c=draw(rows.c, noise.context))
