"""Readers of other packages, and files for ParaView."""

from importlib.metadata import EntryPoint
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import romkit
from romkit.errors import DataWarning, FileError, InputError
from romkit.readers import door
from tests.refusals import refused

TIME = 0.5 * np.arange(5)
TICKS = SimpleNamespace(
    can_read=lambda path: path.suffix == ".ticks",
    read=lambda path: pd.DataFrame({"time": TIME, "x": float(path.read_text()) * TIME}),
)
"""A reader of another package."""


@pytest.fixture
def plugins(monkeypatch):
    """Entry points as another package would have them; those of romkit are found anew."""

    def install(**values):
        points = [EntryPoint(name, value, door.GROUP) for name, value in values.items()]
        monkeypatch.setattr(door, "entry_points", lambda group: points)
        door._readers.cache_clear()

    yield install
    door._readers.cache_clear()


def test_a_reader_of_another_package_reads_runs(plugins, tmp_path):
    plugins(ticks=f"{__name__}:TICKS")
    for slope in (1, 2, 3):
        (tmp_path / f"run_{slope}.ticks").write_text(str(slope))
    data = romkit.data.describe(romkit.open(tmp_path / "run_{slope}.ticks"))
    assert np.array_equal(data.state[..., 0], np.outer([1, 2, 3], TIME))
    assert np.array_equal(data.slope, [1, 2, 3])


def test_a_reader_that_is_none_is_said_and_passed_over(plugins, tmp_path):
    plugins(missing="no.such.module:reader", other=f"{__name__}:TIME")
    (tmp_path / "run.csv").write_text("time,x\n0,1\n1,2\n")
    with pytest.warns(DataWarning) as caught:
        assert list(romkit.readers.read(tmp_path / "run.csv").x) == [1, 2]
    assert ["missing" in str(caught[0].message), "lacks" in str(caught[1].message)] == [True, True]


def test_tables_beside_datasets_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("time,x\n0,1\n1,2\n")
    xr.Dataset({"x": ("time", [1.0, 2.0])}, {"time": [0.0, 1.0]}).to_netcdf(tmp_path / "b.nc")
    both = [tmp_path / "a.csv", tmp_path / "b.nc"]
    refused("another kind", romkit.open, both, along="run", error=FileError)


def grid(axes):
    """A field and a vector on a grid of two to four points along each axis."""
    sizes = {axis: k + 2 for k, axis in enumerate(axes)}
    rng = np.random.default_rng(0)
    coords = {axis: np.cumsum(rng.uniform(1, 2, size)) for axis, size in sizes.items()}
    dims = ("time", *axes)
    u = rng.normal(size=(len(TIME), *sizes.values()))
    v = rng.normal(size=(*u.shape, 3))
    variables = {"u": (dims, u), "v": ((*dims, "direction"), v), "e": ("time", TIME)}
    return xr.Dataset(variables, {"time": TIME, "direction": list("xyz"), **coords})


@pytest.mark.parametrize("axes", ["x", "yx", "zyx"])
def test_fields_on_grids_come_back_from_files_for_paraview(axes, tmp_path):
    pytest.importorskip("meshio")
    data = grid(axes)
    back = romkit.open(romkit.readers.write_vtk(data, tmp_path / "flow.pvd"))
    assert np.array_equal(back.time, TIME)
    assert np.array_equal(back.u, data.u.values.reshape(5, -1))
    assert np.array_equal(back.v, data.v.values.reshape(5, -1, 3))
    places = xr.broadcast(*(data[axis] for axis in axes))
    for axis, place in zip(axes, places, strict=True):
        assert np.array_equal(back[axis], place.values.ravel())


def test_cells_of_a_grid_fill_it(tmp_path):
    meshio = pytest.importorskip("meshio")
    data = grid("yx")
    romkit.readers.write_vtk(data, tmp_path / "flow.pvd")
    mesh = meshio.read(tmp_path / "flow" / "flow_000000.vtu")
    x, y = np.moveaxis(mesh.points[mesh.cells[0].data][..., :2], -1, 0)  # (cells, 4)
    turned = (np.roll(x, -1, 1), np.roll(y, -1, 1))
    area = 0.5 * (x * turned[1] - turned[0] * y).sum(1)
    assert (area > 0).all()
    assert np.isclose(area.sum(), np.ptp(data.x.values) * np.ptp(data.y.values))


def test_fields_keep_the_mesh_of_their_runs(tmp_path):
    meshio = pytest.importorskip("meshio")
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [2, 0, 0.0]])
    cells = [("triangle", np.array([[0, 1, 2]])), ("quad", np.array([[1, 4, 3, 2]]))]
    p = np.random.default_rng(0).normal(size=(5, 5))
    for k, values in enumerate(p):
        meshio.Mesh(points, cells, point_data={"p": values}).write(tmp_path / f"p_{k}.vtu")
    data = romkit.open(tmp_path / "p_{time}.vtu").isel(trajectory=0, missing_dims="ignore")
    path = romkit.readers.write_vtk(data, tmp_path / "out.pvd", mesh=tmp_path / "p_0.vtu")
    assert np.array_equal(romkit.open(path).p, p)
    written = meshio.read(tmp_path / "out" / "out_000003.vtu")
    assert [block.type for block in written.cells] == ["triangle", "quad"]
    in_cells = xr.Dataset({"q": (("time", "cell"), p[:, :2])}, {"time": TIME})
    path = romkit.readers.write_vtk(in_cells, tmp_path / "q.pvd", mesh=tmp_path / "p_0.vtu")
    assert np.array_equal(romkit.open(path).q, p[:, :2])


def test_collections_stay_in_their_folder_and_have_times(tmp_path):
    (tmp_path / "a.pvd").write_text('<DataSet timestep="0" file="../b.vtu"/>')
    refused("elsewhere", romkit.open, tmp_path / "a.pvd", error=FileError)
    (tmp_path / "a.pvd").write_text('<DataSet file="b.vtu"/>')
    refused("without time", romkit.open, tmp_path / "a.pvd", error=FileError)
    (tmp_path / "a.pvd").write_text("nothing")
    refused("cannot be read", romkit.open, tmp_path / "a.pvd", error=FileError)
    (tmp_path / "a.pvd").write_text("<VTKFile/>")
    refused("no snapshots", romkit.open, tmp_path / "a.pvd", error=FileError)


def test_data_that_are_no_fields_of_a_run_are_refused(tmp_path):
    pytest.importorskip("meshio")
    data = grid("yx")
    four = data.expand_dims(z=[0.0, 1.0], w=[0.0, 1.0]).transpose("time", ...)
    for wrong in (data.isel(time=0, drop=True), data.drop_vars("x"), four):
        refused("data", romkit.readers.write_vtk, wrong, tmp_path / "a.pvd", error=InputError)
    refused("path", romkit.readers.write_vtk, data, tmp_path / "a.vtu", error=InputError)
