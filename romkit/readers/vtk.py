"""Fields on meshes in files of VTK, by meshio: a snapshot each, or a collection with its times."""

import html
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import xarray as xr

from romkit.core.boundary import FilePath, validated
from romkit.core.display import listed
from romkit.core.errors import DataWarning, FileError, InputError, warn
from romkit.core.files import atomic, existing, expanded, reason
from romkit.core.types import Array
from romkit.data.names import TIMES
from romkit.readers.openfoam import velocity_direction

if TYPE_CHECKING:
    import meshio

COLLECTION = ".pvd"

ENDINGS = (".vtk", ".vtu", COLLECTION)

QUAD = ((0, 0), (0, 1), (1, 1), (1, 0))

CELLS = {
    1: ("line", ((0,), (1,))),
    2: ("quad", QUAD),
    3: ("hexahedron", tuple((k, *corner) for k in (0, 1) for corner in QUAD)),
}
"""Kinds of the cells of a grid, by its number of axes, and their corners in the order of VTK, as steps
along these axes.
"""

Cells = list[tuple[str, Array]]
"""Kind of the cells of each block of a mesh, and the points of each of them."""


def can_read(path: Path) -> bool:
    """Tell whether a file holds fields on a mesh, by the ending of its name."""
    return path.suffix.lower() in ENDINGS


def read(path: Path) -> xr.Dataset:
    """Read the fields at the points of a mesh, in its cells where there are none.

    Vectors are also along direction. The places of points are x, y and z, and those of cells the
    means of their points. Snapshots of a collection are along time.

    Warns:
        DataWarning: fields in cells beside those at points are left out.

    Raises:
        FileError: no such file, one that meshio cannot read, no fields, or no meshio.
    """
    if path.suffix.lower() == COLLECTION:
        return _read_collection(path)
    mesh = _mesh(path)
    if mesh.point_data:
        in_cells = listed(sorted(mesh.cell_data.keys() - mesh.point_data.keys()))
        if in_cells:  # alike for all files, so that it is said once
            fix = "write them at points, or alone"
            warn(f"fields in cells are left out: {in_cells}; {fix}", DataWarning)
        return _build_dataset("point", mesh.point_data, mesh.points)
    if not mesh.cell_data:
        raise FileError(path, problem="has a mesh without fields", fix="write its fields, too")
    # a block for each shape of cells
    fields = {name: np.concatenate(blocks) for name, blocks in mesh.cell_data.items()}
    centers = np.concatenate([mesh.points[block.data].mean(1) for block in mesh.cells])
    return _build_dataset("cell", fields, centers)


