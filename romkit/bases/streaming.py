"""Modes of snapshots that need not fit into memory, by passes over chunks of dask."""

import hashlib
import itertools
import operator
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import dask
import dask.array as da
import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.bases.base import SparseMatrix, Weight, weigher
from romkit.bases.modes import OVERSAMPLING, Decomposition, Summary, Weigher, orthonormalised, ritz
from romkit.core import files, runtime
from romkit.core.errors import FitWarning, InputError, warn
from romkit.core.files import expanded
from romkit.core.types import Array, Entries, Kwargs, Pair, PathLike, Shape, Tensors
from romkit.engine.threads import one_thread

T = TypeVar("T")

PASSES = 12
"""Largest number of passes over the data; two or three are usual."""

MADE = {"dtype": float, "meta": np.empty((0, 0, 0))}
"""Kind of the blocks that dask makes, which it would find by calling the function."""


def stream(
    state: xr.DataArray,
    rank: int,
    weight: Weight,
    checkpoint: PathLike | None = None,
    device: str | torch.device | None = None,
    *,
    settled: float = 1e-7,
    smallest: float = 1e-7,
) -> Summary:
    """Return mean and leading modes of snapshots that need not fit into memory, by the scheduler of
    dask that is active.

    Args:
        state: (trajectory, time, component) in chunks of dask. If the components lie in several of
            them, a pass reads each twice; a weight that is a matrix joins them instead.
        rank: number of modes.
        weight: W.
        checkpoint: a file from whose last pass an interrupted call goes on; removed at the end.
        device: where blocks are multiplied, the CPU by default.
        settled: estimate of the angle between the subspaces found and sought at which passes end.
        smallest: singular values, relative to the first, below which modes may be rounding.
    """
    blocks = _Blocks(state, weight)
    columns = min(rank + OVERSAMPLING, blocks.count, blocks.size)
    weigh = blocks.weigh
    first_and_last = dask.compute(blocks.array[0, 0], blocks.array[-1, -1])
    ends = np.stack(first_and_last).astype(np.float64)  # (2, n)
    file = None if checkpoint is None else expanded(checkpoint)
    identity = {
        "columns": columns,
        "n": blocks.size,
        "count": blocks.count,
        "ends": hashlib.sha256(ends.tobytes()).hexdigest(),
        "weight": weigh(torch.ones(blocks.size, 1).double()).sum().item(),
    }
    resumed = _resumed(file, identity)
    if resumed is None:
        # The first snapshot stands in for the mean, which a pass computes.
        resumed = (0, torch.from_numpy(ends[0]), torch.empty(blocks.size, 0).double())
    begun, mean, modes = resumed
    mean = mean.to(device)
    subspace = _completed(modes.to(device), columns, weigh)
    for number in runtime.track(range(begun, PASSES), "passes over the snapshots"):
        sums = _summed(blocks, mean, subspace)
        modes, sigma = _leading_modes(sums, weigh)
        visible = int((sigma > sigma[:1] * smallest).sum())
        kept = min(rank, visible)
        angle = _angles(subspace, modes, sigma, weigh)[:kept].norm()
        mean = sums["mean"]
        # The first pass was about another mean.
        if number > 0 and angle < settled:
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
    deviations = Decomposition(modes[:, :kept].clone(), sigma[:kept], sums["energy"])
    return Summary(blocks.count, mean, deviations)


def _resumed(file: Path | None, identity: Entries) -> tuple[int, Tensor, Tensor] | None:
    """Return number of the pass that is next, mean and subspace before it, of a checkpoint; None
    where there is none.
    """
    if file is None or not file.is_file():
        return None
    header, progress = files.read(file)
    if header.get("streaming") != identity:
        raise InputError(
            "checkpoint",
            expected="one of this very call",
            got=str(file),
            fix="remove it, or give the data and the rank that it was begun with",
        )
    return int(str(header["pass"])), progress["mean"], progress["subspace"]


