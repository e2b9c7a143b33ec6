"""Fields on meshes in files of VTK, by meshio: a snapshot each, or a collection with its times."""

import html
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from romkit.core.boundary import FilePath, validated
from romkit.core.display import listed
from romkit.core.errors import DataWarning, FileError, InputError, warn
from romkit.core.files import atomic, existing, expanded, reason
from romkit.core.types import Array
from romkit.data.names import TIMES
from romkit.readers.openfoam import direction_of

if TYPE_CHECKING:
    import meshio

COLLECTION = ".pvd"

ENDINGS = (".vtk", ".vtu", COLLECTION)

AXES = ("x", "y", "z")

ENTRY = re.compile(r"<DataSet\b[^>]*>")
"""A snapshot in a collection."""

ATTRIBUTE = re.compile(r"(\w+)\s*=\s*[\"']([^\"']*)[\"']")

CELLS = {1: "line", 2: "quad", 3: "hexahedron"}
"""Kinds of the cells of a grid, by its number of axes."""

CORNERS = {
    1: ((0,), (1,)),
    2: ((0, 0), (0, 1), (1, 1), (1, 0)),
    3: (
        (0, 0, 0), (0, 0, 1), (0, 1, 1), (0, 1, 0), (1, 0, 0), (1, 0, 1), (1, 1, 1), (1, 1, 0),
    ),
}  # fmt: skip
"""Corners of a cell, in the order of VTK, as steps along the axes of the grid."""


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
        return _of_collection(path)
    mesh = _mesh(path)
    if mesh.point_data:
        _say_left_out(mesh.cell_data.keys() - mesh.point_data.keys())
        return _along("point", mesh.point_data, mesh.points)
    if not mesh.cell_data:
        raise FileError(path, problem="has a mesh without fields", fix="write its fields, too")
    # a block for each shape of cells
    fields = {name: np.concatenate(blocks) for name, blocks in mesh.cell_data.items()}
    centers = np.concatenate([mesh.points[block.data].mean(1) for block in mesh.cells])
    return _along("cell", fields, centers)


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
    fields, points, cells = _on_mesh(data, time, mesh)
    meshio = _library(target)
    folder = target.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for k, moment in enumerate(data[time].values):
        snapshot = {name: values[k] for name, values in fields.items()}
        at_points, in_cells = _by_place(snapshot, len(points), cells)
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


def _by_place(
    snapshot: Mapping[str, Array], number: int, cells: list[tuple[str, Array]]
) -> tuple[dict[str, Array], dict[str, list[Array]]]:
    """Tell fields at so many points from those in cells, which meshio takes block by block."""
    ends = np.cumsum([len(block) for _, block in cells])
    at_points: dict[str, Array] = {}
    in_cells: dict[str, list[Array]] = {}
    for name, values in snapshot.items():
        if len(values) == number:
            at_points[name] = values
        else:
            in_cells[name] = np.split(values, ends[:-1])
    return at_points, in_cells


def _on_mesh(
    data: xr.Dataset, time: str, mesh: str | os.PathLike[str] | None
) -> tuple[dict[str, Array], Array, list[tuple[str, Array]]]:
    """Find the fields (T, places, ...) of data, points (P, 3) and blocks of cells.

    Raises:
        InputError: no field is on the mesh, or on a grid.
    """
    numbers = _numeric(data, time)
    if mesh is not None:
        known = _mesh(Path(mesh))
        points = known.points
        cells = [(block.type, block.data) for block in known.cells]
        number_of_cells = sum(len(block) for _, block in cells)
        fields = _of_sizes(numbers, (len(points), number_of_cells))
        wanted = f"fields at {len(points)} points or in {number_of_cells} cells"
    else:
        axes = _axes(numbers, data)
        points, cells = _grid([data[axis].values for axis in axes])
        fields = _along_axes(numbers, axes, len(points))
        wanted = "fields on a grid of at most three axes with coordinates"
    if not fields:
        shapes = [f"{name} {values.shape}" for name, values in numbers.items()]
        raise InputError(
            "data",
            expected=wanted,
            got=", ".join(shapes) or "none",
            fix="give the mesh, mesh='run/flow_0.vtu', or coordinates, data.assign_coords(x=...)",
        )
    left_out = numbers.keys() - fields.keys()
    if left_out:
        warn(f"{listed(sorted(left_out))} left out: not on the mesh of the others", DataWarning)
    return fields, points, cells


