"""Files that each hold one snapshot of a run, whose time their names have: "Re_{Re}/u_{time}.csv"."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from romkit.core.errors import FileError
from romkit.data.names import TIMES
from romkit.readers.places import NUMBER_OF_PLACE

Parameters = Mapping[str, Sequence[float]]
"""Numbers in the names of files, one for each file, by the names in braces."""


def without_time(parameters: Iterable[str]) -> list[str]:
    """Return the names in braces that are parameters of runs."""
    return [name for name in parameters if name not in TIMES]


def time_in_braces(parameters: Iterable[str]) -> str:
    """Return name the time in braces, "" where files are no snapshots."""
    return next((name for name in parameters if name in TIMES), "")


def files_of_runs(paths: Sequence[Path], parameters: Parameters) -> list[list[int]]:
    """Return places of the files of each run, in the order of their times.

    Raises:
        FileError: two files are one time of one run.
    """
    time = time_in_braces(parameters)
    runs: dict[tuple[float, ...], dict[float, int]] = {}
    for place, path in enumerate(paths):
        context = tuple(parameters[name][place] for name in without_time(parameters))
        moment = parameters[time][place]
        snapshots = runs.setdefault(context, {})
        if moment in snapshots:
            raise FileError(
                path,
                problem=f"is at {time}={moment:g}, as {paths[snapshots[moment]]} is",
                fix="put what tells their runs apart into braces",
            )
        snapshots[moment] = place
    return [[snapshots[moment] for moment in sorted(snapshots)] for snapshots in runs.values()]


def tables_of_runs(
    paths: Sequence[Path], tables: Sequence[pd.DataFrame], parameters: Parameters
) -> Iterator[tuple[Path, pd.DataFrame]]:
    """Yield the first file of each run, and its snapshots below each other.

    Rows of a snapshot are places: those that columns say, or else numbered.

    Args:
        paths: the files.
        tables: of the files, with the parameters as columns.
        parameters: as in the names of the files.

    Raises:
        FileError: snapshots of rows without places, whose numbers differ.
    """
    if not _say_places(tables, list(parameters)):
        tables = _with_numbered_places(paths, tables)
    for files in files_of_runs(paths, parameters):
        run = pd.concat([tables[place] for place in files], ignore_index=True)
        run.attrs = tables[files[0]].attrs
        yield paths[files[0]], run


def _say_places(tables: Sequence[pd.DataFrame], parameters: Sequence[str]) -> bool:
    """Tell whether columns that are the same in all snapshots tell their rows apart."""
    first = tables[0]
    if all(len(table) == 1 for table in tables):
        return True
    shared = []
    for name in first.columns.difference(parameters):
        values = first[name].to_numpy()
        if all(name in table and np.array_equal(table[name], values) for table in tables):
            shared.append(name)
    return bool(shared) and not first.duplicated(shared).any()


def _with_numbered_places(
    paths: Sequence[Path], tables: Sequence[pd.DataFrame]
) -> list[pd.DataFrame]:
    """Return snapshots with the numbers of their rows as a column."""
    size = len(tables[0])
    numbered = []
    for path, table in zip(paths, tables, strict=True):
        if len(table) != size:
            raise FileError(
                path,
                problem=f"has {len(table)} rows, {paths[0]} has {size}, and no columns that say "
                "where they are",
                fix="give snapshots at the same places, or their coordinates as columns",
            )
        numbered.append(table.assign(**{NUMBER_OF_PLACE: np.arange(size)}))
        numbered[-1].attrs = table.attrs
    return numbered


def datasets_of_runs(
    paths: Sequence[Path], sources: Sequence[xr.Dataset], parameters: Parameters
) -> Iterator[tuple[Path, xr.Dataset]]:
    """Yield the first file of each run, and its snapshots along the time.

    Args:
        paths: the files.
        sources: their data on one grid.
        parameters: as in the names of the files.

    Raises:
        FileError: a file that has several times, or other fields than the first.
    """
    time = time_in_braces(parameters)
    for path, source in zip(paths, sources, strict=True):
        _check_is_snapshot(path, source, time)
        _check_same_fields(path, source, paths[0], sources[0])
    for files in files_of_runs(paths, parameters):
        snapshots = []
        for place in files:
            snapshot = sources[place]
            if time in snapshot.dims:
                snapshot = snapshot.isel({time: 0})
            moment = {time: [parameters[time][place]]}
            snapshots.append(snapshot.drop_vars(time, errors="ignore").expand_dims(moment))
        run = xr.concat(
            snapshots, time, coords="minimal", compat="equals", combine_attrs="drop_conflicts"
        )
        yield paths[files[0]], run


def _check_is_snapshot(path: Path, source: xr.Dataset, time: str) -> None:
    """Raise FileError where a file has times of its own."""
    if source.sizes.get(time, 1) > 1:
        raise FileError(
            path,
            problem=f"has {source.sizes[time]} values of {time}, and one in its name",
            fix=f"put * in place of {{{time}}}, or give another name in braces",
        )


def _check_same_fields(path: Path, source: xr.Dataset, first: Path, wanted: xr.Dataset) -> None:
    """Raise FileError where a snapshot has other fields than the first one, or of other sizes."""
    shapes = {name: field.shape for name, field in source.data_vars.items()}
    if shapes != {name: field.shape for name, field in wanted.data_vars.items()}:
        raise FileError(
            path,
            problem=f"has other fields than {first}, or of other sizes",
            fix="give snapshots of the same fields on one grid",
        )