def _completed(modes: Tensor, columns: int, weigh: Weigher) -> Tensor:
    """Modes and, in place of those that rounding took, random directions, always the same."""
    missing = columns - modes.shape[1]
    if not missing:
        return modes
    generator = torch.Generator().manual_seed(0)
    random = torch.randn(len(modes), missing, generator=generator, dtype=modes.dtype).to(modes)
    outside = random - modes @ (modes.mT @ weigh(random))  # (n, k)
    return torch.cat([modes, orthonormalised(outside, weigh)], dim=-1)


class _Blocks:
    """Chunks of snapshots, and the components and weights of each chunk in space."""

    def __init__(self, state: xr.DataArray, weight: Weight):
        mixes = isinstance(weight, SparseMatrix)
        if mixes:
            # A mass matrix couples components, so that a chunk has to hold all of them.
            state = state.chunk(component=-1)
        self.array = state.data
        self.size = state.sizes["component"]
        self.count = state.size // self.size
        self.weigh = weigher(weight, self.size)
        self.columns, self.weighers = [], []
        ends = np.cumsum([0, *self.array.chunks[2]])
        for start, stop in itertools.pairwise(ends.tolist()):
            columns = slice(start, stop)
            local = weight
            if weight is not None and not mixes:
                local = np.asarray(weight)[columns]
            self.columns.append(columns)
            self.weighers.append(weigher(local, stop - start))
        self.arrays = [self.array]
        if len(self.columns) > 1:
            self.arrays = [self.array[..., columns] for columns in self.columns]


def _summed(blocks: _Blocks, mean: Tensor, subspace: Tensor) -> Tensors:
    """Return a pass: Y = Xᵀ X W Q, Qᵀ W Y, energy and mean of the snapshots, X relative to their
    mean and not to that given.

    Sums of chunks are added in pairs, and sums of pairs again: to the same bits on every scheduler.
    """
    dual = blocks.weigh(subspace)
    # Mean and dual in the graph, from which dask takes them again if it loses a worker.
    shared = [
        {"mean": dask.delayed(mean[columns]), "dual": dask.delayed(dual[columns])}
        for columns in blocks.columns
    ]
    coordinates = []
    if len(shared) > 1:
        # A row of chunks is not kept until its coordinates are known, but read again.
        coordinates = [_row_coordinates(blocks, shared, dual.shape[1:])]
    totals = []
    for array, tensors, weigh in zip(blocks.arrays, shared, blocks.weighers, strict=True):
        sums = array.map_blocks(
            _chunk_sums, *coordinates, **tensors, weigh=dask.delayed(weigh), **MADE
        )
        add = dask.delayed(lambda a, b: tuple(map(operator.add, a, b)))
        totals.append(_sum_pairwise(sums.to_delayed().ravel().tolist(), add))
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        sums_by_columns = dask.compute(*totals)
    images, deviations, grams, energies = zip(*sums_by_columns, strict=True)
    image = torch.from_numpy(np.concatenate(images)).to(mean)  # (n, k)
    deviation = torch.from_numpy(np.concatenate(deviations)).to(mean)  # (n,)
    # Coordinates are those of all components: every column of chunks has the same Gram matrix.
    gram = torch.from_numpy(grams[0]).to(mean)  # (k, k)
    energy = mean.new_tensor(sum(energies))
    if not bool(energy.isfinite()):
        # raise InputError that names the first trajectory with NaN or infinity
        complete = da.isfinite(blocks.array).all((1, 2)).compute()
        raise InputError(
            "data",
            expected="finite snapshots",
            got=f"NaN or infinity in trajectory {int(complete.argmin())}",
            fix="drop those snapshots",
        )
    shift = deviation / blocks.count  # (n,) from the mean that was given to that of the snapshots
    moved = shift @ dual  # (k,)
    return {
        "image": image.addr_(shift, moved, alpha=-blocks.count),
        "gram": gram.addr_(moved, moved, alpha=-blocks.count),
        "energy": energy - blocks.count * shift @ blocks.weigh(shift.unsqueeze(-1)).squeeze(-1),
        "mean": mean + shift,
    }


