"""The order in which a seed sees its data: a function of (seed, epoch) alone, so that a run can resume anywhere."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor


def batches(seeds: Sequence[int], epoch: int, n: int, batch_size: int) -> Iterator[Tensor]:
    """Index tensors (S, batch_size) of one epoch over n snapshots, each seed shuffled on its own.

    The last, incomplete batch is left out: which snapshots that hits changes every epoch.
    """
    size = min(batch_size, n)
    order = torch.stack([torch.randperm(n, generator=_generator(seed, epoch)) for seed in seeds])
    for start in range(0, n - size + 1, size):
        yield order[:, start : start + size]


def _generator(seed: int, epoch: int) -> torch.Generator:
    return torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
