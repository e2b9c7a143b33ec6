"""Parameters in the names of files, and HDF5 files whose axes have no names."""

import warnings

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import romkit
from romkit.core.errors import FileError
from romkit.data import context_matrix, context_names, describe
from romkit.learning.reading import described
from tests.refusals import refused

TIME = 0.1 * np.arange(20)
VALUES = {"2": 2.0, "10": 10.0, "-1.5": -1.5, "1e-3": 1e-3}


def run(value):
    """Columns of a run by which it is recognised."""
    return {"u": np.sin(TIME) + value, "w": np.cos(TIME) - value}


def write(path, value):
    columns = run(value)
    if path.suffix == ".csv":
        pd.DataFrame({"time": TIME} | columns).to_csv(path, index=False)
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["times"] = TIME
            file["u"] = columns["u"]
            file["w"] = columns["w"]
    else:
        data = {name: ("time", column) for name, column in columns.items()}
        xr.Dataset(data, {"time": TIME}).to_netcdf(path, engine="h5netcdf")


@pytest.fixture(params=[".csv", ".nc", ".h5"])
def pattern(request, tmp_path):
    for text, value in VALUES.items():
        write(tmp_path / f"run_{text}K{request.param}", value)
    return str(tmp_path / f"run_{{b}}K{request.param}")


def test_a_parameter_in_the_names_is_the_context_of_each_run(pattern):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        opened = romkit.open(pattern)
    own = describe(opened)
    assert context_names(own) == ("b",)
    values = context_matrix(own).ravel()
    assert sorted(values.tolist()) == sorted(VALUES.values())
    for k, value in enumerate(values.tolist()):
        assert np.allclose(own.state[k], np.stack(list(run(value).values()), axis=-1))
    learned_from = described(pattern, None)
    assert context_names(learned_from) == ("b",)
    assert np.allclose(learned_from.b, own.b)
    assert np.allclose(learned_from.state, own.state)


def test_numbers_are_in_their_order_and_parameters_beside_wildcards(tmp_path):
    for folder, speed, load in [("a", 10, 0.5), ("b", 9, 0.25), ("a", 9, 0.75)]:
        (tmp_path / folder).mkdir(exist_ok=True)
        write(tmp_path / folder / f"v{speed}_q{load}.nc", speed * load)
    data = romkit.open(tmp_path / "*" / "v{speed}_q{load}.nc", along="run")
    assert data.speed.values.tolist() == [9, 9, 10]
    assert data["load"].values.tolist() == [0.25, 0.75, 0.5]
    assert np.allclose(data.u.isel(time=0), data.speed * data["load"])


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["b_1.nc", "b_two.nc"], "b_{b}.nc"),
        (["b_1.nc", "b_1_old.nc"], "b_{b}.nc"),
        (["b_1.nc"], "b_{b}{c}.nc"),
        (["b_1.nc"], "*{b}.nc"),
        (["b_1.nc"], "{b}_{b}.nc"),
        (["b_1.nc"], "c_{b}.nc"),
    ],
)
def test_names_that_hold_no_numbers_there_are_refused(names, pattern, tmp_path):
    for name in names:
        write(tmp_path / name, 1.0)
    for door in (romkit.open, lambda path: described(path, None)):
        refused("", door, str(tmp_path / pattern), error=FileError)


@pytest.mark.parametrize("ending", [".csv", ".nc"])
@pytest.mark.parametrize("name", ["u", "time"])
def test_a_parameter_that_is_there_with_other_values_is_refused(ending, name, tmp_path):
    write(tmp_path / f"b_3{ending}", 1.0)
    refused("", romkit.open, str(tmp_path / f"b_{{{name}}}{ending}"), error=FileError)