@validated
def write_vtk(data: xr.Dataset, path: FilePath, *, mesh: FilePath | None = None) -> Path:
    """Write the fields of one run for ParaView: a file `.vtu` for each time, and their list `.pvd`.

    Args:
        data: variables (time, ...) on a grid, each axis with its coordinate, or along the points or
            the cells of `mesh`; perhaps with a last dimension `direction`. Forecasts are such data,
            and `romkit.data.fields` makes them of a rollout.
        path: the collection, "forecast.pvd" say; the snapshots stand in a folder "forecast" beside.
        mesh: a file of VTK with the mesh, that of a snapshot of the training runs say.

    Returns:
        The path of the collection.

    Raises:
        InputError: several runs, no time, or fields that are neither on a grid nor on the mesh.
        FileError: no meshio, or a file that cannot be read or written.

    Example:
        >>> import numpy as np
        >>> import xarray as xr
        >>> import romkit
        >>> u = xr.DataArray(np.random.rand(2, 3, 4), dims=("time", "y", "x"), name="u")
        >>> u = u.assign_coords(time=[0.0, 0.5], x=np.arange(4.0), y=np.arange(3.0))
        >>> path = romkit.readers.write_vtk(u.to_dataset(), "wave.pvd")
        >>> romkit.open(path).u.shape
        (2, 12)
    """
    if Path(path).suffix.lower() != COLLECTION:
        raise InputError("path", expected="a name that ends in .pvd", got=path, fix="rename it")
    time = next((name for name in TIMES if name in data.dims), None)
    if time is None:
        raise InputError(
            "data",
            expected="fields (time, ...) of one run",
            got=f"dims {', '.join(map(str, data.dims))}",
            fix="choose a run, data.isel(trajectory=0), and its fields, romkit.data.fields(run)",
        )
    target = expanded(path)
    meshio = _library(target)
    fields, points, cells = _mesh_fields(data, time, mesh)
    ends = np.cumsum([len(block) for _, block in cells])
    folder = target.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for k, moment in enumerate(data[time].values):
        at_points = {name: v[k] for name, v in fields.items() if v.shape[1] == len(points)}
        # meshio takes fields in cells block by block
        in_cells = {
            name: np.split(v[k], ends[:-1]) for name, v in fields.items() if name not in at_points
        }
        file = folder / f"{target.stem}_{k:06d}.vtu"
        meshio.Mesh(points, cells, point_data=at_points, cell_data=in_cells).write(file)
        place = html.escape(f"{folder.name}/{file.name}")
        entries.append(f'<DataSet timestep="{float(moment)!r}" file="{place}"/>')
    text = "\n".join(entries)
    with atomic(target) as temporary:
        temporary.write_text(
            '<?xml version="1.0"?>\n<VTKFile type="Collection" version="0.1">\n<Collection>\n'
            f"{text}\n</Collection>\n</VTKFile>\n",
            encoding="utf-8",
        )
    return target


def _mesh_fields(
    data: xr.Dataset, time: str, mesh: str | os.PathLike[str] | None
) -> tuple[dict[str, Array], Array, Cells]:
    """Find the fields (T, places, ...) of data, points (P, 3) and blocks of cells.

    Raises:
        InputError: no field is on the mesh, or on a grid.
    """
    numbers = _numeric(data, time)
    if mesh is None:
        axes = _axes(data, numbers)
        points, cells = _grid([data[axis].values for axis in axes])
        places = {len(points)}
        wanted = "fields on a grid of at most three axes with coordinates"
    else:
        template, axes = _mesh(Path(mesh)), []
        points, cells = template.points, [(block.type, block.data) for block in template.cells]
        places = {len(points), sum(map(len, template.cells))}
        wanted = f"fields at one of {listed(sorted(places))} points or cells"
    fields, end = {}, 1 + max(len(axes), 1)
    for name, values in numbers.items():
        size = math.prod(values.shape[1:end])
        if size in places and axes in ([], list(values.dims[1:end])):
            fields[name] = values.values.reshape(len(values), size, *values.shape[end:])
    if not fields:
        raise InputError(
            "data",
            expected=wanted,
            got=listed([*map(str, data.sizes.items())]),
            fix="give the mesh, mesh='run/flow_0.vtu', or coordinates, data.assign_coords(x=...)",
        )
    left_out = numbers.keys() - fields.keys()
    if left_out:
        written = f"written are {listed(sorted(fields), most=8)}"
        warn(f"{listed(sorted(left_out))} left out, no fields on the mesh; {written}", DataWarning)
    return fields, points, cells


def _numeric(data: xr.Dataset, time: str) -> dict[str, xr.DataArray]:
    """Return variables (time, ...) of numbers, at more than one place."""
    numbers = {}
    for name, values in data.data_vars.items():
        if time in values.dims and values.ndim > 1 and values.dtype.kind in "fiu":
            numbers[str(name)] = values.transpose(time, ...)
    return numbers


def _axes(data: xr.Dataset, numbers: Mapping[str, xr.DataArray]) -> list[str]:
    """Return names of the axes of the first field; none where one has no coordinate, or of more
    than the three that cells have.
    """
    reference = next(iter(numbers.values()), xr.DataArray())
    axes = [str(dim) for dim in reference.dims[1:] if dim != "direction"]
    return axes if len(axes) in CELLS and data.indexes.keys() >= {*axes} else []


