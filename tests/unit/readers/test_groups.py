"""Files whose groups hold a run each."""

import h5py
import numpy as np
import pytest
import xarray as xr

import romkit
from romkit.data import describe, fields
from romkit.readers.several import read_runs
from tests.refusals import refused

SPEEDS = {"run_0": 0.5, "run_1": 1.5, "run_10": 2.5}
TIMES = 0.25 * np.arange(6)
X = np.array([0.1, 0.4, 0.9, 1.6])

pytestmark = pytest.mark.filterwarnings("ignore::romkit.errors.DataWarning", "ignore:Consolidated")


def wave(speed, times=TIMES):
    return np.sin(X - speed * times[:, None])


def check_waves(path):
    """Check runs against the formula that they were written by."""
    data, _ = read_runs([path])
    described = describe(data, context=["speed"])
    np.testing.assert_allclose(sorted(described["speed"]), sorted(SPEEDS.values()))
    for run in range(3):
        speed = float(described["speed"][run])
        np.testing.assert_allclose(described["state"][run], wave(speed))
    return described


@pytest.mark.parametrize("place", ["", "results/"])
def test_groups_of_h5py_are_runs_at_their_attributes(tmp_path, place, capsys):
    with h5py.File(tmp_path / "runs.h5", "w") as file:
        for name, speed in SPEEDS.items():
            group = file.create_group(place + name)
            group.attrs["speed"] = speed
            group["t"], group["u"] = TIMES, wave(speed)
    check_waves(tmp_path / "runs.h5")


def test_what_lies_beside_the_groups_belongs_to_all(tmp_path, capsys):
    with h5py.File(tmp_path / "runs.h5", "w") as file:
        file["t"] = TIMES
        for name, speed in SPEEDS.items():
            file[f"{name}/u"] = wave(speed)
            file[f"{name}/speed"] = [speed]
    described = check_waves(tmp_path / "runs.h5")
    np.testing.assert_allclose(described["time"], TIMES)


@pytest.mark.parametrize("ending", ["nc", "zarr"])
def test_groups_of_netcdf_and_zarr_are_runs(tmp_path, ending, capsys):
    path = tmp_path / f"runs.{ending}"
    for name, speed in SPEEDS.items():
        run = xr.Dataset({"u": (("t", "x"), wave(speed))}, {"t": TIMES, "x": X}, {"speed": speed})
        if ending == "nc":
            run.to_netcdf(path, group=name, mode="a", engine="h5netcdf")
        else:
            pytest.importorskip("zarr")
            run.to_zarr(path, group=name, mode="a")
    described = check_waves(path)
    np.testing.assert_allclose(fields(described)["x"], X)


def test_groups_of_zarr_without_names_of_axes_are_runs(tmp_path, capsys):
    zarr = pytest.importorskip("zarr")
    store = zarr.open_group(tmp_path / "runs.zarr", mode="w")
    store.create_array("t", data=TIMES)
    for name, speed in SPEEDS.items():
        group = store.create_group(name)
        group.attrs["speed"] = speed
        group.create_array("u", data=wave(speed))
    check_waves(tmp_path / "runs.zarr")


def test_runs_of_groups_have_times_of_their_own(tmp_path, capsys):
    with h5py.File(tmp_path / "runs.h5", "w") as file:
        for k, (name, speed) in enumerate(SPEEDS.items()):
            group = file.create_group(name)
            group.attrs["speed"] = speed
            group["t"], group["u"] = TIMES[: 4 + k], wave(speed, TIMES[: 4 + k])
    data, _ = read_runs([tmp_path / "runs.h5"])
    described = describe(data, context=["speed"])
    known = np.isfinite(described["state"].values).all(-1).sum(-1)
    assert known.tolist() == [4, 5, 6]


def test_an_array_that_may_lie_along_two_axes_is_named(tmp_path):
    with h5py.File(tmp_path / "square.h5", "w") as file:
        file["t"], file["x"] = np.arange(4.0), X
        file["u"] = wave(1.0, np.arange(4.0))
    with pytest.warns(romkit.errors.DataWarning, match="x is taken to lie along t"):
        read_runs([tmp_path / "square.h5"])


@pytest.mark.parametrize("lacking", [0, 1])
def test_a_parameter_that_one_file_lacks_is_missing_there_alone(tmp_path, lacking):
    speeds = [0.5, 0.5, 0.5]
    for k, speed in enumerate(speeds):
        about = {} if k == lacking else {"speed": speed}
        run = xr.Dataset({"u": (("t", "x"), wave(speed))}, {"t": TIMES}, about)
        run.to_netcdf(tmp_path / f"run{k}.nc", engine="h5netcdf")
    data, _ = read_runs([tmp_path / "run*.nc"])
    speeds[lacking] = np.nan
    np.testing.assert_array_equal(data["speed"], speeds)


def test_groups_of_other_variables_are_no_runs(tmp_path):
    with h5py.File(tmp_path / "runs.h5", "w") as file:
        file["fine/u"], file["fine/t"] = wave(1.0), TIMES
        file["coarse/v"], file["coarse/t"] = wave(1.0), TIMES
    refused("in groups", read_runs, [tmp_path / "runs.h5"], error=romkit.errors.FileError)
