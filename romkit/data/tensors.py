"""From a dataset to tensors for training: snapshots, and the affine normalization they are scaled by."""

from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.data.context import context_matrix
from romkit.data.schema import DIMS
from romkit.errors import InputError


class Snapshots(NamedTuple):
    """States and velocities (N, n) with the context (N, p) of each, in physical units."""

    state: Tensor
    velocity: Tensor
    context: Tensor


def trajectories(data: xr.Dataset, name: str, *, fix: str = "add it") -> Tensor:
    """A variable (trajectories, times, n) of a dataset, in float64 on the CPU.

    Raises:
        InputError: there is none.
    """
    if name not in data:
        got = str(sorted(map(str, data.data_vars)))
        raise InputError("data", expected=f"a variable {name!r}", got=got, fix=fix)
    return torch.from_numpy(np.array(data[name].transpose(*DIMS).values, dtype=np.float64, order="C"))


def snapshots(data: xr.Dataset, *, every: int = 1) -> Snapshots:
    """All snapshots of all trajectories, taking each `every`-th time, in float64 on the CPU."""
    data = data.isel(time=slice(None, None, every))
    context = torch.from_numpy(context_matrix(data))
    if context.ndim == 2:
        context = context.unsqueeze(1).expand(-1, data.sizes["time"], -1)
    parts = (trajectories(data, "state"), trajectories(data, "velocity"), context)
    return Snapshots(*(part.flatten(0, 1) for part in parts))
