"""Several datasets in one file: the same values, dtypes and order as alone, and nothing damaged is read."""

import numpy as np
import pytest
import xarray as xr

from romkit.core.errors import FileError, InputError
from romkit.data import save_dataset
from studies.runner.groups import file_attributes, group_attribute, open_datasets, save_datasets

DATASETS = {
    "b-0.10": xr.Dataset(
        {
            "x": (("row", "name"), np.array([[1.0, np.nan], [np.inf, -0.0]]), {"units": "m", "range": [0.0, 1.0]}),
            "small": ("row", np.array([1, -2], dtype=np.int8)),
            "scalar": 3.5,
            "empty": ("none", np.zeros(0)),
        },
        coords={"name": ["one", "three"], "label": ("row", ["a", ""]), "row": [1, 2]},
        attrs={"seed": 1, "rate": 0.5, "text": "", "names": ["a", "b"], "key": "1f"},
    ),
    "a": xr.Dataset({"without": ("row", np.arange(3, dtype=np.float32))}),
}


def test_round_trip_is_exact(tmp_path):
    path = save_datasets(DATASETS, tmp_path / "all.nc", title="both")
    found = open_datasets(path)
    assert list(found) == list(DATASETS)
    for name, data in DATASETS.items():
        assert found[name].identical(data)
        assert list(found[name].variables) == list(data.variables)
        assert {k: v.dtype for k, v in found[name].variables.items()} == {k: v.dtype for k, v in data.variables.items()}
        assert found[name].attrs == data.attrs
        assert [type(value) for value in found[name].attrs.values()] == [type(value) for value in data.attrs.values()]
    assert np.signbit(found["b-0.10"].x.values[1, 1])
    assert file_attributes(path) == {"title": "both"}
    assert group_attribute(path, "key") == {"b-0.10": "1f"}


def test_other_programs_read_it(tmp_path):
    path = save_datasets(DATASETS, tmp_path / "all.nc")
    with xr.open_dataset(path, group="b-0.10", engine="h5netcdf") as data:
        xr.testing.assert_equal(data.load(), DATASETS["b-0.10"])


def test_damaged_files_and_those_of_others_are_refused(tmp_path):
    path = save_datasets(DATASETS, tmp_path / "all.nc")
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:-80], whole[:3000], whole[:3000] + b"\0\1\2" + whole[3003:], b""):
        path.write_bytes(damaged)
        with pytest.raises(FileError):
            open_datasets(path)
    with pytest.raises(FileError, match="cannot be read"):
        open_datasets(save_dataset(DATASETS["a"], tmp_path / "one.nc"))
    with pytest.raises(FileError, match="no such file"):
        open_datasets(tmp_path / "none.nc")


def test_what_netcdf_cannot_hold_is_refused(tmp_path):
    with pytest.raises(InputError, match="numbers or text"):
        save_datasets({"a": xr.Dataset({"x": ("t", np.array(["2026-01-01"], "datetime64[ns]"))})}, tmp_path / "a.nc")
    assert not list(tmp_path.iterdir())
