"""Executors: the numbers of a loop, by processes, jobs of submitit and workers of dask; lost
workers; refusals.
"""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import submitit
import torch
import xarray as xr

import romkit
from romkit.core.parallel import PIECES, cut, mapped
from romkit.laws import SINDy
from romkit.systems import Lorenz96
from tests.refusals import refused
from tests.studies.sweeps import Seeded, contents

SYSTEM = Lorenz96(n=8, transient=1.0)
F = {"F": np.linspace(3.1, 3.2, 4)}


def simulated(**how):
    return romkit.simulate(SYSTEM, duration=0.2, F=[3.1, 3.2], **how)


@pytest.mark.slow
def test_a_job_gives_the_numbers_of_a_loop(tmp_path):
    executor = submitit.LocalExecutor(tmp_path)
    executor.update_parameters(timeout_min=5)
    one = {"duration": 0.2, "F": 3.1}  # a single piece, and so a single process
    alone = romkit.simulate(SYSTEM, **one)
    assert romkit.simulate(SYSTEM, executor=executor, **one).equals(alone)


@pytest.mark.slow
def test_every_verb_gives_the_numbers_of_a_loop(tmp_path):
    executor = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    assert simulated(executor=executor).equals(simulated())
    data = SYSTEM.dataset(duration=0.5, **F)
    few = {"latent_dim": 2, "epochs": 1, "engine": "torch", "verbose": False}
    few |= {
        "optimizer": partial(torch.optim.SGD, lr=1e-3)
    }  # does not amplify the rounding by which stacks differ
    here, there = (
        romkit.fit("ncae", data, seeds=range(2), **few, **how)
        for how in ({}, {"executor": executor})
    )
    assert all(
        torch.allclose(a, b, atol=1e-6)
        for a, b in zip(here.parameters(), there.parameters(), strict=True)
    )
    pod, law = romkit.fit("pod", data, latent_dim=2), SINDy(degree=1, threshold=0.0)
    here, there = (
        romkit.bootstrap(pod, law, data, members=2, **how) for how in ({}, {"executor": executor})
    )
    assert torch.allclose(here.law.coefficients, there.law.coefficients, rtol=1e-9)
    folders = [tmp_path / name for name in ("here", "there")]
    tables = [
        romkit.compare(data, ["pod"], ["dmd", "galerkin"], latent_dim=2, folder=folder, **how)
        for folder, how in zip(folders, ({}, {"executor": executor}), strict=True)
    ]
    xr.testing.assert_allclose(tables[0].nrmse, tables[1].nrmse, rtol=1e-9)
    sweeps = [tmp_path / name for name in ("alone", "together")]
    for folder, given in zip(sweeps, (None, executor), strict=True):
        romkit.tasks.run([Seeded(k) for k in range(2)], folder, given)
    assert len(contents(sweeps[0])) == 2
    assert contents(sweeps[0]) == contents(sweeps[1])  # byte for byte
    executor.shutdown()


def doubled(number, folder):
    """Twice the number; the process of the third one is lost, unless it is that of the test."""
    if number == 3 and int(Path(folder, "runner").read_text()) != os.getpid():
        os._exit(1)
    if number < 0:
        raise ValueError("negative")
    return 2 * number


def test_a_lost_worker_costs_its_piece_alone_and_errors_are_those_of_a_loop(tmp_path):
    (tmp_path / "runner").write_text(str(os.getpid()))
    fork = multiprocessing.get_context("fork")
    with (
        ProcessPoolExecutor(1, mp_context=fork) as executor,
        pytest.warns(RuntimeWarning, match="a worker was lost"),
    ):
        assert mapped(doubled, [(n, tmp_path) for n in range(5)], executor, "numbers") == [
            0,
            2,
            4,
            6,
            8,
        ]
    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match="negative"):
        mapped(doubled, [(-1, tmp_path)], executor, "numbers")


def test_pieces_are_even_and_whole():
    for number in (1, 5, PIECES, 1000):
        slices = cut(number, executor=ThreadPoolExecutor)
        assert [k for s in slices for k in range(number)[s]] == list(range(number))
        lengths = [s.stop - s.start for s in slices]
        assert max(lengths) - min(lengths) <= 1
        assert len(slices) == min(number, PIECES)
    assert len(cut(1000, None)) == 1


def test_what_is_no_executor_is_refused():
    refused("executor", romkit.simulate, SYSTEM, F=3.15, duration=0.1, executor=4)
    with ThreadPoolExecutor(1) as executor:
        moving = "executor"
        refused(
            moving, romkit.simulate, SYSTEM, F=lambda t: 3.15 + t, duration=0.1, executor=executor
        )


def test_processes_of_a_machine_without_bash_are_those_of_python(monkeypatch):
    assert isinstance(romkit.tasks.processes(2), romkit.tasks.Executor)
    with monkeypatch.context() as windows:
        windows.setattr("romkit.tasks.sys.platform", "win32")
        pool = romkit.tasks.processes(2)
    assert isinstance(pool, ProcessPoolExecutor)
    pool.shutdown()
