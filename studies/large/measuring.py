"""Data, clock and errors that the pieces of the study share."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from scipy.interpolate import CubicHermiteSpline
from torch import Tensor

import romkit
from romkit.bases import Basis
from romkit.engine.threads import one_thread
from romkit.solvers import RK4
from romkit.systems import Burgers2D, System

Found = dict[str, object]
FOLDER = Path("runs/large")
RANK, REPEATS = 160, 5
MU = torch.tensor([[4.56, 0.019]], dtype=torch.float64)
"""Unseen context at which others publish their numbers."""


def grid(system: Burgers2D) -> Tensor:
    """Return times of a run, 501 of them."""
    return torch.arange(round(system.duration / system.dt) + 1, dtype=torch.float64) * system.dt


def solved(system: System, c: Tensor, times: Tensor) -> Tensor:
    """Return states (T, n) of the full model at one context c (1, p), without velocities."""
    return system.default_solver(c)(
        system.field(c), *system.start(c), times, engine="compiled"
    ).states[0]


def seconds(call: Callable[[], object], repeats: int = REPEATS) -> float:
    """CPU seconds of the fastest call, so that other work on the machine does not count."""
    found = []
    for _ in range(repeats):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return min(found)


def training(cells: int = 100, every: int = 2) -> tuple[Basis, xr.Dataset]:
    """Basis of each `every`-th snapshot, and coordinates of all, of the nine training runs; made
    once.
    """
    files = (FOLDER / f"basis-{cells}.safetensors", FOLDER / f"coordinates-{cells}.nc")
    if not all(file.exists() for file in files):
        FOLDER.mkdir(parents=True, exist_ok=True)
        system = Burgers2D(cells=cells)
        contexts = system.train_contexts(np.random.default_rng(0))
        runs = lambda: (system.dataset(mu1=[a], mu2=[b]) for a, b in contexts)  # noqa: E731  # one in memory
        kept = slice(None, None, every)
        some = xr.concat(
            [run[["state"]].isel(time=kept).copy(deep=True) for run in runs()], "trajectory"
        )
        basis = romkit.basis(some, rank=RANK)
        romkit.save(basis, files[0])
        coordinates = xr.concat(
            [basis.project(run) for run in runs()], "trajectory", combine_attrs="override"
        )
        romkit.data.save_dataset(coordinates, files[1])
    return romkit.load(files[0]), romkit.data.open_dataset(files[1])


def evaluated(
    system: Burgers2D, basis: Basis, model: Callable, step: float = 0.05, number: int = 9
) -> Found:
    """Return errors relative to the norm of the truth at unseen contexts; seconds of one run, one
    context at a time.

    A model takes steps of its own; between them its coordinates are interpolated by their rates, so
    that errors are over all times of the truth. A run that diverges, or is further off than zero
    would be, has an error of 1.
    """
    errors, floors, times = [], [], grid(system)
    own = times[:: round(step / system.dt)]
    for mu in system.test_contexts()[:number]:
        c = torch.from_numpy(mu[None])
        with torch.no_grad(), one_thread():
            truth = solved(system, c, times)
            y, norm = basis.encode(truth), truth.norm()
            floor = truth.sub_(
                basis.decode(y)
            ).norm()  # in place, for these are gigabytes at n = 500 000
            field, start, decode = model(c, y[:1], own)
            run = RK4(step)(field, start, own, engine="compiled")
            states = run.states.nan_to_num()
            rates = torch.stack(
                [field(t, z) for t, z in zip(own, states.unbind(-2), strict=True)], dim=-2
            )
            dense = torch.from_numpy(CubicHermiteSpline(own, states[0], rates[0])(times))
            found = dense if decode is None else decode(dense.unsqueeze(0))[0]
        error = (((found - y).norm() ** 2 + floor**2).sqrt() / norm).item()
        errors.append(error if error < 1 and not bool(run.status.any()) else 1.0)
        floors.append((floor / norm).item())
    with torch.no_grad(), one_thread():
        run, _ = RK4(step).prepare(field, start, own, "compiled", "reduced")
        costs = {"seconds": seconds(lambda: run(start, own))}
        costs["decoding one state, seconds"] = seconds(lambda: basis.decode(found[-1:]), 3)
    return {"errors": errors, "floors": floors, "step": step} | costs