def _row_coordinates(blocks: _Blocks, shared: list[Kwargs], width: Shape) -> da.Array:
    """Return coordinates (trajectory, time, k) of all snapshots, in the memory of dask."""
    sizes = (*blocks.array.chunks[:2], width)
    summands = [
        array.map_blocks(_coordinates, chunks=sizes, **tensors, **MADE)
        for array, tensors in zip(blocks.arrays, shared, strict=True)
    ]
    return _sum_pairwise(summands, operator.add).persist()


def _sum_pairwise(summands: list[T], add: Callable[[T, T], T]) -> T:
    """Return sum of one or more summands, by a binary tree."""
    while len(summands) > 1:
        pairs = map(add, summands[::2], summands[1::2])
        unpaired = summands[len(summands) // 2 * 2 :]
        summands = [*pairs, *unpaired]
    return summands[0]


def _coordinates(chunk: Array, *, mean: Tensor, dual: Tensor) -> Array:
    """Return coordinates (c, t, k) of the snapshots of a chunk (c, t, n)."""
    with one_thread():
        return (_deviations(chunk, mean) @ dual).numpy(force=True).reshape(*chunk.shape[:2], -1)


def _chunk_sums(
    chunk: Array,
    coordinates: Array | None = None,
    *,
    mean: Tensor,
    dual: Tensor,
    weigh: Weigher,
) -> tuple[Array, ...]:
    """Return sums over the snapshots of a chunk (c, t, n): image (n, k), deviation (n,), gram (k,
    k), energy.
    """
    with one_thread():
        x = _deviations(chunk, mean)  # (c t, n)
        if coordinates is None:
            y = x @ dual
        else:
            y = torch.from_numpy(coordinates).flatten(0, 1).to(mean)  # (c t, k)
        energy = torch.dot(x.flatten(), weigh(x.mT).mT.flatten())
        sums = (x.mT @ y, x.sum(0), y.mT @ y, energy)
        return tuple(total.numpy(force=True) for total in sums)


def _deviations(chunk: Array, mean: Tensor) -> Tensor:
    """Return snapshots (c t, n) of a chunk (c, t, n) minus a mean, in float64."""
    rows = chunk.reshape(-1, len(mean))
    deviations = np.subtract(rows, mean.numpy(force=True), dtype=np.float64)
    return torch.from_numpy(deviations).to(mean.device)


def _leading_modes(sums: Tensors, weigh: Weigher, *, rounding: float = 1e-10) -> Pair:
    """Singular vectors and values of Uᵀ X, which is (Y R⁻¹)ᵀ with R² = Qᵀ W Y.

    `rounding`: sizes of the snapshots' coordinates along a column of a subspace, relative to
    the largest, below which they are rounding: along directions that the snapshots do not have.

    Source: Halko, Martinsson, Tropp (2011), Finding structure with randomness, section 5.5,
    Nyström's method.
    """
    squares = sums["gram"].diagonal()
    # scaled to the size of the others, columns of rounding would count as much as they
    significant = squares > squares.max() * rounding**2
    gram = sums["gram"][significant][:, significant]
    image = sums["image"][:, significant]
    scale = gram.diagonal().rsqrt()  # or small modes drown in rounding
    values, vectors = torch.linalg.eigh(scale.unsqueeze(-1) * gram * scale)
    keep = values > values[-1:] * len(values) * torch.finfo(values.dtype).eps
    # With the symmetric root columns stay in their order, from large to small.
    root = vectors[:, keep] / values[keep].sqrt() @ vectors[:, keep].mT
    image = (image * scale) @ root
    return ritz(weigh(image).mT, image, image.shape[1], weigh)


def _angles(subspace: Tensor, modes: Tensor, sigma: Tensor, weigh: Weigher) -> Tensor:
    """Estimates (k,) of the angles between modes and true ones: those to the subspace before, times
    the rate.
    """
    inside = subspace.mT @ weigh(modes)
    outside = modes - subspace @ inside
    sine = (outside * weigh(outside)).sum(0)
    cosine = inside.square().sum(0)
    # A pass of the power method shrinks the error of mode k by (σ_last / σ_k)².
    rate = (sigma[-1:] / sigma) ** 2
    return (sine / cosine).sqrt() * rate
