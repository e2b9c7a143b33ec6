"""Reduced models of the wake at unseen Reynolds numbers: python -m studies.wake.run, after studies.wake.data."""

import functools
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from torch import Tensor

import romkit
from romkit import provenance
from romkit.bases import Basis
from romkit.integrators import Galerkin
from romkit.problem import ConstantPath
from romkit.systems import CylinderWake, System
from romkit.types import Field
from studies.wake.data import FOLDER, INTERVAL

Map = Callable[[Tensor], Tensor]
RESULTS = Path(__file__).with_name("results.json")
TRAIN, UNSEEN = (45.0, 52.0, 60.0, 100.0, 150.0), (70.0, 85.0)
RANK, SKIPPED, EPOCHS, LENGTH = 32, 250, 600, 40.0
"""Modes, samples before the whirl has left, epochs, and time units of a rollout: about 120 periods."""


def coordinates(basis: Basis, reynolds: tuple[float, ...]) -> xr.Dataset:
    """States and velocities of runs in a basis, in romkit's schema."""
    dims, names = ("trajectory", "time", "component"), ("state", "velocity")
    runs = [np.load(FOLDER / f"Re{re:g}.npz") for re in reynolds]
    u, du = (torch.from_numpy(np.stack([run[key][SKIPPED:] for run in runs])).double() for key in ("u", "du"))
    values = (basis.encode(u).numpy(), basis.encode_tangent(du).numpy())
    times = np.arange(u.shape[1]) * INTERVAL
    data = xr.Dataset({name: (dims, value) for name, value in zip(names, values, strict=True)}, {"time": times})
    return data.assign_coords(Re=("trajectory", np.array(reynolds)))


def forces(system: CylinderWake, basis: Basis, reynolds: float, y: Tensor) -> np.ndarray:
    """Drag and lift (T, 2) of coordinates (T, r)."""
    c = torch.tensor([reynolds], dtype=torch.float64)
    return torch.cat([system.forces(basis.decode(part), c) for part in y.split(200)]).numpy()


def cycle(lift: np.ndarray) -> tuple[float, float]:
    """Strouhal number and largest lift of the last 500 samples."""
    z = lift[-500:] - lift[-500:].mean()
    up = np.flatnonzero((z[:-1] < 0) & (z[1:] >= 0))
    if len(up) < 2:
        return float("nan"), float(lift[-500:].max())
    crossings = up - z[up] / (z[up + 1] - z[up])
    return float(0.1 / (np.diff(crossings).mean() * INTERVAL)), float(lift[-500:].max())


def rolled_out(name: str, field: Field, start: Tensor, decode: Map, forces_of: Map) -> dict[str, object]:
    """Strouhal number and largest lift against the full model, with seconds of the reduced one."""
    times = torch.arange(round(LENGTH / INTERVAL) + 1, dtype=torch.float64) * INTERVAL
    with torch.no_grad():
        solution = romkit.solvers.RK4(INTERVAL)(field, start, times)
        y = decode(solution.states)[0, -500:]
    status = int(solution.status[0])
    found = (float("nan"),) * 2 if status else cycle(forces_of(y)[:, 1])
    cost = {key: solution.cost[key] for key in ("engine", "seconds_computing")}
    return {"model": name, "Strouhal": found[0], "lift": found[1], "status": status, **cost}


def main() -> None:
    """Basis, tensors, networks, rollouts; all of it into results.json."""
    torch.set_num_threads(1)
    system = CylinderWake()
    snapshots = [np.load(FOLDER / f"Re{re:g}.npz")["u"][SKIPPED::4] for re in TRAIN]
    basis = romkit.basis(np.concatenate(snapshots), RANK, system.weight)
    began = time.process_time()
    through: System = system.through(basis)
    results = {"energy left": 1 - basis.energy[-1].item(), "tensors, seconds": time.process_time() - began}
    print(results, flush=True)
    data, rows, seconds = coordinates(basis, TRAIN), [], {}
    sizes = {
        "ncae": {"layers": (3, 12, 24, RANK), "embedding": (1, 8, 8, 8)},
        "film-ae": {"encoder": (RANK, 24, 12, 3), "decoder": (3, 12, 24, RANK)},
    }
    models = {}
    for method, given in sizes.items():
        began = time.process_time()
        fitted = {"epochs": EPOCHS, "batch_size": 256, "engine": "torch", **given}
        models[method] = romkit.fit(method, data.isel(time=slice(0, None, 2)), **fitted)
        seconds[method] = time.process_time() - began
        print(method, seconds, flush=True)
    for reynolds in UNSEEN:
        true = coordinates(basis, (reynolds,))
        y, c = torch.from_numpy(true["state"].values), torch.tensor([[reynolds]], dtype=torch.float64)
        stored = np.load(FOLDER / f"Re{reynolds:g}.npz")
        truth = functools.partial(forces, system, basis, reynolds)
        strouhal, lift = cycle(stored["forces"][:, 1])
        full = {"model": "full", "Strouhal": strouhal, "lift": lift, "seconds": float(stored["seconds"])}
        rows.append({"Re": reynolds, **full})
        start = y[:, -500]
        galerkin = rolled_out("POD-Galerkin", through.field(c), start, lambda s: s, truth)
        rows.append({"Re": reynolds, **galerkin})
        for method, model in models.items():
            P = model.double()(c)
            problem = through.problem(ConstantPath(P), c)
            with torch.no_grad():
                z = Galerkin().start(problem, torch.zeros(()), (start,))
                error = ((P(y) - y).norm() / y.norm()).item()
            run = rolled_out(method, Galerkin().field(problem), z, P.decode, truth)
            rows.append({"Re": reynolds, "projection error": error, **run})
        for row in rows[-4:]:
            print(row, flush=True)
    record = {"device": provenance.device_name("cpu"), "versions": provenance.versions("scikit-fem"), "seed": 0}
    results |= {"training, seconds": seconds, "epochs": EPOCHS, "rank": RANK, "train": TRAIN, "rows": rows, **record}
    RESULTS.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
