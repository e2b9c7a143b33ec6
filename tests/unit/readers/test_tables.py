"""Tables as loggers and spreadsheets write them: read, or one line with advice that works."""

import decimal

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import romkit
from romkit.cli.inputs import read_own
from romkit.data import describe
from romkit.errors import DataWarning, FileError
from romkit.readers import read
from tests.refusals import refused
from tests.unit.readers.test_roles import said

TIME = 0.1 * np.arange(40)


def table(**columns):
    return pd.DataFrame({"time": TIME, "a": np.sin(TIME), "b": np.cos(TIME)} | columns)


def test_dates_that_were_written_as_text_are_read():
    days = pd.date_range("1969-01-01", periods=40, freq="D")
    for form in ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y%m%d"):
        data, texts = said(describe, table(time=days.strftime(form)))
        assert np.array_equal(data.time, 86400.0 * np.arange(40)) or form == "%Y%m%d"
        # a date written as a number could be a number
        assert len(texts) == (form == "%Y%m%d")
    numbers = describe(table(time=TIME.astype(str)))
    assert np.allclose(numbers.time, TIME)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "Asia/Kolkata"])
def test_zones_are_counted_in_utc_through_a_change_of_the_clock(zone):
    hours = pd.date_range("2021-03-27", periods=40, freq="h", tz=zone)
    data, texts = said(describe, table(time=hours))
    assert np.array_equal(data.time, 3600.0 * np.arange(40))
    assert texts == []
    text = describe(table(time=hours.map(lambda t: t.isoformat())))
    assert np.array_equal(text.time, data.time)


def test_a_row_of_units_is_read(tmp_path):
    rows = "".join(f"{t:.1f},{np.sin(t):.6f},{np.cos(t):.6f}\n" for t in TIME)
    (tmp_path / "own.csv").write_text("time,a,b\ns,m,[m/s]\n" + rows)
    data = describe(read_own(tmp_path / "own.csv"))
    assert np.allclose(data.state[0, :, 0], np.sin(TIME), atol=1e-6)
    assert data.time.attrs["units"] == "s"
    assert data.component_units.values.tolist() == ["m", "m/s"]
    refused("got 's'", describe, pd.read_csv(tmp_path / "own.csv"))


def test_separators_commas_and_comments(tmp_path):
    plain = describe(table().round(6)).state
    lines = table().round(6).to_csv(index=False).splitlines()
    variants = {
        "comment": "# logger 3, units: s,m\n# 2024\n" + "\n".join(lines),
        "semicolon": "\n".join(lines).replace(",", ";"),
        "decimals": "\n".join(lines).replace(",", ";").replace(".", ","),
        "tab": "\n".join(lines).replace(",", "\t"),
        "mark": "\ufeff" + "\n".join(lines),
    }
    for name, text in variants.items():
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
        assert np.array_equal(describe(read(tmp_path / f"{name}.csv")).state, plain), name
    refused("sep=';'", describe, pd.read_csv(tmp_path / "decimals.csv"))
    refused("comment='#'", describe, pd.read_csv(tmp_path / "comment.csv"))


@pytest.mark.parametrize(
    ("name", "is_guess"),
    [("time (s)", False), ("Time", True), ("T", True), ("timestamp", True), ("t", False)],
)
def test_names_of_time(name, is_guess):
    data, texts = said(describe, table().rename(columns={"time": name}))
    assert np.array_equal(data.time, TIME)
    assert bool(texts) == is_guess


def test_a_temperature_is_no_time_beside_one():
    own = table().rename(columns={"time": "t [min]"})
    data, _ = said(describe, own.assign(**{"T [K]": 300 + own["t [min]"]}))
    assert np.array_equal(data.time, TIME)
    assert "T" in data.component


def test_dates_in_an_index_without_a_name():
    own = table().drop(columns="time").set_index(pd.date_range("2020-01-01", periods=40))
    assert np.array_equal(describe(own).time, 86400.0 * np.arange(40))
    months = own.set_index(pd.period_range("2020-01", periods=40, freq="M"))
    assert describe(months).sizes["time"] == 40
    refused("data", describe, table().drop(columns="time"))


def test_names_that_are_there_twice_and_levels_of_columns():
    own = table()
    own.columns = ["time", "speed", "speed"]
    refused("got speed twice", describe, own)
    refused("got a twice", describe, table().set_index("a", drop=False))
    own.columns = pd.MultiIndex.from_tuples([("time", ""), ("u", "x"), ("u", "y")])
    refused("one name for each column", describe, own)


def test_nullable_numbers_and_empty_cells():
    own = table(a=pd.array(np.sin(TIME), dtype="Float64"))
    own.loc[3, "a"] = pd.NA
    data = describe(own)
    assert int(data.state.isnull().sum()) == 1
    assert np.allclose(data.state[0, 4:, 0], np.sin(TIME[4:]))
    refused("a time in every row", describe, table(time=np.where(TIME[5] == TIME, np.nan, TIME)))
    refused("a run in every row", describe, table(run=[np.nan] + [1.0] * 39))


