"""Verbs on data in chunks of dask, and data that stay in their files: the numbers of data in
memory.
"""

import threading

import dask
import dask.array as da
import numpy as np
import pytest
import torch
import xarray as xr

import romkit
from romkit.core import memory
from romkit.core.errors import FileError
from tests.refusals import refused

DIMS = romkit.data.DIMS
SYSTEM = romkit.systems.Lorenz96(n=12, transient=1.0)
DATA = SYSTEM.dataset(F=[3.12, 3.14, 3.16, 3.18], duration=0.6)
BASIS = romkit.basis(DATA, rank=6)
MOVING = DATA.assign_coords(
    F=(DIMS[:2], DATA.F.values[:, None] + 0.01 * DATA.time.values, DATA.F.attrs)
)
CHUNKS = [  # of whole states, and of parts of them
    {"trajectory": 3, "time": 17},
    {"trajectory": 2, "time": 11, "component": 7},
]
FEW = {"latent_dim": 2, "epochs": 1, "engine": "torch", "verbose": False, "seed": 0}
KINDS = {
    "plain": ("ncae", DATA, {}),
    "moving": ("ncae", MOVING, {"basis": BASIS, "seeds": range(2)}),
    "no context": ("cae", DATA.drop_vars("F"), {}),
}


def chunked(data, chunks):
    """The data in chunks, with coordinates in memory."""
    return data.chunk(chunks).assign_coords(data.coords)


@pytest.mark.parametrize("kind", KINDS)
def test_operators_give_the_numbers_of_memory_chunk_by_chunk(kind):
    method, data, settings = KINDS[kind]
    model = romkit.fit(method, data, **{**FEW, **settings}).double()
    known = model(data)
    latents, image = known.encode(data), known(data)
    decoded = known.decode(latents)
    for chunks in CHUNKS:
        lazy = chunked(data, chunks)
        P = model(lazy)
        encoded, projected = P.encode(lazy), P(lazy)
        xr.testing.assert_allclose(encoded.compute(), latents, rtol=1e-10)
        xr.testing.assert_allclose(projected.compute(), image, rtol=1e-10)
        xr.testing.assert_allclose(P.decode(encoded).compute(), decoded, rtol=1e-10)
        if (
            "component" not in chunks
        ):  # else chunks are cut along time, so that whole states are no larger than these
            assert projected.state.chunks[-3:] == lazy.state.chunks
        assert P.encode(lazy.state.astype(np.float32)).dtype == np.float32


def test_fields_of_a_user_stay_in_chunks():
    t, re = 0.1 * np.arange(40), np.array([1.0, 2.0, 3.0])
    u = np.sin(
        re[:, None, None, None] * t[:, None, None] + np.arange(4.0)[:, None] + 0.3 * np.arange(5.0)
    )
    u[..., 1, 2] = np.nan  # land
    own = xr.Dataset(
        {"u": (("trajectory", "time", "y", "x"), u), "p": (("trajectory", "time"), u[..., 0, 0])}
    )
    own = own.assign_coords(Re=("trajectory", re), time=t)
    lazy = chunked(own, {"trajectory": 2, "time": 7, "y": 3})
    known, found = (romkit.data.describe(data, context=["Re"]) for data in (own, lazy))
    assert found.state.chunks
    P = romkit.fit("pod", known, latent_dim=3).double()(known)
    for given, data in ((found, known), (lazy, own)):
        for a, b in ((P.encode(given), P.encode(data)), (P(given), P(data))):
            xr.testing.assert_allclose(a.compute(), b)
    assert P(lazy).u.chunks
    xr.testing.assert_allclose(romkit.data.fields(found).compute(), romkit.data.fields(known))


@pytest.mark.parametrize("chunks", CHUNKS[1:], ids=str)
def test_verbs_give_the_numbers_of_memory(chunks):
    lazy = chunked(DATA, chunks)
    projected = BASIS.project(lazy)
    assert projected.state.chunks
    xr.testing.assert_allclose(projected.compute(), BASIS.project(DATA), rtol=1e-10)
    known, found = (romkit.fit("ncae", data, basis=BASIS, **FEW) for data in (DATA, lazy))
    assert torch.allclose(found.frame.state_std, known.frame.state_std)
    runs = [romkit.rollout(data, known) for data in (DATA, lazy)]
    assert all(runs[1][name].chunks for name in ("truth", "rom", "projected"))
    assert not any(
        runs[1][name].chunks for name in ("latent", "nrmse", "nrmse_projected", "valid_time")
    )
    xr.testing.assert_allclose(runs[0], runs[1].compute())
    reduced = romkit.follow(known, lazy)
    xr.testing.assert_allclose(
        romkit.score(lazy, reduced), romkit.score(DATA, reduced.compute()), rtol=1e-10
    )


def test_fit_without_a_basis_reads_data_into_memory():
    known, found = (romkit.fit("ncae", data, **FEW) for data in (DATA, chunked(DATA, {"time": 17})))
    assert all(
        torch.equal(a, b) for a, b in zip(known.parameters(), found.parameters(), strict=True)
    )


def test_second_order_runs_are_decoded_chunk_by_chunk():
    data = romkit.systems.Pendulum().dataset(duration=0.03, l1=[0.4, 0.41], l2=0.5, l3=0.5, l4=0.6)
    known, found = (
        romkit.follow(romkit.load("ncae-pendulum"), x) for x in (data, chunked(data, {"time": 20}))
    )
    assert found.velocity.chunks
    xr.testing.assert_allclose(found.compute(), known, rtol=1e-10)


