"""Files that each hold one snapshot of a run, whose time their names have: "Re_{Re}/u_{time}.csv"."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from romkit.core.errors import FileError
from romkit.data.names import TIMES
from romkit.readers.tables import NUMBER_OF_PLACE

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


def tables_with_runs(
    paths: Sequence[Path], tables: Sequence[pd.DataFrame], parameters: Parameters
) -> list[pd.DataFrame]:
    """Return snapshots with the numbers of their runs; rows are places, those that columns say, or
    else numbered.

    Args:
        paths: the files.
        tables: of the files, with the parameters as columns.
        parameters: as in the names of the files.

    Raises:
        FileError: snapshots of rows without places, whose numbers differ.
    """
    are_numbered = not _say_places(tables, list(parameters))
    labelled: list[pd.DataFrame] = []
    for run, files in enumerate(files_of_runs(paths, parameters)):
        for table in (tables[place] for place in files):
            labels: dict[str, object] = {"run": run}
            if are_numbered:
                labels[NUMBER_OF_PLACE] = np.arange(len(table))
            labelled.append(table.assign(**labels))
    sizes = list(map(len, tables))
    if are_numbered and len(set(sizes)) > 1:
        other = next(k for k, size in enumerate(sizes) if size != sizes[0])
        raise FileError(
            paths[other],
            problem=f"has {sizes[other]} rows, {paths[0]} has {sizes[0]}, and no columns that say "
            "where they are",
            fix="give snapshots at the same places, or their coordinates as columns",
        )
    return labelled


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


def datasets_of_runs(
    paths: Sequence[Path], sources: Sequence[xr.Dataset], parameters: Parameters
) -> tuple[list[Path], list[xr.Dataset]]:
    """Return the first file of each run, and its snapshots along the time.

    Args:
        paths: the files.
        sources: their data on one grid.
        parameters: as in the names of the files.

    Raises:
        FileError: a file that has several times, or other fields than the first.
    """
    time = time_in_braces(parameters)
    snapshots = []
    for path, source, moment in zip(paths, sources, parameters[time], strict=True):
        _check_is_snapshot(path, source, time)
        if _shapes(source) != _shapes(sources[0]):
            raise FileError(
                path,
                problem=f"has other fields than {paths[0]}, or of other sizes",
                fix="give snapshots of the same fields on one grid",
            )
        snapshot = source.isel({time: 0}) if time in source.dims else source
        snapshots.append(snapshot.drop_vars(time, errors="ignore").expand_dims({time: [moment]}))
    runs = files_of_runs(paths, parameters)
    joined = [
        xr.concat(
            [snapshots[place] for place in files],
            time,
            coords="minimal",
            compat="equals",
            combine_attrs="drop_conflicts",
        )
        for files in runs
    ]
    return [paths[files[0]] for files in runs], joined


def _shapes(source: xr.Dataset) -> dict[object, tuple[int, ...]]:
    return {name: field.shape for name, field in source.data_vars.items()}


def _check_is_snapshot(path: Path, source: xr.Dataset, time: str) -> None:
    """Raise FileError where a file has times of its own."""
    if source.sizes.get(time, 1) > 1:
        raise FileError(
            path,
            problem=f"has {source.sizes[time]} values of {time}, and one in its name",
            fix=f"put * in place of {{{time}}}, or give another name in braces",
        )
