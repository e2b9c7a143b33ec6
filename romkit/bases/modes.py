"""Modes of snapshots: by the method of snapshots, randomised, streamed from disk, or merged from
parts.
"""

import functools
import hashlib
import itertools
import math
import operator
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import dask
import dask.array as da
import numpy as np
import torch
import xarray as xr
from scipy import sparse
from torch import Tensor

from romkit.bases.base import Basis, Weight, weigher
from romkit.core import files, runtime, tensors
from romkit.core.boundary import Count, FilePath, Numbers, Positive, Widths, validated
from romkit.core.errors import FitWarning, InputError, warn
from romkit.core.files import expanded
from romkit.data import DIMS, check_states
from romkit.data.schema import variable_of
from romkit.engine import Device
from romkit.engine.threads import one_thread

EXACT = 1500
"""Snapshots (or components, if fewer) up to which their Gram matrix is decomposed: half a second,
and 18 MB.
"""

OVERSAMPLING = 20
POWER = 2
"""Additional directions and passes of the randomised decomposition (Halko et al. 2011, section
1.3).
"""

Weigher = Callable[[Tensor], Tensor]

T = TypeVar("T")


class Decomposition(NamedTuple):
    """Modes V (n, r) with Vᵀ W V = I, singular values (r,), and the energy Σ σₖ² of all snapshots,
    of every mode.

    Example:
        >>> import torch
        >>> from romkit.bases import decompose
        >>> modes, singular_values, energy = decompose(torch.diag(torch.tensor([3.0, 2.0, 1.0])).double(), rank=2)
        >>> modes.shape, singular_values, energy
        (torch.Size([3, 2]), tensor([3., 2.], dtype=torch.float64), tensor(14., dtype=torch.float64))
    """

    modes: Tensor
    singular_values: Tensor
    energy: Tensor


@validated
def decompose(x: Numbers, rank: Count, weigh: Weigher = lambda u: u) -> Decomposition:
    """The leading left singular vectors of centred snapshots, orthonormal in a metric.

    Up to `EXACT` snapshots or components by the Gram matrix of the smaller side (Sirovich 1987),
    and more of both by random directions and two passes (Halko, Martinsson, Tropp 2011). A
    Rayleigh-Ritz step on the subspace restores what squaring loses: singular values are accurate to
    rounding of the largest one.

    Args:
        x: (N, n) snapshots minus their mean, float64.
        rank: number of modes at most; directions that are zero to rounding are left out.
        weigh: u (n, k) -> W u.

    Raises:
        InputError: numbers that are not finite.

    Example:
        >>> import torch
        >>> from romkit.bases import decompose
        >>> x = torch.randn(100, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        >>> found = decompose(x - x.mean(0), rank=3)
        >>> torch.allclose(found.modes.mT @ found.modes, torch.eye(3, dtype=torch.float64))
        True
    """
    tensors.matrix("x", x)
    weighted = weigh(x.mT).mT  # (N, n)
    energy = (x * weighted).sum()
    if not energy.item() < math.inf:
        fix = "give them in units in which they are not huge"
        raise InputError(
            "x",
            expected="squares that a float holds",
            got=f"an energy of {energy.item():g}",
            fix=fix,
        )
    if not energy > 0:
        return Decomposition(x.new_zeros(x.shape[1], 0), x.new_zeros(0), energy)
    return Decomposition(
        *ritz(weighted, _directions(x, weighted, rank, weigh), rank, weigh), energy
    )


def ritz(weighted: Tensor, subspace: Tensor, rank: int, weigh: Weigher) -> tuple[Tensor, Tensor]:
    """Leading singular vectors (n, r) and values (r,) of X within a subspace (n, k), by Rayleigh
    and Ritz.

    The largest component of a mode is positive, so that rounding does not decide its sign.

    Args:
        weighted: X W, (N, n).
        subspace: columns that span it.
        rank: number of modes at most; directions that are zero to rounding are left out.
        weigh: u (n, k) -> W u.
    """
    for _ in range(2):  # twice is enough (Giraud et al. 2005)
        subspace = orthonormalised(subspace, weigh)
    _, sigma, rotation = torch.linalg.svd(weighted @ subspace, full_matrices=False)
    kept = min(
        rank, int((sigma > sigma[:1] * torch.finfo(sigma.dtype).eps * max(weighted.shape)).sum())
    )
    modes = subspace @ rotation[:kept].mT
    return modes * modes.gather(0, modes.abs().argmax(0, keepdim=True)).sign(), sigma[:kept]


