"""Many files as one dataset: attributes that differ, clocks, units and grids."""

import numpy as np
import pytest
import xarray as xr

import romkit
from romkit.core.errors import DataWarning, FileError, InputError
from romkit.data import context_matrix, describe
from tests.refusals import refused

TIME = 0.1 * np.arange(20)


def run(k, time=TIME, x=(0.0, 0.5, 1.0)):
    u = np.sin(TIME[:, None] + k + np.asarray(x))
    return xr.Dataset({"u": (("time", "x"), u, {"units": "m"})}, {"time": time, "x": list(x)})


def written(folder, runs):
    for k, data in enumerate(runs):
        data.to_netcdf(folder / f"run{k}.nc", engine="h5netcdf")
    return folder / "run*.nc"


def test_attributes_that_differ_become_coordinates(tmp_path):
    abouts = [
        {"Re": 50.0 + 10 * k, "gap": f"0.{k}", "case": "abc"[k], "solver": "one", "history": str(k)}
        for k in range(3)
    ]
    runs = [run(k).assign_attrs(about) for k, about in enumerate(abouts)]
    data = romkit.open(written(tmp_path, runs), along="run")
    assert data.Re.values.tolist() == [50.0, 60.0, 70.0]
    assert data.gap.values.tolist() == [0.0, 0.1, 0.2]
    assert data["case"].values.tolist() == ["a", "b", "c"]
    assert data.attrs == {"solver": "one"}
    described = describe(data, context=["Re"])
    assert context_matrix(described).ravel().tolist() == [50.0, 60.0, 70.0]


def test_attributes_belong_to_all_entries_of_a_file(tmp_path):
    runs = [run(k).expand_dims(run=2).assign_attrs(Re=float(k)) for k in range(2)]
    data = romkit.open(written(tmp_path, runs), along="run")
    assert data.Re.values.tolist() == [0.0, 0.0, 1.0, 1.0]


def test_an_attribute_that_one_file_lacks_is_no_number(tmp_path):
    runs = [run(0).assign_attrs(Re=1), run(1), run(2).assign_attrs(Re=3)]
    data = romkit.open(written(tmp_path, runs), along="run")
    assert np.isnan(data.Re.values).tolist() == [False, True, False]
    refused("finite context Re", describe, data, context=["Re"])


def test_without_a_dimension_they_are_left_out_and_it_is_said(tmp_path):
    parts = [run(0).isel(time=slice(10)), run(0).isel(time=slice(10, None))]
    parts = [part.assign_attrs(part=k) for k, part in enumerate(parts)]
    with pytest.warns(DataWarning, match="part"):
        data = romkit.open(written(tmp_path, parts))
    assert data.sizes["time"] == 20
    assert "part" not in data.attrs


@pytest.mark.parametrize("shift", [0.05, 3.0, 1e6])
def test_runs_on_clocks_of_their_own_are_counted_from_their_start(shift, tmp_path):
    runs = [run(k, TIME + shift * k) for k in range(3)]
    with pytest.warns(DataWarning, match="counted from its start"):
        data = romkit.open(written(tmp_path, runs), along="run")
    assert data.sizes["time"] == 20
    assert np.allclose(data.time, TIME, atol=1e-8)
    assert not data.u.isnull().any()


def test_times_since_different_dates_are_counted_from_the_start(tmp_path):
    runs = [run(k) for k in range(2)]
    for k, data in enumerate(runs):
        data.time.attrs["units"] = f"days since 200{k}-01-01"
    data = romkit.open(written(tmp_path, runs), along="run")
    assert data.time.attrs["units"] == "days"
    assert data.sizes["time"] == 20


def test_other_units_and_grids_are_refused(tmp_path):
    kilo = run(1)
    kilo.u.attrs["units"] = "km"
    refused("u in km", romkit.open, written(tmp_path, [run(0), kilo]), along="run", error=FileError)
    other = run(1, x=(0.0, 0.4, 1.0))
    refused(
        "another x", romkit.open, written(tmp_path, [run(0), other]), along="run", error=FileError
    )
    near = run(1, x=np.array([0.0, 0.5, 1.0]) + 1e-12)
    data = romkit.open(written(tmp_path, [run(0), near]), along="run")
    assert data.sizes["x"] == 3


def test_the_time_may_have_any_name(tmp_path):
    for folder in (tmp_path / "by_day", tmp_path / "by_step"):
        folder.mkdir()
    for k in range(2):
        run(k).rename(time="day").to_netcdf(tmp_path / f"by_day/{k}.nc")
    days = romkit.open(tmp_path / "by_day/*.nc", along="run", time="day")
    xr.testing.assert_allclose(days.u[0].compute(), run(0).u)
    for step in (3, 0, 12):
        run(1).isel(time=step, drop=True).to_netcdf(tmp_path / f"by_step/{step}.nc")
    steps = romkit.open(tmp_path / "by_step/{step}.nc", time="step")
    assert steps.time.values.tolist() == [0, 3, 12]
    table = run(0).u.isel(x=0, drop=True).to_dataframe().reset_index()
    table.rename(columns={"time": "hour [h]"}).to_csv(tmp_path / "one.csv", index=False)
    assert romkit.open(tmp_path / "one.csv", time="hour").time.attrs["units"] == "h"
    refused("time", romkit.open, tmp_path / "one.csv", time="hours", error=InputError)


def test_files_along_time_are_one_run(tmp_path):
    parts = [run(0).isel(time=slice(10)), run(0).isel(time=slice(10, None))]
    data = romkit.open(written(tmp_path, parts), along="time")
    xr.testing.assert_allclose(data.compute(), run(0))


def test_a_file_of_groups_is_read_by_its_only_group_or_refused(tmp_path):
    run(0).to_netcdf(tmp_path / "run0.nc", group="results", engine="h5netcdf")
    with pytest.warns(DataWarning, match="group"), romkit.open(tmp_path / "run0.nc") as data:
        assert np.allclose(data.u, run(0).u)
    run(1).to_netcdf(tmp_path / "run0.nc", group="more", engine="h5netcdf", mode="a")
    refused("groups", romkit.open, tmp_path / "run0.nc", error=FileError)
    run(0).to_zarr(tmp_path / "run.zarr", group="results")
    refused("group", romkit.open, tmp_path / "run.zarr", error=FileError)
