"""Sweeps through Slurm, against the scheduler of this machine if one runs here."""

import os
import re
import shutil
import subprocess
import threading
import time

import numpy as np
import pytest
import submitit

import romkit.tasks as sweep
from romkit.core.errors import InputError
from romkit.data import open_dataset
from romkit.tasks import Executor, run
from tests.studies.sweeps import Failing, Seeded, Waiting, contents, start_runner, wait_for


def scheduler_runs():
    if not shutil.which("sinfo"):
        return False
    nodes = subprocess.run(["sinfo", "--noheader", "--format=%t"], capture_output=True, text=True, check=False)
    return any(state in nodes.stdout for state in ("idle", "mix", "alloc"))


needs_slurm = pytest.mark.skipif(not scheduler_runs(), reason="no Slurm scheduler with a node that is up")


@needs_slurm
def test_slurm_writes_the_files_of_this_process_bit_for_bit_and_reports_a_failing_task(tmp_path):
    tasks = [Seeded(seed) for seed in range(6)]
    run(tasks, tmp_path / "process", Executor())
    failing = Failing(str(tmp_path / "cure"))
    result = run([*tasks, failing], tmp_path / "slurm", Executor("slurm"))
    assert sorted(result.complete) == [task.name for task in tasks]
    assert contents(tmp_path / "slurm") == contents(tmp_path / "process")
    assert np.isnan(open_dataset(tmp_path / "slurm" / "seeded-2.nc").spectrum.values).sum() == 1
    assert list(result.failed) == ["failing"]
    assert "cure: expected a file, got none" in result.failed["failing"].read_text()
    (tmp_path / "cure").touch()
    assert run([failing], tmp_path / "slurm", Executor("slurm")).complete == ["failing"]


@needs_slurm
def test_a_killed_runner_finds_its_jobs_again(tmp_path):
    """Jobs go on without it; started again, it waits for them and submits none twice."""
    tasks = [Waiting(number, str(tmp_path)) for number in range(2)]
    runner = start_runner(Executor("slurm"), tasks, tmp_path)
    wait_for((tmp_path / "waiting-1.pid").exists)
    runner.kill()
    runner.join()
    threading.Timer(5.0, (tmp_path / "go").touch).start()  # a task that ends before the runner looks has no job to find
    result = run(tasks, tmp_path, Executor("slurm"))
    assert set(contents(tmp_path)) == {"waiting-0.nc", "waiting-1.nc"}
    assert result.failed == {}
    assert [len((tmp_path / f"waiting-{k}.pid").read_text().split()) for k in range(2)] == [1, 1]


@needs_slurm
def test_a_job_that_slurm_ends_fails_its_task(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "_ASKING", 0.5)
    monkeypatch.setattr(sweep, "_PATIENCE", 2.0)

    def cancel():
        wait_for((tmp_path / "waiting-1.pid").exists)
        subprocess.run(["scancel", "--me"], check=True)

    threading.Thread(target=cancel).start()
    failed = run([Waiting(1, str(tmp_path))], tmp_path, Executor("slurm")).failed
    assert re.search(r"(?s)before its task had.*CANCELLED", failed["waiting-1"].read_text())


def test_without_a_scheduler_the_error_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="sbatch and squeue"):
        Executor("slurm")


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A function that writes shell scripts in the place of Slurm's programs."""
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])

    def write(**scripts):
        for name, script in scripts.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)

    return write


def test_what_sbatch_refuses_is_one_line_with_its_reason(programs, tmp_path):
    programs(squeue="", srun="", sbatch="echo invalid partition >&2; exit 1")
    with pytest.raises(InputError, match=r"executor: expected jobs that sbatch takes, got .*invalid partition"):
        run([Seeded(0)], tmp_path, Executor("slurm"))


def test_a_queue_that_does_not_answer_means_that_jobs_go_on(programs, monkeypatch, tmp_path):
    """Controllers time out now and then; that must not fail a job."""
    programs(squeue="exit 1")
    monkeypatch.setattr(sweep, "_ASKING", 1e-3)
    monkeypatch.setattr(sweep, "_PATIENCE", 1e-3)
    running = sweep._Running(submitit.SlurmJob(tmp_path, "1"), "slurm")
    assert not running.has_ended()
    programs(squeue="")
    time.sleep(0.01)
    assert running.has_ended()