@pytest.mark.parametrize("is_attribute", [False, True])
@pytest.mark.parametrize("value", [3.0, 4.0])
def test_a_parameter_that_is_there_is_compared(value, is_attribute, tmp_path):
    for k in (3, 5):
        data = xr.Dataset({"u": ("time", np.sin(TIME))}, {"time": TIME})
        own = value if k == 3 else 5.0
        data = data.assign_attrs(b=own) if is_attribute else data.assign_coords(b=own)
        data.to_netcdf(tmp_path / f"b_{k}.nc", engine="h5netcdf")
    path = str(tmp_path / "b_{b}.nc")
    if value == 3.0:
        assert romkit.open(path).b.values.tolist() == [3.0, 5.0]
    else:
        refused("", romkit.open, path, error=FileError)


def test_tables_of_several_runs_keep_their_numbers(tmp_path):
    for k in range(2):
        table = pd.concat(
            [pd.DataFrame({"time": TIME, "run": 2 * k + j} | run(k + j)) for j in (0, 1)]
        )
        table.to_csv(tmp_path / f"b_{k}.csv", index=False)
    own = describe(romkit.open(tmp_path / "b_{b}.csv"))
    assert context_matrix(own).ravel().tolist() == [0, 0, 1, 1]


def test_axes_without_names(tmp_path):
    """As many times as places, and arrays of other sizes."""
    u = np.random.default_rng(0).normal(size=(20, 20, 3))
    with h5py.File(tmp_path / "own.h5", "w") as file:
        file["t"], file["u"], file["x"] = TIME, u, np.arange(20.0)
        file["p"], file["mass"], file["table"] = u[:, :5], 2.0, np.ones((4, 2))
    # x may be a coordinate of the places as well
    refused("axes without names", romkit.data.open_dataset, tmp_path / "own.h5", error=FileError)
    with pytest.warns(romkit.errors.DataWarning, match="x is taken to lie along t"):
        data = romkit.open(tmp_path / "own.h5")
    assert data.u.dims[0] == data.p.dims[0] == "t"
    assert data.u.shape == u.shape
    assert np.array_equal(data.u, u)
    assert np.array_equal(data.t, TIME)
    assert data.p.dims[1] != data.u.dims[1]
    assert data.p.dims[2] == data.u.dims[2]
    assert float(data.mass) == 2.0


@pytest.mark.parametrize(
    "arrays",
    [
        {"u": np.ones((20, 3))},
        {"u": np.ones((20, 3)), "times": TIME[::-1].copy()},
        {"u": np.ones((20, 3)), "time": TIME[:-1]},
        {"u": np.ones((20, 3)), "time": TIME, "t": 2 * TIME},
    ],
)
def test_axes_whose_time_nobody_knows_are_refused(arrays, tmp_path):
    with h5py.File(tmp_path / "own.h5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    for door in (romkit.open, romkit.data.open_dataset):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            refused("", door, tmp_path / "own.h5", error=FileError)


def decays(folder, name, rates, **columns):
    """A file with a run, by number, for each rate."""
    t = 0.1 * np.arange(20)
    tables = []
    for number, rate in enumerate(rates):
        table = pd.DataFrame({"run": number, "time": t, "k": rate, "x": np.exp(-rate * t)})
        tables.append(table.assign(**columns))
    pd.concat(tables).to_csv(folder / name, index=False)


def test_runs_that_two_files_number_alike_are_refused_with_the_call_that_numbers_them(tmp_path):
    decays(tmp_path, "a.csv", [1.0, 2.0])
    decays(tmp_path, "b.csv", [3.0, 4.0, 5.0])
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    refused("has run 0, as another", romkit.open, paths, error=FileError)
    tables = pd.concat([pd.read_csv(path) for path in paths], keys=[0, 1], names=["file"])
    tables = tables.reset_index("file")
    data = describe(tables.assign(run=tables.groupby(["file", "run"]).ngroup()), context=["k"])
    assert data.k.values.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_files_that_name_their_runs_otherwise_are_refused(tmp_path):
    decays(tmp_path, "a.csv", [1.0, 2.0])
    pd.read_csv(tmp_path / "a.csv").rename(columns={"run": "trajectory"}).to_csv(tmp_path / "b.csv")
    refused("b.csv", romkit.open, [tmp_path / "a.csv", tmp_path / "b.csv"], error=FileError)
