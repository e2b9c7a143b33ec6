"""Flows past the cylinder over Reynolds numbers, a file each: nice -n 15 python -m studies.wake.data.

Two minutes on a core for each of them. A file that exists is kept, so that the command can be stopped at any time.
"""

import time
from pathlib import Path

import numpy as np

from romkit.files import atomic
from romkit.progress import track
from romkit.systems.cylinder_wake.discretisation import discretisation
from romkit.systems.cylinder_wake.flow import integrate, rate, steady

FOLDER = Path("runs/wake")
TRAIN = (45.0, 52.0, 60.0, 70.0, 120.0, 85.0, 100.0, 150.0)
TEST = (77.0, 110.0, 92.0, 65.0, 135.0)

DURATION, INTERVAL, STEP = 12.0, 0.008, 0.0005
DISTURBANCE, PLACE, WIDTH = 0.3, (0.35, 0.25), 0.002


def start(reynolds: float) -> np.ndarray:
    """The steady flow with a whirl behind the cylinder."""
    flow = discretisation("standard")
    whirl = DISTURBANCE * np.exp(-((flow.places - PLACE) ** 2).sum(-1) / WIDTH)
    u = steady(flow, 0.1 / reynolds)
    u[flow.free] += whirl[flow.free]
    return u - flow.solve(flow.leray, np.zeros(flow.n), flow.divergence @ u)


def compute(reynolds: float, duration: float = DURATION) -> None:
    """Writes times, velocities and their rates, drag and lift, and seconds."""
    flow, viscosity = discretisation("standard"), 0.1 / reynolds
    times = np.arange(round(duration / INTERVAL) + 1) * INTERVAL
    states, rates, forces, began = [], [], [], time.process_time()
    samples = integrate(flow, start(reynolds), viscosity, times, STEP)
    for u in (samples.__next__() for _ in track(range(len(times)), f"Re {reynolds:g}")):
        states.append(u.astype(np.float32))
        rates.append(rate(flow, u, viscosity).astype(np.float32))
        load = flow.convection(u, u) + viscosity * (flow.stiffness @ u)
        forces.append(-20 * flow.force_functionals.T @ load)
    seconds = time.process_time() - began
    with atomic(FOLDER / f"Re{reynolds:g}.npz") as file, file.open("wb") as stream:
        np.savez(stream, t=times, u=states, du=rates, forces=forces, Re=reynolds, seconds=seconds)
    drag, lift = np.max(forces[-300:], 0)
    print(f"Re {reynolds:g}: {seconds:.0f} s, drag {drag:.4f}, lift {lift:.4f}", flush=True)


def main() -> None:
    """Computes what is missing."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for reynolds in (*TRAIN, *TEST):
        if not (FOLDER / f"Re{reynolds:g}.npz").exists():
            compute(reynolds)


if __name__ == "__main__":
    main()
