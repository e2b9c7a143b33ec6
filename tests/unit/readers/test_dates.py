"""Dates of tables with the day first: read where a day shows it, refused where none does."""

import datetime

import numpy as np
import pandas as pd
import pytest

from romkit.cli.inputs import read_own
from romkit.data import describe
from romkit.errors import InputError
from romkit.readers.dates import times_of_text
from tests.refusals import refused
from tests.unit.readers.test_roles import said

DAYS = pd.date_range("2025-03-01", periods=40, freq="D")
FIRST_OF_MONTHS = pd.date_range("2025-01-01", periods=12, freq="MS")


def table(times):
    """Rows of a logger whose times are text."""
    phase = np.arange(len(times))
    return pd.DataFrame({"time": times, "a": np.sin(phase), "b": np.cos(phase)})


def read(*cells):
    return times_of_text(pd.Series(cells), "time").tolist()


@pytest.mark.parametrize(
    "form",
    ["%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%d.%m.%Y %H:%M", "%d/%m/%YT%H:%M:%S", " %d.%m.%Y "],
)
def test_a_day_beyond_the_12th_shows_that_days_come_first(form):
    data, texts = said(describe, table(DAYS.strftime(form)))
    assert np.array_equal(data.time, 86400.0 * np.arange(40))
    assert texts == []


def test_one_such_day_decides_for_the_column():
    right = [pd.Timestamp(2025, 4, 3), pd.Timestamp(2025, 12, 31)]
    assert read("03/04/2025", "31/12/2025") == right
    assert read("3.4.2025", "31.12.2025") == right
    assert read("31.12.2025", "03.04.2025") == right[::-1]


def test_times_of_day_and_zones_are_kept():
    assert read("31.12.2025 9:05") == [pd.Timestamp(2025, 12, 31, 9, 5)]
    assert read("31.12.2025 13:00:01.25") == [pd.Timestamp("2025-12-31T13:00:01.250")]
    assert read("31.12.2025 13:00+01:00") == [pd.Timestamp(2025, 12, 31, 12)]


def test_files_with_days_first(tmp_path):
    hours = pd.date_range("2025-12-30", periods=48, freq="h").strftime("%d.%m.%Y %H:%M")
    decimals = table(hours).to_csv(index=False, sep=";", decimal=",")
    points = table(hours).to_csv(index=False)
    unit_row = points.replace("time,a,b\n", "time,a,b\ndd.mm.yyyy hh:mm,m,m/s\n")
    for content in (decimals, points, unit_row):
        (tmp_path / "own.csv").write_text(content)
        assert np.array_equal(describe(read_own(tmp_path / "own.csv")).time, 3600.0 * np.arange(48))


def test_several_runs_whose_rows_have_the_same_labels():
    runs = [table(DAYS.strftime("%d/%m/%Y")).assign(run=k) for k in range(2)]
    data = describe(pd.concat(runs))
    assert (data.sizes["trajectory"], data.sizes["time"]) == (2, 40)


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y 13:00"])
def test_days_that_could_be_months_are_refused_with_a_call_that_reads_them(form):
    own = table(FIRST_OF_MONTHS.strftime(form))
    refused("time", describe, own)
    own["time"] = pd.to_datetime(own["time"], dayfirst=True)  # as the message says
    assert np.array_equal(own["time"].dt.month, FIRST_OF_MONTHS.month)
    assert describe(own).sizes["time"] == 12


def test_days_that_equal_their_months_are_no_matter_of_order():
    assert read("05/05/2025 13:00", "06/06/2025") == [
        pd.Timestamp(2025, 5, 5, 13),
        pd.Timestamp(2025, 6, 6),
    ]
    refused("'06/05/2025'", read, "05/05/2025", "06/05/2025")


@pytest.mark.parametrize("form", ["%m/%d/%Y", "%m.%d.%Y", "%m-%d-%Y %H:%M"])
def test_months_first_are_refused_with_a_call_that_reads_them(form):
    own = table(DAYS.strftime(form))
    refused("time", describe, own)
    own["time"] = pd.to_datetime(own["time"], dayfirst=False)  # as the message says
    assert np.array_equal(describe(own).time, 86400.0 * np.arange(40))


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (("31/12/2025", "12/31/2025"), "12/31/2025"),
        # spreadsheets turn some days of text into dates, with the month first, and leave others
        (("2025-04-03", "31.12.2025"), "31.12.2025"),
        ((datetime.date(2025, 4, 3), "31.12.2025"), "31.12.2025"),
        (("3/4/2025", "31.12.2025"), "31.12.2025"),
        (("31.12.2025", "1.5"), "1.5"),
        (("2025-01-01", "2025-13-01"), "2025-13-01"),
        (("31.12.2025", "29.2.2025"), "29.2.2025"),
        (("31.12.2025 23:00", "31.12.2025 25:00"), "31.12.2025 25:00"),
        (("31.12-2025",), "31.12-2025"),
        (("31.12.25", "30.12.25"), "31.12.25"),
        (("31/12/25", "03/04/25"), "31/12/25"),
        (("0.5", "noon"), "noon"),
    ],
)
def test_columns_of_several_notations_are_refused_by_the_cell_in_question(cells, shown):
    with pytest.raises(InputError) as caught:
        read(*cells)
    assert caught.value.argument == "time"
    assert repr(shown) in caught.value.got


@pytest.mark.parametrize(
    ("form", "looks"),
    [("%Y%m%d", True), ("%d%m%Y", True), ("%m%d%Y", False), ("%y%m%d", False), ("%j", False)],
)
def test_numbers_with_the_digits_of_dates_are_warned_of(form, looks):
    days = pd.date_range("2025-03-01", periods=31, freq="D")
    _, texts = said(describe, table(days.strftime(form).astype(int)))
    assert len(texts) == looks


@pytest.mark.parametrize("times", [np.arange(20) + 2e7, 0.5 + np.arange(20) + 20250100, DAYS])
def test_counts_of_seconds_are_no_dates(times):
    assert said(describe, table(times))[1] == []


def test_a_row_of_units_below_decimal_commas(tmp_path):
    right = table(0.1 * np.arange(30)).round(6)
    first, rest = right.to_csv(index=False, sep=";", decimal=",").split("\n", 1)
    (tmp_path / "own.csv").write_text(f"{first}\ns;m;m/s\n{rest}")
    data = describe(read_own(tmp_path / "own.csv"))
    assert np.allclose(data.time, right.time)
    assert np.allclose(data.state, right[["a", "b"]])
    assert data.component_units.values.tolist() == ["m", "m/s"]


def test_an_empty_cell_is_a_row_without_time():
    times = pd.Series(DAYS.strftime("%d.%m.%Y"))
    times[3] = None
    refused("data", describe, table(times))