def _grid(axes: list[Array]) -> tuple[Array, Cells]:
    """Make points (P, 3), the last axis along x, and the cells of a grid."""
    if not axes:
        return np.empty((0, 3)), []
    places = np.meshgrid(*axes, indexing="ij")
    points = np.zeros((places[0].size, 3))
    for column, place in enumerate(reversed(places)):
        points[:, column] = place.ravel()
    numbers = np.arange(len(points)).reshape(places[0].shape)
    kind, steps_of_corners = CELLS[len(axes)]
    corners = []
    for steps in steps_of_corners:
        shifted = numbers[tuple(slice(step, None) for step in steps)]
        corners.append(shifted[tuple(slice(size - 1) for size in numbers.shape)].ravel())
    return points, [(kind, np.stack(corners, -1))]


def _read_collection(path: Path) -> xr.Dataset:
    """Read the snapshots that a collection lists, along time.

    Raises:
        FileError: no list, files elsewhere, or snapshots of several meshes.
    """
    snapshots = []
    for entry in ElementTree.parse(existing(path)).iter("DataSet"):
        if not entry.attrib.keys() >= {"timestep", "file"}:
            problem = f"has an entry without time or file, {entry.attrib}"
            raise FileError(path, problem=problem, fix="write it anew")
        name = entry.attrib["file"]
        file = (path.parent / name).resolve()
        if not file.is_relative_to(path.parent.resolve()) or file.suffix.lower() == COLLECTION:
            raise FileError(path, problem=f"names a file elsewhere, {name}", fix="put it beside")
        snapshots.append((entry.attrib["timestep"], file))
    if not snapshots:
        raise FileError(path, problem="lists no snapshots", fix="give its files: 'flow_{time}.vtu'")
    try:
        fields = [read(file).expand_dims(time=[float(moment)]) for moment, file in snapshots]
        joined = xr.concat(fields, "time", coords="minimal", compat="equals", join="exact")
        return joined.sortby("time")
    except ValueError as error:
        problem = f"lists snapshots of several meshes ({reason(error)})"
        raise FileError(path, problem=problem, fix="split it") from error


def _mesh(path: Path) -> "meshio.Mesh":
    """Read a mesh with its fields."""
    file = existing(path)
    meshio = _library(path)
    reader = meshio.vtu if path.suffix.lower() == ".vtu" else meshio.vtk
    try:
        return reader.read(str(file))
    except Exception as error:  # readers raise nearly anything on files of others
        raise FileError(
            path,
            problem=f"cannot be read as a mesh ({reason(error)})",
            fix="write it as .vtu by ParaView, or its fields as .csv",
        ) from error


def _library(path: Path) -> ModuleType:
    """Import meshio, which is an extra."""
    try:
        import meshio
    except ImportError as error:
        raise FileError(
            path,
            problem="is a mesh, and meshio is missing",
            fix='pip install "romkit-dynamics[readers]", or write the fields as .csv',
        ) from error
    return meshio


def _build_dataset(dim: str, fields: Mapping[str, Array], places: Array) -> xr.Dataset:
    """Return fields (places, ...) along a dimension with the coordinates (places, 3) of it.

    Coordinates that are the same everywhere, as z in a plane, are left out.
    """
    variables: dict[str, tuple[Sequence[str], Array]] = {}
    coords: dict[str, object] = {}
    for name, values in fields.items():
        entries = values.reshape(len(values), -1)  # (places, entries)
        variables[name] = ((dim,), entries[:, 0])
        if entries.shape[1] > 1:
            direction, coords[direction] = velocity_direction(entries.shape[1])
            variables[name] = ((dim, direction), entries)
    for axis, column in zip("xyz", places.T, strict=False):
        if np.ptp(column) > 0:
            coords[axis] = (dim, column)
    return xr.Dataset(variables, coords)
