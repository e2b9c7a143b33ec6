"""`romkit.data.save_dataset` and `open_dataset`: nothing changes unnoticed."""

import errno
import json
import multiprocessing
import os
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

import romkit
from romkit.core.errors import FileError, InputError
from romkit.data import check_dataset, context_names, open_dataset, save_dataset

NAN = np.array([np.nan, -0.0, np.inf, 5e-324, 1 / 3])


def small(seed=0):
    """Everything a dataset or a run may hold, context names not in alphabetical order."""
    rng = np.random.default_rng(seed)
    state = rng.normal(size=(2, 5, 3))
    state[0, :, 0] = NAN
    return xr.Dataset(
        {
            "state": (("trajectory", "time", "component"), state, {"units": "1", "long_name": "state α"}),
            "latent": (("trajectory", "time", "latent_component"), rng.normal(size=(2, 5, 2)).astype(np.float32)),
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
        attrs={"system": "mine", "seed": seed, "dt": 0.1, "empty": "", "nan": float("nan"), "yes": True}
        | {"versions": json.dumps({"romkit": "x" * 200_000}), "names": ["a", "b"], "sizes": (1, 2), "none": []}
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


# -- round trips ---------------------------------------------------------------------------------------------------


def test_round_trip_is_exact(path):
    data = open_dataset(path)
    assert_same(small(), data)
    assert context_names(data) == ("mass", "length")
    kinds = [type(data.attrs[key]) for key in ("system", "seed", "dt", "names", "sizes")]
    assert kinds == [str, int, float, list, list]
    assert data.mass.attrs["training_range"] == [1.0, 2.0]
    assert os.listdir(path.parent) == ["small.nc"]


def test_round_trip_of_a_system_and_a_rollout(tmp_path, lorenz, lorenz_data):
    assert_same(lorenz_data, check_dataset(open_dataset(save_dataset(lorenz_data, tmp_path / "a.nc"))))
    pod = romkit.fit("pod", lorenz_data, latent_dim=4)
    run = romkit.rollout(lorenz, pod, F=[3.14, 3.15], duration=0.2)
    assert_same(run, open_dataset(save_dataset(run, tmp_path / "b.nc")))


def test_saving_does_not_touch_the_dataset_nor_apply_a_packing(tmp_path):
    data = small()
    data.state.encoding.update(dtype="int16", scale_factor=0.1, _FillValue=-1)  # left over from another file
    assert_same(small(), open_dataset(save_dataset(data, tmp_path / "a.nc")))
    assert data.attrs["yes"] is True
    assert data.attrs["sizes"] == (1, 2)
    assert data.state.encoding["dtype"] == "int16"


def test_text_as_python_objects_comes_back_as_text(tmp_path):
    text = np.array(["one", "three"], dtype=object)
    data = xr.Dataset({"a": ("x", text, {"units": "1"})}, {"x": text, "k": ("x", text)})
    back = open_dataset(save_dataset(data, tmp_path / "a.nc"))
    assert [back[name].dtype for name in ("a", "x", "k")] == ["<U5"] * 3
    assert data.x.dtype == object
    xr.testing.assert_identical(data, back)


# -- other programs ------------------------------------------------------------------------------------------------


def test_arrays_have_checksums_that_other_programs_see(path):
    with h5py.File(path) as file:
        for name in ("state", "latent", "status", "flag", "count", "time", "mass"):
            assert file[name].fletcher32
    xr.testing.assert_equal(xr.load_dataset(path, decode_times=False), small())


def test_a_file_that_another_program_changed_opens(path):
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


def test_dates_of_others_stay_numbers(tmp_path):
    times = np.array(["2020-01-01", "2020-01-03"], dtype="datetime64[ns]")
    xr.Dataset({"a": ("time", [1.0, 2.0])}, {"time": times}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    back = open_dataset(tmp_path / "a.nc")
    assert back.time.values.tolist() == [0, 2]
    assert back.time.attrs["units"].startswith("days since 2020-01-01")


# -- damage --------------------------------------------------------------------------------------------------------


def unchanged_or_file_error(path, original):
    """True if the damage was noticed."""
    try:
        data = open_dataset(path)
    except FileError as error:
        message = str(error)
    else:
        assert_same(data, original)
        return False
    assert "\n" not in message
    assert "restore it" in message or "give a file" in message
    return True


def test_every_flipped_byte_is_noticed_or_harmless(path):
    original, content = open_dataset(path), path.read_bytes()
    rng = np.random.default_rng(0)
    seal = range(len(content) - 80, len(content), 4)  # of which the magic may be damaged without harm
    noticed = []
    for position in [*rng.integers(len(content) - 80, size=100), *seal]:
        damaged = bytearray(content)
        damaged[position] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        noticed.append(unchanged_or_file_error(path, original))
    assert all(noticed[:100])
    assert all(noticed[104:])  # the digest itself


def test_every_truncation_is_noticed_or_harmless(path):
    original, content = open_dataset(path), path.read_bytes()
    for size in (0, 1, 4, 79, 80, *np.random.default_rng(1).integers(len(content), size=10)):
        path.write_bytes(content[:size])
        assert unchanged_or_file_error(path, original) or size >= len(content) - 80
    path.write_bytes(content[:-1])
    assert not unchanged_or_file_error(path, original)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"hello, world" * 99, "not a netCDF file"),
        (b"\x89HDF\r\n\x1a\n" + b"\x07" * 999, "cannot be read"),
    ],
)
def test_garbage(tmp_path, content, problem):
    (tmp_path / "a.nc").write_bytes(content)
    with pytest.raises(FileError, match=f"a.nc: .*{problem}.*; (give|restore)") as caught:
        open_dataset(tmp_path / "a.nc")
    assert "\n" not in str(caught.value)


