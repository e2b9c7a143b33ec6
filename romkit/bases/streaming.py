"""Bases of data that are larger than memory: some snapshots at a time, in a few passes, resumed where they stopped.

Each pass is a step of subspace iteration, Y = Xᵀ X W Q, summed over blocks of snapshots, from random directions on. As
Qᵀ W Y is the square of U σ in X W Q = U R, a pass also gives the singular vectors of Uᵀ X, which are half a step ahead.
Memory is that of a block and of a few matrices of n (r + p) numbers.
"""

import hashlib
import os
import time
from collections.abc import Iterator

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit import sealed
from romkit.bases.decomposition import OVERSAMPLING, Decomposition, Weigher, orthonormalised, ritz
from romkit.data import DIMS
from romkit.errors import FitWarning, InputError, warn
from romkit.files import expanded

PASSES = 12
"""At most; two or three are usual."""

SETTLED = 1e-7
"""Estimate of the angle between the subspaces found and sought at which passes end."""

VISIBLE = 1e-7
"""Singular values, relative to the first, below which modes may be rounding."""

SECONDS = 20.0
"""Between two checkpoints."""

Tensors = dict[str, Tensor]


def native(values: np.ndarray) -> np.ndarray:
    """In the order of bytes of this machine, which torch needs."""
    return values.astype(values.dtype.newbyteorder("="), copy=False)


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
    identity = {"blocks": len(blocks), "columns": columns, "n": blocks.size, "count": blocks.count}
    if checkpoint is not None:
        identity |= {"first": blocks.digest(), "weight": weigh(torch.ones(blocks.size, 1).double()).sum().item()}
    progress = _Progress(checkpoint, identity)
    sums = progress.resumed(device) or _start(blocks, columns, weigh)
    for number in range(progress.begun, PASSES):
        _add_up(number, sums, blocks, weigh, progress)
        modes, sigma = _leading(sums, weigh)
        kept = min(rank, int((sigma > sigma[:1] * VISIBLE).sum()))
        angle = _angles(sums["subspace"], modes, sigma, weigh)[:kept].norm()
        if number > 0 and angle < SETTLED:
            break
        sums |= _sums(_completed(modes, columns, weigh))
    else:
        warn(
            f"the {kept} modes are known up to an angle of {angle:.1e} after {PASSES} passes, since singular values"
            " fall slowly; the last of them are the least certain: drop some, basis.truncated(...)",
            FitWarning,
        )
    progress.finish()
    return sums["mean"], Decomposition(modes[:, :kept].clone(), sigma[:kept], sums["energy"])


def _start(blocks: "_Blocks", columns: int, weigh: Weigher) -> Tensors:
    """Of the first pass, which corrects the mean that it has from the first block."""
    zero = torch.zeros(blocks.size, dtype=torch.float64, device=blocks.device)
    own = {"mean": next(blocks.since(0, zero)).mean(0), "apart": zero, "energy": zero.new_zeros(())}
    return own | _sums(_completed(zero.new_empty(blocks.size, 0), columns, weigh))


def _sums(subspace: Tensor) -> Tensors:
    """Of any pass: Q, and what will be Y and Qᵀ W Y."""
    gram = subspace.new_zeros(subspace.shape[1], subspace.shape[1])
    return {"subspace": subspace, "image": torch.zeros_like(subspace), "gram": gram}


def _completed(modes: Tensor, columns: int, weigh: Weigher) -> Tensor:
    """Modes and, in place of those that rounding took, random directions, always the same."""
    missing = columns - modes.shape[1]
    if not missing:
        return modes
    fresh = torch.randn(len(modes), missing, generator=torch.Generator().manual_seed(0), dtype=modes.dtype).to(modes)
    return torch.cat([modes, orthonormalised(fresh - modes @ (modes.mT @ weigh(fresh)), weigh)], dim=-1)


def _add_up(number: int, sums: Tensors, blocks: "_Blocks", weigh: Weigher, progress: "_Progress") -> None:
    """A pass over the blocks that are left in it. The first one has the mean and the energy beside."""
    dual, first = weigh(sums["subspace"]), number == 0
    for x in progress.watched(number, blocks.since(progress.block, sums["mean"]), sums):
        coordinates = x @ dual
        sums["image"].addmm_(x.mT, coordinates)
        sums["gram"].addmm_(coordinates.mT, coordinates)
        if first:
            sums["apart"] += x.sum(0)
            sums["energy"] += torch.dot(x.flatten(), weigh(x.mT).mT.flatten())
    if first:
        shift = sums["apart"] / blocks.count
        coordinates = shift @ dual
        sums["image"].addr_(shift, coordinates, alpha=-blocks.count)
        sums["gram"].addr_(coordinates, coordinates, alpha=-blocks.count)
        sums["energy"] -= blocks.count * shift @ weigh(shift.unsqueeze(-1)).squeeze(-1)
        sums["mean"] = sums["mean"] + shift


