"""Fields on a mesh, in a file of VTK: one snapshot, which meshio reads."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import xarray as xr

from romkit.core.display import listed
from romkit.core.errors import DataWarning, FileError, warn
from romkit.core.files import existing, reason
from romkit.core.types import Array
from romkit.readers.probes import direction_of

ENDINGS = (".vtk", ".vtu")

AXES = ("x", "y", "z")


def is_mesh(path: Path) -> bool:
    """Whether a file holds fields on a mesh, by the ending of its name."""
    return path.suffix.lower() in ENDINGS


def read_mesh(path: Path) -> xr.Dataset:
    """The fields at the points of a mesh, in its cells where there are none; vectors also along
    direction.

    The places of points are x, y and z, and those of cells the means of their points.

    Warns:
        DataWarning: fields in cells beside those at points are left out.

    Raises:
        FileError: no such file, one that meshio cannot read, no fields, or no meshio.
    """
    file = existing(path)
    try:
        import meshio  # an extra
    except ImportError as error:
        raise FileError(
            path,
            problem="holds a mesh, and meshio is missing",
            fix="pip install meshio, or write the fields as .csv, as ParaView does",
        ) from error
    reader = meshio.vtu if path.suffix.lower() == ".vtu" else meshio.vtk
    try:
        mesh = reader.read(str(file))
    except Exception as error:  # readers raise nearly anything on files of others
        raise FileError(
            path,
            problem=f"cannot be read as a mesh ({reason(error)})",
            fix="write it as .vtu by ParaView, or its fields as .csv",
        ) from error
    if mesh.point_data:
        _say_left_out(mesh.cell_data.keys() - mesh.point_data.keys())
        return _along("point", mesh.point_data, mesh.points)
    if not mesh.cell_data:
        raise FileError(path, problem="has a mesh without fields", fix="write its fields, too")
    # a block for each shape of cells
    fields = {name: np.concatenate(blocks) for name, blocks in mesh.cell_data.items()}
    centers = np.concatenate([mesh.points[block.data].mean(1) for block in mesh.cells])
    return _along("cell", fields, centers)


def _say_left_out(names: Iterable[str]) -> None:
    """Warn of fields in cells beside those at points, alike for all files, so that it is said once."""
    if names:
        cells = listed(sorted(names))
        warn(f"fields in cells are left out: {cells}; write them at points, or alone", DataWarning)


def _along(dim: str, fields: Mapping[str, Array], places: Array) -> xr.Dataset:
    """Fields (places, ...) along a dimension with the coordinates (places, 3) of it.

    Coordinates that are the same everywhere, as z in a plane, are left out.
    """
    variables, coords = {}, {}
    for name, values in fields.items():
        entries = values.reshape(len(values), -1)  # (places, entries)
        size = entries.shape[1]
        if size == 1:
            variables[name] = (dim, entries[:, 0])
            continue
        direction, labels = direction_of(size)
        coords[direction] = labels
        variables[name] = ((dim, direction), entries)
    for axis, column in zip(AXES, places.T, strict=False):
        if np.ptp(column) > 0:
            coords[axis] = (dim, column)
    return xr.Dataset(variables, coords)
