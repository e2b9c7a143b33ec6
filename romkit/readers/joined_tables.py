"""Tables of several files below each other."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from romkit.core.errors import DataWarning, FileError, warn
from romkit.data.names import TIMES, split_unit
from romkit.data.units import is_unit
from romkit.readers.names import columns_of_runs
from romkit.readers.parameters import with_parameters_of_runs
from romkit.readers.snapshot_files import tables_of_runs, time_in_braces


def joined_tables(
    paths: Sequence[Path],
    tables: Sequence[pd.DataFrame],
    parameters: Mapping[str, Sequence[float]],
) -> pd.DataFrame:
    """Join tables of several runs; without numbers of runs of their own, each is a run.

    Args:
        paths: their files.
        tables: of these.
        parameters: columns of one value in each file, by name; where one is a time, files are
            snapshots of runs.

    Raises:
        FileError: one that has a parameter with other values, or units that differ.
    """
    if len(tables) > 1 and not parameters:
        samples, notes = with_parameters_of_runs(
            paths[0], dict(zip(map(str, paths), tables, strict=True))
        )
        paths, tables = [Path(name) for name in samples], list(samples.values())
        for note in notes:
            warn(note, DataWarning)
    for name, values in parameters.items():
        tables = [
            _with_parameter(table, path, name, value)
            for table, path, value in zip(tables, paths, values, strict=True)
        ]
    if time_in_braces(parameters):
        runs = list(tables_of_runs(paths, tables, parameters))
        paths, tables = [path for path, _ in runs], [table for _, table in runs]
    if len(tables) == 1:
        return tables[0]
    units = _common_units(paths, tables)
    joined = pd.concat(_with_own_runs(tables, paths), ignore_index=True)
    joined.attrs = {"units": units}
    return joined


def _with_own_runs(
    tables: Sequence[pd.DataFrame], paths: Sequence[str | Path]
) -> list[pd.DataFrame]:
    """Return tables with a column of runs, each of which is in one table.

    Raises:
        FileError: a table that does not name its runs as the first one does.
    """
    names = []
    for table in tables:
        columns = columns_of_runs(map(str, table.columns))
        names.append(columns[0] if columns else "")
    if set(names) == {""}:
        return [table.assign(run=k) for k, table in enumerate(tables)]
    name = names[0]
    for path, other in zip(paths, names, strict=True):
        if other != name:
            raise FileError(
                path,
                problem=f"has runs called {other or 'nothing'}, {paths[0]} has {name or 'none'}",
                fix="name the column of runs alike in all files, or drop it",
            )
    numbers = [set(table[name]) for table in tables]
    are_distinct = len(set().union(*numbers)) == sum(map(len, numbers))
    if are_distinct or _continue(tables, name):
        return [*tables]
    # each file counts its runs anew: run 0 of one is not run 0 of another
    renumbered, count = [], 0
    for table in tables:
        codes, values = pd.factorize(table[name])
        renumbered.append(table.assign(**{name: np.where(codes < 0, np.nan, codes + count)}))
        count += len(values)
    warn(f"{name}s have the same numbers in several files; they are counted anew", DataWarning)
    return renumbered


def _continue(tables: Sequence[pd.DataFrame], run: str) -> bool:
    """Tell whether runs go on from one file to another, each behind the end of the one before."""
    spans: dict[object, list[tuple[float, float]]] = {}
    for table in tables:
        time = next((name for name in TIMES if name in table.columns), None)
        if time is None:
            return False
        times = pd.to_numeric(table[time], errors="coerce").groupby(table[run])
        for number, least, largest in zip(times.groups, times.min(), times.max(), strict=True):
            spans.setdefault(number, []).append((least, largest))
    for spans_of_run in spans.values():
        ordered = sorted(spans_of_run)
        for (_, end), (start, _) in itertools.pairwise(ordered):
            if not end < start:  # NaN included, of dates as text
                return False
    return True


def _with_parameter(table: pd.DataFrame, path: str | Path, name: str, value: float) -> pd.DataFrame:
    """Return the table with a column of one value."""
    if name in table.columns:
        numbers = pd.to_numeric(table[name], errors="coerce")
        # a row of units below the names is none of the values
        if not np.isclose(numbers[numbers.notna()], value).all() or numbers.isna().all():
            raise FileError(
                path,
                problem=f"has a column {name} of other values than {value:g} in its name",
                fix="give another name in braces",
            )
    return table.assign(**{name: value})


def _of_other_unit(path: str | Path, name: str, unit: str, first: str) -> FileError:
    """Describe a column that has another unit than in the files before."""
    return FileError(
        path,
        problem=f"has {name} in {unit}, others in {first}",
        fix="convert it, or name its unit alike",
    )


def _common_units(paths: Sequence[str | Path], tables: Sequence[pd.DataFrame]) -> dict[str, str]:
    """Return units by column, which are those of all tables.

    Raises:
        FileError: a column has another unit than in the first table.
    """
    common: dict[str, str] = {}
    for path, table in zip(paths, tables, strict=True):
        for name, unit in table.attrs.get("units", {}).items():
            if common.setdefault(name, unit) != unit:
                raise _of_other_unit(path, name, unit, common[name])
    units_of_names: dict[str, str] = {}
    for path, table in zip(paths, tables, strict=True):
        for column in map(str, table.columns):
            bare, unit = split_unit(column)
            if is_unit(unit) and units_of_names.setdefault(bare, unit) != unit:
                raise _of_other_unit(path, bare, unit, units_of_names[bare])
    return common
