"""Files of others: no numbers from other files, no code, damage seen at every door."""

import json

import h5py
import numpy as np
import pytest
import xarray as xr

import romkit
from romkit.core.errors import DataWarning, FileError
from romkit.data import open_dataset, save_dataset
from romkit.data.storage import decode_dataset
from tests.refusals import refused


def field(size=20):
    return xr.Dataset({"u": (("time", "x"), np.ones((size, 3)))}, {"time": np.arange(float(size))})


def external_storage(file, secret):
    file.create_dataset("u", (16,), dtype="u1", external=[(str(secret), 0, 16)])


def external_link(file, secret):
    file["u"] = h5py.ExternalLink(str(secret), "/numbers")


def virtual_source(file, secret):
    layout = h5py.VirtualLayout(shape=(4,), dtype="f8")
    layout[:] = h5py.VirtualSource(str(secret), "numbers", shape=(4,))
    file.create_virtual_dataset("u", layout)


def inside_a_group(file, secret):
    external_link(file.create_group("a/b"), secret)


@pytest.mark.parametrize(
    "trap",
    [external_storage, external_link, virtual_source, inside_a_group],
    ids=lambda x: x.__name__,
)
def test_numbers_of_other_files_are_refused_at_every_door(trap, tmp_path):
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["numbers"] = np.arange(4.0)
    path = tmp_path / "trap.nc"
    with h5py.File(path, "w") as file:
        trap(file, secret)
    refused("another file", open_dataset, path, error=FileError)
    refused("another file", romkit.open, path, error=FileError)
    refused("another file", decode_dataset, path.read_bytes(), "upload", error=FileError)


def test_links_within_a_file_are_fine(tmp_path):
    path = tmp_path / "own.nc"
    field().to_netcdf(path, engine="h5netcdf")
    with h5py.File(path, "a") as file:
        file["again"] = h5py.SoftLink("/u")
        file["loop"] = file["/"]  # a hard link to the group above
    assert float(open_dataset(path).u.sum()) == 60


def test_a_changed_file_is_refused_at_every_door(tmp_path):
    path = save_dataset(field(), tmp_path / "own.nc")
    content = path.read_bytes()
    place = content.index(np.ones(3).tobytes())
    path.write_bytes(content[:place] + b"\x01" + content[place + 1 :])
    for door, given in ((open_dataset, (path,)), (romkit.open, (path,))):
        refused("has changed", door, *given, error=FileError)
    refused("has changed", decode_dataset, path.read_bytes(), "upload", error=FileError)
    path.write_bytes(content)
    assert romkit.open(path).u.equals(field().u)


def test_groups_are_read_or_named(tmp_path):
    path = tmp_path / "grouped.nc"
    field().to_netcdf(path, group="results/fine", engine="h5netcdf")
    with pytest.warns(DataWarning, match="/results/fine"):
        assert open_dataset(path).sizes["time"] == 20
    field(5).to_netcdf(path, group="coarse", engine="h5netcdf", mode="a")
    refused("/coarse, /results/fine", open_dataset, path, error=FileError)
    assert open_dataset(path, group="coarse").sizes["time"] == 5
    assert open_dataset(path, group="/results/fine").sizes["time"] == 20
    refused("no group", open_dataset, path, group="rough", error=FileError)
    field(7).to_netcdf(path, engine="h5netcdf", mode="a")
    with pytest.warns(DataWarning, match="left out"):
        assert open_dataset(path).sizes["time"] == 7


def store(folder, version):
    pytest.importorskip("zarr")
    field().to_zarr(folder, zarr_format=version, consolidated=True)
    return folder


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("version", [2, 3])
def test_zarr_stores_that_unpickle_or_lead_elsewhere_are_refused(version, tmp_path):
    good = store(tmp_path / "good.zarr", version)
    assert float(romkit.open(good).u.sum()) == 60
    bad = store(tmp_path / "bad.zarr", version)
    name = ".zarray" if version == 2 else "zarr.json"
    facts = json.loads((bad / "u" / name).read_text())
    if version == 2:
        facts["filters"] = [{"id": "Pickle", "protocol": 4}]
    else:
        facts["codecs"] = [{"name": "numcodecs.pickle", "configuration": {}}]
    (bad / "u" / name).write_text(json.dumps(facts))
    refused("unpickles", romkit.open, bad, error=FileError)
    linked = store(tmp_path / "linked.zarr", version)
    chunk = max((path for path in (linked / "u").rglob("*") if path.is_file()), key=str)
    chunk.unlink()
    chunk.symlink_to(tmp_path / "secret")
    refused("has a link", romkit.open, linked, error=FileError)
    (good / "u" / name).write_text("{")
    refused("damaged", romkit.open, good, error=FileError)


@pytest.mark.filterwarnings("ignore")
def test_an_attribute_may_be_called_pickle(tmp_path):
    good = tmp_path / "good.zarr"
    pytest.importorskip("zarr")
    field().assign_attrs(name="pickle", id="pickle").to_zarr(good, zarr_format=3)
    assert romkit.open(good).attrs["name"] == "pickle"


def test_a_folder_that_is_no_store_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    refused("neither a zarr store", romkit.open, tmp_path / "folder", error=FileError)
