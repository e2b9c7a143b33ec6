"""Modes of snapshots that need not fit into memory, by passes over chunks of dask."""

import hashlib
import itertools
import operator
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import dask
import dask.array as da
import numpy as np
import torch
import xarray as xr
from scipy import sparse
from torch import Tensor

from romkit.bases.base import Weight, weigher
from romkit.bases.modes import OVERSAMPLING, Decomposition, Summary, Weigher, orthonormalised, ritz
from romkit.core import files, runtime
from romkit.core.errors import FitWarning, InputError, warn
from romkit.core.files import expanded
from romkit.engine.threads import one_thread

T = TypeVar("T")

PASSES = 12
"""Largest number of passes over the data; two or three are usual."""

SETTLED = 1e-7
"""Estimate of the angle between the subspaces found and sought at which passes end."""

VISIBLE = 1e-7
"""Singular values, relative to the first, below which modes may be rounding."""

Tensors = dict[str, Tensor]


def stream(
    state: xr.DataArray,
    rank: int,
    weight: Weight,
    checkpoint: str | os.PathLike | None = None,
    device: torch.device | None = None,
) -> Summary:
    """Mean and leading modes of snapshots that need not fit into memory, by the scheduler of dask
    that is active.

    Args:
        state: (trajectory, time, component) in chunks of dask. If the components lie in several of
            them, a pass reads each twice; a weight that is a matrix joins them instead.
        rank: number of modes.
        weight: W.
        checkpoint: a file from whose last pass an interrupted call goes on; removed at the end.
        device: where blocks are multiplied, the CPU by default.
    """
    blocks = _Blocks(state, weight)
    columns, weigh = min(rank + OVERSAMPLING, blocks.count, blocks.size), blocks.weigh
    ends = np.stack(dask.compute(blocks.array[0, 0], blocks.array[-1, -1])).astype(np.float64)
    file = None if checkpoint is None else expanded(checkpoint)
    identity = {"columns": columns, "n": blocks.size, "count": blocks.count}
    identity |= {"ends": hashlib.sha256(ends.tobytes()).hexdigest()}
    identity |= {"weight": weigh(torch.ones(blocks.size, 1).double()).sum().item()}
    nothing = (0, torch.from_numpy(ends[0]), torch.empty(blocks.size, 0).double())
    begun, mean, subspace = _resumed(file, identity) or nothing
    mean, subspace = mean.to(device), _completed(subspace.to(device), columns, weigh)
    for number in runtime.track(range(begun, PASSES), "passes over the snapshots"):
        sums = _summed(blocks, mean, subspace)
        modes, sigma = _leading_of_sums(sums, weigh)
        kept = min(rank, int((sigma > sigma[:1] * VISIBLE).sum()))
        angle = _angles(subspace, modes, sigma, weigh)[:kept].norm()
        mean = sums["mean"]
        if number > 0 and angle < SETTLED:
            break
        subspace = _completed(modes, columns, weigh)
        if file is not None:
            progress = {"mean": mean, "subspace": subspace}
            files.write(file, "checkpoint", {"streaming": identity, "pass": number + 1}, progress)
    else:
        warn(
            f"the {kept} modes are known up to an angle of {angle:.1e} after {PASSES} passes, since singular values"
            " fall slowly; the last of them are the least certain: drop some, basis.truncated(...)",
            FitWarning,
        )
    if file is not None:
        file.unlink(missing_ok=True)
    return Summary(
        blocks.count, mean, Decomposition(modes[:, :kept].clone(), sigma[:kept], sums["energy"])
    )


def _resumed(file: Path | None, identity: dict[str, object]) -> tuple[int, Tensor, Tensor] | None:
    """Number of the pass that is next, mean and subspace before it, of a checkpoint; None where
    there is none.
    """
    if file is None or not file.is_file():
        return None
    header, progress = files.read(file)
    if header.get("streaming") != identity:
        fix = "remove it, or give the data and the rank that it was begun with"
        raise InputError("checkpoint", expected="one of this very call", got=str(file), fix=fix)
    return header["pass"], progress["mean"], progress["subspace"]


def _completed(modes: Tensor, columns: int, weigh: Weigher) -> Tensor:
    """Modes and, in place of those that rounding took, random directions, always the same."""
    missing = columns - modes.shape[1]
    if not missing:
        return modes
    fresh = torch.randn(
        len(modes), missing, generator=torch.Generator().manual_seed(0), dtype=modes.dtype
    ).to(modes)
    return torch.cat(
        [modes, orthonormalised(fresh - modes @ (modes.mT @ weigh(fresh)), weigh)], dim=-1
    )


class _Blocks:
    """Chunks of snapshots, and the components and weights of each chunk in space."""

    def __init__(self, state: xr.DataArray, weight: Weight):
        mixes = sparse.issparse(weight)
        self.array, self.size = (
            (state.chunk(component=-1) if mixes else state).data,
            state.sizes["component"],
        )
        self.count, self.weigh = state.size // self.size, weigher(weight, self.size)
        ends = np.cumsum([0, *self.array.chunks[2]])
        self.columns = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        own = [weight if mixes or weight is None else np.asarray(weight)[at] for at in self.columns]
        self.weighers = [
            weigher(each, at.stop - at.start) for each, at in zip(own, self.columns, strict=True)
        ]
        self.parts = [self.array] if len(own) == 1 else [self.array[..., at] for at in self.columns]


