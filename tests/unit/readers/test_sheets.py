"""Sheets of a spreadsheet, and tables of the parameters of runs."""

import json

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


def test_sheets_are_runs():
    first, second = (sheet(pd.DataFrame({"time": TIME, "a": values})) for values in (A, B))
    table, notes = table_of_sheets("own", {"cold": first, "empty": cells(), "hot": second})
    assert np.array_equal(states(table), [A, B])
    assert any("cold, hot" in note for note in notes)
    single, _ = table_of_sheets("own", {"one": first, "empty": cells()})
    assert np.array_equal(states(single), [A])


@pytest.mark.parametrize("names", [("R1", "R2"), ("1", "2")])
def test_sheets_are_runs_of_a_sheet_of_parameters(names):
    first, second = (sheet(pd.DataFrame({"time": TIME, "a": values})) for values in (A, B))
    numbers = [int(name) if name.isdigit() else name for name in names]
    parameters = sheet(pd.DataFrame({"run": numbers[::-1], "k": [2.0, 1.0]}))
    sheets = {"conditions": parameters, names[0]: first, names[1]: second}
    table, _ = table_of_sheets("own", sheets)
    data = describe(table, context=["k"])
    assert np.array_equal(data.state.sel(component="a")[np.argsort(data.k.values)], [A, B])


def test_titles_units_and_notes_are_no_numbers():
    rows = zip(TIME, A, strict=True)
    data = cells(["Experiment 7", None], [None, None], ["time", "a"], ["s", "mm"], *rows)
    notes = cells(["a is the tip"], ["of the beam"])
    table, told = table_of_sheets("own", {"README": notes, "data": data})
    described = describe(table)
    assert np.array_equal(described.state.values[..., 0], [A])
    assert described.time.attrs["units"] == "s"
    assert described.state.attrs["units"] == "mm"
    assert any("README" in note for note in told)


def test_dates_in_cells_are_dates():
    days = pd.date_range("2025-01-31", periods=3)
    rows = [[day.to_pydatetime(), value] for day, value in zip(days, A, strict=True)]
    table, _ = table_of_sheets("own", {"one": cells(["time", "a"], *rows)})
    assert list(describe(table).time.values) == [0.0, 86400.0, 172800.0]


def test_a_sheet_for_each_variable_is_refused_with_lines_that_read_it():
    frames = {name: pd.DataFrame({"t": TIME, "1.0": A, "1.5": B}) for name in "xy"}
    with pytest.raises(FileError) as caught:
        table_of_sheets("own", {name: sheet(frame) for name, frame in frames.items()})
    assert "unstack" in str(caught.value)

    sheets = {name: frame.set_index("t") for name, frame in frames.items()}
    table = pd.DataFrame({name: frame.unstack() for name, frame in sheets.items()})
    table = table.rename_axis(["k", "time"]).reset_index().astype({"k": float})
    assert np.array_equal(states(table, context=["k"]), [A, B])


def test_a_table_with_a_row_for_each_run_has_their_parameters(tmp_path):
    parameters = pd.DataFrame({"run": [1, 0], "k": [1.5, 1.0]})
    SAMPLES.to_csv(tmp_path / "samples.csv", index=False)
    parameters.to_csv(tmp_path / "params.csv", index=False)
    names = [str(tmp_path / name) for name in ("params.csv", "samples.csv")]
    with pytest.warns(DataWarning, match="k of each run"):
        data = describe(read_own(names), context=["k"])
    assert np.array_equal(data.state.values[..., 0], [A, B])
    assert list(data.k.values) == [1.0, 1.5]

    table, _ = table_of_sheets("own", {"all": sheet(SAMPLES), "k": sheet(parameters)})
    assert list(describe(table, context=["k"]).k.values) == [1.0, 1.5]

    with pytest.raises(FileError, match="run 0"):
        table_of_sheets("own", {"all": sheet(SAMPLES), "k": sheet(parameters.add([1, 0]))})


def test_a_line_of_json_may_hold_a_run(tmp_path):
    runs = [{"k": k, "t": TIME, "x": values} for k, values in ((1.0, A), (1.5, B))]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, runs)) + "\n")
    assert np.array_equal(states(read_own(tmp_path / "a.jsonl"), context=["k"]), [A, B])
