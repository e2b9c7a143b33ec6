"""Data in several files, netCDF or zarr, as one dataset in chunks of dask."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from romkit.core.errors import DataWarning, FileError, warn
from romkit.core.files import existing, reason
from romkit.data.clocks import check_clock, shared_clock
from romkit.data.names import TRAJECTORIES
from romkit.data.schema import RESERVED
from romkit.data.storage import open_dataset, with_plain_attributes
from romkit.data.untrusted import (
    check_seal_of_file,
    check_store,
    checked_groups,
    engine_of,
    is_store,
)

PROVENANCE = {"history", "id", "key", "layout", "uuid", "versions"} | {
    f"{what}_{when}"
    for what in ("date", "time", "creation")
    for when in ("created", "modified", "issued", "date", "time")
}
"""Attributes that say where a file comes from, in small letters; these may differ."""

IN_MEMORY = 2e9
"""Size of runs in several files [bytes] up to which they are read as a whole."""

TIMES = ("time", "t")

MORE_WAYS = "xarray.open_mfdataset has more ways, and romkit.data.describe takes its result"


def opened(paths: Sequence[Path], along: str | None) -> xr.Dataset:
    """The data of these files, joined along a dimension; coordinates in memory.

    Raises:
        FileError: a file that cannot be read, or is not like the first.
    """
    with contextlib.ExitStack() as stack:
        parts = []
        for path in paths:
            parts.append(stack.enter_context(_lazy(path)))
        _check_units(paths, parts)
        parts = _with_attributes_as_coordinates(parts, along)
        if along is not None:
            parts = _on_one_grid(paths, parts, along)
            parts = _on_one_clock(parts, along)
        try:
            data = _joined(parts, along)
            coords = {name: coord.compute() for name, coord in data.coords.items()}
        except Exception as error:  # readers raise nearly anything on files of others
            problem = f"cannot be joined ({reason(error)})"
            raise FileError(_names(paths), problem=problem, fix=MORE_WAYS) from error
        data = data.assign_coords(coords)
        data.set_close(stack.pop_all().close)  # files stay open while the data are in use
        return data


def joined_runs(paths: Sequence[Path]) -> xr.Dataset:
    """Runs in files, along the dimension of trajectories that these have, or a new one; in memory
    where they fit.

    Raises:
        FileError: a file that cannot be read, or is not like the first.
    """
    if len(paths) == 1:
        return open_dataset(paths[0])
    with _lazy(paths[0]) as data:
        along = next((name for name in TRAJECTORIES if name in data.dims), TRAJECTORIES[0])
    data = opened(paths, along)
    if data.nbytes > IN_MEMORY:
        return data
    with data:
        return data.compute()


def _joined(parts: Sequence[xr.Dataset], along: str | None) -> xr.Dataset:
    if len(parts) == 1 and (along is None or along in parts[0].dims):
        return parts[0]
    if along is None:
        return xr.combine_by_coords(parts, combine_attrs="drop_conflicts")
    # variables of all files get a new dimension; along one of theirs, only those that have it
    is_new = all(along not in part.dims for part in parts)
    return xr.combine_nested(
        parts,
        concat_dim=along,
        data_vars="all" if is_new else "minimal",
        coords="different" if is_new else "minimal",
        compat="no_conflicts" if is_new else "equals",
        join="outer",
        combine_attrs="drop_conflicts",
    )


def _names(paths: Sequence[Path]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} ... {paths[-1]}"


def _lazy(path: Path) -> xr.Dataset:
    """A file or store that was checked, in chunks."""
    try:
        engine = _checked_engine(path)
        data = xr.open_dataset(path, engine=engine, decode_times=False, chunks="auto")
    except FileError:
        raise
    except Exception as error:  # readers raise nearly anything on files of others
        problem = f"cannot be opened ({reason(error)})"
        raise FileError(path, problem=problem, fix=MORE_WAYS) from error
    return with_plain_attributes(data)


def _checked_engine(path: Path) -> str:
    """Engine of xarray for a file or store that refers to no other, and runs no code."""
    if path.is_dir():
        if not is_store(path):
            fix = 'give its files: "runs/*.nc", say'
            raise FileError(path, problem="is a folder, and no zarr store", fix=fix)
        check_store(path)
        return "zarr"
    with existing(path).open("rb") as stream:
        engine = engine_of(path, stream.read(4))
    check_seal_of_file(path)
    if engine == "h5netcdf":
        checked_groups(path, path)
    return engine


def _check_units(paths: Sequence[Path], parts: Sequence[xr.Dataset]) -> None:
    """Raise where a variable has other units than in the first file."""
    known: dict[str, str] = {}
    for path, part in zip(paths, parts, strict=True):
        for name, variable in part.variables.items():
            unit = str(variable.attrs.get("units", "")).partition(" since ")[0]
            if known.setdefault(name, unit) != unit:
                problem = (
                    f"has {name} in {unit or 'no unit'}, {paths[0]} in {known[name] or 'none'}"
                )
                raise FileError(path, problem=problem, fix="convert it, or name its unit alike")


def _with_attributes_as_coordinates(
    parts: Sequence[xr.Dataset], along: str | None
) -> list[xr.Dataset]:
    """Files with a coordinate for each attribute in which they differ: a parameter, perhaps."""
    differing = _differing_attributes(parts)
    if not differing:
        return list(parts)
    if along is None:
        names = ", ".join(differing)
        fix = "name the dimension, along='run' say, along which they become coordinates"
        warn(f"attributes differ between files and are left out: {names}; {fix}", DataWarning)
        return list(parts)
    labelled = []
    for k, part in enumerate(parts):
        coords = {}
        for name, values in differing.items():
            value = values[k]
            if along in part.dims:
                value = (along, np.full(part.sizes[along], value))
            coords[name] = value
        labelled.append(part.drop_attrs(deep=False).assign_attrs(part.attrs).assign_coords(coords))
        for name in differing:
            labelled[-1].attrs.pop(name, None)
    return labelled


def _differing_attributes(parts: Sequence[xr.Dataset]) -> dict[str, np.ndarray]:
    """Values, by file, of the attributes that differ between files, numbers where they are."""
    names = dict.fromkeys(name for part in parts for name in part.attrs)
    differing = {}
    for name in names:
        values = [part.attrs.get(name) for part in parts]
        is_provenance = str(name).lower() in PROVENANCE or name in RESERVED
        is_variable = any(name in part.variables for part in parts)
        if is_provenance or is_variable or all(value == values[0] for value in values):
            continue
        differing[str(name)] = _as_column(values)
    return differing


def _as_column(values: Sequence[object]) -> np.ndarray:
    """Numbers, also those that were written as text, NaN where missing; else text."""
    with contextlib.suppress(TypeError, ValueError):
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.array(["" if value is None else str(value) for value in values])


def _on_one_grid(
    paths: Sequence[Path], parts: Sequence[xr.Dataset], along: str
) -> list[xr.Dataset]:
    """Files with the coordinates of the first, from which they may differ by rounding.

    Raises:
        FileError: other coordinates of a dimension beside time.
    """
    first = parts[0]
    dims = [dim for dim in first.xindexes if dim not in (along, *TIMES)]
    aligned = []
    for path, part in zip(paths, parts, strict=True):
        for dim in dims:
            if dim in part.xindexes and not _equal(part[dim].values, first[dim].values):
                problem = f"has another {dim} than {paths[0]}"
                fix = "interpolate them to one grid, or join files of one grid"
                raise FileError(path, problem=problem, fix=fix)
        common = {dim: first[dim].variable for dim in dims if dim in part.xindexes}
        aligned.append(part.assign_coords(common))
    return aligned


def _on_one_clock(parts: Sequence[xr.Dataset], along: str) -> list[xr.Dataset]:
    """Files whose times are counted from the start where they differ."""
    time = next((name for name in TIMES if name != along and name in parts[0].xindexes), None)
    if time is None or not all(_has_numbers(part, time) for part in parts):
        return list(parts)
    times = []
    for part in parts:
        run = part[time].values.astype(np.float64)
        check_clock(time, run)
        times.append(run)
    shared, notes = shared_clock(times)
    for note in notes:
        warn(note, DataWarning)
    unit = _common_unit(parts, time, is_moved=bool(notes))
    moved = []
    for part, run in zip(parts, shared, strict=True):
        about = part[time].attrs | unit
        moved.append(part.assign_coords({time: (time, run, about)}))
    return moved


def _has_numbers(part: xr.Dataset, time: str) -> bool:
    """Whether a file has times, which are numbers."""
    return time in part.xindexes and part[time].dtype.kind in "fiu" and part[time].size > 0


def _common_unit(parts: Sequence[xr.Dataset], time: str, is_moved: bool) -> dict[str, str]:
    """The unit of times of all files, as an attribute; no date is the zero of all clocks."""
    units = [str(part[time].attrs.get("units", "")) for part in parts]
    unit = units[0]
    if is_moved or len(set(units)) > 1:
        unit = unit.partition(" since ")[0]
    return {"units": unit} if unit else {}


def _equal(values: np.ndarray, others: np.ndarray) -> bool:
    """Whether coordinates are the same, numbers up to rounding."""
    if values.shape != others.shape:
        return False
    if values.dtype.kind not in "fiu":
        return np.array_equal(values, others)
    return np.allclose(values, others, rtol=1e-6, atol=1e-9 * np.abs(others).max(initial=0))
