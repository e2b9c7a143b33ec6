"""Tables of several files below each other, and tables of the parameters of their runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from romkit.core.display import listed
from romkit.core.errors import DataWarning, FileError, warn
from romkit.data.names import TIMES, split_unit
from romkit.data.units import is_unit
from romkit.readers.names import columns_of_runs
from romkit.readers.snapshot_files import tables_with_runs, time_in_braces


def joined_tables(
    paths: Sequence[Path],
    tables: Sequence[pd.DataFrame],
    parameters: Mapping[str, Sequence[float]],
) -> pd.DataFrame:
    """Join tables of several runs; without numbers of runs of their own, each is a run.

    Args:
        paths: their files. One that has a row for each run holds parameters of the runs.
        tables: of these.
        parameters: columns of one value in each file, by name; where one is a time, files are
            snapshots of runs.

    Raises:
        FileError: one that has a parameter with other values, or units that differ.
    """
    units = _common_units(paths, tables)
    if len(tables) > 1 and not parameters:
        paths, tables = _with_parameters_of_runs(paths, tables)
    for name, values in parameters.items():
        tables = [
            _with_parameter(table, path, name, value)
            for table, path, value in zip(tables, paths, values, strict=True)
        ]
    if time_in_braces(parameters):
        tables = tables_with_runs(paths, tables, parameters)
    elif len(tables) > 1:
        tables = _with_own_runs(tables, paths)
    joined = pd.concat(tables, ignore_index=True) if len(tables) > 1 else tables[0]
    joined.attrs = {"units": units}
    return joined


def _with_own_runs(tables: Sequence[pd.DataFrame], paths: Sequence[Path]) -> Sequence[pd.DataFrame]:
    """Return tables with a column of runs, each of which is in one table, or goes on in another.

    Raises:
        FileError: a table that does not name its runs as the first one does.
    """
    names = [_column_of_runs(table) for table in tables]
    name = names[0]
    for path, other in zip(paths, names, strict=True):
        if other != name:
            raise FileError(
                path,
                problem=f"has runs called {other or 'nothing'}, {paths[0]} has {name or 'none'}",
                fix="name the column of runs alike in all files, or drop it",
            )
    if not name:
        return [table.assign(run=k) for k, table in enumerate(tables)]
    if _are_apart(tables, name):
        return tables
    # each file counts its runs anew: run 0 of one is not run 0 of another
    renumbered, count = [], 0
    for table in tables:
        codes, values = pd.factorize(table[name])
        renumbered.append(table.assign(**{name: np.where(codes < 0, np.nan, codes + count)}))
        count += len(values)
    warn(f"{name}s have the same numbers in several files; they are counted anew", DataWarning)
    return renumbered


def _are_apart(tables: Sequence[pd.DataFrame], run: str) -> bool:
    """Tell whether each run is in one table, or goes on in another behind its end."""
    time = next((name for name in TIMES if name in tables[0].columns), None)
    spans = []
    for table in tables:
        times = pd.Series(np.nan, index=table.index)
        if time in table.columns:
            times = pd.to_numeric(table[time], errors="coerce")
        spans.append(times.groupby(table[run]).agg(["min", "max"]))
    of_runs = pd.concat(spans).sort_values("min")
    repeated = of_runs[of_runs.index.duplicated(keep=False)]
    ends = repeated.groupby(level=0)["max"].shift()
    is_first = ~repeated.sort_values("min").index.duplicated()
    # NaN, as of dates in text, is behind nothing
    return bool(((ends < repeated["min"]) | is_first).all() and repeated.notna().all(axis=None))


def _with_parameter(table: pd.DataFrame, path: Path, name: str, value: float) -> pd.DataFrame:
    """Return the table with a column of one value."""
    if name in table.columns:
        numbers = pd.to_numeric(table[name], errors="coerce")
        if not np.isclose(numbers, value).all():
            raise FileError(
                path,
                problem=f"has a column {name} of other values than {value:g} in its name",
                fix="give another name in braces",
            )
    return table.assign(**{name: value})


def _common_units(paths: Sequence[Path], tables: Sequence[pd.DataFrame]) -> dict[str, str]:
    """Return units by column, which are those of all tables.

    Raises:
        FileError: a column has another unit than in the first table.
    """
    of_columns: dict[str, str] = {}
    in_names: dict[str, str] = {}
    for path, table in zip(paths, tables, strict=True):
        named = dict(split_unit(str(column)) for column in table.columns)
        known = {bare: unit for bare, unit in named.items() if is_unit(unit)}
        for units, common in ((table.attrs.get("units", {}), of_columns), (known, in_names)):
            for name, unit in units.items():
                if common.setdefault(name, unit) != unit:
                    raise FileError(
                        path,
                        problem=f"has {name} in {unit}, others in {common[name]}",
                        fix="convert it, or name its unit alike",
                    )
    return of_columns


def _column_of_runs(table: pd.DataFrame) -> str:
    """Return the first column that tells runs apart, "" where there is none."""
    columns = columns_of_runs(map(str, table.columns))
    return columns[0] if columns else ""


def _has_a_row_for_each_run(table: pd.DataFrame) -> bool:
    run = _column_of_runs(table)
    # a single row may be the only sample of a run
    return bool(run) and len(table) > 1 and table[run].is_unique


def _with_parameters_of_runs(
    paths: Sequence[Path], tables: Sequence[pd.DataFrame]
) -> tuple[list[Path], list[pd.DataFrame]]:
    """Return files of samples, and their tables with the columns of those that have a row for each
    run.

    Raises:
        FileError: a run has no row, or its parameters are no table of the same runs.
    """
    samples: dict[Path, pd.DataFrame] = {}
    of_runs: dict[Path, pd.DataFrame] = {}
    for path, table in zip(paths, tables, strict=True):
        (of_runs if _has_a_row_for_each_run(table) else samples)[path] = table
    if not samples or not all(map(_column_of_runs, samples.values())):
        return list(paths), list(tables)
    for path, parameters in of_runs.items():
        run = _column_of_runs(parameters)
        for place, table in samples.items():
            samples[place] = _joined(place, table, parameters, run)
        columns = listed(parameters.columns.drop(run))
        warn(f"{columns} of each {run} are those in {path}", DataWarning)
    return list(samples), list(samples.values())


def _joined(path: Path, table: pd.DataFrame, parameters: pd.DataFrame, run: str) -> pd.DataFrame:
    """Return samples with the parameters of their runs."""
    problem, fix = "", "name the column of runs alike in both tables"
    clashing = sorted((set(table.columns) & set(parameters.columns)) - {run})
    if run not in table:
        problem = f"has runs called {_column_of_runs(table)}, and parameters of each {run}"
    elif clashing:
        problem = f"has {', '.join(clashing)} in two tables"
        fix = "drop it from one of them"
    elif not table[run].isin(parameters[run]).all():
        missing = table[run][~table[run].isin(parameters[run])]
        problem = f"has no parameters of {run} {missing.iloc[0]}"
        fix = "add its row, or drop its samples"
    if problem:
        raise FileError(path, problem=problem, fix=fix)
    return table.merge(parameters, on=run, how="left")
