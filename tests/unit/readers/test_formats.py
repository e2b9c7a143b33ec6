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


@pytest.mark.parametrize(
    "clock", [["00:12:30", "00:12:31", "00:12:32"], ["00:05", "00:06", "00:07"]]
)
def test_clocks_are_refused_with_the_call_that_reads_them(clock):
    table = pd.DataFrame({"t": clock, "x": np.arange(3.0)})
    with pytest.raises(InputError, match="to_timedelta"):
        describe(table)
    seconds = describe(table.assign(t=pd.to_timedelta([f"00:{text[-5:]}" for text in clock])))
    np.testing.assert_allclose(np.diff(seconds.time), 1.0)


def test_runs_by_another_name_are_runs_and_no_context():
    table = pd.DataFrame({"run id": [0, 0, 1, 1], "t": [0, 1, 0, 1], "x": [0.0, 1.0, 2.0, 3.0]})
    data = describe(table)
    np.testing.assert_array_equal(data.state[..., 0], [[0, 1], [2, 3]])
    assert data["run id"].attrs["role"] == "label"


def test_a_zarr_store_is_read(tmp_path):
    runs = xr.Dataset({"u": (("run", "t"), np.eye(3))}, {"t": [0.0, 1.0, 2.0]})
    runs.to_zarr(tmp_path / "a.zarr", zarr_format=2)
    xr.testing.assert_equal(read_own(tmp_path / "a.zarr"), runs)
