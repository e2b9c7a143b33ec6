"""Files whose variables stand on one grid, from which their coordinates differ by rounding alone."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from romkit.core.errors import FileError
from romkit.core.types import Array
from romkit.data.names import TIMES

PLACES = ("x", "y", "z", "lat", "lon")
"""Coordinates that say where the points of a mesh are, along a dimension without numbers."""


def on_one_grid(
    paths: Sequence[Path | str], sources: Sequence[xr.Dataset], along: str | None
) -> list[xr.Dataset]:
    """Return files with the coordinates of the first.

    Args:
        paths: names of the files.
        sources: their data.
        along: the dimension along which they are joined, which has no grid; nor has time.

    Raises:
        FileError: other coordinates of a dimension, or other places of points.
    """
    grid = _grid(sources[0], along)
    aligned = []
    for path, source in zip(paths, sources, strict=True):
        common = {name: coord for name, coord in grid.items() if name in source.coords}
        for name, coord in common.items():
            if not _equal(source[name].values, coord.values):
                raise FileError(
                    path,
                    problem=f"has another {name} than {paths[0]}",
                    fix="interpolate them to one grid, or join files of one grid",
                )
        aligned.append(source.assign_coords(common))
    return aligned


def _grid(source: xr.Dataset, along: str | None) -> dict[str, xr.Variable]:
    """Return coordinates of the dimensions of space, and of the points of a mesh, by name."""
    moving = {along, *TIMES}
    grid = {}
    for name, coord in source.coords.items():
        is_of_places = name in source.xindexes or (name in PLACES and coord.ndim > 0)
        if is_of_places and moving.isdisjoint(coord.dims):
            grid[str(name)] = coord.variable
    return grid


def _equal(values: Array, others: Array) -> bool:
    """Tell whether coordinates are the same, numbers up to rounding."""
    if values.shape != others.shape:
        return False
    if values.dtype.kind not in "fiu":
        return np.array_equal(values, others)
    # files in single precision round their grid; near zero, relative to the largest
    largest = np.abs(others).max(initial=0)
    return np.allclose(values, others, rtol=1e-6, atol=1e-9 * largest)
