"""Snapshots made chunk by chunk, whose singular values are known: a stored block times a number,
plus a mean.
"""

import functools
import os
import resource
import tempfile
import time
from collections.abc import Callable
from types import SimpleNamespace

import dask.array as da
import numpy as np
import xarray as xr
from distributed import Client, LocalCluster

import romkit
from benchmarks.harness import Parts, Result

PACKAGES = ("dask", "distributed")
LIMIT = "3GB"
"""Memory of a worker, which dask pauses and ends above it."""


@functools.lru_cache(maxsize=1)
def block(rows: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a block (rows, n) without mean and its singular values, which fall by a fifth each,
    down to noise of 1e-6.
    """
    rng, size = np.random.default_rng(0), min(rows, n, 126) - 1
    left = rng.standard_normal((rows, size))
    left, right = (
        np.linalg.qr(each)[0] for each in (left - left.mean(0), rng.standard_normal((n, size)))
    )
    sigma = np.maximum(0.8 ** np.arange(size), 1e-6)
    return (left * sigma) @ right.T, sigma


def chunk(number: np.ndarray, rows: int, n: int) -> np.ndarray:
    """Chunk (1, rows, n) of this number (1, 1, 1), about a mean of 5."""
    made = block(rows, n)[0] * scale(float(number.item()))
    made += 5.0
    return made[None]


def scale(number: float | np.ndarray) -> float | np.ndarray:
    """Return factor of the block in the chunk of this number."""
    return 1 + 0.5 * np.sin(number)


def snapshots(count: int, rows: int, n: int) -> da.Array:
    """(1, count · rows, n) in chunks of `rows` snapshots, made where they are needed."""
    numbers = da.arange(count, chunks=1).reshape(1, count, 1).astype(float)
    sizes = ((1,), (rows,) * count, (n,))
    return numbers.map_blocks(
        chunk, rows=rows, n=n, chunks=sizes, dtype=float, meta=np.empty((0, 0, 0))
    )


def by_romkit(x: da.Array, rank: int) -> np.ndarray:
    """Singular values by `romkit.basis`."""
    data = xr.Dataset({"state": (romkit.data.DIMS, x)}, {"time": np.arange(x.shape[1])})
    return romkit.basis(data, rank).singular_values.numpy()


def by_dask(x: da.Array, rank: int, iterations: int = 0) -> np.ndarray:
    """Singular values by dask's randomised decomposition, which makes the chunks anew whenever it
    reads them.
    """
    deviations = x[0] - x[0].mean(0).compute()
    return da.linalg.svd_compressed(
        deviations, rank, n_power_iter=iterations, seed=0, compute=True
    )[1].compute()


def by_gram(x: da.Array, rank: int) -> np.ndarray:
    """Singular values by the Gram matrix (n, n), summed up over the chunks."""
    deviations = x[0] - x[0].mean(0).compute()
    gram = (deviations.T @ deviations).compute()
    return np.sqrt(np.linalg.eigvalsh(gram)[::-1][:rank])


CONTESTANTS: dict[str, Callable[[da.Array, int], np.ndarray]] = {
    "romkit": by_romkit,
    "dask": by_dask,
    "dask, 2 power iterations": functools.partial(by_dask, iterations=2),
    "Gram matrix": by_gram,
}


def peak() -> float:
    """Return largest memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def measure(config: SimpleNamespace, device: str, found: Result) -> Parts:
    """Seconds by the clock, the largest memory of a worker, and the largest relative error, of each
    contestant.

    Each has a cluster of its own. Worker processes run on all cores, with one thread each.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count()))
    done = found.setdefault("runs", [])
    wanted = [(*case, name) for *case, names in config.cases for name in names]
    for gigabytes, n, rows, workers, name in wanted[len(done) :]:
        count = max(2, round(gigabytes * 1e9 / (8 * rows * n)))
        _, sigma = block(rows, n)
        exact = sigma[: config.rank] * np.linalg.norm(scale(np.arange(count)))
        own = {
            "n_workers": max(workers, 1),
            "processes": workers > 0,
            "threads_per_worker": 1,
            "memory_limit": LIMIT,
            "dashboard_address": None,
        }
        with (
            tempfile.TemporaryDirectory() as folder,
            LocalCluster(**own, local_directory=folder) as cluster,
            Client(cluster) as client,
        ):
            client.run(lambda rows=rows, n=n: block(rows, n) and None)
            started = time.perf_counter()
            values = CONTESTANTS[name](snapshots(count, rows, n), config.rank)
            seconds = time.perf_counter() - started
            memory = max(client.run(peak).values())
        case = {
            "gigabytes": 8e-9 * count * rows * n,
            "n": n,
            "snapshots": count * rows,
            "workers": workers,
        }
        error = float(np.abs(values / exact - 1).max())
        done.append(
            {**case, "contestant": name, "seconds": seconds, "memory_gb": memory, "error": error}
        )
        yield
