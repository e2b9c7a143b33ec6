"""`romkit.basis`: the modes of snapshots in memory, or in chunks."""

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.bases.base import Basis, Weight, weigher
from romkit.bases.completion import filled
from romkit.bases.modes import Summary
from romkit.core import tensors
from romkit.core.boundary import Count, FilePath, Positive, validated
from romkit.core.errors import InputError
from romkit.core.types import Array, PathLike
from romkit.data import DIMS, check_states
from romkit.data.schema import variable_of
from romkit.data.units import state_units
from romkit.engine import Device


@validated
def basis(
    data: xr.Dataset | Tensor | Array,
    rank: Count = 64,
    weight: Weight = None,
    tolerance: Positive | None = None,
    *,
    chunk: Count | None = None,
    checkpoint: FilePath | None = None,
    device: Device | None = None,
) -> Basis:
    """Return the leading modes of snapshots: the subspace that is nearest to them in the metric W.

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
    chunks = _state_chunks(data, chunk)
    if chunks is not None and tolerance is None:
        # refuse more modes than there can be, before the data are read
        most = min(chunks[..., 0].size, chunks.shape[-1])
        if rank > most:
            raise InputError(
                "rank",
                expected=f"at most {most}, the number of snapshots or of their components",
                got=rank,
                fix="lower it, or give more snapshots",
            )
    summary = _summary(data, chunks, rank, weight, checkpoint, device)
    if tolerance is not None:
        share = summary.share
        # Shares are sums, and know the rest to rounding alone.
        enough = (1 - share) <= max(tolerance, 1e-15)
        if len(share) and not bool(enough.any()):
            raise InputError(
                "tolerance",
                expected=f"a tolerance that {rank} modes reach",
                got=f"{1 - share[-1].item():.1e} left by {len(share)} modes",
                fix="give a larger rank",
            )
        rank = int((~enough).sum()) + 1
    return _copy_units(data, summary.basis(rank, weight))


def adequate_basis(
    data: xr.Dataset, tolerance: float, most: int, *, few: int = 64, growth: int = 4
) -> Basis:
    """Return the fewest modes of runs that leave out no more than a share of the energy, or the
    leading `most` where these leave out more; `energy` says what they hold.

    `few`, `growth`: modes that are sought first, and how many times more each time that they leave
    out too much.
    """
    chunks = _state_chunks(data, None)
    rank = min(few, most)
    while True:
        summary = _summary(data, chunks, rank)
        too_few = 1 - summary.share > tolerance
        if not bool(too_few.all()):
            rank = int(too_few.sum()) + 1
            break
        if rank == most:
            break
        # a decomposition of so many more modes costs about as many times more
        rank = min(growth * rank, most)
    return _copy_units(data, summary.basis(rank))


def _copy_units(data: object, basis: Basis) -> Basis:
    """Return the basis with the units of data that have some."""
    if isinstance(data, xr.Dataset):
        return basis.with_units(state_units(data))
    return basis


def _state_chunks(data: object, chunk: int | None) -> xr.DataArray | None:
    """Return states (trajectory, time, component) in chunks of dask; None for data in memory."""
    if isinstance(data, xr.Dataset) and "state" in data:
        state = variable_of(data, "state", fix="see the guide, 'Your own data'")
        if chunk is not None:
            return state.chunk(trajectory=1, time=chunk, component=-1)
        if state.chunks:
            return state
        return None
    if chunk is not None:
        raise InputError(
            "data",
            expected=f"a dataset with state {DIMS}",
            got=type(data).__name__,
            fix="open it with romkit.open, or leave chunk out",
        )
    return None


def _snapshots(data: xr.Dataset | Array | Tensor, device: str | torch.device | None) -> Tensor:
    """(N, n), float64."""
    if isinstance(data, xr.Dataset):
        values = check_states(data)["state"].transpose(*DIMS).values
        # torch takes neither foreign byte orders nor extended precision
        rows = np.asarray(values.reshape(-1, values.shape[-1]), dtype=np.float64)
        x = torch.as_tensor(rows).to(device)
        missing = x.isnan().all(-1)
        # a snapshot of which nothing is there is no snapshot; a copy of all others takes memory
        sampled = x[~missing] if bool(missing.any()) else x
        # snapshots (N, n) whose missing components are filled from the leading modes
        if not bool(sampled.isnan().any()):
            return sampled
        mean = sampled.nanmean(0)
        return mean + filled(sampled - mean)
    x = tensors.finite("data", data).detach().to(device, torch.float64)
    tensors.matrix("data", x)
    return x


def _summary(
    data: xr.Dataset | Tensor | Array,
    chunks: xr.DataArray | None,
    rank: int,
    weight: Weight = None,
    checkpoint: PathLike | None = None,
    device: Device | None = None,
) -> Summary:
    """Return mean and leading modes of data, or of their states in chunks of dask."""
    if chunks is None:
        x = _snapshots(data, device)
        return Summary.summarise(x, rank, weigher(weight, x.shape[-1]))
    from romkit.bases.streaming import stream  # with dask, which is slow to import

    return stream(chunks, rank, weight, checkpoint, device)
