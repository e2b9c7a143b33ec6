"""First states for a model in tables of the form of its runs, perhaps without a time."""

import pandas as pd
import xarray as xr

from romkit.data.layout import Layout
from romkit.readers.names import run_columns
from romkit.readers.tables import find_time_column, split_units


def index_places(table: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """Return a table whose index is those dimensions of a model that it has as columns."""
    dims = dict.fromkeys(dim for variable in layout.variables for dim in variable.dims)
    places = [dim for dim in dims if dim in table.columns]
    return table.set_index(places) if places else table


def add_time(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with a time, which is zero where it had none; then each row is a run, but for
    places in the index.
    """
    if find_time_column(table, []) is not None:
        return table
    has_places = table.index.names != [None]
    has_runs = bool(run_columns(map(str, table.columns)))
    if not has_places and not has_runs:
        table = table.assign(run=range(len(table)))
    return table.assign(time=0.0)


def row_columns(layout: Layout, rows: pd.DataFrame) -> xr.Dataset:
    """Return the columns of a table that are variables of the state, along its rows, or along
    places.
    """
    rows = split_units(rows)
    names = [variable.name for variable in layout.variables if variable.name in rows.columns]
    data = index_places(rows, layout)[names].astype(float).to_xarray()
    for name in names:
        data[name].attrs["units"] = rows.attrs["units"].get(name, "")
    return data
