"""Dates of tables as text: those of ISO 8601 are read, others are refused with the call of pandas."""

import numpy as np
import pandas as pd
import pytest

from romkit.data import describe
from tests.refusals import refused
from tests.unit.readers.test_roles import said

DAYS = pd.date_range("2025-03-01", periods=40, freq="D")


def table(times):
    """Rows of a logger whose times are text."""
    phase = np.arange(len(times))
    return pd.DataFrame({"time": times, "a": np.sin(phase), "b": np.cos(phase)})


@pytest.mark.parametrize("form", ["%d.%m.%Y", "%m/%d/%Y", "%d.%m.%y %H:%M", "noon"])
def test_the_order_of_days_and_months_is_never_guessed(form):
    own = table(DAYS.strftime(form))
    refused(r"to_datetime\(", describe, own)
    if form != "noon":
        own["time"] = pd.to_datetime(own["time"], format=form)  # as the message says
        assert np.array_equal(describe(own).time, 86400.0 * np.arange(40))


def test_times_of_day_and_zones_are_kept():
    own = table(["2025-12-31 13:00+01:00", "2025-12-31T12:00:01.25Z", "2025-12-31T12:00:02"])
    assert describe(own).time.values.tolist() == [0.0, 1.25, 2.0]


def test_one_cell_of_another_notation_is_refused():
    cells = [*DAYS.strftime("%Y-%m-%d")[:-1], "31.12.2025"]
    refused("got '31.12.2025'", describe, table(cells))


@pytest.mark.parametrize(("form", "looks"), [("%Y%m%d", True), ("%y%m%d", False), ("%j", False)])
def test_numbers_with_the_digits_of_dates_are_warned_of(form, looks):
    days = pd.date_range("2025-03-01", periods=31, freq="D")
    _, texts = said(describe, table(days.strftime(form).astype(int)))
    assert len(texts) == looks


@pytest.mark.parametrize("times", [np.arange(40) + 2e7, 0.5 + np.arange(20) + 20250100, DAYS])
def test_counts_of_seconds_are_no_dates(times):
    assert said(describe, table(times))[1] == []


def test_an_empty_cell_is_a_row_without_time():
    times = pd.Series(DAYS.strftime("%Y-%m-%d"))
    times[3] = None
    refused("data", describe, table(times))