def _directions(x: Tensor, weighted: Tensor, rank: int, weigh: Weigher) -> Tensor:
    """(n, k) columns that span the leading modes, and some more where they are cheap."""
    count, n = x.shape
    if count <= min(n, EXACT):
        found = x.mT @ _leading(x @ weighted.mT, rank)
    elif n <= EXACT:
        unit = orthonormalised(torch.eye(n, dtype=x.dtype, device=x.device), weigh)
        found = unit @ _leading(unit.mT @ (weighted.mT @ weighted) @ unit, rank)
    else:
        return _random_directions(x, weighted, rank)
    # Squares of small singular values are lost in rounding; random directions see them.
    return (
        found if found.shape[-1] >= min(rank, count, n) else _random_directions(x, weighted, rank)
    )


def _random_directions(x: Tensor, weighted: Tensor, rank: int) -> Tensor:
    """(n, k) random combinations of snapshots, turned towards the leading modes by `POWER` passes."""
    generator = torch.Generator().manual_seed(0)  # a basis is a function of its snapshots
    columns = min(rank + OVERSAMPLING, *x.shape)
    subspace = x.mT @ torch.randn(len(x), columns, generator=generator, dtype=x.dtype).to(x.device)
    for _ in range(POWER):
        subspace = x.mT @ torch.linalg.qr(weighted @ torch.linalg.qr(subspace).Q).Q
    return subspace


def _leading(gram: Tensor, rank: int) -> Tensor:
    """Eigenvectors of the largest eigenvalues, as far as these are more than rounding."""
    values, vectors = torch.linalg.eigh(gram)
    largest = slice(-min(rank + OVERSAMPLING, len(values)), None)
    keep = values[largest] > values[-1] * len(values) * torch.finfo(values.dtype).eps
    return vectors[:, largest][:, keep].flip(-1)


def orthonormalised(u: Tensor, weigh: Weigher) -> Tensor:
    """Columns with the same span that are orthonormal in the metric."""
    u = u / u.norm(dim=0)
    values, vectors = torch.linalg.eigh(u.mT @ weigh(u))
    keep = values > values[-1:] * torch.finfo(u.dtype).eps * len(values)
    return u @ (vectors[:, keep] / values[keep].sqrt())


class Summary(NamedTuple):
    """Number of snapshots, their mean (n,), and the decomposition of their deviations.

    Mean and energy are exact; modes that do not fit into the columns are left out.
    """

    count: int
    mean: Tensor
    found: Decomposition

    @classmethod
    def of(cls, x: Tensor, columns: int, weigh: Weigher) -> "Summary":
        """Summary of snapshots (N, n)."""
        mean = x.mean(0)
        return cls(len(x), mean, decompose(x - mean, columns, weigh))

    def merged(self, other: "Summary", columns: int, weigh: Weigher) -> "Summary":
        """Summary of both sets of snapshots.

        Source: Himpe, Leibner, Rave (2018), Hierarchical approximate proper orthogonal
        decomposition; Ross et al. (2008) for the mean.
        """
        count = self.count + other.count
        apart = (self.count * other.count / count) ** 0.5 * (self.mean - other.mean)
        factors = (each.found.modes * each.found.singular_values for each in (self, other))
        found = decompose(torch.cat([*factors, apart.unsqueeze(-1)], dim=-1).mT, columns, weigh)
        energy = (
            self.found.energy + other.found.energy + apart @ weigh(apart.unsqueeze(-1)).squeeze(-1)
        )
        mean = (self.count * self.mean + other.count * other.mean) / count
        return Summary(count, mean, found._replace(energy=energy))

    @property
    def share(self) -> Tensor:
        """(k,) share of the energy that the first modes hold."""
        return self.found.singular_values.square().cumsum(0) / self.found.energy

    def basis(self, rank: int, weight: Weight = None) -> Basis:
        """Basis of the first `rank` modes; W is that of the decomposition.

        Raises:
            InputError: fewer modes.
        """
        if rank > (found := len(self.share)):
            expected = f"at most {found}, the directions of the snapshots"
            raise InputError(
                "rank", expected=expected, got=rank, fix="lower it, or give snapshots that differ"
            )
        modes, sigma = self.found.modes[:, :rank], self.found.singular_values[:rank]
        return Basis(modes, self.mean, weight, singular_values=sigma, energy=self.share[:rank])


