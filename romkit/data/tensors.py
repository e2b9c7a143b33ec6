"""From a dataset to tensors for training: snapshots, and the affine normalization they are scaled by."""

from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.data.context import context_matrix
from romkit.data.schema import DIMS


class Snapshots(NamedTuple):
    """States and velocities (N, n) with the context (N, p) of each, in physical units."""

    state: Tensor
    velocity: Tensor
    context: Tensor


def snapshots(data: xr.Dataset, *, every: int = 1) -> Snapshots:
    """All snapshots of all trajectories, taking each `every`-th time, in float64 on the CPU."""
    data = data.isel(time=slice(None, None, every))
    state, velocity = (torch.from_numpy(_flat(data[name])) for name in ("state", "velocity"))
    context = torch.from_numpy(context_matrix(data))
    if context.ndim == 2:
        context = context.unsqueeze(1).expand(-1, data.sizes["time"], -1)
    return Snapshots(state, velocity, context.flatten(0, 1))


def _flat(variable: xr.DataArray) -> np.ndarray:
    values = variable.transpose(*DIMS).values.astype(np.float64)
    return np.ascontiguousarray(values.reshape(-1, values.shape[-1]))
