"""First states in files of the form of the runs, and times of forecasts from them."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import romkit
from romkit.cli.forecast import _describe_start, _elapsed_time
from romkit.data import describe
from romkit.laws import SINDy

CLOCK, PLACES = 0.1 * np.arange(41), np.arange(6)


@pytest.fixture(scope="module")
def waves():
    """A travelling wave at three speeds."""
    speeds = np.array([1.0, 1.5, 2.0])
    u = np.sin(np.pi / 3 * PLACES - speeds[:, None, None] * CLOCK[:, None])
    units = {"units": "hours since 1990-01-01"}
    return xr.Dataset(
        {"u": (("run", "time", "x"), u, {"units": "m"})},
        {"time": ("time", 96432 + CLOCK, units), "x": PLACES, "speed": ("run", speeds)},
    )


@pytest.fixture(scope="module")
def model(waves):
    data = describe(waves, context=["speed"])
    pod = romkit.fit("pod", data, latent_dim=2)
    return pod, SINDy(degree=1, threshold=0.01).fit(pod, data)


@pytest.mark.parametrize("times", [1, 3])
def test_a_state_in_the_form_of_the_runs(waves, model, tmp_path, times):
    start = waves.isel(run=1, time=slice(0, times), drop=True)
    start.assign_attrs(speed=1.5, author="me").to_netcdf(tmp_path / "start.nc")
    data = _describe_start([str(tmp_path / "start.nc")], model[0])
    assert np.array_equal(data.state.values[0, 0], start.u.values[0])
    assert data.speed.values.tolist() == [1.5]


def test_a_table_of_one_row_for_each_run_holds_states(tmp_path):
    rows = np.random.default_rng(0).normal(size=(3, 20, 2))
    tables = []
    for k, values in enumerate(rows, 1):
        table = pd.DataFrame(values, columns=["q1", "q2"])
        tables.append(table.assign(time=0.5 * np.arange(20), k=k))
    data = describe(pd.concat(tables), context=["k"])
    pod = romkit.fit("pod", data, latent_dim=2)
    start = pd.DataFrame({"k": [1.5, 2.5], "time": 0.0, "q1": [0.1, 0.2], "q2": [0.0, 0.0]})
    start.to_csv(tmp_path / "start.csv", index=False)
    read = _describe_start([str(tmp_path / "start.csv")], pod)
    assert np.array_equal(read.state.values, [[[0.1, 0.0]], [[0.2, 0.0]]])
    assert np.array_equal(read.k, [1.5, 2.5])


def test_forecasts_count_from_their_start_and_from_no_date(waves, model):
    pod, law = model
    start = waves.isel(run=1, time=5)
    ahead = romkit.forecast(pod, dynamics=law, initial_state=start, duration=1, dt=0.1, speed=1.5)
    assert ahead.time.attrs["units"] == "hours"
    assert np.allclose(ahead.time, 0.1 * np.arange(11))
    assert np.abs(ahead.u.values - waves.u.values[1, 5:16]).max() < 0.02
    # a run beside its data has the times of these
    followed = romkit.rollout(describe(waves, context=["speed"]), pod, dynamics=law)
    assert followed.time.attrs["units"] == "hours since 1990-01-01"
    assert followed.time.values[0] == 96432


def test_times_since_the_first_of_the_runs():
    runs = xr.DataArray([0.0, 60.0], dims="time", attrs={"since": "2020-01-01T00:00:00"})
    late = xr.DataArray([0.0, 60.0], dims="time", attrs={"since": "2020-01-03T00:00:30"})
    assert _elapsed_time(runs, late, 1) == 2 * 86400 + 30 + 60
    plain = xr.DataArray([5.0, 6.0], dims="time")
    assert _elapsed_time(plain, plain, 1) == 1.0


def test_a_parameter_in_the_name_of_the_file(waves, model, tmp_path):
    for run in (0, 2):
        start = waves.isel(run=run, time=[0], drop=True)
        start.to_netcdf(tmp_path / f"start_{float(waves.speed[run])}.nc")
    data = _describe_start([str(tmp_path / "start_{speed}.nc")], model[0])
    assert data.speed.values.tolist() == [1.0, 2.0]
    assert np.array_equal(data.state.values[:, 0], waves.u.values[[0, 2], 0])
