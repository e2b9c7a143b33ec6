"""Runs in several files: as a table if they are tables, else as one dataset in chunks of dask.

A file may hold one snapshot of a run, whose time its name has: "Re_{Re}/u_{time}.csv".
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from romkit.core import checks
from romkit.core.display import listed
from romkit.core.errors import FileError
from romkit.core.patterns import matched
from romkit.data.context import ROLE
from romkit.data.layout import renamed
from romkit.data.names import TIMES, TRAJECTORIES, unit_of
from romkit.data.units import strip_origin
from romkit.readers.door import read_all
from romkit.readers.joining import (
    Paths,
    Sources,
    align_grids,
    assign_parameter,
    check_parameter,
    combined,
    common_units,
)
from romkit.readers.names import run_columns
from romkit.readers.tables import split_units

Parameters = Mapping[str, Sequence[float]]
"""Numbers in the names of files, one for each file, by the names in braces."""

Tables = Sequence[pd.DataFrame]

CONCAT = "pandas.concat(tables) with a number for each run"

MERGE = "samples.merge(parameters, on='run')"


def read_runs(
    names: Sequence[str | Path], *, in_memory: float = 2e9
) -> tuple[xr.Dataset | pd.DataFrame, list[str]]:
    """Read runs in files, in memory where they fit, and name the parameters in the files' names.

    Args:
        names: of files, which may have wildcards, and parameters in braces; where one of these is a
            time, a file is a snapshot.
        in_memory: size of runs in several files [bytes] up to which they are read as a whole.

    Raises:
        FileError: a pattern without files, or a file that cannot be read, or is not like the first.
    """
    paths, parameters = matched(names)
    data = opened(paths, None, parameters, are_runs=True)
    if isinstance(data, xr.Dataset) and data.nbytes <= in_memory:
        with data:
            data = data.compute()
    return data, run_parameters(parameters)


def opened(
    paths: Paths,
    along: str | None,
    parameters: Parameters,
    are_runs: bool = False,
    time: str | None = None,
) -> xr.Dataset | pd.DataFrame:
    """Read files as they are, joined along a dimension; coordinates are in memory.

    Args:
        paths: the files.
        along: the dimension; None for that along which their coordinates differ.
        parameters: contexts of one value in each file, by name, which need a dimension, and perhaps
            the time of each file.
        are_runs: whether several files are runs, along a dimension of their own where they have
            none.
        time: a dimension, a column or a name in braces that is called `time` in the result.

    Raises:
        FileError: a file that cannot be read, or is not like the first.
        InputError: no such time.
    """
    sources, parameters = _name_time(read_all(paths), parameters, time)
    if isinstance(sources[0], pd.DataFrame):
        return _joined_tables(paths, sources, parameters)
    if along is None and (parameters or (are_runs and len(paths) > 1)):
        along = next((name for name in TRAJECTORIES if name in sources[0].dims), TRAJECTORIES[0])
    with contextlib.ExitStack() as stack:
        for source in sources:
            stack.enter_context(source)
        data = _joined(paths, sources, along, parameters)
        # the stack would close them here, before anything is read
        data.set_close(stack.pop_all().close)
        return data


def _name_time(
    sources: Sequence[Any], parameters: Parameters, time: str | None
) -> tuple[Sequence[Any], Parameters]:
    """Call a time of another name `time`, in files or among the numbers of their names."""
    if time is None:
        return sources, parameters
    if time in parameters:
        names = ("time" if name == time else name for name in parameters)
        return sources, dict(zip(names, parameters.values(), strict=True))
    return [_rename_time(source, time) for source in sources], parameters


def _rename_time(source: xr.Dataset | pd.DataFrame, time: str) -> xr.Dataset | pd.DataFrame:
    """Call a dimension, a coordinate or a column `time`."""
    if isinstance(source, xr.Dataset):
        checks.one_of("time", time, [*map(str, source.dims), *map(str, source.coords)])
        return renamed(source, time, "time")
    table = split_units(source)
    checks.one_of("time", time, list(map(str, table.columns)))
    units = {
        ("time" if name == time else name): unit for name, unit in table.attrs["units"].items()
    }
    table = table.rename(columns={time: "time"})
    table.attrs["units"] = units
    return table


def run_parameters(parameters: Iterable[str]) -> list[str]:
    """Return the names in braces that are parameters of runs."""
    return [name for name in parameters if name not in TIMES]


def _joined(
    paths: Paths, sources: Sources, along: str | None, parameters: Parameters
) -> xr.Dataset:
    units = []
    for source in sources:
        # files of a simulation may count from dates of their own
        file_units = {
            str(key): strip_origin(unit_of(values)) for key, values in source.variables.items()
        }
        units.append(file_units)
    common_units(paths, units)
    contexts = run_parameters(parameters)
    for name in contexts:
        values = zip(paths, sources, parameters[name], strict=True)
        sources = [assign_parameter(path, data, name, value, along) for path, data, value in values]
    if len(contexts) < len(parameters):
        paths, sources = _snapshot_runs(paths, align_grids(paths, sources, along), parameters)
    data = combined(paths, sources, along)
    for name in contexts:
        data[name].attrs[ROLE] = "context"
    return data


def _joined_tables(paths: Paths, tables: Tables, parameters: Parameters) -> pd.DataFrame:
    """Join tables of several runs; without numbers of runs of their own, each is a run.

    Args:
        paths: their files.
        tables: of these.
        parameters: columns of one value in each file, by name.

    Raises:
        FileError: one that has a parameter with other values, or units that differ, or a time in its
            name.
    """
    if len(run_parameters(parameters)) < len(parameters):
        fix = "pandas.concat([pandas.read_csv(name).assign(time=t, Re=50.0), ...]).set_index(['Re', 'time', 'x', 'y'])"
        raise FileError(paths[0], problem="is a table with a time in its name", fix=fix)
    tables = [split_units(table) for table in tables]
    units = common_units(paths, [table.attrs["units"] for table in tables])
    for name, values in parameters.items():
        labelled = []
        for path, table, value in zip(paths, tables, values, strict=True):
            check_parameter(path, name, table.get(name), value)
            labelled.append(table.assign(**{name: value}))
        tables = labelled
    if len(tables) > 1:
        tables = _numbered_runs(paths, tables)
    joined = pd.concat(tables, ignore_index=True) if len(tables) > 1 else tables[0]
    joined.attrs = {"units": units}
    return joined


def _numbered_runs(paths: Paths, tables: Tables) -> Tables:
    """Return tables with a column of runs: each table is one where none has such a column.

    Raises:
        FileError: a table that does not name its runs as the first one does, or has no time as that
            one has, or the number of a run of another one.
    """
    heads = []
    for path, table in zip(paths, tables, strict=True):
        times = [name for name in TIMES if name in table]
        heads.append((run_columns(map(str, table))[:1], times))
        if heads[-1] != heads[0]:
            (runs, clock), first = heads[-1], paths[0]
            problem = (
                f"has runs called {listed(runs) or 'nothing'}, times {listed(clock) or 'nothing'}"
            )
            fix = f"number the runs of all, {CONCAT}; a table of parameters, {MERGE}"
            raise FileError(path, problem=f"{problem}, {first} others", fix=fix)
    (columns, _), *_ = heads
    if not columns:
        return [table.assign(run=k) for k, table in enumerate(tables)]
    numbers = pd.concat([table[columns[0]].drop_duplicates() for table in tables])
    twice = numbers[numbers.duplicated()]
    if len(twice):
        problem = f"has {columns[0]} {twice.iloc[0]}, as another file has"
        raise FileError(listed(map(str, paths)), problem=problem, fix=CONCAT)
    return tables


def _run_files(paths: Paths, parameters: Parameters) -> list[list[int]]:
    """Return places of the files of each run, in the order of their times.

    Raises:
        FileError: two files are one time of one run.
    """
    (time,) = parameters.keys() & {*TIMES}
    runs: dict[tuple[float, ...], dict[float, int]] = {}
    for place, path in enumerate(paths):
        context = tuple(parameters[name][place] for name in run_parameters(parameters))
        snapshots, moment = runs.setdefault(context, {}), parameters[time][place]
        if snapshots.setdefault(moment, place) != place:
            raise FileError(
                path,
                problem=f"is at {time}={moment:g}, as {paths[snapshots[moment]]} is",
                fix="put what tells their runs apart into braces",
            )
    return [[snapshots[moment] for moment in sorted(snapshots)] for snapshots in runs.values()]


def _snapshot_runs(paths: Paths, sources: Sources, parameters: Parameters) -> tuple[Paths, Sources]:
    """Return the first file of each run, and its snapshots along the time.

    Args:
        paths: the files.
        sources: their data on one grid.
        parameters: as in the names of the files.

    Raises:
        FileError: a file that has several times, or other fields than the first.
    """
    (time,) = parameters.keys() & {*TIMES}
    shapes = {name: field.shape for name, field in sources[0].data_vars.items()}
    snapshots = []
    for path, source, moment in zip(paths, sources, parameters[time], strict=True):
        problem, fix = "", "give snapshots of the same fields on one grid"
        if source.sizes.get(time, 1) > 1:
            problem = f"has {source.sizes[time]} values of {time}, and one in its name"
            fix = f"put * in place of {{{time}}}, or give another name in braces"
        elif {name: field.shape for name, field in source.data_vars.items()} != shapes:
            problem = f"has other fields than {paths[0]}, or of other sizes"
        if problem:
            raise FileError(path, problem=problem, fix=fix)
        snapshot = source.isel({time: 0}, missing_dims="ignore").drop_vars(time, errors="ignore")
        snapshots.append(snapshot.expand_dims({time: [moment]}))
    rules: dict[str, Any] = {
        "coords": "minimal",
        "compat": "equals",
        "combine_attrs": "drop_conflicts",
    }
    runs = _run_files(paths, parameters)
    joined = [xr.concat([snapshots[place] for place in files], time, **rules) for files in runs]
    return [paths[files[0]] for files in runs], joined
