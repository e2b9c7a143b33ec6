"""Sheets of a spreadsheet, and tables of the parameters of runs."""

import numpy as np
import pandas as pd
import pytest

from romkit.cli.inputs import read_own
from romkit.data import describe
from romkit.errors import DataWarning, FileError
from romkit.readers.sheets import table_of_sheets

TIME = [0.0, 0.1, 0.2]
A, B = [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]
SAMPLES = pd.DataFrame({"run": [0] * 3 + [1] * 3, "t": TIME * 2, "x": A + B})


def cells(*rows):
    """A sheet as pandas.read_excel(..., header=None) reads it."""
    return pd.DataFrame(list(rows), dtype=object)


def sheet(table):
    return cells(list(table.columns), *table.itertuples(index=False))


def states(table, **roles):
    return describe(table, **roles).state.values[..., 0]


def test_several_sheets_are_refused_with_the_line_that_reads_them(tmp_path):
    tables = {"cold": pd.DataFrame({"time": TIME, "a": A})}
    tables["hot"] = pd.DataFrame({"time": TIME, "a": B})
    sheets = {name: sheet(table) for name, table in tables.items()}
    with pytest.raises(FileError, match="several sheets, cold, hot"):
        table_of_sheets("own", sheets)
    joined = pd.concat(tables, names=["run"]).reset_index("run")
    assert np.array_equal(states(joined), [A, B])
    single = table_of_sheets("own", {"one": sheets["cold"], "empty": cells()})
    assert np.array_equal(states(single), [A])


def test_titles_units_and_notes_are_no_numbers():
    rows = zip(TIME, A, strict=True)
    data = cells(["Experiment 7", None], [None, None], ["time", "a"], ["s", "mm"], *rows)
    notes = cells(["a is the tip"], ["of the beam"])
    with pytest.warns(DataWarning, match="README"):
        table = table_of_sheets("own", {"README": notes, "data": data})
    described = describe(table)
    assert np.array_equal(described.state.values[..., 0], [A])
    assert described.time.attrs["units"] == "s"
    assert described.state.attrs["units"] == "mm"


def test_dates_in_cells_are_dates():
    days = pd.date_range("2025-01-31", periods=3)
    rows = [[day.to_pydatetime(), value] for day, value in zip(days, A, strict=True)]
    table = table_of_sheets("own", {"one": cells(["time", "a"], *rows)})
    assert list(describe(table).time.values) == [0.0, 86400.0, 172800.0]


def test_a_table_of_parameters_is_refused_with_the_line_that_joins_it(tmp_path):
    parameters = pd.DataFrame({"run": [1, 0], "k": [1.5, 1.0]})
    SAMPLES.rename(columns={"t": "time"}).to_csv(tmp_path / "samples.csv", index=False)
    parameters.to_csv(tmp_path / "params.csv", index=False)
    names = [str(tmp_path / name) for name in ("params.csv", "samples.csv")]
    with pytest.raises(FileError, match=r"samples\.merge"):
        read_own(names)
    data = describe(SAMPLES.merge(parameters, on="run"), context=["k"])
    assert np.array_equal(data.state.values[..., 0], [A, B])
    assert list(data.k.values) == [1.0, 1.5]
