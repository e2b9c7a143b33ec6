"""From a dataset to tensors for training: snapshots without those that are missing."""

from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit import arrays
from romkit.boundary import Count, checked, hook
from romkit.data.context import context_matrix
from romkit.data.schema import DIMS, check_numbers, complete
from romkit.errors import InputError


@hook
class Snapshots(NamedTuple):
    """States and velocities (N, n) with the context (N, p) of each, in physical units.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> x, v, c = romkit.data.snapshots(data)
        >>> x.shape, v.shape, c.shape
        (torch.Size([20, 36]), torch.Size([20, 36]), torch.Size([20, 1]))
    """

    state: Tensor
    velocity: Tensor
    context: Tensor


@checked
def trajectories(data: xr.Dataset, name: str, *, fix: str = "add it") -> Tensor:
    """A variable (trajectories, times, n) of a dataset, in float64 on the CPU; NaN where it is missing.

    Raises:
        InputError: there is none.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> x = romkit.data.trajectories(data, "state")
        >>> x.shape, x.dtype
        (torch.Size([2, 10, 36]), torch.float64)
    """
    check_numbers(data, name, fix=fix)
    return torch.from_numpy(np.array(data[name].transpose(*DIMS).values, dtype=np.float64, order="C"))


@checked
def times_of(data: xr.Dataset) -> Tensor:
    """The times (T,) of a dataset, in float64.

    Raises:
        InputError: there are none, or they do not increase.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.03)
        >>> romkit.data.times_of(data)
        tensor([0.0000, 0.0100, 0.0200], dtype=torch.float64)
    """
    if "time" not in data.coords:
        fix = "add it: data.assign_coords(time=...)"
        raise InputError("data", expected="a coordinate 'time'", got=f"{sorted(map(str, data.coords))}", fix=fix)
    return arrays.times("data's time", data["time"].values).double()


@checked
def snapshots(data: xr.Dataset, *, every: Count = 1) -> Snapshots:
    """All complete snapshots of all trajectories, of each `every`-th time, in float64 on the CPU.

    Raises:
        InputError: state or velocity is missing.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> romkit.data.snapshots(data).state.shape, romkit.data.snapshots(data, every=5).state.shape
        (torch.Size([20, 36]), torch.Size([4, 36]))
    """
    if "time" in data.dims:
        data = data.isel(time=slice(None, None, every))
    state, velocity = trajectories(data, "state"), trajectories(data, "velocity")
    context = torch.from_numpy(context_matrix(data))
    if context.ndim == 2:
        context = context.unsqueeze(1).expand(-1, data.sizes["time"], -1)
    flat = [part.flatten(0, 1) for part in (state, velocity, context)]
    rows = torch.from_numpy(complete(data, ("state", "velocity"))).flatten()
    return Snapshots(*(flat if bool(rows.all()) else (part[rows] for part in flat)))


@checked
def whole_trajectories(data: xr.Dataset, *, every: Count = 1) -> Snapshots:
    """(C, T, n) of each `every`-th time, where nothing may be missing.

    Raises:
        InputError: something is.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=[3.14, 3.18], duration=0.1)
        >>> romkit.data.whole_trajectories(data, every=5).velocity.shape
        torch.Size([2, 2, 36])
    """
    missing = int((~complete(data, ("state", "velocity"))).any(1).sum())
    if missing:
        fix = "train on snapshots alone (rollouts=None, phase=None), or select trajectories and times without gaps"
        got = f"missing samples in {missing} of them"
        raise InputError("data", expected="whole trajectories for training by rollouts", got=got, fix=fix)
    count = data.sizes["trajectory"]
    return Snapshots(*(part.unflatten(0, (count, -1)) for part in snapshots(data, every=every)))