def clocked(starts, steps, dates=False):
    parts = []
    for k, (start, step) in enumerate(zip(starts, steps, strict=True)):
        part = table(run=k, w=1.0 + k, time=start + step * np.arange(40))
        if dates:
            part["time"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(part["time"], unit="s")
        parts.append(part)
    return pd.concat(parts)


@pytest.mark.parametrize("dates", [False, True])
@pytest.mark.parametrize("starts", [(0, 86400, 1e6), (0, 2, 4), (5, 5.5, 7)])
def test_runs_with_starts_of_their_own(starts, dates):
    data, texts = said(describe, clocked(starts, (1, 1, 1), dates), context=["w"])
    assert data.sizes["time"] == 40
    assert np.allclose(np.diff(data.time), 1)
    assert not data.state.isnull().any()
    assert len(texts) == 1


def test_runs_with_intervals_of_their_own_say_so():
    data, texts = said(describe, clocked((0, 0), (1.0, 0.7)), context=["w"])
    assert int(data.state[0, :, 0].notnull().sum()) == 40
    assert len(texts) == 1
    assert "resampled" in texts[0]


def test_a_late_column_of_one_value_is_a_parameter_and_rounding_no_other_time():
    own = clocked((0, 0), (0.1, 0.1))
    own["time"] += 1e-9 * own["run"] * np.sin(np.arange(80.0))
    data, texts = said(describe, own, context=["w"])
    assert (data.sizes["time"], texts) == (40, [])


@pytest.mark.parametrize("text", ["-", "missing", "1,234.5", "1.2e3 m", "0x12", "overflow"])
def test_other_text_among_numbers_is_refused(text):
    column = pd.Series(np.cos(TIME)).astype(object)
    column[5] = text
    refused("data", describe, table(b=column))


def test_numbers_as_text_and_as_decimals_are_numbers_but_names_of_runs_are_not():
    right = describe(table())
    for kind in (str, decimal.Decimal, np.float32):
        column = pd.Series([kind(value) for value in np.cos(TIME)], dtype=object)
        assert np.allclose(describe(table(b=column)).state, right.state, atol=1e-6)
    rows = pd.concat([table(run=name, w=float(k)) for k, name in enumerate(("007", "7"))])
    assert describe(rows, context=["w"]).sizes["trajectory"] == 2
    as_text = describe(rows.assign(w=rows.w.astype(str)), context=["w"])
    assert as_text.w.values.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_file_with_two_columns_of_one_name_is_refused(separator, tmp_path):
    text = table().to_csv(index=False, sep=separator).replace(f"a{separator}b", f"a{separator} a")
    (tmp_path / "own.csv").write_text("# a comment\n" + text)
    refused("Duplicate names", read, tmp_path / "own.csv", error=FileError)


@pytest.mark.parametrize(
    ("name", "unit"),
    [("b [m]", "m"), ("b (kPa)", "kPa"), ("b [m/s^2]", "m/s^2"), ("b[0]", ""), ("b (mean)", "")],
)
def test_units_in_brackets_behind_names(name, unit):
    data = describe(table().rename(columns={"b": name, "time": "time [ms]"}))
    assert data.time.attrs["units"] == "ms"
    units = romkit.data.units.state_units(data)
    assert units == ["", unit]


@pytest.mark.parametrize("mark", [-999.0, 9999.0, -9999.9, 1e20])
def test_numbers_that_look_like_marks_are_warned_of(mark):
    column = np.cos(TIME)
    column[4] = mark
    data, texts = said(describe, table(b=column))
    assert data.state[0, 4, 1] == mark
    assert len(texts) == 1
    assert f"{mark:g}" in texts[0]


@pytest.mark.parametrize("largest", [999.0, -999.0, 1e20])
def test_numbers_that_others_come_near_to_are_measured(largest):
    _, texts = said(describe, table(b=np.linspace(0.0, largest, 40)))
    assert texts == []


def test_columns_that_are_aligned_by_blanks(tmp_path):
    (tmp_path / "own.txt").write_text("# a comment\n" + table().to_string(index=False) + "\n")
    data = describe(read(tmp_path / "own.txt"))
    assert np.allclose(data.state, describe(table()).state, atol=1e-6)  # of six digits
    (tmp_path / "own.txt").write_text("time a a\n0.0 1.0 2.0\n")
    refused("Duplicate names", read, tmp_path / "own.txt", error=FileError)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252"])
def test_other_encodings_are_refused_with_a_way(encoding, tmp_path):
    (tmp_path / "own.csv").write_bytes("time,T [°C]\n0,1\n1,2\n".encode(encoding))
    refused("encoding=", read, tmp_path / "own.csv", error=FileError)


def test_a_column_t_beside_the_time_is_said():
    data, texts = said(describe, table(t=np.sin(2 * TIME)))
    assert data.sizes["component"] == 3
    assert len(texts) == 1
    assert "'t'" in texts[0]
    assert said(describe, table(t=np.sin(2 * TIME)), time="time")[1] == []


@pytest.mark.parametrize("name", ["Unnamed: 0", ""])
def test_numbers_of_rows_without_a_name_are_no_state(name):
    """As R and pandas write them in front of a table."""
    numbered = table()
    numbered.insert(0, name, np.arange(len(numbered)))
    data, texts = said(describe, numbered)
    assert data.equals(describe(table()))
    assert len(texts) == 1


def rows_by_date(starts, sizes=(24, 24, 20)):
    """Houses one after the other, hourly, each of another insulation."""
    pieces = []
    for k, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        hours = pd.to_timedelta(np.arange(size), unit="h")
        room = 18 + np.cos(np.arange(size) / 4) + k
        stamps = (pd.Timestamp(start) + hours).strftime("%Y-%m-%d %H:%M")
        columns = {"house": f"H{k}", "UA": 60.0 + 20 * k, "time": stamps, "room": room}
        pieces.append(pd.DataFrame(columns))
    return pd.concat(pieces, ignore_index=True)


@pytest.mark.parametrize("days", ["03 17 25", "03 04 05"])
def test_parameters_that_change_where_no_time_is_twice_need_a_column_of_runs(days):
    """One run whose parameter moves, or several: nobody can tell."""
    table = rows_by_date([f"2025-11-{day}" for day in days.split()])
    refused("a column of runs", describe, table, context=["UA"])
    apart, _ = said(describe, table.assign(run=table.groupby(["UA"]).ngroup()), context=["UA"])
    assert apart["UA"].dims == ("trajectory",)
    known = np.isfinite(apart["state"].values).all(-1)
    assert known.sum(1).tolist() == [24, 24, 20]
    moving, _ = said(describe, table.assign(run=0), context=["UA"])
    assert moving.sizes["trajectory"] == 1
    assert "time" in moving["UA"].dims


@pytest.mark.parametrize(("start", "step"), [(2460000.5, 1 / 24), (1.7e9, 60.0)])
def test_times_that_single_precision_repeats_are_refused_with_their_cause(start, step):
    times = (start + step * np.arange(240)).astype(np.float32)
    courses = [np.sin((k + 1) * np.arange(240.0)) for k in range(3)]
    rows = [pd.DataFrame({"run": k, "time": times, "p": p}) for k, p in enumerate(courses)]
    table = pd.concat(rows).reset_index(drop=True)
    refused("single precision", describe, table)
    mended = table.assign(time=step * table.groupby("run").cumcount())
    assert describe(mended).sizes["time"] == 240
    refused("single precision", describe, xr.Dataset({"p": ("time", courses[0])}, {"time": times}))


@pytest.mark.parametrize(("start", "step"), [(2460000.5, 2.1), (1.7e9, 3600.0)])
def test_even_times_in_single_precision_are_even(start, step):
    times = (start + step * np.arange(100)).astype(np.float32)
    assert romkit.data.even_step(times) == pytest.approx(step, rel=1e-2)
    uneven = start + step * np.arange(100) ** 1.2
    assert romkit.data.even_step(uneven.astype(np.float32)) is None


def test_categories_of_numbers_are_numbers_and_switches_may_be_inputs():
    time = np.tile(0.1 * np.arange(20), 3)
    k = np.repeat([1.0, 2.0, 3.0], 20)
    table = pd.DataFrame({"time": time, "k": k, "x": np.sin(k * time), "valve": time > 1})
    with pytest.warns(DataWarning, match="control="):
        data = describe(table.astype({"k": "category"}), context=["k"])
    assert np.array_equal(data.k, [1, 2, 3])
    driven = describe(table, context=["k"], control=["valve"])
    assert np.array_equal(driven.control[0, :, 0], 0.1 * np.arange(20) > 1)


def test_units_behind_names_that_differ_between_files_are_refused(tmp_path):
    for number, unit in enumerate(["s", "min", "s"]):
        table = pd.DataFrame({f"time [{unit}]": [0.0, 1.0], "x": [0.0, 1.0]})
        table.to_csv(tmp_path / f"{number}.csv", index=False)
    refused("time in min", romkit.open, str(tmp_path / "*.csv"), along="run", error=FileError)


def test_inputs_that_lack_the_last_one_are_refused_with_the_way():
    states = [np.ones((5, 1)), np.ones((7, 1))]
    inputs = [np.ones((len(run) - 1, 1)) for run in states]
    refused("u\\[-1:\\]", romkit.data.from_arrays, states, 0.1, control=inputs)
    whole = [np.concatenate([u, u[-1:]]) for u in inputs]
    assert romkit.data.from_arrays(states, 0.1, control=whole).control.shape == (2, 7, 1)