def _numeric(data: xr.Dataset, time: str) -> dict[str, xr.DataArray]:
    """Return variables (time, ...) of numbers, at more than one place."""
    found = {}
    for name, values in data.data_vars.items():
        is_field = time in values.dims and values.ndim > 1
        if is_field and values.dtype.kind in "fiu":
            found[str(name)] = values.transpose(time, ...)
    return found


def _of_sizes(numbers: Mapping[str, xr.DataArray], sizes: tuple[int, int]) -> dict[str, Array]:
    """Return the fields that have as many places as a mesh has points, or cells."""
    found = {}
    for name, values in numbers.items():
        if values.shape[1] in sizes:
            found[name] = values.values
    return found


def _axes(numbers: Mapping[str, xr.DataArray], data: xr.Dataset) -> list[str]:
    """Return names of the axes of the first field; none where one has no coordinate, or of more
    than the three that cells have.
    """
    if not numbers:
        return []
    first = next(iter(numbers.values()))
    axes = [str(dim) for dim in first.dims[1:] if dim != "direction"]
    has_coordinates = all(axis in data.indexes for axis in axes)
    return axes if has_coordinates and len(axes) in CELLS else []


def _along_axes(
    numbers: Mapping[str, xr.DataArray], axes: list[str], size: int
) -> dict[str, Array]:
    """Return the fields (T, points, ...) on a grid of so many points."""
    if not axes:
        return {}
    end = 1 + len(axes)
    found = {}
    for name, values in numbers.items():
        own_axes = [str(dim) for dim in values.dims[1:end]]
        if own_axes == axes:
            found[name] = values.values.reshape(len(values), size, *values.shape[end:])
    return found


def _grid(axes: list[Array]) -> tuple[Array, list[tuple[str, Array]]]:
    """Make points (P, 3), the last axis along x, and the cells of a grid."""
    if not axes:
        return np.empty((0, 3)), []
    places = np.meshgrid(*axes, indexing="ij")
    points = np.zeros((places[0].size, 3))
    for column, place in enumerate(reversed(places)):
        points[:, column] = place.ravel()
    numbers = np.arange(len(points)).reshape(places[0].shape)
    corners = []
    for steps in CORNERS[len(axes)]:
        slices = [
            slice(step, size - 1 + step) for step, size in zip(steps, numbers.shape, strict=True)
        ]
        corners.append(numbers[tuple(slices)].ravel())
    return points, [(CELLS[len(axes)], np.stack(corners, -1))]


def _of_collection(path: Path) -> xr.Dataset:
    """Read the snapshots that a collection lists, along time.

    Raises:
        FileError: no list, files elsewhere, or snapshots of several meshes.
    """
    text = existing(path).read_text(encoding="utf-8", errors="replace")
    snapshots = []
    for entry in ENTRY.findall(text):
        about = dict(ATTRIBUTE.findall(entry))
        try:
            moment = float(about["timestep"])
            name = html.unescape(about["file"])
        except (KeyError, ValueError) as error:
            raise FileError(
                path,
                problem=f"has an entry without time or file, {entry[:60]}",
                fix="write it anew",
            ) from error
        file = (path.parent / name).resolve()
        if not file.is_relative_to(path.parent.resolve()) or file.suffix.lower() == COLLECTION:
            raise FileError(path, problem=f"names a file elsewhere, {name}", fix="put it beside")
        snapshots.append((moment, file))
    if not snapshots:
        raise FileError(path, problem="lists no snapshots", fix="give its files: 'flow_{time}.vtu'")
    snapshots.sort()
    try:
        fields = [read(file).expand_dims(time=[moment]) for moment, file in snapshots]
        return xr.concat(fields, "time", coords="minimal", compat="equals", join="exact")
    except ValueError as error:
        raise FileError(
            path, problem=f"lists snapshots of several meshes ({reason(error)})", fix="split it"
        ) from error


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


def _say_left_out(names: Iterable[str]) -> None:
    """Warn of fields in cells beside those at points, alike for all files, so that it is said once."""
    if names:
        cells = listed(sorted(names))
        warn(f"fields in cells are left out: {cells}; write them at points, or alone", DataWarning)


def _along(dim: str, fields: Mapping[str, Array], places: Array) -> xr.Dataset:
    """Return fields (places, ...) along a dimension with the coordinates (places, 3) of it.

    Coordinates that are the same everywhere, as z in a plane, are left out.
    """
    variables: dict[str, tuple[str | tuple[str, str], Array]] = {}
    coords: dict[str, object] = {}
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
