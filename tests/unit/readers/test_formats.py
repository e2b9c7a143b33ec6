"""Files as other programs write them: read with their names, units and times, or refused."""

import numpy as np
import pandas as pd
import pytest
import scipy.io
import xarray as xr

from romkit.cli.inputs import read_own
from romkit.data import describe
from romkit.errors import FileError, InputError

ROWS = "0.0 1.0 2.0\n0.1 1.1 2.1\n0.2 1.2 2.2\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("probe.dat", 'TITLE = "p"\nVARIABLES = "t", "x"\nZONE T="k=1"\n0 1\n1 2\n'),
        ("log.lammps", "LAMMPS (2 Aug 2023)\nthermo 10\nStep Temp\n0 1.0\n10 1.1\nLoop time\n"),
        ("a.lammpstrj", "ITEM: TIMESTEP\n0\nITEM: NUMBER OF ATOMS\n1\n"),
        ("lt.txt", "time\tV(out)\nStep Information: R=1K  (Step: 1/2)\n0\t1\n1\t2\n"),
        ("post26.txt", "  TIME   UY   VY\n         UY_2   VY_3\n" + ROWS),
        ("a.tdms", "TDSm"),
        ("ecg.hea", "ecg 2 100 21\n"),
        ("a.edf", "0       X"),
        ("a.pickle", "\x80\x04"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(FileError):
        describe(read_own(tmp_path / name))


def test_a_result_of_modelica_is_refused(tmp_path):
    scipy.io.savemat(tmp_path / "m.mat", {"Aclass": ["Atrajectory"], "data_2": np.eye(3)})
    with pytest.raises(FileError, match="Modelica"):
        read_own(tmp_path / "m.mat")


def test_a_clock_counts_seconds():
    clock = ["23:59:58,5", "23:59:59,5", "24:00:00,5", "36:00:00"]
    data = describe(pd.DataFrame({"t": clock, "x": [0.0, 1.0, 2.0, 3.0]}))
    np.testing.assert_allclose(np.diff(data.time), [1.0, 1.0, 43199.5])
    assert data.time.attrs["units"] == "s"


@pytest.mark.parametrize("clock", [["23:59:59", "00:00:00", "00:00:01"], ["00:05", "00:06"]])
def test_a_clock_that_passes_midnight_or_has_two_numbers_is_refused(clock):
    table = pd.DataFrame({"t": ["23:59:58", *clock], "x": np.arange(len(clock) + 1.0)})
    with pytest.raises(InputError):
        describe(table)


def test_runs_by_another_name_are_runs_and_no_context():
    table = pd.DataFrame({"run id": [0, 0, 1, 1], "t": [0, 1, 0, 1], "x": [0.0, 1.0, 2.0, 3.0]})
    data = describe(table)
    np.testing.assert_array_equal(data.state[..., 0], [[0, 1], [2, 3]])
    assert data["run id"].attrs["role"] == "label"


def test_a_zarr_store_is_read(tmp_path):
    runs = xr.Dataset({"u": (("run", "t"), np.eye(3))}, {"t": [0.0, 1.0, 2.0]})
    runs.to_zarr(tmp_path / "a.zarr", zarr_format=2)
    xr.testing.assert_equal(read_own(tmp_path / "a.zarr"), runs)
