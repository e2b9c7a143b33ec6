"""Work that is killed twice at random moments ends bit-equal to work that was left alone.

python -m tests.robustness.test_kills fit 40 FOLDER        # forty kills
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import dask
import numpy as np
import pytest
import torch

import romkit
from romkit.training import RolloutTraining


def fit(folder):
    """Parameters of two seeds, on snapshots and then on rollouts."""
    data = romkit.systems.Lorenz96(transient=5.0).dataset(F=[3.14, 3.15, 3.18], duration=1.0)
    settings = {
        "layers": (2, 36),
        "batch_size": 100,
        "engine": "torch",
        "epochs": 16,
        "verbose": False,
    }
    rollouts = RolloutTraining(steps=6, length=10, every=2, batch=4, weight=1.0)
    model = romkit.fit("cae", data, seeds=[1, 2], checkpoint=folder, rollouts=rollouts, **settings)
    return [parameter.detach().numpy().tobytes() for parameter in model.parameters()]


def basis(folder):
    """Mean, modes and singular values of snapshots that are read in pieces, with a checkpoint."""
    folder.mkdir(exist_ok=True)
    x = np.random.default_rng(0).normal(size=(800, 800)) * np.geomspace(1, 1e-3, 800)
    with contextlib.redirect_stdout(None):
        data = romkit.data.from_arrays(x[None], np.arange(800.0), velocity=x[None])
    with dask.config.set(scheduler="synchronous"):  # since a fork would lose the threads
        found = romkit.basis(data, rank=10, chunk=50, checkpoint=folder / "basis.safetensors")
    return [tensor.numpy().tobytes() for tensor in (found.mean, found.modes, found.singular_values)]


WORKS = {work.__name__: work for work in (fit, basis)}


def survive(work, number, folder):
    """Kill work, let it go on from what it left, as often as it takes to end; start afresh until
    `number` kills.
    """
    work(folder / "warm")  # so that children, which inherit this process, start quickly
    started = time.perf_counter()
    whole = work(folder / "whole")
    seconds, rng = time.perf_counter() - started, random.Random(0)
    killed = rounds = 0
    while killed < number:
        place, rounds = folder / str(rounds), rounds + 1
        while killed < number and was_killed(work, place, rng.uniform(0, 0.5 * seconds)):
            killed += 1
        assert work(place) == whole, f"differs after a kill (round {rounds})"


def was_killed(work, place, seconds):
    child = os.fork()
    if child == 0:
        work(place)
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)  # a zombie takes no harm
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or status == 0, "failed when it was resumed"
    return os.WIFSIGNALED(status)


@pytest.mark.slow
@pytest.mark.parametrize("work", WORKS)
def test_what_is_killed_goes_on_bit_for_bit(work, tmp_path):
    """In a process without the threads of this one, which a fork would lose."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "TQDM_DISABLE": "1"}
    command = [sys.executable, "-m", "tests.robustness.test_kills", work, "2", str(tmp_path)]
    driver = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert driver.returncode == 0, driver.stderr[-2000:]


if __name__ == "__main__":
    torch.set_num_threads(1)
    survive(WORKS[sys.argv[1]], int(sys.argv[2]), Path(sys.argv[3]))
