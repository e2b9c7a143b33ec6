"""Long tables: rows of variables, and of runs one behind the other; numbers that are missing."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import CubicSpline

from romkit.data import describe, from_arrays
from romkit.learning.reading import described
from tests.refusals import refused
from tests.unit.readers.test_roles import said


def test_long_tables_are_refused_with_the_call_that_widens_them():
    rows = itertools.product(range(3), range(6), ("ill", "well"))
    table = pd.DataFrame(rows, columns=["run", "t", "variable"])
    table = table.assign(value=np.arange(36.0))
    refused(r"table\.pivot\(", describe, table)
    wide = table.pivot(index=["run", "t"], columns="variable", values="value").reset_index()
    data = describe(wide)
    assert data.component.values.tolist() == ["ill", "well"]
    assert np.array_equal(data.state.values, np.arange(36.0).reshape(3, 6, 2))


@pytest.mark.parametrize("clock", [np.arange(9.0), pd.date_range("2020-01-01", periods=9)])
def test_runs_one_behind_the_other_are_refused_with_the_line_that_numbers_them(clock):
    values = np.random.default_rng(2).normal(size=(4, 9, 2))
    tables = [
        pd.DataFrame({"t": clock, "a": v[:, 0], "b": v[:, 1], "k": float(k)})
        for k, v in enumerate(values)
    ]
    stacked = pd.concat(tables, ignore_index=True)
    refused(r"cumsum\(\)", describe, stacked)
    first = stacked["t"].diff().dt.total_seconds() if clock.dtype.kind == "M" else stacked.t.diff()
    data, _ = said(describe, stacked.assign(run=(first < 0).cumsum()))
    assert np.array_equal(data.state.values, values)
    assert np.array_equal(data.k.values, range(4))


def test_single_numbers_that_are_missing_are_those_of_splines_and_holes_stay():
    clock = 0.5 * np.arange(30)
    whole = np.stack([np.sin(k * clock[:, None] + np.arange(5)) for k in (1.0, 1.1, 1.3)])
    values = whole.copy()
    values[0, 4, 2] = values[1, 10, [0, 3]] = values[2, 28, 1] = np.nan
    values[1, 15:21, 4] = np.nan
    with warnings.catch_warnings(record=True):
        runs = from_arrays(values, clock, context={"k": [1.0, 1.1, 1.3]})
        read = described(runs, None)
    wanted = values.copy()
    for run, component in ((0, 2), (1, 0), (1, 3), (2, 1)):
        course = values[run, :, component]
        known = np.isfinite(course)
        spline = CubicSpline(clock[known], course[known])
        wanted[run, ~known, component] = spline(clock[~known])
    assert np.array_equal(np.isnan(read.state.values), np.isnan(wanted))
    is_sample = np.isfinite(values)
    assert np.array_equal(read.state.values[is_sample], values[is_sample])
    assert np.allclose(read.state.values, wanted, rtol=0, atol=1e-12, equal_nan=True)


def test_a_start_that_lacks_a_number_is_said_by_run_and_component():
    values = np.random.default_rng(0).normal(size=(3, 12, 4))
    values[1, 0, 2] = np.nan
    runs = from_arrays(values, 0.5, context={"k": [1.0, 2.0, 4.0]})
    read, texts = said(described, runs, None)
    assert read.sizes["time"] == 11
    assert any("x2" in text and "k = 2" in text for text in texts)


def test_a_first_number_that_is_lost_is_extrapolated_where_other_starts_can_be():
    clock = 0.1 * np.arange(40)
    phase = clock[:, None] + np.arange(3)
    values = np.stack([np.sin(k * (phase + 1)) for k in (1.0, 1.2, 1.5, 1.7)])
    lost = values.copy()
    lost[1, 0, 1] = np.nan
    with warnings.catch_warnings(record=True):
        read = described(from_arrays(lost, clock, context={"k": [1.0, 1.2, 1.5, 1.7]}), None)
    assert read.sizes["time"] == 40
    cubic = np.polynomial.Polynomial.fit(clock[1:5], values[1, 1:5, 1], 3)(0.0)
    assert np.isclose(read.state.values[1, 0, 1], cubic, rtol=0, atol=1e-9)
    assert np.isclose(cubic, values[1, 0, 1], rtol=0, atol=1e-3)
    # a jump at the start, of which nobody could know
    lost[:, 0, 1] += 3.0
    with warnings.catch_warnings(record=True):
        read = described(from_arrays(lost, clock, context={"k": [1.0, 1.2, 1.5, 1.7]}), None)
    assert read.sizes["time"] == 39
    # runs that begin alike and grow too fast for a polynomial
    grown = 3.0 * np.exp(np.array([2.0, 2.5, 3.0])[:, None, None] * clock[:, None] * np.ones(2))
    lost = grown.copy()
    lost[1, 0, 0] = np.nan
    with warnings.catch_warnings(record=True):
        read = described(from_arrays(lost, clock, context={"k": [2.0, 2.5, 3.0]}), None)
    assert np.array_equal(read.state.values, grown)