@validated
def merge(parts: Sequence[Basis], counts: Widths, rank: Count = 64, weight: Weight = None) -> Basis:
    """The basis of snapshots of which only the bases of parts are at hand; merged ones can be
    merged again.

    Mean and energy are exact. Modes are those of what the parts kept: give these more modes than
    are asked for here. The energy that is left out is at most that of the best basis and what the
    parts left out; `energy` counts both.

    Args:
        parts: bases by `romkit.basis` or `merge`.
        counts: the number of snapshots of each.
        rank: number of modes.
        weight: W of the inner product, that of the parts.

    Raises:
        InputError: parts of different sizes, without energy, or in another inner product; more
            modes than they have.

    Source: Himpe, Leibner, Rave (2018), Hierarchical approximate proper orthogonal decomposition.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> snapshots = np.random.default_rng(0).normal(size=(50, 6))
        >>> parts = [romkit.basis(snapshots[:20], rank=6), romkit.basis(snapshots[20:], rank=6)]
        >>> merged, whole = romkit.bases.merge(parts, [20, 30], rank=3), romkit.basis(snapshots, rank=3)
        >>> np.allclose(merged.singular_values, whole.singular_values)
        True
    """
    if len(parts) != len(counts):
        got, fix = (
            f"{len(counts)} for {len(parts)} parts",
            "give the number of snapshots of each part",
        )
        raise InputError("counts", expected="one for each part", got=got, fix=fix)
    weigh, summaries = weigher(weight, parts[0].size), []
    columns = max(rank, *(part.rank for part in parts)) + OVERSAMPLING
    for k, (part, count) in enumerate(zip(parts, counts, strict=True)):
        if part.size != parts[0].size:
            got, fix = f"{part.size} components, not {parts[0].size}", "use data on one grid"
            raise InputError(f"parts[{k}]", expected="a basis like the first", got=got, fix=fix)
        sigma, share = part.singular_values, part.energy
        if sigma is None or share is None:
            fix = "make it by romkit.basis"
            raise InputError(
                f"parts[{k}]",
                expected="a basis with singular values and energy",
                got="none",
                fix=fix,
            )
        if not torch.allclose(
            weigh(part.modes), part.dual, rtol=1e-8, atol=1e-12 * part.dual.abs().max().item()
        ):
            fix = "give the weight of the parts"
            raise InputError("weight", expected=f"that of parts[{k}]", got="another", fix=fix)
        found = Decomposition(part.modes, sigma, sigma.square().sum() / share[-1])
        summaries.append(Summary(count, part.mean, found))
    whole = functools.reduce(lambda a, b: a.merged(b, columns, weigh), summaries)
    return whole.basis(rank, weight)


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


