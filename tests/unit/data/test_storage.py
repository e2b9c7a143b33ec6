"""`romkit.data.save_dataset` and `open_dataset`: nothing changes unnoticed."""

import json
import os

import h5py
import numpy as np
import pytest
import xarray as xr

import romkit
from romkit.data import context_names, open_dataset, save_dataset
from tests.refusals import refused

NAN = np.array([np.nan, -0.0, np.inf, 5e-324, 1 / 3])


def small(seed=0):
    """Everything a dataset or a run may hold, context names not in alphabetical order."""
    rng = np.random.default_rng(seed)
    state = rng.normal(size=(2, 5, 3))
    state[0, :, 0] = NAN
    return xr.Dataset(
        {
            "state": (
                ("trajectory", "time", "component"),
                state,
                {"units": "1", "long_name": "state α"},
            ),
            "latent": (
                ("trajectory", "time", "latent_component"),
                rng.normal(size=(2, 5, 2)).astype(np.float32),
            ),
            "status": ("trajectory", np.array([0, 1], dtype=np.int8)),
            "outcome": ("trajectory", np.array(["completed", "diverged"])),
            "flag": ("trajectory", np.array([True, False])),
            "count": ("time", np.arange(5) + 2**53 + 1),
            "scalar": ((), 1 / 3),
            "nothing": (("empty", "time"), np.zeros((0, 5))),
        },
        coords={
            "time": ("time", np.arange(5) * 0.1, {"units": "seconds"}),
            "component": ("component", ["q2", "q1", "qé"], {"long_name": "state component"}),
            "component_units": ("component", ["", "m", "rad / s"]),
            "mass": ("trajectory", [1.5, 2.5], {"units": "kg", "training_range": [1.0, 2.0]}),
            "length": ("trajectory", [0.1, 0.7], {"units": "m", "training_range": [0.0, 1.0]}),
        },
        attrs={
            "system": "mine",
            "seed": seed,
            "dt": 0.1,
            "empty": "",
            "nan": float("nan"),
            "yes": True,
        }
        | {
            "versions": json.dumps({"romkit": "x" * 200_000}),
            "names": ["a", "b"],
            "sizes": (1, 2),
            "none": [],
        }
        | {f"k{k}": k for k in range(20)},
    )


def assert_same(a, b):
    xr.testing.assert_identical(a, b)
    assert list(a.coords) == list(b.coords)
    assert list(a.data_vars) == list(b.data_vars)
    for name, variable in a.variables.items():
        assert variable.dtype == b[name].dtype
        assert variable.values.tobytes() == b[name].values.tobytes()


@pytest.fixture
def path(tmp_path):
    return save_dataset(small(), tmp_path / "small.nc")


def test_round_trip_is_exact(path, tmp_path, lorenz, projection):
    run = romkit.rollout(lorenz, projection, F=[3.14, 3.15], duration=0.2)
    assert_same(run, open_dataset(save_dataset(run, tmp_path / "run.nc")))
    (tmp_path / "run.nc").unlink()
    data = open_dataset(path)
    assert_same(small(), data)
    assert context_names(data) == ("mass", "length")
    kinds = [type(data.attrs[key]) for key in ("system", "seed", "dt", "names", "sizes")]
    assert kinds == [str, int, float, list, list]
    assert data.mass.attrs["training_range"] == [1.0, 2.0]
    assert os.listdir(path.parent) == ["small.nc"]


def test_saving_touches_no_dataset_and_applies_no_packing_and_text_comes_back(tmp_path):
    data = small()
    data.state.encoding.update(
        dtype="int16", scale_factor=0.1, _FillValue=-1
    )  # left over from another file
    assert_same(small(), open_dataset(save_dataset(data, tmp_path / "a.nc")))
    assert data.attrs["yes"] is True
    assert data.attrs["sizes"] == (1, 2)
    assert data.state.encoding["dtype"] == "int16"
    text = np.array(["one", "three"], dtype=object)
    data = xr.Dataset({"a": ("x", text, {"units": "1"})}, {"x": text, "k": ("x", text)})
    back = open_dataset(save_dataset(data, tmp_path / "a.nc"))
    assert [back[name].dtype for name in ("a", "x", "k")] == ["<U5"] * 3
    assert data.x.dtype == object
    xr.testing.assert_identical(data, back)


