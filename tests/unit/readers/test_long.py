"""Long tables: rows of variables, of places, and of runs one behind the other."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import CubicSpline

from romkit.data import describe, fields, from_arrays
from romkit.learning.reading import described
from tests.refusals import refused
from tests.unit.readers.test_roles import said

DAYS = pd.date_range("2021-09-06", periods=20, freq="7D")
PLACES, NAMES, SIZES = ("North", "Isles"), ("ill", "well", "gone"), (1.5, 2.0, 3.0)
VALUES = np.random.default_rng(1).normal(size=(3, 20, 2, 3)).round(5)  # (runs, T, places, names)


def long_table(**names):
    axes = (range(3), range(20), range(2), range(3))
    rows = []
    for r, t, p, n in itertools.product(*axes):
        rows.append(
            (f"S{7 - r}", SIZES[r], str(DAYS[t].date()), PLACES[p], NAMES[n], VALUES[r, t, p, n])
        )
    columns = ["scenario_id", "R0", "date", "region", "variable", "value"]
    return pd.DataFrame(rows, columns=columns).rename(columns=names)  # fmt: skip


def gathered(data):
    own = fields(data).sel(region=list(PLACES))
    return np.stack([own[name].transpose(..., "date", "region").values for name in NAMES], -1)


@pytest.mark.parametrize(
    "names", [{}, {"variable": "Indicator", "value": "Value"}, {"scenario_id": "run"}]
)
@pytest.mark.parametrize("seed", [None, 3])
def test_a_tidy_table_has_a_variable_for_each_name_and_a_dimension_of_places(names, seed):
    table = long_table(**names)
    if seed is not None:
        table = table.sample(frac=1, random_state=seed)
    data, _ = said(describe, table, context=["R0"])
    order = np.argsort(data.R0.values)
    assert np.array_equal(data.R0.values[order], SIZES)
    assert np.array_equal(gathered(data)[order], VALUES)


def test_rows_that_were_lost_are_missing():
    table = long_table()
    lost = [5, 100, 222]
    data, _ = said(describe, table.drop(index=lost), context=["R0"])
    wanted = VALUES.copy()
    wanted.reshape(-1)[lost] = np.nan
    order = np.argsort(data.R0.values)
    assert np.array_equal(gathered(data)[order], wanted, equal_nan=True)


def test_places_alone_are_a_dimension():
    wide = long_table().pivot(
        index=["scenario_id", "R0", "date", "region"], columns="variable", values="value"
    )
    data, texts = said(describe, wide.reset_index(), context=["R0"])
    order = np.argsort(data.R0.values)
    assert np.array_equal(gathered(data)[order], VALUES)
    assert any("region" in text for text in texts)
    # regions by their names, in their order
    assert data.component.values[:2].tolist() == ["gone[Isles]", "gone[North]"]


def test_units_of_variables():
    table = long_table()
    table["unit"] = table["variable"].map({"ill": "1", "well": "m", "gone": "kg"})
    data, _ = said(describe, table, context=["R0"])
    assert fields(data).gone.attrs["units"] == "kg"
    table.loc[0, "unit"] = "g"
    refused("one unit", describe, table, context=["R0"])


def test_people_are_no_dimension():
    # two people of each dose, who are repeats and no places
    rows = []
    for person, dose in zip("ABCDEF", (1, 1, 2, 2, 3, 3), strict=True):
        rows += [(person, dose, t, float(ord(person) + t)) for t in range(9)]
    table = pd.DataFrame(rows, columns=["person", "dose", "t", "amount"])
    people, _ = said(describe, table, context=["dose"], state=["amount"])
    assert np.array_equal(people.dose, [1, 1, 2, 2, 3, 3])
    shuffled = table.sample(frac=1, random_state=0)
    refused("name the runs", describe, shuffled, context=["dose"], state=["amount"])


@pytest.mark.parametrize("clock", [np.arange(9.0), pd.date_range("2020-01-01", periods=9)])
def test_runs_one_behind_the_other_begin_where_the_times_begin_again(clock):
    values = np.random.default_rng(2).normal(size=(4, 9, 2))
    tables = [
        pd.DataFrame({"t": clock, "a": v[:, 0], "b": v[:, 1], "k": float(k)})
        for k, v in enumerate(values)
    ]
    stacked = pd.concat(tables, ignore_index=True)
    data, texts = said(describe, stacked)
    assert np.array_equal(data.state.values, values)
    assert np.array_equal(data.k.values, range(4))
    assert any("begin again" in text for text in texts)
    # repeats at one value of the parameter
    data, _ = said(describe, stacked.assign(k=[1.0] * 18 + [2.0] * 18), context=["k"])
    assert np.array_equal(data.state.values, values)
    refused("one row for each", describe, stacked.drop(columns="k").sample(frac=1, random_state=1))
    # one that begins later may be the rest of the run before it
    refused("one row for each", describe, stacked.drop(index=9))


def test_values_twice_are_refused():
    table = pd.concat([long_table(), long_table().iloc[[7]]])
    refused("one value of each", describe, table, context=["R0"])


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
