"""Verbs on data in chunks of dask, and data that stay in their files: the numbers of data in memory."""

import pytest
import torch
import xarray as xr

import romkit
from romkit.core.errors import FileError
from tests.refusals import refused

SYSTEM = romkit.systems.Lorenz96(n=12, transient=1.0)
DATA = SYSTEM.dataset(F=[3.12, 3.14, 3.16, 3.18], duration=0.6)
CHUNKS = [{"trajectory": 3}, {"time": 17}, {"component": 5}]
FEW = {"latent_dim": 2, "epochs": 1, "engine": "torch", "verbose": False, "seed": 0}


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_verbs_give_the_numbers_of_memory(chunks):
    """The context is then in chunks as well."""
    lazy, basis = DATA.chunk(chunks).assign_coords(F=DATA.F), romkit.basis(DATA, rank=6)
    projected = basis.project(lazy)
    assert projected.state.chunks
    xr.testing.assert_allclose(projected.compute(), basis.project(DATA), rtol=1e-10)
    known, found = (romkit.fit("ncae", data, basis=basis, **FEW) for data in (DATA, lazy))
    assert torch.allclose(found.frame.state_std, known.frame.state_std)
    for data in (DATA, lazy):
        xr.testing.assert_allclose(found(data).encode(data), known(DATA).encode(DATA), rtol=1e-3, atol=1e-4)
    runs = [romkit.rollout(data, known) for data in (DATA, lazy)]
    xr.testing.assert_allclose(*(run[["rom", "nrmse", "nrmse_projected"]] for run in runs))
    reduced = romkit.follow(known, DATA)
    xr.testing.assert_allclose(romkit.score(lazy, reduced), romkit.score(DATA, reduced))


@pytest.mark.parametrize("kind", ["netcdf", "zarr"])
def test_files_are_opened_and_not_read(kind, tmp_path):
    one = tmp_path / f"all.{kind}"
    if kind == "zarr":
        pytest.importorskip("zarr", reason="zarr is not installed")
    getattr(DATA, f"to_{kind}")(one)
    each = [tmp_path / f"run{k}.{kind}" for k in range(4)]
    for k, path in enumerate(each):
        getattr(DATA.isel(trajectory=k), f"to_{kind}")(path)
    for lazy in (
        romkit.open(one),
        romkit.open(each, along="trajectory"),
        romkit.open(tmp_path / f"run*.{kind}", along="trajectory"),
    ):
        assert lazy.state.chunks
        assert not lazy.F.chunks
        xr.testing.assert_equal(lazy.state.transpose(*DATA.state.dims).compute(), DATA.state)
        assert romkit.data.check_dataset(lazy) is lazy
        known = romkit.basis(DATA, rank=5).singular_values
        assert torch.allclose(romkit.basis(lazy, rank=5).singular_values, known, rtol=1e-8)


def test_bad_input(tmp_path):
    lazy = DATA.chunk(time=20)
    refused("expected real numbers as state", romkit.fit, "pod", lazy.astype(object), latent_dim=2)
    refused("does not exist", romkit.open, tmp_path / "none*.nc", error=FileError)
    (tmp_path / "bad.nc").write_bytes(b"nothing")
    refused("cannot be opened", romkit.open, tmp_path / "bad.nc", error=FileError)
    refused("does not exist", romkit.open, [], error=FileError)