def test_other_programs_see_checksums_and_may_change_a_file(path):
    with h5py.File(path) as file:
        for name in ("state", "latent", "status", "flag", "count", "time", "mass"):
            assert file[name].fletcher32
    xr.testing.assert_equal(xr.load_dataset(path, decode_times=False), small())
    with h5py.File(path, "a") as file:
        file["state"][1, 0, 0] = 7.0
        file.attrs["history"] = "changed"
    assert open_dataset(path).state[1, 0, 0] == 7.0


@pytest.mark.parametrize(("engine", "format"), [("h5netcdf", None), ("scipy", "NETCDF3_64BIT")])
def test_files_of_others_open(tmp_path, engine, format):
    data = small()[["state", "mass"]].drop_attrs()
    data.time.attrs["units"] = "seconds"
    data.state.encoding.update(dtype="int16", scale_factor=0.001, _FillValue=-(2**15))
    data.state.values[~np.isfinite(data.state.values)] = np.nan
    data.to_netcdf(tmp_path / "a.nc", engine=engine, format=format)
    back = open_dataset(tmp_path / "a.nc")
    assert back.time.dtype == np.float64
    assert np.isnan(back.state.values[0, 0, 0])
    np.testing.assert_allclose(back.state, data.state, atol=0.0006)
    dates = data.assign_coords(
        time=np.datetime64("2020-01-01", "ns") + np.arange(5) * np.timedelta64(2, "D")
    )
    dates.to_netcdf(tmp_path / "dates.nc", engine=engine, format=format)
    back = open_dataset(tmp_path / "dates.nc")
    assert back.time.values.tolist() == [0, 2, 4, 6, 8]  # dates stay numbers
    assert back.time.attrs["units"].startswith("days since 2020-01-01")


def test_what_netcdf_cannot_hold(path):
    before = path.read_bytes()
    for attribute, argument in (
        (
            None,
            "data.attrs['a']",
        ),
        ({"b": 1}, "data.attrs['a']"),
        ([1, "b"], "data.attrs['a']"),
        (2**70, "data"),
        ("b\0c", "data"),
    ):
        refused(argument, save_dataset, small().assign_attrs(a=attribute), path)
    for variable, argument in (
        (
            ("x", np.array(["b", None], dtype=object)),
            "data['a']",
        ),
        (("x", np.array(["2020-01-01"], dtype="datetime64[ns]")), "data['a']"),
        (("x", [1], {"scale_factor": 2.0}), "data['a'].attrs"),
        (("x", [1 + 2j]), "data['a']"),
    ):
        refused(argument, save_dataset, xr.Dataset({"a": variable}), path)
    refused("data", save_dataset, "small.nc", path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["small.nc"]


@pytest.mark.parametrize(
    "names",
    [
        ("speed (m/s)", "x/D", "Re/1000"),
        ("/", "a/b/c", "é/ü"),
        ("u v", "x", "k/N"),
        ("u", "x y", "F 1"),
        ("F_1", "F_1_", "F 1"),
    ],
)
def test_names_with_slashes_and_blanks_come_back(names, tmp_path):
    variable, dim, parameter = names
    values = np.arange(12.0).reshape(2, 2, 3)
    data = xr.Dataset(
        {variable: (("run", "t", dim), values, {"units": "m/s"})},
        {"t": [0.0, 0.1], dim: [0.0, 0.5, 1.0], parameter: ("run", [1.0, 2.0])},
    )
    path = romkit.data.save_dataset(data, tmp_path / "data.nc")
    assert romkit.data.open_dataset(path).identical(data)
    assert romkit.open(path).compute().identical(data)
    described = romkit.data.describe(data, context=[parameter])
    path = romkit.data.save_dataset(described, tmp_path / "described.nc")
    again = romkit.data.open_dataset(path)
    assert again.identical(described)
    assert romkit.data.fields(again)[variable].dims == ("run", "t", dim)