def _summed(blocks: _Blocks, mean: Tensor, subspace: Tensor) -> Tensors:
    """A pass: Y = Xᵀ X W Q, Qᵀ W Y, energy and mean of the snapshots, X relative to their mean and
    not to that given.

    Sums of chunks are added in pairs, and sums of pairs again: to the same bits on every scheduler.
    """
    dual = blocks.weigh(subspace)
    # in the graph, from which dask takes them again if it loses a worker
    shared = [
        {"mean": dask.delayed(mean[at]), "dual": dask.delayed(dual[at])} for at in blocks.columns
    ]
    made, coordinates = {"dtype": float, "meta": np.empty((0, 0, 0))}, []
    if (
        len(shared) > 1
    ):  # a row of chunks is not kept until its coordinates are known, but read again
        each = zip(blocks.parts, shared, strict=True)
        sizes = (*blocks.array.chunks[:2], dual.shape[1:])
        parts = [x.map_blocks(_coordinates, chunks=sizes, **own, **made) for x, own in each]
        coordinates = [_in_pairs(parts, operator.add).persist()]
    totals = []
    for x, own, weigh in zip(blocks.parts, shared, blocks.weighers, strict=True):
        sums = x.map_blocks(_sums_of_chunk, *coordinates, **own, weigh=dask.delayed(weigh), **made)
        add = dask.delayed(lambda one, other: tuple(map(operator.add, one, other)))
        totals.append(_in_pairs(sums.to_delayed().ravel().tolist(), add))
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        found = dask.compute(*totals)
    image, apart = (
        torch.from_numpy(np.concatenate([part[k] for part in found])).to(mean) for k in (0, 1)
    )
    gram, energy = (
        torch.from_numpy(found[0][2]).to(mean),
        mean.new_tensor(sum(part[3] for part in found)),
    )
    if not bool(energy.isfinite()):
        there = da.isfinite(blocks.array).all((1, 2)).compute()
        got, fix = f"NaN or infinity in trajectory {int(there.argmin())}", "drop those snapshots"
        raise InputError("data", expected="finite snapshots", got=got, fix=fix)
    shift = apart / blocks.count
    moved = shift @ dual
    return {
        "image": image.addr_(shift, moved, alpha=-blocks.count),
        "gram": gram.addr_(moved, moved, alpha=-blocks.count),
        "energy": energy - blocks.count * shift @ blocks.weigh(shift.unsqueeze(-1)).squeeze(-1),
        "mean": mean + shift,
    }


def _in_pairs(parts: list[T], add: Callable[[T, T], T]) -> T:
    """Sum of one or more parts, by a binary tree."""
    while len(parts) > 1:
        parts = [*map(add, parts[::2], parts[1::2]), *parts[len(parts) // 2 * 2 :]]
    return parts[0]


def _coordinates(chunk: np.ndarray, *, mean: Tensor, dual: Tensor) -> np.ndarray:
    """Coordinates (c, t, k) of the snapshots of a chunk (c, t, n)."""
    with one_thread():
        return (_deviations(chunk, mean) @ dual).numpy(force=True).reshape(*chunk.shape[:2], -1)


def _sums_of_chunk(
    chunk: np.ndarray,
    coordinates: np.ndarray | None = None,
    *,
    mean: Tensor,
    dual: Tensor,
    weigh: Weigher,
) -> tuple[np.ndarray, ...]:
    """Sums over the snapshots of a chunk (c, t, n): image (n, k), deviation (n,), gram (k, k),
    energy.
    """
    with one_thread():
        x = _deviations(chunk, mean)
        c = (
            x @ dual
            if coordinates is None
            else torch.from_numpy(coordinates).flatten(0, 1).to(mean)
        )
        energy = torch.dot(x.flatten(), weigh(x.mT).mT.flatten())
        return tuple(each.numpy(force=True) for each in (x.mT @ c, x.sum(0), c.mT @ c, energy))


def _deviations(chunk: np.ndarray, mean: Tensor) -> Tensor:
    """Snapshots (c t, n) of a chunk (c, t, n) minus a mean, in float64."""
    own = np.subtract(chunk.reshape(-1, len(mean)), mean.numpy(force=True), dtype=np.float64)
    return torch.from_numpy(own).to(mean.device)


def _leading_of_sums(sums: Tensors, weigh: Weigher) -> tuple[Tensor, Tensor]:
    """Singular vectors and values of Uᵀ X, which is (Y R⁻¹)ᵀ with R² = Qᵀ W Y.

    Source: Halko, Martinsson, Tropp (2011), Finding structure with randomness, section 5.5,
    Nyström's method.
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
    """Estimates (k,) of the angles between modes and true ones: those to the subspace before, times
    the rate.
    """
    inside = subspace.mT @ weigh(modes)
    rest = modes - subspace @ inside
    return ((rest * weigh(rest)).sum(0) / inside.square().sum(0)).sqrt() * (sigma[-1:] / sigma) ** 2
