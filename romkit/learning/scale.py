"""Deviations in which errors are measured, as laws are judged by: one for all components of a unit."""

import numpy as np
import xarray as xr

from romkit.core.tensors import divisor
from romkit.core.types import Array
from romkit.projections.frame import scale_groups


def deviations(data: xr.Dataset) -> Array:
    """Return deviation (n,) of the components of data, shared as `shared` has it."""
    return shared(np.nanstd(data["state"].values.astype(float), axis=(0, 1)), data)


def shared(deviation: Array, data: xr.Dataset) -> Array:
    """Return deviation (n,) of components, the root mean square of those of one unit, or without
    units of one variable; 1 where all of these are constant.

    Components that hardly move, as the last coordinates in a basis or cells at a wall, then count
    as little as they matter.
    """
    group = scale_groups(data)
    number = np.bincount(group)
    square = np.bincount(group, weights=np.square(deviation)) / number
    scale = np.sqrt(square)[group]
    return divisor(scale)
