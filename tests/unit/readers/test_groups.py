"""Files of HDF5: groups, axes without names, and attributes that are parameters."""

import h5py
import numpy as np
import pytest
import xarray as xr

import romkit
from romkit.readers.several import read_runs
from tests.refusals import refused

TIMES = 0.25 * np.arange(6)
X = np.array([0.1, 0.4, 0.9, 1.6])

pytestmark = pytest.mark.filterwarnings("ignore::romkit.errors.DataWarning", "ignore:Consolidated")


def wave(speed, times=TIMES):
    return np.sin(X - speed * times[:, None])


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


def test_groups_are_refused_with_the_lines_that_join_them(tmp_path):
    with h5py.File(tmp_path / "runs.h5", "w") as file:
        file["fine/u"], file["fine/t"] = wave(1.0), TIMES
        file["coarse/u"], file["coarse/t"] = wave(2.0), TIMES
    refused("from_arrays", read_runs, [tmp_path / "runs.h5"], error=romkit.errors.FileError)
