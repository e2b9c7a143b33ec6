"""Data in several files, netCDF or zarr, as one dataset in chunks of dask."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from romkit.core.display import listed
from romkit.core.errors import DataWarning, FileError, warn
from romkit.core.files import existing, reason
from romkit.core.patterns import matched
from romkit.core.types import Array
from romkit.data.clocks import check_clock, shared_clock
from romkit.data.context import ROLE
from romkit.data.names import TIMES, TRAJECTORIES, unit_of
from romkit.data.schema import RESERVED
from romkit.data.storage import (
    WITHOUT_NAMES,
    group_of,
    with_plain_attributes,
)
from romkit.data.units import without_origin
from romkit.data.untrusted import (
    check_seal_of_file,
    check_store,
    checked_groups,
    engine_of,
    is_store,
)
from romkit.readers.axes import with_named_axes
from romkit.readers.containers import is_container, read_container
from romkit.readers.formats import is_table, joined_tables
from romkit.readers.groups import runs_in_groups
from romkit.readers.meshes import is_mesh, read_mesh
from romkit.readers.netcdf import read_netcdf
from romkit.readers.one_grid import on_one_grid
from romkit.readers.probes import is_probes, read_probes
from romkit.readers.sheets import RUN
from romkit.readers.snapshot_files import datasets_of_runs, time_in_braces, without_time
from romkit.readers.ways import check_is_read

PROVENANCE = {"history", "id", "key", "layout", "uuid", "versions"} | {
    f"{what}_{when}"
    for what in ("date", "time", "creation")
    for when in ("created", "modified", "issued", "date", "time")
}
"""Attributes that say where a file comes from, in small letters; these may differ."""

IN_MEMORY = 2e9
"""Size of runs in several files [bytes] up to which they are read as a whole."""

MORE_WAYS = "xarray.open_mfdataset has more ways, and romkit.data.describe takes its result"


def read_runs(names: Sequence[str | Path]) -> tuple[xr.Dataset | pd.DataFrame, list[str]]:
    """Runs in files, as a table if they are tables, and the parameters of runs that their names
    hold.

    Args:
        names: of files, which may have wildcards, and parameters in braces; where one of these is a
            time, a file is a snapshot.

    Raises:
        FileError: a pattern without files, or a file that cannot be read, or is not like the first.
    """
    paths, parameters = matched(names)
    if is_table(paths[0]) and not is_probes(paths[0]):
        return joined_tables(paths, parameters), without_time(parameters)
    return joined_runs(paths, parameters), without_time(parameters)


def opened(
    paths: Sequence[Path],
    along: str | None,
    parameters: Mapping[str, Sequence[float]] | None = None,
) -> xr.Dataset:
    """The data of these files, joined along a dimension; coordinates in memory.

    Args:
        paths: the files.
        along: the dimension; None for that along which their coordinates differ.
        parameters: contexts of one value in each file, by name, which need a dimension, and perhaps
            the time of each file.

    Raises:
        FileError: a file that cannot be read, or is not like the first.
    """
    parameters = parameters or {}
    with contextlib.ExitStack() as stack:
        sources = []
        for path in paths:
            sources.append(stack.enter_context(_lazy(path)))
        _check_units(paths, sources)
        contexts = without_time(parameters)
        for name in contexts:
            sources = _with_parameter(paths, sources, name, parameters[name], along)
        if time_in_braces(parameters):
            aligned = on_one_grid(paths, sources, along)
            paths, sources = zip(*datasets_of_runs(paths, aligned, parameters), strict=True)
        data = _combined(paths, sources, along)
        for name in contexts:
            data[name].attrs[ROLE] = "context"
        # the stack would close them here, before anything is read
        data.set_close(stack.pop_all().close)
        return data


def _combined(
    paths: Sequence[Path | str], sources: Sequence[xr.Dataset], along: str | None
) -> xr.Dataset:
    """Data of files or groups on one grid and clock, joined along a dimension."""
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


def _joined_groups(path: Path, runs: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Runs by the names of their groups, along a dimension of these names."""
    names = [f"{path}, group {group}" for group in runs]
    sources = list(runs.values())
    _check_units(names, sources)
    warn(f"{path}: groups are runs: {listed(runs)}", DataWarning)
    return _combined(names, sources, RUN).assign_coords({RUN: list(runs)})


def joined_runs(
    paths: Sequence[Path], parameters: Mapping[str, Sequence[float]] | None = None
) -> xr.Dataset:
    """Runs in files, along the dimension of trajectories that these have, or a new one; in memory
    where they fit.

    Args:
        paths: the files.
        parameters: contexts of one value in each file, by name.

    Raises:
        FileError: a file that cannot be read, or is not like the first.
    """
    if len(paths) == 1 and not parameters and _reader(paths[0]) is None:
        runs = runs_in_groups(paths[0])
        if runs:
            return _joined_groups(paths[0], runs)
        if paths[0].is_file():
            return read_netcdf(paths[0])
    data = opened(paths, dimension_of_runs(paths), parameters)
    if data.nbytes > IN_MEMORY:
        return data
    with data:
        return data.compute()


def dimension_of_runs(paths: Sequence[Path]) -> str:
    """The dimension of trajectories of these files, or a new one where they have none."""
    with _lazy(paths[0]) as data:
        dims = [name for name in TRAJECTORIES if name in data.dims]
    return (dims or TRAJECTORIES)[0]


