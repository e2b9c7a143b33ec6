"""Snapshots in chunks of dask: the numbers of memory for chunks along each dimension, never whole,
on a cluster too.
"""

import os
import signal
import threading
import time

import dask
import dask.array as da
import numpy as np
import pytest
import torch
import xarray as xr
from scipy import sparse
from sklearn.decomposition import PCA

import romkit
from tests.refusals import refused

DIMS = romkit.data.DIMS
RNG = np.random.default_rng(0)
LEFT, RIGHT = (np.linalg.qr(RNG.standard_normal((size, 60)))[0] for size in (180, 90))
X = (LEFT * 0.75 ** np.arange(60)) @ RIGHT.T + np.linspace(50, 60, 90)
DATA = xr.Dataset({"state": (DIMS, X.reshape(4, 45, 90))}, {"time": np.arange(45) * 0.1})
CHUNKS = [
    {"trajectory": 3},
    {"time": 7},
    {"component": 20},
    {"trajectory": 1, "time": 20, "component": 31},
]
MASS = sparse.diags_array(
    [np.full(89, 0.2), np.linspace(1, 2, 90), np.full(89, 0.2)], offsets=[-1, 0, 1]
).tocsr()


def near(found, known):
    assert torch.allclose(found.singular_values, known.singular_values, rtol=1e-8)
    assert torch.allclose(found.mean, known.mean, rtol=1e-13)
    assert torch.allclose(found.energy, known.energy, rtol=1e-10)
    angles = (known.dual.mT @ found.modes).abs() - torch.eye(known.rank)
    assert angles.abs().max() < 1e-6


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize(
    "weight", [None, np.linspace(1, 2, 90), MASS], ids=["identity", "quadrature", "mass"]
)
def test_chunks_give_the_basis_of_memory(chunks, weight):
    near(romkit.basis(DATA.chunk(chunks), 20, weight), romkit.basis(DATA, 20, weight))


def test_singular_values_are_those_of_scikit_learn_and_of_dask():
    """To 1e-6 each, although the 32nd is 1e-4 of the first."""
    found = romkit.basis(DATA.chunk(time=16), 32).singular_values.numpy()
    assert np.allclose(found, PCA(32, svd_solver="full").fit(X).singular_values_, rtol=1e-6, atol=0)
    deviations = da.from_array(X - X.mean(0), chunks=(45, -1))
    assert np.allclose(found, da.linalg.svd(deviations)[1][:32].compute(), rtol=1e-6, atol=0)


class Held:
    """Chunks that are alive now, and the most at any time."""

    def __init__(self):
        self.now = self.most = 0
        self.lock = threading.Lock()

    def chunk(self, number):
        """A chunk that counts while anything of it lives."""
        made = np.random.default_rng(int(number.item())).standard_normal((1, 20, 300)).view(Counted)
        made.held = self
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        return made


class Counted(np.ndarray):
    held = None

    def __del__(self):
        if self.held is not None:
            with self.held.lock:
                self.held.now -= 1


def test_few_chunks_are_in_memory_at_a_time():
    held, numbers = Held(), da.arange(40, chunks=1).reshape(1, 40, 1)
    sizes = ((1,), (20,) * 40, (300,))
    state = numbers.map_blocks(held.chunk, chunks=sizes, dtype=float, meta=np.empty((0, 0, 0)))
    data = xr.Dataset({"state": (DIMS, state)}, {"time": np.arange(800)})
    with (
        dask.config.set(scheduler="threads", num_workers=3),
        pytest.warns(romkit.errors.FitWarning),
    ):
        romkit.basis(data, 5)
    assert 1 <= held.most <= 10


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_time_alone(tmp_path):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    known = romkit.basis(DATA.chunk(time=5), 20)

    def slow(chunk):
        time.sleep(0.05)
        return chunk

    data = DATA.assign(
        state=DATA.chunk(time=5).state.copy(data=DATA.chunk(time=5).state.data.map_blocks(slow))
    )
    own = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "dashboard_address": ":0",
        "local_directory": tmp_path,
    }
    with distributed.Client(**own) as client:
        first, other = client.run(os.getpid).values()
        alarm = threading.Timer(0.5, os.kill, (first, signal.SIGKILL))
        alarm.start()
        found = romkit.basis(data, 20)
        assert {first, other} != set(client.run(os.getpid).values())
    assert torch.equal(found.singular_values, known.singular_values)
    assert torch.equal(found.modes, known.modes)


def test_bad_input():
    lazy = DATA.chunk(time=10)
    broken = lazy.assign(state=lazy.state.where(lazy.state.trajectory != 2))
    some = lazy.state.data[:, da.arange(45, chunks=10) > 3]
    unknown = xr.Dataset({"state": (DIMS, some)})
    for data, fact in (
        (broken, "expected finite snapshots, got NaN or infinity in trajectory 2"),
        (unknown, "data"),
        (lazy.astype(object), "data"),
        (lazy.isel(component=0), "data"),
    ):
        refused(fact, romkit.basis, data, 5)
