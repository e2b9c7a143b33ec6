"""Sheets of a spreadsheet, and tables of the parameters of runs."""

import numpy as np
import pandas as pd
import pytest

from romkit.cli.inputs import read_own
from romkit.data import describe
from romkit.errors import FileError
from romkit.readers import sheets
from tests.unit.readers.test_roles import said

TIME = [0.0, 0.1, 0.2]
A, B = [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]
SAMPLES = pd.DataFrame({"run": [0] * 3 + [1] * 3, "t": TIME * 2, "x": A + B})


def opened(monkeypatch, tmp_path, **cells):
    """Read cells of sheets as pandas.read_excel(..., header=None) has them."""
    tables = {name: pd.DataFrame(list(rows), dtype=object) for name, rows in cells.items()}
    monkeypatch.setattr(pd, "read_excel", lambda *_, **__: tables)
    (tmp_path / "own.xlsx").touch()
    return sheets.read(tmp_path / "own.xlsx")


def test_a_single_sheet_with_its_row_of_units(monkeypatch, tmp_path):
    days = pd.date_range("2025-01-31", periods=3).to_pydatetime()
    rows = [("time", "a"), ("s", "mm"), (None, None), *zip(TIME, A, strict=True)]
    data, _ = said(describe, opened(monkeypatch, tmp_path, one=rows, empty=[]))
    assert np.array_equal(data.state.values[..., 0], [A])
    assert (data.time.attrs["units"], data.state.attrs["units"]) == ("s", "mm")
    dated = opened(monkeypatch, tmp_path, one=[("time", "a"), *zip(days, A, strict=True)])
    assert list(describe(dated).time.values) == [0.0, 86400.0, 172800.0]


def test_several_sheets_are_refused_with_the_line_that_reads_them(monkeypatch, tmp_path):
    with pytest.raises(FileError, match="2 sheets"):
        opened(monkeypatch, tmp_path, cold=[("time", "a")], hot=[("time", "a")])
    tables = {name: pd.DataFrame({"time": TIME, "a": a}) for name, a in (("cold", A), ("hot", B))}
    joined = describe(pd.concat(tables, names=["run"]).reset_index("run"))
    assert np.array_equal(joined.state.values[..., 0], [A, B])


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
