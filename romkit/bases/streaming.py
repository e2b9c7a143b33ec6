"""Bases of data that are larger than memory: some snapshots at a time, in a few passes, resumed where they stopped.

The first pass merges summaries of blocks of snapshots. Each further one is a step of subspace iteration, Xᵀ X W Q,
summed over the blocks, with the singular values in the subspace beside; passes end when these stay. Memory is that of a
block and of a few matrices of n (r + p) numbers.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit import sealed
from romkit.bases.decomposition import OVERSAMPLING, Decomposition, orthonormalised, signed
from romkit.bases.summary import Summary, Weigher
from romkit.data import DIMS
from romkit.errors import InputError

PASSES = 12
"""Passes after the first, at most; two or three are usual."""

SETTLED = 1e-10
"""Change of singular values, relative to the first, at which passes end."""

VISIBLE = 1e-7
"""Singular values, relative to the first, below which squares of them are rounding."""

SECONDS = 20.0
"""Between two checkpoints."""

Tensors = dict[str, Tensor]


def stream(
    data: xr.Dataset,
    rank: int,
    weigh: Weigher,
    chunk: int,
    checkpoint: str | os.PathLike | None,
    device: torch.device | None = None,
) -> tuple[Tensor, Decomposition]:
    """Mean (n,) and leading modes of the snapshots of a dataset that need not fit into memory.

    Args:
        data: with `state`, read lazily.
        rank: number of modes.
        weigh: u (n, k) -> W u.
        chunk: snapshots in memory at a time.
        checkpoint: a file from which an interrupted call goes on; removed at the end.
        device: where blocks are summed up, the CPU by default.
    """
    blocks = _Blocks(data, chunk, device)
    columns = min(rank + OVERSAMPLING, blocks.count, blocks.size)
    state = _Progress(checkpoint, {"blocks": len(blocks), "columns": columns, "n": blocks.size, "count": blocks.count})

    def summarise(found: Tensors, x: Tensor) -> Tensors:
        own = Summary.of(x, columns, weigh)
        if found:
            before = Summary(int(found["count"]), found["mean"], found["factor"], found["energy"])
            own = before.merged(own, columns, weigh)
        return own._replace(count=torch.tensor(own.count))._asdict()

    def iterate(found: Tensors, x: Tensor) -> Tensors:
        deviation = x - found["mean"]
        coordinates = deviation @ weigh(found["subspace"])
        image, gram = deviation.mT @ coordinates, coordinates.mT @ coordinates
        return {**found, "image": found["image"] + image, "gram": found["gram"] + gram}

    found = state.run(0, blocks, {}, summarise)
    image, before = found.get("factor"), torch.zeros(0, dtype=torch.float64, device=device)
    for number in range(max(1, state.begun), PASSES + 1):
        fresh = {} if number == state.begun else _fresh(found, image, before, weigh)
        found = state.run(number, blocks, fresh, iterate)
        image, before = found["image"], found["before"]
        values, rotation = torch.linalg.eigh(found["gram"])
        sigma = values.flip(0).clamp(min=0).sqrt()
        if len(before) == len(sigma) and (sigma - before)[:rank].abs().max() <= SETTLED * sigma[0]:
            break
        before = sigma
    state.finish()
    modes = signed(found["subspace"] @ rotation.flip(-1))
    keep = min(rank, int((sigma > sigma[0] * VISIBLE).sum()))
    return found["mean"], Decomposition(modes[:, :keep], sigma[:keep], found["energy"])


def _fresh(found: Tensors, image: Tensor, before: Tensor, weigh: Weigher) -> Tensors:
    """What a pass begins with: the subspace that the image of the last one spans, and sums that are zero."""
    subspace = orthonormalised(orthonormalised(image, weigh), weigh)
    sums = {"image": torch.zeros_like(subspace), "gram": subspace.new_zeros(subspace.shape[1], subspace.shape[1])}
    return {"mean": found["mean"], "energy": found["energy"], "subspace": subspace, "before": before, **sums}


class _Blocks:
    """The snapshots of a dataset, (chunk, n) at a time, in their order."""

    def __init__(self, data: xr.Dataset, chunk: int, device: torch.device | None):
        self.state, self.chunk, self.device = data["state"].transpose(*DIMS), chunk, device
        self.size = self.state.sizes["component"]
        trajectories, times = self.state.sizes["trajectory"], self.state.sizes["time"]
        self.count = trajectories * times
        self.parts = [(k, i) for k in range(trajectories) for i in range(0, times, chunk)]

    def __len__(self) -> int:
        return len(self.parts)

    def since(self, first: int) -> Iterator[Tensor]:
        for k, i in self.parts[first:]:
            block = self.state.isel(trajectory=k, time=slice(i, i + self.chunk)).values
            x = torch.from_numpy(np.asarray(block)).to(self.device, torch.float64)
            if not bool(x.isfinite().all()):
                got, fix = f"NaN or infinity in trajectory {k}, times from {i}", "drop those snapshots"
                raise InputError("data", expected="finite snapshots", got=got, fix=fix)
            yield x


class _Progress:
    """Where a call is: pass, block, and what has been summed; in a file, where there is one."""

    def __init__(self, checkpoint: str | os.PathLike | None, identity: dict[str, int]):
        self.file = None if checkpoint is None else Path(checkpoint).expanduser()
        self.identity, self.saved = identity, time.monotonic()
        self.header, self.tensors = None, {}
        if self.file is not None and self.file.is_file():
            self.header, self.tensors = sealed.read(self.file)
            if self.header.get("streaming") != identity:
                fix = "remove it, or give the data and the rank that it was begun with"
                raise InputError("checkpoint", expected="one of this very call", got=str(checkpoint), fix=fix)

    @property
    def begun(self) -> int:
        """The pass that the file is of; 0 without one."""
        return 0 if self.header is None else int(self.header["pass"])

    def run(self, number: int, blocks: _Blocks, found: Tensors, add: Callable[[Tensors, Tensor], Tensors]) -> Tensors:
        """What pass `number` sums up, from the block where it was stopped."""
        begin = 0
        if self.header is not None and self.begun >= number:
            found = {name: tensor.to(blocks.device) for name, tensor in self.tensors.items()}
            begin = len(blocks) if self.begun > number else self.header["block"]
        for index, x in enumerate(blocks.since(begin), begin + 1):
            found = add(found, x)
            if self.file is not None and (index == len(blocks) or time.monotonic() - self.saved > SECONDS):
                header = {"streaming": self.identity, "pass": number, "block": index}
                sealed.write(self.file, "checkpoint", header, {name: tensor.cpu() for name, tensor in found.items()})
                self.saved = time.monotonic()
        return found

    def finish(self) -> None:
        if self.file is not None:
            self.file.unlink(missing_ok=True)
