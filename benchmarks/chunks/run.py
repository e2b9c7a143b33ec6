"""Peak memory of verbs on data that are made chunk by chunk: oscillations in a few modes, which a
law follows.
"""

import functools
import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import xarray as xr

import romkit
from benchmarks.harness import Parts, Result
from romkit.laws import SINDy

PACKAGES = ("dask", "xarray")
STEP = 0.05
Model = tuple[romkit.projections.Projection, romkit.integrators.LearnedField]


@functools.lru_cache(maxsize=1)
def modes(n: int, count: int) -> np.ndarray:
    """Orthonormal modes (count, n)."""
    return np.linalg.qr(np.random.default_rng(0).standard_normal((n, count)))[0].T


def chunk(number: np.ndarray, rows: int, n: int, pairs: int, rate: bool) -> np.ndarray:
    """Return states or velocities (1, rows, n) of the chunk of this number (1, 1, 1)."""
    t, w = STEP * (number.item() * rows + np.arange(rows))[:, None], 1 + 0.3 * np.arange(pairs)
    parts = [-w * np.sin(w * t), w * np.cos(w * t)] if rate else [np.cos(w * t), np.sin(w * t)]
    made = np.concatenate(parts, axis=1) * np.tile(0.7 ** np.arange(pairs), 2) @ modes(n, 2 * pairs)
    return (made + (0.0 if rate else 1.0))[None]


def oscillations(case: SimpleNamespace) -> xr.Dataset:
    """Return states and velocities (1, times, n) in chunks of `rows` snapshots and `components`."""
    count = max(2, round(case.gigabytes * 1e9 / (8 * case.rows * case.n)))
    numbers = da.arange(count, chunks=1).reshape(1, count, 1).astype(float)
    sizes = {
        "chunks": ((1,), (case.rows,) * count, (case.n,)),
        "dtype": float,
        "meta": np.empty((0, 0, 0)),
    }
    own = {"rows": case.rows, "n": case.n, "pairs": case.pairs}
    found = {
        name: (romkit.data.DIMS, numbers.map_blocks(chunk, **own, rate=name == "velocity", **sizes))
        for name in ("state", "velocity")
    }
    data = xr.Dataset(found, {"time": STEP * np.arange(count * case.rows)})
    return data if case.components == case.n else data.chunk(component=case.components)


def by_projection(data: xr.Dataset, projection: romkit.projections.Projection) -> float:
    """Return largest error of P(x), relative to the largest state."""
    error = abs(projection(data)(data).state - data.state).max() / abs(data.state).max()
    return float(error.compute())


def by_rollout(data: xr.Dataset, model: Model) -> float:
    """Return largest NRMSE of a rollout, whose decoded states are never whole."""
    return float(romkit.rollout(data[["state"]], model[0], dynamics=model[1]).nrmse.max())


def by_fit(data: xr.Dataset, rank: int) -> float:
    """Return largest error of P(x) of a projection that is fitted behind a basis."""
    settings = {"epochs": 1, "engine": "torch", "verbose": False}
    return by_projection(data, romkit.fit("cae", data, latent_dim=rank, basis=rank, **settings))


VERBS: dict[str, Callable[[xr.Dataset, dict[str, Model], int], float | None]] = {
    "nothing": lambda data, models, rank: None,
    "check_dataset": lambda data, models, rank: romkit.data.check_dataset(data) and None,
    "basis.project": lambda data, models, rank: (
        models["behind"][0].basis.project(data).compute() and None
    ),
    "P(data)": lambda data, models, rank: by_projection(data, models["whole"][0]),
    "P(data), behind a basis": lambda data, models, rank: by_projection(data, models["behind"][0]),
    "rollout": lambda data, models, rank: by_rollout(data, models["whole"]),
    "rollout, behind a basis": lambda data, models, rank: by_rollout(data, models["behind"]),
    "fit, behind a basis": lambda data, models, rank: by_fit(data, rank),
}


def prepare(config: SimpleNamespace, folder: Path) -> None:
    """Files of projections with and without a basis, and of their laws."""
    some = oscillations(SimpleNamespace(**vars(config) | {"components": config.n}))
    some = some.isel(time=slice(2 * config.rows)).compute()
    for name, basis in (("whole", {}), ("behind", {"basis": 2 * config.pairs})):
        projection = romkit.fit("pod", some, latent_dim=2 * config.pairs, **basis)
        romkit.save(projection, folder / f"{name}.projection")
        romkit.save(SINDy(degree=1, threshold=0.0).fit(projection, some), folder / f"{name}.law")


def measured(verb: str, case: SimpleNamespace, folder: Path) -> Result:
    """Seconds by the clock, the largest memory of this process before and after, and an error."""
    data, models = oscillations(case), {}
    for file in folder.glob("*.projection"):
        models[file.stem] = romkit.load(file).double(), romkit.load(file.with_suffix(".law"))
    data.state[0, 0].compute()
    before, started = peak(), time.perf_counter()
    with dask.config.set(scheduler="threads", num_workers=case.threads):
        error = VERBS[verb](data, models, 2 * case.pairs)
    return {
        "seconds": time.perf_counter() - started,
        "before_gb": before,
        "memory_gb": peak(),
        "error": error,
    }


def peak() -> float:
    """Return largest memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def measure(config: SimpleNamespace, device: str, found: Result) -> Parts:
    """Peak memory of each verb on each kind of chunks, in a process of its own."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count()))
    done = found.setdefault("runs", [])
    wanted = [(components, verb) for components, verbs in config.cases for verb in verbs]
    spawn = multiprocessing.get_context("spawn")
    # all in processes of their own: a process begins with the peak of the one that starts it
    with TemporaryDirectory() as folder:
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            pool.submit(prepare, config, Path(folder)).result()
        for components, verb in wanted[len(done) :]:
            case = SimpleNamespace(**vars(config) | {"components": components})
            with ProcessPoolExecutor(1, mp_context=spawn) as pool:
                result = pool.submit(measured, verb, case, Path(folder)).result()
            done.append({"components": components, "verb": verb, **result})
            yield
