"""Flows past the cylinder, and their coordinates in one basis: python -m studies.wake.data.

Each run takes two to three minutes on a core and is a file of its own in runs/wake; one that is
there is kept, so that the command can be stopped at any time. `python -m studies.wake.data 8` uses
eight processes. At the end basis and coordinates are written beside this script, which is all that
the tasks need.
"""

import multiprocessing
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr

import romkit
from romkit.core.files import atomic
from romkit.systems import CylinderWake
from studies.wake.stability import leading

FOLDER, HERE = Path("runs/wake"), Path(__file__).parent
BASIS, COORDINATES = HERE / "basis.safetensors", HERE / "coordinates.nc"

TRAIN = (45.0, 52.0, 60.0, 70.0, 80.0, 90.0, 100.0, 115.0, 130.0, 150.0)
UNSEEN = (63.0, 66.0, 75.0, 85.0, 95.0, 105.0, 110.0, 122.0, 137.0, 143.0)
"""Reynolds numbers of training and test, chosen before anything was trained."""

FEW = tuple(TRAIN[round(k * (len(TRAIN) - 1) / 4)] for k in range(5))
"""Five of the training runs, evenly spaced in their list, with both ends."""

RANK, EVERY = 64, 2
"""Number of modes, and distance of the samples that are kept."""

COPIES = 20, 6
"""Copies of steady flows and of disturbances: numbers of 6, 9, 12, 18 that err least at the
training contexts.
"""


def stored(reynolds: float) -> Path:
    """File of a run."""
    return FOLDER / f"Re{reynolds:g}.nc"


def compute(reynolds: float) -> None:
    """Velocities and their rates in float32, drag and lift, from 2 s on."""
    began = time.process_time()
    data = CylinderWake().dataset(Re=[reynolds])
    seconds = time.process_time() - began
    small = data.assign({name: data[name].astype(np.float32) for name in ("state", "velocity")})
    small.attrs["seconds"] = seconds
    with atomic(stored(reynolds)) as file:
        small.to_netcdf(file, engine="h5netcdf")
    drag, lift = (data[name].values[0, -300:].max() for name in ("drag", "lift"))
    print(f"Re {reynolds:g}: drag {drag:.4f}, lift {lift:.4f}", flush=True)


def opened(reynolds: float) -> xr.Dataset:
    """Run, read lazily."""
    return xr.open_dataset(stored(reynolds), engine="h5netcdf")


def snapshots(reynolds: Sequence[float] = TRAIN) -> np.ndarray:
    """Return snapshots of the basis (N, n): runs, their steady flows, and disturbances that grow
    from these.

    A state near the steady flow is no large part of any run. So steady flows, and both parts of the
    disturbance that grows fastest, as large as the runs' deviation from their mean, are there
    several times (`COPIES`).
    """
    moving = np.concatenate(
        [opened(re)["state"].values[0, ::4].astype(np.float64) for re in reynolds]
    )
    mass, mean = CylinderWake().weight, moving.mean(0)
    size = lambda x: np.sqrt((x * (mass @ x.T).T).sum(-1).mean())  # noqa: E731
    found = [leading(re) for re in reynolds]
    shapes = np.concatenate([(each.shape.real, each.shape.imag) for each in found])
    grown = [mean + size(moving - mean) / size(shape[None]) * shape for shape in shapes]
    steady = np.stack([each.flow for each in found])
    return np.concatenate([moving, *[steady] * COPIES[0], *[np.stack(grown)] * COPIES[1]])


def gather() -> None:
    """Basis, and coordinates of all runs in it."""
    basis = romkit.basis(snapshots(), RANK, CylinderWake().weight)
    romkit.save(basis, BASIS)
    runs = []
    for reynolds in (*TRAIN, *UNSEEN):
        run = opened(reynolds)
        projected = basis.project(run.load()).assign(drag=run["drag"], lift=run["lift"])
        seconds = ("trajectory", [float(run.attrs["seconds"])])
        runs.append(projected.isel(time=slice(None, None, EVERY)).assign_coords(seconds=seconds))
    data = xr.concat(runs, "trajectory", combine_attrs="override")
    with atomic(COORDINATES) as file:
        data.astype(np.float32).assign_coords(time=data.time).to_netcdf(file, engine="h5netcdf")


def main(processes: int = 1) -> None:
    """Compute missing runs, then basis and coordinates."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    missing = [reynolds for reynolds in (*TRAIN, *UNSEEN) if not stored(reynolds).exists()]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for _ in pool.imap(compute, missing):
            pass
    gather()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
