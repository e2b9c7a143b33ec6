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
from romkit.readers.one_grid import on_one_grid

PROVENANCE = {"history", "id", "key", "layout", "uuid", "versions"} | {
    f"{what}_{when}"
    for what in ("date", "time", "creation")
    for when in ("created", "modified", "issued", "date", "time")
}
"""Attributes that say where a file comes from, in small letters; these may differ."""

MORE_WAYS = "xarray.open_mfdataset has more ways, and romkit.data.describe takes its result"


def combined(
    paths: Sequence[Path | str], sources: Sequence[xr.Dataset], along: str | None
) -> xr.Dataset:
    """Return data of files or groups on one grid and clock, joined along a dimension."""
    differing = _differing_attributes(sources)
    sources = _with_attributes_as_coordinates(sources, differing, along)
    if along is not None:
        sources = on_one_grid(paths, sources, along)
        sources = _on_one_clock(sources, along)
    try:
        data = _joined(sources, along)
        is_new = along is not None and all(along not in source.dims for source in sources)
        if is_new:
            # here, since a number that one file lacks has no conflict with that of the others
            data = data.assign_coords({name: (along, column) for name, column in differing.items()})
        coords = {name: coord.compute() for name, coord in data.coords.items()}
    except Exception as error:  # readers raise nearly anything on files of others
        raise FileError(
            _names(paths), problem=f"cannot be joined ({reason(error)})", fix=MORE_WAYS
        ) from error
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


def _names(paths: Sequence[Path | str]) -> str:
    if len(paths) == 1:
        return str(paths[0])
    return f"{paths[0]} ... {paths[-1]}"


def check_units(paths: Sequence[Path | str], sources: Sequence[xr.Dataset]) -> None:
    """Raise where a variable has other units than in the first file."""
    known: dict[str, str] = {}
    for path, source in zip(paths, sources, strict=True):
        for name, variable in source.variables.items():
            # files of a simulation may count from dates of their own
            unit = without_origin(unit_of(variable))
            wanted = known.setdefault(str(name), unit)
            if unit != wanted:
                own = unit or "no unit"
                first = wanted or "none"
                raise FileError(
                    path,
                    problem=f"has {name} in {own}, {paths[0]} in {first}",
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
    labelled = []
    for path, source, value in zip(paths, sources, values, strict=True):
        known = source.variables.get(name, source.attrs.get(name))
        if name in RESERVED or name in source.dims or not _agrees(known, value):
            raise FileError(
                path,
                problem=f"has a {name} of its own, which is not {value:g} as in its name",
                fix="give another name in braces",
            )
        coordinate: object = value
        if along in source.dims:
            coordinate = (along, np.full(source.sizes[along], value))
        plain = source.drop_vars(name, errors="ignore").drop_attrs(deep=False)
        about = {key: text for key, text in source.attrs.items() if key != name}
        labelled.append(plain.assign_coords({name: coordinate}).assign_attrs(about))
    return labelled


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


def _with_attributes_as_coordinates(
    sources: Sequence[xr.Dataset], differing: Mapping[str, Array], along: str | None
) -> list[xr.Dataset]:
    """Return files with a coordinate for each attribute in which they differ: a parameter, perhaps."""
    if not differing:
        return list(sources)
    if along is None:
        names = ", ".join(differing)
        fix = "name the dimension, along='run' say, along which they become coordinates"
        warn(f"attributes differ between files and are left out: {names}; {fix}", DataWarning)
        return list(sources)
    labelled = []
    for k, source in enumerate(sources):
        coords = {}
        for name, values in differing.items():
            value = values[k]
            if along in source.dims:
                value = (along, np.full(source.sizes[along], value))
            coords[name] = value
        about = {key: value for key, value in source.attrs.items() if key not in differing}
        common = source.drop_attrs(deep=False).assign_attrs(about)
        labelled.append(common.assign_coords(coords))
    return labelled


def _differing_attributes(sources: Sequence[xr.Dataset]) -> dict[str, Array]:
    """Return values, by file, of the attributes that differ between files, numbers where they are."""
    taken: set[Hashable] = set(RESERVED)
    names: dict[object, None] = {}
    for source in sources:
        taken.update(source.variables)
        names.update(dict.fromkeys(source.attrs))
    differing = {}
    for name in names:
        if name in taken or str(name).lower() in PROVENANCE:
            continue
        values = [source.attrs.get(name) for source in sources]
        if any(value != values[0] for value in values):
            differing[str(name)] = _as_column(values)
    return differing


def _as_column(values: Sequence[Any]) -> Array:
    """Return numbers, also those that were written as text, NaN where missing; else text."""
    # "Re" is as often text as a number; a missing one must not make the others text
    with contextlib.suppress(TypeError, ValueError):
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.array(["" if value is None else str(value) for value in values])


def _on_one_clock(sources: Sequence[xr.Dataset], along: str) -> list[xr.Dataset]:
    """Return files whose times are counted from the start where they differ."""
    time = _name_of_time(sources, along)
    if time is None:
        return list(sources)
    times = []
    for source in sources:
        run = source[time].values.astype(np.float64)
        check_clock(time, run)
        times.append(run)
    shared, notes = shared_clock(times)
    for note in notes:
        warn(note, DataWarning)
    unit = _common_unit(sources, time, is_moved=bool(notes))
    moved = []
    for source, run in zip(sources, shared, strict=True):
        about = source[time].attrs | unit
        moved.append(source.assign_coords({time: (time, run, about)}))
    return moved


def _name_of_time(sources: Sequence[xr.Dataset], along: str) -> str | None:
    """Return the time of all files, None where it is joined along, or is no number in one of them."""
    for time in TIMES:
        if time == along or time not in sources[0].xindexes:
            continue
        has_numbers = all(_has_numbers(source, time) for source in sources)
        return time if has_numbers else None
    return None


def _has_numbers(source: xr.Dataset, time: str) -> bool:
    """Tell whether a file has times, which are numbers."""
    if time not in source.xindexes:
        return False
    return source[time].dtype.kind in "fiu" and source[time].size > 0


def _common_unit(sources: Sequence[xr.Dataset], time: str, is_moved: bool) -> dict[str, str]:
    """Return the unit of times of all files, as an attribute; no date is the zero of all clocks."""
    units = [unit_of(source[time]) for source in sources]
    unit = units[0]
    if is_moved or len(set(units)) > 1:
        unit = without_origin(unit)
    return {"units": unit} if unit else {}
