"""`romkit.basis`: the proper orthogonal decomposition of snapshots."""

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit import arrays
from romkit.bases.base import Basis
from romkit.bases.decomposition import decompose
from romkit.bases.streaming import native, stream
from romkit.bases.weights import Weight, weigher
from romkit.boundary import Count, FilePath, Positive, checked
from romkit.data import DIMS, check_states
from romkit.engine.devices import Device
from romkit.errors import InputError


@checked
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
        weight: W of the inner product, as (n,) positive numbers or a sparse mass matrix (n, n); Σ xₖ² by default.
        tolerance: share of the energy that may be left out; the smallest rank that does is taken.
        chunk: snapshots in memory at a time, for data that are larger than it: a dataset that xarray reads lazily from
            netCDF or zarr, with dask or without. It is read two to four times, more often where singular values fall
            slowly; `romkit.bases.merge` joins bases of parts.
        checkpoint: with `chunk`, a file from which an interrupted call goes on, to the same bits.
        device: "cpu" or "cuda", where to compute; by default where the snapshots are. The basis is on the CPU.

    Returns:
        Mean, modes with Vᵀ W V = I, singular values, energy. In float64, by the method of snapshots up to 1500 of them,
        and else by a randomised decomposition with a seed of its own: the same every time.

    Raises:
        InputError: more modes than snapshots have directions, a weight that is not positive, values not finite.

    Source: Sirovich (1987), Turbulence and the dynamics of coherent structures; Halko, Martinsson, Tropp (2011),
    Finding structure with randomness, algorithm 4.4.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> snapshots = np.random.default_rng(0).normal(size=(50, 3)) @ np.diag([3.0, 1.0, 0.0])
        >>> basis = romkit.basis(snapshots, rank=2)
        >>> basis.modes.shape, round(float(basis.energy[-1]), 6)
        (torch.Size([3, 2]), 1.0)
    """
    x = _snapshots(data, device) if chunk is None else None
    count, n = x.shape if chunk is None else _lazy(data)
    if rank > min(count, n) and tolerance is None:
        expected, fix = f"at most {min(count, n)}, the number of snapshots or of their components", "give a smaller one"
        raise InputError("rank", expected=expected, got=str(rank), fix=fix)
    weigh = weigher(weight, n)
    if chunk is None:
        mean = x.mean(0)
        modes, sigma, energy = decompose(x - mean, rank, weigh)
    else:
        mean, (modes, sigma, energy) = stream(data, rank, weigh, chunk, checkpoint, device)
    if not len(sigma):
        raise InputError("data", expected="snapshots that differ", got="the same in all of them", fix="give others")
    share = (sigma**2).cumsum(0) / energy
    kept = len(sigma) if tolerance is None else _smallest(share, tolerance, rank)
    if tolerance is None and len(sigma) < rank:
        expected, fix = f"at most {len(sigma)}, the directions of these snapshots", "give a smaller one, or a tolerance"
        raise InputError("rank", expected=expected, got=str(rank), fix=fix)
    return Basis(modes[:, :kept], mean, weight, singular_values=sigma[:kept], energy=share[:kept])


def _lazy(data: object) -> tuple[int, int]:
    """N and n of a dataset, whose values are not looked at."""
    if not isinstance(data, xr.Dataset) or "state" not in data or set(data["state"].dims) != set(DIMS):
        fix = "open it with xarray.open_dataset, or leave chunk out"
        raise InputError("data", expected=f"a dataset with state {DIMS}", got=type(data).__name__, fix=fix)
    return data["state"].size // data.sizes["component"], data.sizes["component"]


def _snapshots(data: xr.Dataset | np.ndarray | Tensor, device: torch.device | None) -> Tensor:
    """(N, n), float64."""
    if isinstance(data, xr.Dataset):
        values = native(check_states(data)["state"].transpose(*DIMS).values)
        rows = torch.as_tensor(values.reshape(-1, values.shape[-1])).to(device, torch.float64)
        there = rows.isfinite().all(-1)  # the others are missing
        return rows if bool(there.all()) else rows[there]
    x = arrays.tensor("data", data).detach().to(device, torch.float64)
    if x.ndim != 2 or 0 in x.shape:
        fix = "give a row for each snapshot"
        raise InputError("data", expected="snapshots (N, n)", got=f"shape {tuple(x.shape)}", fix=fix)
    if not bool(x.isfinite().all()):
        raise InputError("data", expected="finite snapshots", got="NaN or infinity", fix="drop those snapshots")
    return x


def _smallest(share: Tensor, tolerance: float, rank: int) -> int:
    """The smallest number of modes that leave no more than `tolerance` of the energy.

    Raises:
        InputError: `rank` modes leave more.
    """
    enough = (1 - share) <= max(tolerance, 1e-15)
    if not bool(enough.any()):
        got = f"{1 - share[-1].item():.1e} left by {len(share)} modes"
        raise InputError("tolerance", expected=f"one that {rank} modes reach", got=got, fix="give a larger rank")
    return int(enough.int().argmax()) + 1
