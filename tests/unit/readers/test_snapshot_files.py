"""Files that each hold one snapshot, whose time their names have: tables, arrays and meshes."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import romkit
from romkit.core.errors import DataWarning, FileError
from romkit.data import context_matrix, context_names, describe

TIMES = (0, 5, 10, 100)
"""Not in the order of their names as text."""
SPEEDS = (1.0, 2.5)
X, Y = np.meshgrid(np.linspace(0, 1, 4), np.linspace(0, 2, 3), indexing="ij")


def pressure(speed, time):
    return np.sin(X + speed * Y) * np.exp(-0.01 * time)


def grid(speed, time):
    p = pressure(speed, time)
    return xr.Dataset(
        {"p": (("x", "y"), p), "U": (("x", "y"), speed * p)}, {"x": X[:, 0], "y": Y[0]}
    )


def mesh(speed, time):
    meshio = pytest.importorskip("meshio")
    p = pressure(speed, time).ravel()
    points = np.stack([X.ravel(), Y.ravel(), 0 * p], axis=-1)
    at_points = {"p": p, "U": np.stack([speed * p, 0 * p, 0 * p], axis=-1)}
    return meshio.Mesh(points, [("vertex", np.arange(p.size)[:, None])], at_points)


WRITERS = {
    "nc": lambda path, speed, time: grid(speed, time).to_netcdf(path, engine="h5netcdf"),
    "vtu": lambda path, speed, time: mesh(speed, time).write(path),
    "vtk": lambda path, speed, time: mesh(speed, time).write(path, binary=False),
}


def written(folder, ending, write=None):
    """Files of two runs, and the pattern of their names."""
    write = write or WRITERS[ending]
    for speed in SPEEDS:
        (folder / f"U_{speed}").mkdir()
        for time in TIMES:
            write(folder / f"U_{speed}" / f"out_{time}.{ending}", speed, time)
    return f"{folder}/U_{{speed}}/out_{{time}}.{ending}"


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.filterwarnings("ignore::romkit.errors.DataWarning")
def test_snapshots_of_one_run_follow_each_other(ending, tmp_path):
    pattern = written(tmp_path, ending)
    for data in (describe(romkit.open(pattern)), described_whole(pattern)):
        assert context_names(data) == ("speed",)
        assert np.allclose(context_matrix(data).ravel(), SPEEDS)
        assert np.array_equal(data["time"], TIMES)
        p = romkit.data.fields(data)["p"].values.reshape(len(SPEEDS), len(TIMES), -1)
        expected = [[pressure(speed, time).ravel() for time in TIMES] for speed in SPEEDS]
        assert np.allclose(p, expected)


def described_whole(pattern):
    """Data as `learn` reads them, which wants three contexts."""
    from romkit.readers.several import read_runs

    data, contexts = read_runs([pattern])
    assert contexts == ["speed"]
    return describe(data, context=contexts)


def test_a_time_alone_makes_one_run(tmp_path):
    for time in TIMES:
        grid(1.0, time).to_netcdf(tmp_path / f"u{time}.nc", engine="h5netcdf")
    data = describe(romkit.open(tmp_path / "u{time}.nc"))
    assert context_names(data) == ()
    assert dict(data["state"].sizes) == {
        "trajectory": 1,
        "time": len(TIMES),
        "component": 2 * X.size,
    }


def test_tables_with_a_time_in_their_names_are_refused_with_the_lines_that_join_them(tmp_path):
    def write(path, speed, time):
        pd.DataFrame({"x": X[:, 0], "p": pressure(speed, time)[:, 0]}).to_csv(path, index=False)

    pattern = written(tmp_path, "csv", write)
    with pytest.raises(FileError, match="concat"):
        romkit.open(pattern)
    tables = []
    for speed in SPEEDS:
        for time in TIMES:
            table = pd.read_csv(pattern.format(speed=speed, time=time))
            tables.append(table.assign(speed=speed, time=float(time)))
    joined = pd.concat(tables).set_index(["speed", "time", "x"])
    data = describe(joined, context=["speed"])
    assert np.allclose(data["state"][1, 2], pressure(SPEEDS[1], TIMES[2])[:, 0])


def test_two_files_at_one_time_of_a_run_are_refused(tmp_path):
    pattern = written(tmp_path, "nc")
    (tmp_path / "U_1.00").mkdir()
    grid(1.0, 5).to_netcdf(tmp_path / "U_1.00/out_5.nc", engine="h5netcdf")
    with pytest.raises(FileError, match="time=5, as"):
        romkit.open(pattern)


def moved(data):
    return data.assign_coords(x=data["x"] + 0.1)


def with_times(data):
    return data.expand_dims(time=[0.0, 1.0])


def renamed(data):
    return data.rename(U="V")


@pytest.mark.parametrize(
    ("change", "words"),
    [(moved, "another x"), (with_times, "2 values of time"), (renamed, "other fields")],
)
def test_datasets_that_are_no_snapshots_on_one_grid_are_refused(change, words, tmp_path):
    pattern = written(tmp_path, "nc")
    change(grid(2.5, 10)).to_netcdf(tmp_path / "U_2.5/out_10.nc", engine="h5netcdf")
    with pytest.raises(FileError, match=words):
        romkit.open(pattern)


def test_meshes_that_move_are_refused(tmp_path):
    pattern = written(tmp_path, "vtu")
    other = mesh(2.5, 10)
    other.points[0, 1] += 0.1
    other.write(tmp_path / "U_2.5/out_10.vtu")
    with pytest.raises(FileError, match="another y"):
        romkit.open(pattern)


def test_fields_in_cells_beside_those_at_points_are_left_out_and_said_once(tmp_path):
    for time in TIMES:
        snapshot = mesh(1.0, time)
        snapshot.cell_data = {"rank": [np.arange(X.size)], "p": [np.zeros(X.size)]}
        snapshot.write(tmp_path / f"c{time}.vtu")
    with pytest.warns(DataWarning, match="left out: rank;") as caught:
        data = romkit.open(tmp_path / "c{time}.vtu")
    assert len({str(warning.message) for warning in caught}) == 1
    assert set(data.data_vars) == {"p", "U"}
    assert data["p"].dims[-1] == "point"


def test_cells_without_fields_at_points_are_places(tmp_path):
    meshio = pytest.importorskip("meshio")
    points = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 0, 0]], dtype=float)
    cells = [("quad", np.array([[0, 1, 2, 3]])), ("triangle", np.array([[1, 4, 2]]))]
    for time in TIMES:
        fields = {"alpha": [np.array([time * 0.1]), np.array([time * 0.2])]}
        meshio.Mesh(points, cells, cell_data=fields).write(tmp_path / f"c{time}.vtu")
    data = romkit.open(tmp_path / "c{time}.vtu")
    assert np.allclose(data["alpha"].squeeze(), [[0.1 * time, 0.2 * time] for time in TIMES])
    assert np.allclose(data["x"].squeeze(), [0.5, 4 / 3])