def _joined(sources: Sequence[xr.Dataset], along: str | None) -> xr.Dataset:
    if len(sources) == 1 and (along is None or along in sources[0].dims):
        return sources[0]
    if along is None:
        return xr.combine_by_coords(sources, combine_attrs="drop_conflicts")
    # variables of all files get a new dimension; along one of theirs, only those that have it
    rules = {"data_vars": "minimal", "coords": "minimal", "compat": "equals"}
    if all(along not in source.dims for source in sources):
        rules = {"data_vars": "all", "coords": "different", "compat": "no_conflicts"}
    return xr.combine_nested(
        sources, concat_dim=along, join="outer", combine_attrs="drop_conflicts", **rules
    )


def _names(paths: Sequence[Path | str]) -> str:
    if len(paths) == 1:
        return str(paths[0])
    return f"{paths[0]} ... {paths[-1]}"


def _lazy(path: Path) -> xr.Dataset:
    """A file or store that was checked, in chunks; probes, meshes and files of arrays in memory."""
    reader = _reader(path)
    if reader is not None:
        return reader(path)
    try:
        engine, group = _checked_engine(path)
        settings = {} if group is None else {"group": group}
        if engine == "h5netcdf":
            settings |= WITHOUT_NAMES
        data = xr.open_dataset(path, engine=engine, decode_times=False, chunks="auto", **settings)
    except FileError:
        raise
    except Exception as error:  # readers raise nearly anything on files of others
        raise FileError(
            path, problem=f"cannot be opened ({reason(error)})", fix=MORE_WAYS
        ) from error
    if not data.variables:
        raise FileError(
            path,
            problem="holds no numbers outside of its groups",
            fix="name the group that holds them: xarray.open_dataset(path, group=...)",
        )
    return with_plain_attributes(with_named_axes(path, data))


def _reader(path: Path) -> Callable[[Path], xr.Dataset] | None:
    """The reader of formats that xarray does not know, None for one that it does."""
    if is_probes(path):
        return read_probes
    if is_container(path):
        return read_container
    if is_mesh(path):
        return read_mesh
    return None


def _checked_engine(path: Path) -> tuple[str, str | None]:
    """Engine of xarray for a file or store that refers to no other, and runs no code; and the group
    that holds the data, None for the outermost one.
    """
    if path.is_dir():
        if not is_store(path):
            raise FileError(
                path,
                problem="is a folder, and neither a zarr store nor a case of OpenFOAM with probes",
                fix='give its files: "runs/*.nc", say, or "runs/u_{time}.nc" where each is a time',
            )
        check_store(path)
        return "zarr", None
    with existing(path).open("rb") as stream:
        start = stream.read(4)
    check_is_read(path, start)
    engine = engine_of(path, start)
    check_seal_of_file(path)
    if engine == "h5netcdf":
        return engine, group_of(path, checked_groups(path, path), None)
    return engine, None


def _check_units(paths: Sequence[Path | str], sources: Sequence[xr.Dataset]) -> None:
    """Raise where a variable has other units than in the first file."""
    known: dict[str, str] = {}
    for path, source in zip(paths, sources, strict=True):
        for name, variable in source.variables.items():
            # files of a simulation may count from dates of their own
            unit = without_origin(unit_of(variable))
            wanted = known.setdefault(name, unit)
            if unit != wanted:
                own = unit or "no unit"
                first = wanted or "none"
                raise FileError(
                    path,
                    problem=f"has {name} in {own}, {paths[0]} in {first}",
                    fix="convert it, or name its unit alike",
                )


def _with_parameter(
    paths: Sequence[Path],
    sources: Sequence[xr.Dataset],
    name: str,
    values: Sequence[float],
    along: str | None,
) -> list[xr.Dataset]:
    """Files with a coordinate of one value in each, which their names hold.

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
        coordinate = value
        if along in source.dims:
            coordinate = (along, np.full(source.sizes[along], value))
        plain = source.drop_vars(name, errors="ignore").drop_attrs(deep=False)
        about = {key: text for key, text in source.attrs.items() if key != name}
        labelled.append(plain.assign_coords({name: coordinate}).assign_attrs(about))
    return labelled


def _agrees(known: object, value: float) -> bool:
    """Whether a variable or an attribute is a number that the name of a file has, too, or None."""
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
    """Files with a coordinate for each attribute in which they differ: a parameter, perhaps."""
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
    """Values, by file, of the attributes that differ between files, numbers where they are."""
    taken = set(RESERVED)
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


def _as_column(values: Sequence[object]) -> Array:
    """Numbers, also those that were written as text, NaN where missing; else text."""
    # "Re" is as often text as a number; a missing one must not make the others text
    with contextlib.suppress(TypeError, ValueError):
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.array(["" if value is None else str(value) for value in values])


def _on_one_clock(sources: Sequence[xr.Dataset], along: str) -> list[xr.Dataset]:
    """Files whose times are counted from the start where they differ."""
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
    """The time of all files, None where it is joined along, or is no number in one of them."""
    for time in TIMES:
        if time == along or time not in sources[0].xindexes:
            continue
        has_numbers = all(_has_numbers(source, time) for source in sources)
        return time if has_numbers else None
    return None


def _has_numbers(source: xr.Dataset, time: str) -> bool:
    """Whether a file has times, which are numbers."""
    if time not in source.xindexes:
        return False
    return source[time].dtype.kind in "fiu" and source[time].size > 0


def _common_unit(sources: Sequence[xr.Dataset], time: str, is_moved: bool) -> dict[str, str]:
    """The unit of times of all files, as an attribute; no date is the zero of all clocks."""
    units = [unit_of(source[time]) for source in sources]
    unit = units[0]
    if is_moved or len(set(units)) > 1:
        unit = without_origin(unit)
    return {"units": unit} if unit else {}