class Store:
    """States (1, T, n) that are made chunk by chunk, with the chunks alive now, the most at any
    time, and all made.
    """

    def __init__(self, states, length):
        self.states, self.length = states, length
        self.now = self.most = self.made = 0
        self.lock = threading.Lock()

    def read(self, number):
        """A chunk that counts while anything of it lives."""
        start = int(number.item()) * self.length
        made = self.states[:, start : start + self.length].copy().view(Counted)
        made.store = self
        with self.lock:
            self.now, self.made = self.now + 1, self.made + 1
            self.most = max(self.most, self.now)
        return made

    def dataset(self, times):
        """The states as a dataset in chunks."""
        count = self.states.shape[1] // self.length
        sizes = ((1,), (self.length,) * count, self.states.shape[2:])
        numbers = da.arange(count, chunks=1).reshape(1, count, 1)
        state = numbers.map_blocks(self.read, chunks=sizes, dtype=float, meta=np.empty((0, 0, 0)))
        return xr.Dataset({"state": (DIMS, state)}, {"time": times})


class Counted(np.ndarray):
    store = None

    def __del__(self):
        if self.store is not None:
            with self.store.lock:
                self.store.now -= 1


@pytest.mark.parametrize("basis", [False, True])
def test_few_chunks_are_in_memory_at_a_time(basis):
    data = SYSTEM.dataset(F=3.15, duration=2.0).drop_vars("F")
    pod = romkit.fit("pod", data, latent_dim=4, **({"basis": 6} if basis else {}))
    law = romkit.laws.SINDy(degree=1, threshold=0.0, refine=False).fit(pod, data)
    store = Store(data.state.values, 10)
    lazy = store.dataset(data.time.values)
    with dask.config.set(scheduler="threads", num_workers=3):
        romkit.data.check_states(lazy)
        assert store.made == 20  # once each
        found = romkit.rollout(lazy, pod, dynamics=law)
        pod(lazy).encode(lazy).compute()
        BASIS.project(lazy)
        assert store.made <= 20 + 1 + 3 * 20 + 20
        if basis:  # velocities are those of coordinates
            with pytest.warns(romkit.errors.DataWarning):
                romkit.fit("cae", lazy, basis=6, **FEW)
    assert 1 <= store.most <= 12
    known = romkit.rollout(data[["state"]], pod, dynamics=law)
    for name in ("nrmse", "nrmse_projected", "valid_time"):
        xr.testing.assert_allclose(found[name], known[name])


@pytest.mark.slow
def test_a_cluster_gives_the_numbers_of_threads(tmp_path):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    lazy = chunked(DATA, {"trajectory": 2, "component": 7})
    models = [romkit.fit("ncae", DATA, basis=basis, **FEW) for basis in (None, BASIS)]

    def runs():
        return [romkit.rollout(lazy, model).compute().drop_attrs() for model in models]

    here = runs()
    own = {
        "n_workers": 1,
        "threads_per_worker": 1,
        "dashboard_address": ":0",
        "local_directory": tmp_path,
    }
    moved = {"F": [3.12, 3.18], "duration": 0.2}
    with distributed.Client(**own) as client:
        for a, b in zip(here, runs(), strict=True):
            xr.testing.assert_allclose(a, b, rtol=1e-12)
        by_workers = romkit.simulate(SYSTEM, executor=client, **moved)
    assert by_workers.equals(romkit.simulate(SYSTEM, **moved))


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


def test_bad_input(tmp_path, monkeypatch):
    pod = romkit.fit("pod", DATA, latent_dim=3)
    lazy, P = chunked(DATA, {"time": 20}), pod(F=3.15)
    reduced = romkit.follow(pod, DATA)
    some = lazy.state.data[:, da.arange(60, chunks=20) > -1]
    unknown = xr.Dataset({"state": (DIMS, some)}, {"F": DATA.F})
    wrong = lazy.astype(object)
    in_chunks = DATA.chunk(time=20)  # which puts coordinates into chunks, too
    for data in (wrong, unknown, in_chunks):
        refused("data", romkit.data.check_states, data)
        refused("data", romkit.fit, "pod", data, latent_dim=2, basis=4)
        refused("data", romkit.rollout, data, pod)
        refused("data", romkit.follow, pod, data)
    refused("data", pod, in_chunks)
    for data in (wrong, unknown):
        refused("data", BASIS.project, data)
    refused("data", romkit.fit, "pod", wrong, latent_dim=2)
    refused("data", romkit.score, wrong, reduced)
    refused("x", P.encode, unknown)
    refused("z", P.decode, some[..., :3])
    refused("x", P.encode, lazy.state.data[..., :5])
    refused("x", pod(lazy).encode, lazy.state.data[:3])
    monkeypatch.setattr(memory, "available", lambda: 4.0 * DATA.nbytes)
    refused("data", romkit.fit, "pod", lazy, latent_dim=2)
    refused("matches no file", romkit.open, tmp_path / "none*.nc", error=FileError)
    (tmp_path / "bad.nc").write_bytes(b"nothing")
    refused("is not a netCDF file", romkit.open, tmp_path / "bad.nc", error=FileError)
    refused("names no file", romkit.open, [], error=FileError)