# -- writing -------------------------------------------------------------------------------------------------------


def with_attrs(**attrs):
    return small().assign_attrs(attrs)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("small.nc", "data: expected an xarray.Dataset, got 'small.nc'"),
        (
            with_attrs(a=None),
            r"data.attrs\['a'\]: expected text, a number, or a list of either, got None; .*json.dumps",
        ),
        (with_attrs(a={"b": 1}), r"data.attrs\['a'\]: .*got {'b': 1}"),
        (with_attrs(a=[1, "b"]), r"data.attrs\['a'\]"),
        (with_attrs(a=2**70), "data: expected what netCDF can hold"),
        (with_attrs(a="b\0c"), "data: expected what netCDF can hold"),
        (
            xr.Dataset({"a": ("x", np.array(["b", None], dtype=object))}),
            r"data\['a'\]: expected numbers or text, got dtype",
        ),
        (xr.Dataset({"a": ("x", np.array(["2020-01-01"], dtype="datetime64[ns]"))}), r"data\['a'\]: .*dates"),
        (xr.Dataset({"a": ("x", [1], {"scale_factor": 2.0})}), r"data\['a'\].attrs: .*got 'scale_factor'; apply it"),
        (xr.Dataset({"a": ("x", [1 + 2j])}), r"data\['a'\]: .*complex128"),
        (xr.Dataset({"a": ("x", [1.0])}).assign_attrs({"b": 1}).rename(a="a/b"), "data: expected what netCDF can hold"),
    ],
)
def test_what_netcdf_cannot_hold(path, data, message):
    before = path.read_bytes()
    with pytest.raises(InputError, match=message) as caught:
        save_dataset(data, path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["small.nc"]


def test_a_full_disk_keeps_the_old_file(path, monkeypatch):
    def half(self, content):
        with self.open("wb") as file:
            file.write(content[:1000])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(FileError, match=r"No space left on device\); check free space and permissions"):
        save_dataset(small(1), path)
    assert_same(open_dataset(path), small())
    assert os.listdir(path.parent) == ["small.nc"]


def _write_forever(path):
    while True:
        for seed in (0, 1):
            save_dataset(small(seed), path)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_killed_writer_leaves_a_whole_file(path):
    for k in range(6):
        writer = multiprocessing.get_context("fork").Process(target=_write_forever, args=(path,))
        writer.start()
        time.sleep(0.03 + 0.0213 * k)
        writer.kill()
        writer.join()
        data = open_dataset(path)
        assert_same(data, small(data.attrs["seed"]))
