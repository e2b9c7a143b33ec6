"""Times of others: names, calendars, rounding, gaps, repetition, clocks of runs."""

import numpy as np
import pytest
import xarray as xr

from romkit.data import describe, even_step, fields, from_arrays
from tests.refusals import refused
from tests.unit.readers.test_roles import said

TIME = 0.1 * np.arange(40)


def series(time, name="time"):
    values = np.stack([np.sin(TIME), np.cos(TIME)], axis=-1)[: len(time)]
    return xr.Dataset({"u": ((name, "x"), values)}, {name: time})


def test_repeated_missing_and_unordered_times_have_advice_that_works():
    repeated = np.r_[TIME[:20], TIME[19:-1]]
    refused("drop_duplicates('time')", describe, series(repeated))
    assert describe(series(repeated).drop_duplicates("time")).sizes["time"] == 39
    missing = np.where(TIME[7] == TIME, np.nan, TIME)
    refused("isel(time=numpy.isfinite", describe, series(missing))
    own = series(missing)
    own = own.isel(time=np.isfinite(own["time"].values))
    assert said(describe, own)[0].sizes["time"] == 40  # NaN at the time that was missing
    refused("sortby('t')", describe, series(TIME[::-1], "t"))
    assert np.array_equal(describe(series(TIME[::-1], "t").sortby("t")).time, TIME)
    refused("numpy.arange(40)", describe, series(np.round(TIME, 0)))


@pytest.mark.parametrize("left_out", [[5], [5, 6, 20], [1, 38]])
def test_times_that_are_missing_from_an_even_grid_are_gaps(left_out):
    own = series(TIME).drop_isel(time=left_out)
    data, texts = said(describe, own)
    assert np.allclose(data.time, TIME)
    assert np.flatnonzero(data.state.isnull().any("component")[0]).tolist() == left_out
    assert len(texts) == 1


def test_uneven_times_stay():
    uneven = np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, 40))
    data, texts = said(describe, series(uneven))
    assert np.array_equal(data.time, uneven)
    assert texts == []


@pytest.mark.parametrize(("step", "decimals"), [(1 / 30, 3), (1 / 7, 2), (0.0123456, 4)])
def test_rounded_times_are_even(step, decimals):
    times = np.round(step * np.arange(200), decimals)
    assert even_step(times) == pytest.approx(step, rel=1e-3)
    rng = np.random.default_rng(0)
    assert even_step(times + 0.05 * step * rng.normal(size=200)) is None
    assert even_step(np.round(step * np.arange(200), 1)) is None


def test_the_time_beside_its_dimension():
    steps = series(np.arange(40)).rename(time="step")
    data, texts = said(describe, steps.assign_coords(time=("step", TIME)))
    assert np.array_equal(data.time, TIME)
    assert len(texts) == 1
    assert fields(data).u.dims[0] == "time"
    for name in ("clock", "Time"):
        own = steps.drop_vars("step").assign({name: ("step", TIME)})
        assert np.array_equal(said(describe, own, time=name)[0].time, TIME)
    cf = steps.drop_vars("step").assign_coords(when=("step", TIME, {"standard_name": "time"}))
    data, texts = said(describe, cf)
    assert np.array_equal(data.time, TIME)
    assert len(texts) == 1
    both = series(TIME, "t").assign_coords(time=("t", 2 * TIME))
    data, texts = said(describe, both)
    assert np.array_equal(data.time, 2 * TIME)
    assert len(texts) == 1


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "julian"])
def test_calendars_of_climate_models(calendar):
    times = xr.date_range("2000-02-20", periods=40, freq="D", calendar=calendar, use_cftime=True)
    data, texts = said(describe, series(times))
    assert np.array_equal(data.time, 86400.0 * np.arange(40))
    assert texts == []


def test_runs_with_times_of_two_axes():
    u = np.stack([np.sin(TIME), np.cos(TIME), TIME])
    times = np.stack([TIME, TIME + 3.0, TIME + 8.0])
    own = xr.Dataset(
        {"u": (("run", "step"), u)},
        {"time": (("run", "step"), times), "w": ("run", [1.0, 2.0, 3.0])},
    )
    data, texts = said(describe, own, context=["w"])
    assert np.allclose(data.time, TIME)
    assert np.array_equal(data.state[..., 0], u)
    assert len(texts) == 1
    short = own.copy(deep=True)
    short.time[1, 30:] = np.nan
    data, _ = said(describe, short, context=["w"])
    assert int(data.state.isnull().sum()) == 10
    assert data.w.values.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(("step", "shift"), [(0.1, 2.0), (0.2, 0.0), (0.07, 1.0)])
def test_arrays_with_times_of_their_own(step, shift):
    times = [TIME, shift + step * np.arange(40)]
    runs = [np.sin(t - t[0])[:, None] for t in times]
    data, texts = said(from_arrays, runs, times)
    for k, run in enumerate(runs):
        values = data.state.values[k, :, 0]
        assert np.array_equal(values[np.isfinite(values)], run[:, 0])
    assert len(texts) >= (shift > 0) + (step != 0.1)
