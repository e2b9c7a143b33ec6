"""Datasets of several files as one, on one grid and clock."""

import contextlib
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from romkit.core.errors import DataWarning, FileError, warn
from romkit.core.files import reason
from romkit.core.types import Array
from romkit.data.clocks import check_clock, shared_clock
from romkit.data.names import TIMES, unit_of
from romkit.data.schema import RESERVED
from romkit.data.units import strip_origin

Paths = Sequence[Path]

Sources = Sequence[xr.Dataset]

PROVENANCE = {"history", "id", "key", "layout", "uuid", "versions"} | {
    f"{what}_{when}"
    for what in ("date", "time", "creation")
    for when in ("created", "modified", "issued", "date", "time")
}
"""Attributes that say where a file comes from, in small letters; these may differ."""

PLACES = ("x", "y", "z", "lat", "lon")
"""Coordinates that say where the points of a mesh are, along a dimension without numbers."""

MORE_WAYS = "xarray.open_mfdataset has more ways, and romkit.data.describe takes its result"


def combined(paths: Paths, sources: Sources, along: str | None) -> xr.Dataset:
    """Return data of files on one grid and clock, joined along a dimension."""
    differing = _differing_attributes(sources)
    if differing and along is None:
        fix = "name the dimension, along='run' say, along which they become coordinates"
        names = ", ".join(differing)
        warn(f"attributes differ between files and are left out: {names}; {fix}", DataWarning)
    elif along is not None:
        sources = _label_attributes(sources, differing, along)
        sources = _shift_clocks(align_grids(paths, sources, along), along)
    try:
        data = _joined(sources, along)
        if along is not None and along not in sources[0].dims:
            # here, since a number that one file lacks has no conflict with that of the others
            data = data.assign_coords({name: (along, column) for name, column in differing.items()})
        coords = {name: coord.compute() for name, coord in data.coords.items()}
    except Exception as error:  # readers raise nearly anything on files of others
        names = f"{paths[0]} ... {paths[-1]}" if len(paths) > 1 else str(paths[0])
        problem = f"cannot be joined ({reason(error)})"
        fix = MORE_WAYS
        if along is None:
            fix = f"where each file is a run, name their dimension, along='run'; else {MORE_WAYS}"
        raise FileError(names, problem=problem, fix=fix) from error
    return data.assign_coords(coords)


def _joined(sources: Sources, along: str | None) -> xr.Dataset:
    if len(sources) == 1 and (along is None or along in sources[0].dims):
        return sources[0]
    if along is None:
        joined = xr.combine_by_coords(sources, combine_attrs="drop_conflicts")
        return joined if isinstance(joined, xr.Dataset) else joined.to_dataset()
    # variables of all files get a new dimension; along one of theirs, only those that have it
    rules: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal", "compat": "equals"}
    if all(along not in source.dims for source in sources):
        rules = {"data_vars": "all", "coords": "different", "compat": "no_conflicts"}
    return xr.combine_nested(
        sources, concat_dim=along, join="outer", combine_attrs="drop_conflicts", **rules
    )