def _leading(sums: Tensors, weigh: Weigher) -> tuple[Tensor, Tensor]:
    """Singular vectors and values of Uᵀ X, which is (Y R⁻¹)ᵀ with R² = Qᵀ W Y.

    Source: Halko, Martinsson, Tropp (2011), Finding structure with randomness, section 5.5, Nyström's method.
    """
    there = sums["gram"].diagonal() > 0
    gram, image = sums["gram"][there][:, there], sums["image"][:, there]
    scale = gram.diagonal().rsqrt()  # or small modes drown in rounding
    values, vectors = torch.linalg.eigh(scale.unsqueeze(-1) * gram * scale)
    keep = values > values[-1:] * len(values) * torch.finfo(values.dtype).eps
    # With the symmetric root columns stay in their order, from large to small.
    image = (image * scale) @ (vectors[:, keep] / values[keep].sqrt() @ vectors[:, keep].mT)
    return ritz(weigh(image).mT, image, image.shape[1], weigh)


def _angles(subspace: Tensor, modes: Tensor, sigma: Tensor, weigh: Weigher) -> Tensor:
    """Estimates (k,) of the angles between modes and true ones: those to the subspace before, times the rate."""
    inside = subspace.mT @ weigh(modes)
    rest = modes - subspace @ inside
    return ((rest * weigh(rest)).sum(0) / inside.square().sum(0)).sqrt() * (sigma[-1:] / sigma) ** 2


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

    def digest(self) -> str:
        """By which a checkpoint knows the first block."""
        return hashlib.sha256(self.state.isel(trajectory=0, time=slice(self.chunk)).values.tobytes()).hexdigest()

    def since(self, first: int, mean: Tensor) -> Iterator[Tensor]:
        """Deviations from a mean, from a block on. They lie in one place, each until the next is asked for."""
        place = mean.new_empty(min(self.chunk, self.state.sizes["time"]), self.size)
        for k, i in self.parts[first:]:
            block = self.state.isel(trajectory=k, time=slice(i, i + self.chunk)).values
            x = torch.from_numpy(native(np.asarray(block))).to(self.device)
            if not bool(x.sum(dtype=torch.float64).isfinite()):
                got, fix = f"NaN or infinity in trajectory {k}, times from {i}", "drop those snapshots"
                raise InputError("data", expected="finite snapshots", got=got, fix=fix)
            yield torch.sub(x, mean, out=place[: len(x)])


class _Progress:
    """Where a call is: pass, block, and what has been summed; in a file, where there is one."""

    def __init__(self, checkpoint: str | os.PathLike | None, identity: dict[str, object]):
        self.file = None if checkpoint is None else expanded(checkpoint)
        self.identity, self.saved = identity, time.monotonic()
        self.begun, self.block, self.sums = 0, 0, {}
        if self.file is not None and self.file.is_file():
            header, self.sums = sealed.read(self.file)
            if header.get("streaming") != identity:
                fix = "remove it, or give the data and the rank that it was begun with"
                raise InputError("checkpoint", expected="one of this very call", got=str(checkpoint), fix=fix)
            self.begun, self.block = header["pass"], header["block"]

    def resumed(self, device: torch.device | None) -> Tensors:
        """What the file has, to be had once: it is large."""
        return {name: self.sums.pop(name).to(device) for name in list(self.sums)}

    def watched(self, number: int, blocks: Iterator[Tensor], sums: Tensors) -> Iterator[Tensor]:
        """The blocks that are left in a pass; what has been summed is saved between them."""
        for x in blocks:
            yield x
            self.block += 1
            if self.file is not None and time.monotonic() - self.saved > SECONDS:
                header = {"streaming": self.identity, "pass": number, "block": self.block}
                sealed.write(self.file, "checkpoint", header, sums)
                self.saved = time.monotonic()
        self.block = 0

    def finish(self) -> None:
        if self.file is not None:
            self.file.unlink(missing_ok=True)
