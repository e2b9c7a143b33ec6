"""Small tasks that do what real ones do, and what real ones should not. Workers and jobs import
them from here.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import threadpoolctl
import torch
import xarray as xr

from romkit.core.errors import InputError
from romkit.tasks import Executor, Task, run


@dataclass(frozen=True)
class Seeded(Task):
    """A spectrum by torch and numpy, large enough that several threads would round differently; one
    NaN in it.
    """

    seed: int
    size: int = 300

    @property
    def name(self) -> str:
        return f"seeded-{self.seed}"

    def run(self) -> xr.Dataset:
        matrix = torch.randn(
            self.size, self.size, generator=torch.Generator().manual_seed(self.seed)
        )
        product = (matrix @ matrix.mT).numpy()
        spectrum = np.linalg.svd(product)[1]
        spectrum[self.seed] = np.nan
        threads = [
            torch.get_num_threads(),
            *(pool["num_threads"] for pool in threadpoolctl.threadpool_info()),
        ]
        variables = {
            "product": (("row", "column"), product),
            "spectrum": ("row", spectrum),
            "threads": max(threads),
        }
        return xr.Dataset(variables, attrs={"seed": self.seed})


@dataclass(frozen=True)
class Raised(Seeded):
    """The same name as Seeded, another class."""

    code_version: ClassVar[int] = 2


@dataclass(frozen=True)
class Doing(Task):
    """Calls a function of this module with an argument."""

    label: str
    function: str = "nothing"
    argument: object = 0

    @property
    def name(self) -> str:
        return self.label

    def run(self) -> xr.Dataset:
        globals()[self.function](self.argument)
        return xr.Dataset({"done": 1})


def nothing(argument: object) -> None:
    """For tasks of which the name alone matters."""


def die(argument: object) -> None:
    """As when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def need(file: str) -> None:
    """Raise what cannot be unpickled in another process, unless the file is there."""
    if not Path(file).exists():
        raise InputError("cure", expected="a file", got="none", fix="make it")


def wait(notes: str) -> None:
    """Note this process in the file, and wait until there is a file `go` beside it."""
    with Path(notes).open("a") as file:
        file.write(f"{os.getpid()}\n")
    wait_for(Path(notes).with_name("go").exists)


def failing(cure: Path) -> Task:
    return Doing("failing", "need", str(cure))


def waiting(notes: Path) -> Task:
    return Doing("waiting", "wait", str(notes))


def start_runner(executor: Executor, tasks: list[Task], folder: Path) -> multiprocessing.Process:
    """A sweep in a process of its own, to be killed; forked, so that it begins at once."""
    runner = multiprocessing.get_context("fork").Process(
        target=_sweep, args=(executor, tasks, folder)
    )
    runner.start()
    return runner


def _sweep(executor: Executor, tasks: list[Task], folder: Path) -> None:
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # tests in the background inherit that it is ignored
    run(tasks, folder, executor)


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Return when the condition holds, fail when it does not within these seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def contents(folder: Path) -> dict[str, bytes]:
    """The results in a folder, byte for byte."""
    return {file.name: file.read_bytes() for file in folder.glob("*.nc")}