def common_units(paths: Paths, units: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return units by variable, which are those of all files.

    Raises:
        FileError: a variable has another unit than in the first file.
    """
    common: dict[str, str] = {}
    for path, file_units in zip(paths, units, strict=True):
        for name, unit in file_units.items():
            if common.setdefault(name, unit) != unit:
                words = f"{unit or 'no unit'}, {paths[0]} in {common[name] or 'none'}"
                fix = "convert it, or name its unit alike"
                raise FileError(path, problem=f"has {name} in {words}", fix=fix)
    return common


def check_parameter(path: Path, name: str, known: object, value: float) -> None:
    """Raise where a file has another value of a parameter than its name, None for no value."""
    try:
        # attributes are often numbers as text
        numbers = np.asarray(getattr(known, "values", known), dtype=np.float64)
        is_alike = known is None or bool(np.isclose(numbers, value).all())
    except (TypeError, ValueError):
        is_alike = False
    if not is_alike:
        raise FileError(
            path,
            problem=f"has a {name} of its own, which is not {value:g} as in its name",
            fix="give another name in braces",
        )


def assign_parameter(
    path: Path, source: xr.Dataset, name: str, value: float, along: str | None
) -> xr.Dataset:
    """Return a file with a coordinate of one value, which its name holds.

    Raises:
        FileError: the file has another value of that name, or it is reserved.
    """
    is_taken = name in RESERVED or name in source.dims
    recorded = name if is_taken else source.variables.get(name, source.attrs.get(name))
    check_parameter(path, name, recorded, value)
    return labelled(source.drop_vars(name, errors="ignore"), {name: value}, along)


def labelled(source: xr.Dataset, labels: Mapping[str, Any], along: str | None) -> xr.Dataset:
    """Return a file with coordinates in place of its attributes of these names, along a dimension
    where it has that.
    """
    coords = dict(labels)
    if along in source.dims:
        size = source.sizes[along]
        coords = {name: (along, np.full(size, value)) for name, value in labels.items()}
    about = {key: value for key, value in source.attrs.items() if key not in labels}
    return source.drop_attrs(deep=False).assign_attrs(about).assign_coords(coords)


def _label_attributes(
    sources: Sources, differing: Mapping[str, Array], along: str
) -> list[xr.Dataset]:
    """Return files with coordinates in place of the attributes in which they differ."""
    values = [{name: column[k] for name, column in differing.items()} for k in range(len(sources))]
    return [
        labelled(source, attributes, along)
        for source, attributes in zip(sources, values, strict=True)
    ]


def _differing_attributes(sources: Sources) -> dict[str, Array]:
    """Return values, by file, of the attributes that differ between files, numbers where they are."""
    taken: set[Hashable] = set(RESERVED).union(*(source.variables for source in sources))
    names = dict.fromkeys(name for source in sources for name in source.attrs)
    differing = {}
    for name in names:
        values = [source.attrs.get(name) for source in sources]
        is_kept = name not in taken and str(name).lower() not in PROVENANCE
        if is_kept and any(value != values[0] for value in values):
            differing[str(name)] = _parse_column(values)
    return differing


def _parse_column(values: Sequence[Any]) -> Array:
    """Return numbers, also those that were written as text, NaN where missing; else text."""
    # "Re" is as often text as a number; a missing one must not make the others text
    with contextlib.suppress(TypeError, ValueError):
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.array(["" if value is None else str(value) for value in values])


def align_grids(paths: Paths, sources: Sources, along: str | None) -> list[xr.Dataset]:
    """Return files with the coordinates of the first, from which they differ by rounding alone.

    Args:
        paths: names of the files.
        sources: their data.
        along: the dimension along which they are joined, which has no grid; nor has time.

    Raises:
        FileError: other coordinates of a dimension, or other places of points.
    """
    reference = sources[0]
    grid = {}
    for name, coord in reference.coords.items():
        is_of_places = name in reference.xindexes or (name in PLACES and coord.ndim > 0)
        if is_of_places and {along, *TIMES}.isdisjoint(coord.dims):
            grid[name] = coord.variable
    aligned = []
    for path, source in zip(paths, sources, strict=True):
        common = {name: coord for name, coord in grid.items() if name in source.coords}
        for name, coord in common.items():
            if not _equal(source[name].values, coord.values):
                problem = f"has another {name} than {paths[0]}"
                fix = "interpolate them to one grid, or join files of one grid"
                raise FileError(path, problem=problem, fix=fix)
        aligned.append(source.assign_coords(common))
    return aligned


def _equal(values: Array, others: Array) -> bool:
    """Tell whether coordinates are the same, numbers up to rounding."""
    if values.shape != others.shape or values.dtype.kind not in "fiu":
        return np.array_equal(values, others)
    # files in single precision round their grid; near zero, relative to the largest
    return np.allclose(values, others, rtol=1e-6, atol=1e-9 * np.abs(others).max(initial=0))


def _shift_clocks(sources: Sources, along: str) -> Sources:
    """Return files whose times are counted from the start where they differ."""
    time = next((name for name in TIMES if name != along and name in sources[0].xindexes), None)
    is_clock = time is not None and all(
        time in source.xindexes and source[time].dtype.kind in "fiu" and source[time].size
        for source in sources
    )
    if time is None or not is_clock:
        return sources
    sources, notes = align_clocks(sources, time)
    for note in notes:
        warn(note, DataWarning)
    return sources


def align_clocks(sources: Sources, time: str) -> tuple[list[xr.Dataset], list[str]]:
    """Return runs, each along increasing numbers, with times that they share, and sentences for
    warnings.

    Raises:
        InputError: times that are missing, repeated or not in order.
    """
    clocks = [source[time].values.astype(np.float64) for source in sources]
    for clock in clocks:
        check_clock(time, clock)
    shared, notes = shared_clock(clocks)
    units = list(dict.fromkeys(unit_of(source[time]) for source in sources))
    # no date is the zero of all clocks
    unit = strip_origin(units[0]) if notes or len(units) > 1 else units[0]
    common = {"units": unit} if unit else {}
    moved = []
    for source, clock in zip(sources, shared, strict=True):
        moved.append(source.assign_coords({time: (time, clock, source[time].attrs | common)}))
    return moved, notes
