"""A basis of data that are larger than memory: python -m studies.large.out_of_core [gigabytes]. Twenty by default.

Snapshots are made of cosines in space and in time, so that modes and singular values are known. The basis is computed
once in one go, and once killed five times at random moments; minutes stand beside those of a plain copy of the file.
"""

import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import h5netcdf
import numpy as np
import torch
import xarray as xr

import romkit
from romkit.core import files, runtime
from romkit.core.files import atomic
from romkit.core.runtime import track

RESULTS, FOLDER = Path(__file__).with_name("out_of_core.json"), Path("runs/large")
SIZE, TRAJECTORIES, RANK, CHUNK, KILLS = 200_000, 25, 64, 100, 5
COSINES, DECAY = 100, 0.8
"""Cosines that the snapshots consist of, and the ratio of their singular values."""


def cosines(count: int, rows: slice | None = None) -> np.ndarray:
    """The first `COSINES` of a grid of `count` points, orthonormal and of mean zero, at some of these points."""
    points = (np.arange(count)[rows or slice(None)] + 0.5) / count
    return np.sqrt(2 / count) * np.cos(np.pi * points[:, None] * np.arange(1, COSINES + 1))


def singular_values() -> np.ndarray:
    """Of all snapshots together."""
    return 1e3 * DECAY ** np.arange(COSINES)


def make(file: Path, gigabytes: float) -> None:
    """A file of this size, a block of snapshots at a time."""
    samples = max(1, round(gigabytes * 1e9 / 8 / SIZE / TRAJECTORIES / CHUNK)) * CHUNK
    modes = (singular_values() * cosines(SIZE)).T
    with h5netcdf.File(file, "w") as stored:
        stored.dimensions = {"trajectory": TRAJECTORIES, "time": samples, "component": SIZE}
        stored.create_variable("time", ("time",), data=np.arange(samples) * 1.0)
        state = stored.create_variable("state", ("trajectory", "time", "component"), float, chunks=(1, 1, SIZE))
        for k in track(range(TRAJECTORIES * samples // CHUNK), "snapshots"):
            trajectory, first = divmod(k * CHUNK, samples)
            rows = slice(k * CHUNK, (k + 1) * CHUNK)
            state[trajectory, first : first + CHUNK] = cosines(TRAJECTORIES * samples, rows) @ modes


def compute(file: str, out: str, checkpoint: str) -> None:
    """The basis; prints CPU seconds and gigabytes of memory."""
    torch.set_num_threads(1)
    with xr.open_dataset(file, engine="h5netcdf") as data:
        basis = romkit.basis(data, RANK, chunk=CHUNK, checkpoint=checkpoint)
    romkit.save(basis, out)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps({"CPU seconds": time.process_time(), "memory, GB": memory}))


def run(file: Path, out: Path, kill_after: float | None = None) -> dict[str, float] | None:
    """`compute` in a process of its own, which may be killed; None where it was."""
    command = [sys.executable, "-m", "studies.large.out_of_core", "compute", file, out, out.with_suffix(".checkpoint")]
    began = time.perf_counter()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    try:
        printed, _ = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None
    return json.loads(printed.splitlines()[-1]) | {"seconds": time.perf_counter() - began}


def killed(file: Path, out: Path, seconds: float) -> tuple[list[float], list[list[int] | None]]:
    """Moments at which one call was killed, and where it would go on; all over again if it ends before the last."""
    moments, places, rng = [], [], np.random.default_rng()
    while len(moments) < KILLS or places[-1] is None:
        moment = seconds * rng.uniform(0.1, 0.35)
        if run(file, out, moment) is None:
            moments.append(moment)
            places.append(begun(out.with_suffix(".checkpoint")))
        else:
            moments, places = [], []
    return moments, places


def begun(checkpoint: Path) -> list[int] | None:
    """Pass and block that a killed run would go on from."""
    if not checkpoint.exists():
        return None
    header, _ = files.read(checkpoint)
    return [header["pass"], header["block"]]


def main(gigabytes: float = 20.0) -> None:
    """Makes, copies, computes, kills, compares."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    file, copy = FOLDER / "out_of_core.nc", FOLDER / "out_of_core-copy.nc"
    began = time.perf_counter()
    make(file, gigabytes)
    found: dict[str, object] = {"gigabytes": file.stat().st_size / 1e9, "making, seconds": time.perf_counter() - began}
    began = time.perf_counter()
    shutil.copyfile(file, copy)
    found["copying, seconds"] = time.perf_counter() - began
    copy.unlink()
    whole, resumed = FOLDER / "whole.safetensors", FOLDER / "resumed.safetensors"
    found["basis"] = run(file, whole)
    print(found, flush=True)
    found["killed after, seconds"], found["where it was"] = killed(file, resumed, found["basis"]["seconds"])
    found["resumed"] = run(file, resumed)
    one, other = (romkit.load(each) for each in (whole, resumed))
    found["equal to the bit"] = torch.equal(one.modes, other.modes) and torch.equal(one.mean, other.mean)
    true = singular_values()[:RANK]
    found["singular values, error"] = float(np.abs(one.singular_values.numpy() - true).max() / true[0])
    modes = torch.from_numpy(cosines(SIZE)[:, :RANK])
    rest = one.modes - modes @ (modes.T @ one.modes)
    found["subspace, sine of the largest angle"] = float(torch.linalg.matrix_norm(rest, 2))
    found |= {"n": SIZE, "modes": RANK, "device": runtime.device_name("cpu"), "versions": runtime.versions()}
    file.unlink()
    with atomic(RESULTS) as temporary:
        temporary.write_text(json.dumps(found, indent=1) + "\n")
    print(found)


if __name__ == "__main__":
    if sys.argv[1:2] == ["compute"]:
        compute(*sys.argv[2:])
    else:
        main(*map(float, sys.argv[1:]))