@validated
def basis(
    data: xr.Dataset | Tensor | np.ndarray,
    rank: Count = 64,
    weight: Weight = None,
    tolerance: Positive | None = None,
    *,
    chunk: Count | None = None,
    checkpoint: FilePath | None = None,
    device: Device | None = None,
) -> Basis:
    """The leading modes of snapshots: the subspace that is nearest to them in the metric W.

    Args:
        data: a dataset in romkit's schema, or snapshots (N, n).
        rank: number r of modes; with a tolerance, the largest.
        weight: W of the inner product, as (n,) positive numbers or a sparse mass matrix (n, n); Σ
            xₖ² by default.
        tolerance: share of the energy that may be left out; the smallest rank that does is taken.
        chunk: snapshots in a chunk, for data that are larger than memory: a dataset that xarray
            reads lazily. Data that are in chunks of dask, along any dimension, keep theirs. Dask
            reads them two to four times, more often where singular values fall slowly, in its
            threads or on the cluster of its client, and each thread holds a chunk and n (r + 20)
            numbers. `romkit.bases.merge` joins bases of parts.
        checkpoint: of chunks, a file from which an interrupted call goes on after its last pass, to
            the same bits.
        device: "cpu" or "cuda", where to compute; by default where the snapshots are. The basis is
            on the CPU.

    Returns:
        Mean, modes with Vᵀ W V = I, singular values, energy. In float64, by the method of snapshots
        up to 1500 of them, and else by a randomised decomposition with a seed of its own: the same
        every time. Of chunks, singular values down to 1e-7 of the first.

    Raises:
        InputError: more modes than snapshots have directions, a weight that is not positive, values
            not finite.

    Source: Sirovich (1987), Turbulence and the dynamics of coherent structures; Halko, Martinsson,
    Tropp (2011), Finding structure with randomness, algorithm 4.4.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> snapshots = np.random.default_rng(0).normal(size=(50, 3)) @ np.diag([3.0, 1.0, 0.0])
        >>> basis = romkit.basis(snapshots, rank=2)
        >>> basis.modes.shape, round(float(basis.energy[-1]), 6)
        (torch.Size([3, 2]), 1.0)
    """
    chunks = _in_chunks(data, chunk)
    if chunks is None:
        x = _snapshots(data, device)
        whole = Summary.of(x, rank, weigher(weight, x.shape[-1]))
    else:
        most = min(chunks[..., 0].size, chunks.shape[-1])
        if tolerance is None and rank > most:  # refused before the data are read
            expected = f"at most {most}, the number of snapshots or of their components"
            raise InputError(
                "rank", expected=expected, got=rank, fix="lower it, or give more snapshots"
            )
        whole = stream(chunks, rank, weight, checkpoint, device)
    return whole.basis(
        rank if tolerance is None else _smallest(whole.share, tolerance, rank), weight
    )


def _in_chunks(data: object, chunk: int | None) -> xr.DataArray | None:
    """States (trajectory, time, component) in chunks of dask; None for data in memory."""
    if isinstance(data, xr.Dataset) and "state" in data:
        state = variable_of(data, "state", fix="see the guide, 'Your own data'")
        if chunk is None:
            return state if state.chunks else None
        return state.chunk(trajectory=1, time=chunk, component=-1)
    if chunk is not None:
        fix = "open it with romkit.open, or leave chunk out"
        raise InputError(
            "data", expected=f"a dataset with state {DIMS}", got=type(data).__name__, fix=fix
        )
    return None


def _snapshots(data: xr.Dataset | np.ndarray | Tensor, device: torch.device | None) -> Tensor:
    """(N, n), float64."""
    if isinstance(data, xr.Dataset):
        values = check_states(data)["state"].transpose(*DIMS).values
        values = values.astype(
            values.dtype.newbyteorder("="), copy=False
        )  # that of the machine, which torch needs
        rows = torch.as_tensor(values.reshape(-1, values.shape[-1])).to(device, torch.float64)
        there = rows.isfinite().all(-1)  # the others are missing
        return rows if bool(there.all()) else rows[there]
    x = tensors.finite("data", data).detach().to(device, torch.float64)
    tensors.matrix("data", x)
    return x


def _smallest(share: Tensor, tolerance: float, rank: int) -> int:
    """The smallest number of modes that leave no more than `tolerance` of the energy.

    Raises:
        InputError: `rank` modes leave more.
    """
    enough = (1 - share) <= max(tolerance, 1e-15)
    if len(share) and not bool(enough.any()):
        got = f"{1 - share[-1].item():.1e} left by {len(share)} modes"
        expected = f"a tolerance that {rank} modes reach"
        raise InputError("tolerance", expected=expected, got=got, fix="give a larger rank")
    return int((~enough).sum()) + 1
