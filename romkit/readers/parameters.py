"""Parameters of runs in a table of their own, with one row for each run."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from romkit.core.display import listed
from romkit.core.errors import FileError
from romkit.readers.names import columns_of_runs


def with_parameters_of_runs(
    path: str | Path, tables: Mapping[str, pd.DataFrame]
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Return tables of samples with the columns of those that have a row for each run, and
    sentences for warnings.

    Args:
        path: the file, or the first of several, for errors.
        tables: by the names of their sheets or files.

    Raises:
        FileError: a run has no row, or its parameters are no table of the same runs.
    """
    of_runs = {name: table for name, table in tables.items() if _has_a_row_for_each_run(table)}
    samples = {name: table for name, table in tables.items() if name not in of_runs}
    samples = _with_runs_by_name(samples, of_runs)
    if not of_runs or not _have_runs(samples):
        return dict(tables), []
    notes = []
    for name, parameters in of_runs.items():
        run = _column_of_runs(parameters)
        for key, table in samples.items():
            samples[key] = _joined(path, table, parameters, run)
        columns = [column for column in parameters.columns if column != run]
        notes.append(f"{listed(columns)} of each {run} are those in {name}")
    return samples, notes


def _have_runs(samples: Mapping[str, pd.DataFrame]) -> bool:
    """Tell whether there are samples, and each table of them has a column that tells runs apart."""
    columns = [_column_of_runs(table) for table in samples.values()]
    return len(columns) > 0 and all(columns)


def _with_runs_by_name(
    samples: Mapping[str, pd.DataFrame], of_runs: Mapping[str, pd.DataFrame]
) -> dict[str, pd.DataFrame]:
    """Return samples whose sheets or files are called as runs are, with a column of this name."""
    named = dict(samples)
    for parameters in of_runs.values():
        run = _column_of_runs(parameters)
        names = set(parameters[run].astype(str))
        for name, table in samples.items():
            if name in names and not _column_of_runs(table):
                named[name] = table.assign(**{run: name})
                named[name].attrs = table.attrs
    return named


def _column_of_runs(table: pd.DataFrame) -> str:
    """Return the first column that tells runs apart, "" where there is none."""
    columns = columns_of_runs(map(str, table.columns))
    return columns[0] if columns else ""


def _has_a_row_for_each_run(table: pd.DataFrame) -> bool:
    run = _column_of_runs(table)
    # a single row may be the only sample of a run
    return bool(run) and len(table) > 1 and table[run].is_unique


def _joined(
    path: str | Path, table: pd.DataFrame, parameters: pd.DataFrame, run: str
) -> pd.DataFrame:
    """Return samples with the parameters of their runs; units of both."""
    if run not in table:
        raise FileError(
            path,
            problem=f"has runs called {_column_of_runs(table)}, and parameters of each {run}",
            fix="name the column of runs alike in both tables",
        )
    # a sheet is called by a text where its run is a number
    if table[run].dtype != parameters[run].dtype:
        table = table.astype({run: str})
        parameters = parameters.astype({run: str})
    is_missing = ~table[run].isin(parameters[run])
    if is_missing.any():
        raise FileError(
            path,
            problem=f"has no parameters of {run} {table[run][is_missing].iloc[0]}",
            fix="add its row, or drop its samples",
        )
    clashing = sorted((set(table.columns) & set(parameters.columns)) - {run})
    if clashing:
        raise FileError(
            path,
            problem=f"has {', '.join(clashing)} in two tables",
            fix="drop it from one of them",
        )
    units = parameters.attrs.get("units", {}) | table.attrs.get("units", {})
    joined = table.merge(parameters, on=run, how="left")
    joined.attrs = {"units": units}
    return joined
