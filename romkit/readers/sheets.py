"""Tables of a spreadsheet: a sheet for each run, notes beside, and tables of the runs' parameters."""

import io
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from romkit.core.display import listed
from romkit.core.errors import FileError
from romkit.data.names import TIMES, split_unit
from romkit.readers.names import MORE_TIMES
from romkit.readers.parameters import with_parameters_of_runs
from romkit.readers.text import table_of_text

RUN = "run"
"""Column with the names of the sheets, which are runs."""


def table_of_sheets(
    path: str | Path, sheets: Mapping[str, pd.DataFrame]
) -> tuple[pd.DataFrame, list[str]]:
    """The sheets below each other, each a run by its name, and sentences for warnings.

    Args:
        path: the spreadsheet.
        sheets: cells by name of the sheet, as `pandas.read_excel(..., header=None)` reads them.

    Raises:
        FileError: no table, or a sheet for each variable, whose columns are runs.
    """
    tables, notes, left_out = {}, [], []
    for name, cells in sheets.items():
        if not cells.size:
            continue
        if len(sheets) > 1 and not cells.map(_is_value).any(axis=None):
            left_out.append(name)
            continue
        tables[name], notes_of_sheet = table_of_text(path, io.StringIO(_as_text(cells)))
        notes += notes_of_sheet
    if left_out:
        notes.append(f"sheets without numbers are left out: {listed(left_out)}")
    if not tables:
        raise FileError(path, problem="holds no table", fix="write a row of names first")
    tables, of_runs = with_parameters_of_runs(path, tables)
    notes += of_runs
    if len(tables) == 1:
        return next(iter(tables.values())), notes
    _check_variables(path, tables)
    notes.append(f"sheets are runs: {listed(tables)}")
    units: dict[str, str] = {}
    runs = []
    for name, table in tables.items():
        units |= table.attrs.get("units", {})
        if RUN not in table:
            table = table.assign(**{RUN: name})
        runs.append(table)
    joined = pd.concat(runs, ignore_index=True)
    joined.attrs = {"units": units}
    return joined, list(dict.fromkeys(notes))


def _is_value(cell: object) -> bool:
    """Whether a cell holds a number, a date or a time, and no text."""
    return not isinstance(cell, str) and not pd.isna(cell)


def _as_text(cells: pd.DataFrame) -> str:
    """Rows of a sheet as lines of text with commas between; rows without a cell are empty lines."""
    on_one_line = cells.replace(r"\s*\n\s*", " ", regex=True)
    lines = []
    for line in io.StringIO(on_one_line.to_csv(index=False, header=False)):
        lines.append(line if line.strip(",\n") else "\n")
    return "".join(lines).lstrip("\n")


def _check_variables(path: str | Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """Raise where sheets are variables: beside the time, all columns are called by numbers, those
    of a parameter.
    """
    for table in tables.values():
        names = [name for name in map(str, table.columns) if not _is_time(name)]
        if not names or not pd.to_numeric(pd.Series(names), errors="coerce").notna().all():
            return
    first, second = list(tables)[:2]
    raise FileError(
        path,
        problem=f"has sheets {first}, {second} with columns called by numbers: variables, not runs",
        fix="sheets = pandas.read_excel(path, sheet_name=None, index_col=0); table = "
        "pandas.DataFrame({name: sheet.unstack() for name, sheet in sheets.items()}); then "
        "table.rename_axis(['k', 'time']).reset_index().astype({'k': float}), with the context k",
    )


def _is_time(name: str) -> bool:
    return split_unit(name).bare.lower() in TIMES + MORE_TIMES
