"""From a dataset to tensors for training: snapshots, and the affine normalization they are scaled by."""

from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.data.context import context_names
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
    return Snapshots(state, velocity, context.repeat_interleave(data.sizes["time"], 0))


def context_matrix(data: xr.Dataset) -> np.ndarray:
    """(trajectories, p) context of a dataset, columns in the order of `context_names`."""
    names = context_names(data)
    columns = [data[name].values.astype(np.float64) for name in names]
    return np.stack(columns, axis=-1) if names else np.zeros((data.sizes["trajectory"], 0))


def _flat(variable: xr.DataArray) -> np.ndarray:
    values = variable.transpose(*DIMS).values.astype(np.float64)
    return np.ascontiguousarray(values.reshape(-1, values.shape[-1]))
