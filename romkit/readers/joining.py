"""Datasets of several files or groups as one, on one grid and clock."""

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
from romkit.data.units import without_origin

PROVENANCE = {"history", "id", "key", "layout", "uuid", "versions"} | {
    f"{what}_{when}"
    for what in ("date", "time", "creation")
    for when in ("created", "modified", "issued", "date", "time")
}
"""Attributes that say where a file comes from, in small letters; these may differ."""

PLACES = ("x", "y", "z", "lat", "lon")
"""Coordinates that say where the points of a mesh are, along a dimension without numbers."""

MORE_WAYS = "xarray.open_mfdataset has more ways, and romkit.data.describe takes its result"


def combined(
    paths: Sequence[Path | str], sources: Sequence[xr.Dataset], along: str | None
) -> xr.Dataset:
    """Return data of files or groups on one grid and clock, joined along a dimension."""
    differing = _differing_attributes(sources)
    if differing and along is None:
        names = ", ".join(differing)
        fix = "name the dimension, along='run' say, along which they become coordinates"
        warn(f"attributes differ between files and are left out: {names}; {fix}", DataWarning)
    elif along is not None:
        sources = _with_attributes(sources, differing, along)
        sources = _on_one_clock(on_one_grid(paths, sources, along), along)
    try:
        data = _joined(sources, along)
        if along is not None and along not in sources[0].dims:
            # here, since a number that one file lacks has no conflict with that of the others
            data = data.assign_coords({name: (along, column) for name, column in differing.items()})
        coords = {name: coord.compute() for name, coord in data.coords.items()}
    except Exception as error:  # readers raise nearly anything on files of others
        names = f"{paths[0]} ... {paths[-1]}" if len(paths) > 1 else str(paths[0])
        problem = f"cannot be joined ({reason(error)})"
        raise FileError(names, problem=problem, fix=MORE_WAYS) from error
    return data.assign_coords(coords)


def _joined(sources: Sequence[xr.Dataset], along: str | None) -> xr.Dataset:
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


def check_units(paths: Sequence[Path | str], sources: Sequence[xr.Dataset]) -> None:
    """Raise where a variable has other units than in the first file."""
    known: dict[Hashable, str] = {}
    for path, source in zip(paths, sources, strict=True):
        for name, variable in source.variables.items():
            # files of a simulation may count from dates of their own
            unit = without_origin(unit_of(variable))
            if known.setdefault(name, unit) != unit:
                raise FileError(
                    path,
                    problem=f"has {name} in {unit or 'no unit'}, {paths[0]} in {known[name] or 'none'}",
                    fix="convert it, or name its unit alike",
                )


def with_parameter(
    paths: Sequence[Path],
    sources: Sequence[xr.Dataset],
    name: str,
    values: Sequence[float],
    along: str | None,
) -> list[xr.Dataset]:
    """Return files with a coordinate of one value in each, which their names hold.

    Raises:
        FileError: a file has another value of that name, or it is reserved.
    """
    for path, source, value in zip(paths, sources, values, strict=True):
        known = source.variables.get(name, source.attrs.get(name))
        if name in RESERVED or name in source.dims or not _agrees(known, value):
            raise FileError(
                path,
                problem=f"has a {name} of its own, which is not {value:g} as in its name",
                fix="give another name in braces",
            )
    return [
        labelled(source.drop_vars(name, errors="ignore"), {name: value}, along)
        for source, value in zip(sources, values, strict=True)
    ]


def _agrees(known: object, value: float) -> bool:
    """Tell whether a variable or an attribute is a number that the name of a file has, too, or
    None.
    """
    if known is None:
        return True
    # attributes are often numbers as text
    try:
        numbers = np.asarray(getattr(known, "values", known)).astype(np.float64)
    except (TypeError, ValueError):
        return False
    return bool(np.isclose(numbers, value).all())


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


def _with_attributes(
    sources: Sequence[xr.Dataset], differing: Mapping[str, Array], along: str
) -> list[xr.Dataset]:
    """Return files with coordinates in place of the attributes in which they differ."""
    values = [{name: column[k] for name, column in differing.items()} for k in range(len(sources))]
    return [labelled(source, own, along) for source, own in zip(sources, values, strict=True)]


def _differing_attributes(sources: Sequence[xr.Dataset]) -> dict[str, Array]:
    """Return values, by file, of the attributes that differ between files, numbers where they are."""
    taken: set[Hashable] = set(RESERVED).union(*(source.variables for source in sources))
    names = dict.fromkeys(name for source in sources for name in source.attrs)
    differing = {}
    for name in names:
        values = [source.attrs.get(name) for source in sources]
        is_kept = name not in taken and str(name).lower() not in PROVENANCE
        if is_kept and any(value != values[0] for value in values):
            differing[str(name)] = _as_column(values)
    return differing


def _as_column(values: Sequence[Any]) -> Array:
    """Return numbers, also those that were written as text, NaN where missing; else text."""
    # "Re" is as often text as a number; a missing one must not make the others text
    with contextlib.suppress(TypeError, ValueError):
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.array(["" if value is None else str(value) for value in values])


def on_one_grid(
    paths: Sequence[Path | str], sources: Sequence[xr.Dataset], along: str | None
) -> list[xr.Dataset]:
    """Return files with the coordinates of the first, from which they differ by rounding alone.

    Args:
        paths: names of the files.
        sources: their data.
        along: the dimension along which they are joined, which has no grid; nor has time.

    Raises:
        FileError: other coordinates of a dimension, or other places of points.
    """
    moving = {along, *TIMES}
    grid = {}
    for name, coord in sources[0].coords.items():
        is_of_places = name in sources[0].xindexes or (name in PLACES and coord.ndim > 0)
        if is_of_places and moving.isdisjoint(coord.dims):
            grid[name] = coord.variable
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


def _equal(values: Array, others: Array) -> bool:
    """Tell whether coordinates are the same, numbers up to rounding."""
    if values.shape != others.shape:
        return False
    if values.dtype.kind not in "fiu":
        return np.array_equal(values, others)
    # files in single precision round their grid; near zero, relative to the largest
    largest = np.abs(others).max(initial=0)
    return np.allclose(values, others, rtol=1e-6, atol=1e-9 * largest)


def _on_one_clock(sources: Sequence[xr.Dataset], along: str) -> list[xr.Dataset]:
    """Return files whose times are counted from the start where they differ."""
    time = _name_of_time(sources, along)
    if time is None:
        return list(sources)
    times = [source[time].values.astype(np.float64) for source in sources]
    for run in times:
        check_clock(time, run)
    shared, notes = shared_clock(times)
    for note in notes:
        warn(note, DataWarning)
    units = list(dict.fromkeys(unit_of(source[time]) for source in sources))
    # no date is the zero of all clocks
    unit = without_origin(units[0]) if notes or len(units) > 1 else units[0]
    common = {"units": unit} if unit else {}
    moved = []
    for source, run in zip(sources, shared, strict=True):
        about = source[time].attrs | common
        moved.append(source.assign_coords({time: (time, run, about)}))
    return moved


def _name_of_time(sources: Sequence[xr.Dataset], along: str) -> str | None:
    """Return the time of all files, None where it is joined along, or is no number in one of them."""
    for time in TIMES:
        if time != along and time in sources[0].xindexes:
            return time if all(_has_numbers(source, time) for source in sources) else None
    return None


def _has_numbers(source: xr.Dataset, time: str) -> bool:
    """Tell whether a file has times, which are numbers."""
    return time in source.xindexes and source[time].dtype.kind in "fiu" and source[time].size > 0
