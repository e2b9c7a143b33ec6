"""Files of arrays by name: .npz, .mat; and formats that are refused with a way."""

import h5py
import numpy as np
import pytest
from scipy.io import savemat

import romkit
from romkit.data import describe
from romkit.errors import FileError
from tests.refusals import refused

TIME = 0.5 * np.arange(8)
RUNS = np.random.default_rng(0).normal(size=(3, 8, 4))
STIFF = (1.0, 2.0, 4.5)


def written(folder, ending, **entries):
    for k, (run, stiffness) in enumerate(zip(RUNS, STIFF, strict=True)):
        values = {"t": TIME, "q": run, "k": stiffness, "note": "mine"} | entries
        file = folder / f"run_{k}{ending}"
        if ending == ".npz":
            np.savez(file, **values)
        else:
            savemat(file, values | {"t": values["t"][:, None]})


@pytest.mark.parametrize("ending", [".npz", ".mat"])
def test_arrays_along_their_times_and_single_numbers_as_parameters(ending, tmp_path):
    written(tmp_path, ending)
    data = describe(romkit.open(str(tmp_path / f"run_*{ending}"), along="run"), context=["k"])
    assert np.array_equal(data.state, RUNS)
    assert np.array_equal(data.time, TIME)
    assert np.array_equal(data.k, STIFF)
    one = romkit.open(tmp_path / f"run_1{ending}")
    assert np.array_equal(one.q, RUNS[1])
    assert one.attrs["k"] == 2.0


def test_a_row_of_times_in_matlab(tmp_path):
    savemat(tmp_path / "run.mat", {"time": TIME[None], "x": RUNS[0][:, :1], "q": RUNS[0]})
    data = romkit.open(tmp_path / "run.mat")
    assert data.x.dims == ("time",)
    assert np.array_equal(data.time, TIME)
    # times along the second axis
    savemat(tmp_path / "turned.mat", {"time": TIME[None], "q": RUNS[0].T})
    refused("no increasing t", romkit.open, tmp_path / "turned.mat", error=FileError)


def test_objects_structs_and_damage_are_refused(tmp_path):
    np.savez(tmp_path / "objects.npz", t=TIME, q=np.array([RUNS[0], "a"], dtype=object))
    refused("from_arrays", romkit.open, tmp_path / "objects.npz", error=FileError)
    struct = np.array([(TIME, RUNS[0])], dtype=[("t", "O"), ("q", "O")])
    savemat(tmp_path / "struct.mat", {"runs": struct})
    refused("struct", romkit.open, tmp_path / "struct.mat", error=FileError)
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and no more")
    refused("cannot be read", romkit.open, tmp_path / "broken.npz", error=FileError)
    (tmp_path / "new.mat").write_bytes(b"MATLAB 7.3 MAT-file" + bytes(600))
    refused("h5py", romkit.open, tmp_path / "new.mat", error=FileError)
    np.savez(tmp_path / "timeless.npz", q=RUNS[0])
    refused("no increasing t", romkit.open, tmp_path / "timeless.npz", error=FileError)


FORMATS = {
    "flow.vtk": (b"# vtk DataFile Version 3.0\ntitle\nASCII\nDATASET POLYDATA\n", "ParaView"),
    "flow.vtu": (b"<?xml version='1.0'?>\n<VTKFile type='UnstructuredGrid'>\n", "ParaView"),
    "flow.xdmf": (b"<?xml version='1.0'?>\n<Xdmf>\n", "pyvista"),
    "flow.npy": (b"\x93NUMPY\x01\x00", "numpy.load"),
    "flow.json": (b'{"t": [0, 1]}\n', "its library"),
    "flow.jsonl": (b'{"t": 0, "x": 1}\n', "its library"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_other_formats_are_refused_with_the_way_to_read_them(name, tmp_path):
    content, way = FORMATS[name]
    (tmp_path / name).write_bytes(content)
    refused(way, romkit.open, tmp_path / name, error=FileError)
    refused(way, romkit.learn, str(tmp_path / name), "k", error=FileError)


def test_files_of_dedalus_are_refused_with_the_lines_that_read_them(tmp_path):
    with h5py.File(tmp_path / "snapshots.h5", "w") as file:
        file["tasks/u"] = RUNS[0]
        file["scales/sim_time"] = TIME
    refused("sim_time", romkit.open, tmp_path / "snapshots.h5", error=FileError)


def test_arrays_of_places_name_the_axes_that_are_as_long(tmp_path):
    x, y, steps = np.linspace(0, 1, 6), np.linspace(2, 0, 5), np.arange(7.0)
    u = np.random.default_rng(0).normal(size=(len(TIME), 6, 5))
    square, mask = np.zeros((len(TIME), 7, 7)), np.array([0.0, 1.0, 0.0])
    path = tmp_path / "field.npz"
    np.savez(path, t=TIME, x=x, y=y, u=u, steps=steps, square=square, mask=mask, v=u[:, :3])
    data = romkit.open(path)
    assert data["u"].dims == ("t", "x", "y")
    assert np.array_equal(data["y"], y)
    # which of two axes is meant, nobody can tell, and numbers that go up and down are no places
    assert "steps" not in data["square"].dims
    assert "mask" not in data["v"].dims
