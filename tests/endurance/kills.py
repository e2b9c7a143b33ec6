"""Work that is killed again and again, at random moments, ends bit-equal to work that was left alone.

python -m tests.endurance.kills 40        # kills of each kind of work; writes kills.json
"""

import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

import romkit
from romkit.core import runtime
from romkit.core.files import atomic
from romkit.tasks import run
from romkit.training import RolloutTraining
from tests.studies.sweeps import Seeded, contents

RESULTS = Path(__file__).with_name("kills.json")


def fit(folder: Path, **more: object) -> list[np.ndarray]:
    """Parameters of two seeds."""
    data = romkit.systems.Lorenz96(transient=5.0).dataset(F=[3.14, 3.15, 3.18], duration=1.0)
    settings = {"layers": (2, 36), "batch_size": 100, "engine": "torch", "epochs": 300, "verbose": False}
    model = romkit.fit("cae", data, seeds=[1, 2], checkpoint=folder, **settings | more)
    return [parameter.detach().numpy() for parameter in model.parameters()]


def fit_with_rollouts(folder: Path) -> list[np.ndarray]:
    """The same with rollouts in the loss after 100 epochs."""
    rollouts = RolloutTraining(steps=30, length=10, every=2, batch=4, weight=1.0)
    return fit(folder, epochs=100, rollouts=rollouts)


def study(folder: Path) -> dict[str, bytes]:
    """The files of twelve tasks."""
    run([Seeded(number, size=500) for number in range(12)], folder)
    return contents(folder)


def basis(folder: Path) -> list[np.ndarray]:
    """Mean, modes and singular values of snapshots that are read in pieces, with a checkpoint."""
    folder.mkdir(exist_ok=True)
    x = np.random.default_rng(0).normal(size=(2000, 3000)) * np.geomspace(1, 1e-3, 3000)
    times = np.arange(2000.0)
    with contextlib.redirect_stdout(None):
        data = romkit.data.from_arrays(x[None], times, velocity=x[None])
    found = romkit.basis(data, rank=10, chunk=50, checkpoint=folder / "basis.safetensors")
    return [tensor.numpy() for tensor in (found.mean, found.modes, found.singular_values)]


WORKS: dict[str, Callable[[Path], object]] = {each.__name__: each for each in (fit, fit_with_rollouts, study, basis)}


def survive(work: Callable[[Path], object], number: int, folder: Path, seed: int = 0) -> dict[str, float]:
    """Kill `work` `number` times and compare with the result of an undisturbed run; raises where they differ.

    Each attempt goes on from what the one before left, as often as it takes to end; then another starts afresh.
    """
    work(folder / "warm")  # so that children, which inherit this process, start quickly
    started = time.perf_counter()
    whole = work(folder / "whole")
    seconds, rng = time.perf_counter() - started, random.Random(seed)
    killed = rounds = 0
    while killed < number:
        place, rounds = folder / str(rounds), rounds + 1
        while killed < number and not _ends(work, place, rng.uniform(0, 0.5 * seconds)):
            killed += 1
        assert _equal(work(place), whole), f"{work.__name__} differs after a kill (round {rounds}, seed {seed})"
    return {"kills": killed, "rounds": rounds, "seconds of one run": round(seconds, 2)}


def _ends(work: Callable[[Path], object], place: Path, seconds: float) -> bool:
    """Whether the work ends by itself before it is killed."""
    child = os.fork()
    if child == 0:
        work(place)
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)  # a zombie takes no harm
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or status == 0, f"{work.__name__} failed when it was resumed"
    return not os.WIFSIGNALED(status)


def _equal(found: object, expected: object) -> bool:
    if isinstance(expected, dict):
        return found == expected
    return all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def main(number: int) -> None:
    torch.set_num_threads(1)
    found = {}
    for name, work in tqdm(WORKS.items(), desc="killing"):
        with tempfile.TemporaryDirectory() as folder:
            found[name] = survive(work, number, Path(folder))
    found["provenance"] = {"versions": runtime.versions(), "device": runtime.device_name("cpu"), "seed": 0}
    with atomic(RESULTS) as temporary:
        temporary.write_text(json.dumps(found, indent=1) + "\n")
    print(RESULTS.read_text())


if __name__ == "__main__":
    main(int(sys.argv[1]))
