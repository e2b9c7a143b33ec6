"""The runner of studies: results are complete or absent, never lost, and the same from every
executor.
"""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import submitit
import torch
from tqdm import tqdm

import romkit.tasks
from romkit.core import runtime
from romkit.data import open_dataset
from romkit.tasks import Executor, run
from tests.refusals import refused
from tests.studies.sweeps import (
    Doing,
    Raised,
    Seeded,
    contents,
    failing,
    start_runner,
    wait_for,
    waiting,
)


def test_a_result_says_what_made_it(tmp_path):
    task = Seeded(1)
    assert run([task], tmp_path).complete == ["seeded-1"]
    attrs = open_dataset(tmp_path / "seeded-1.nc").attrs
    assert (attrs["key"], attrs["seed"], json.loads(attrs["config"])) == (
        task.key,
        1,
        {"seed": 1, "size": 300},
    )
    assert json.loads(attrs["versions"]) == runtime.versions()
    assert attrs["device"]
    record = json.loads((tmp_path / "seeded-1.json").read_text())
    assert record["key"] == task.key
    assert 0 < record["cpu_seconds"] < 60
    assert 0 < record["wall_seconds"] < 600
    assert {"host", "commit", "started"} <= set(record)


def test_a_local_process_writes_the_same_file(tmp_path):
    tasks = [Seeded(2)]
    run(tasks, tmp_path / "here")
    result = run(tasks, tmp_path / "processes", Executor("local", 1))
    assert result.complete == ["seeded-2"]
    assert contents(tmp_path / "here") == contents(tmp_path / "processes")
    assert np.isnan(open_dataset(tmp_path / "processes" / "seeded-2.nc").spectrum.values).sum() == 1


@pytest.mark.slow
def test_a_local_process_that_is_killed_or_raises_fails_its_task_alone(tmp_path):
    tasks = [Doing("dying", "die"), failing(tmp_path / "cure"), Doing("healthy")]
    result = run(tasks, tmp_path, Executor("local", 2))
    assert result.complete == ["healthy"]
    assert set(result.failed) == {"dying", "failing"}
    assert "ended before its task had" in result.failed["dying"].read_text()
    assert "cure: expected a file, got none" in result.failed["failing"].read_text()


def test_tasks_of_this_process_run_on_one_thread_and_leave_the_others_alone(tmp_path):
    torch.set_num_threads(2)
    try:
        run([Seeded(0)], tmp_path)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert open_dataset(tmp_path / "seeded-0.nc").threads == 1


def test_what_is_complete_is_skipped_unless_its_configuration_or_code_has_changed(tmp_path):
    run([Seeded(0)], tmp_path)
    before = (tmp_path / "seeded-0.nc").stat().st_mtime_ns
    again = run([Seeded(0), Seeded(1), Seeded(1), Seeded(2)], tmp_path, only="1")
    assert (again.skipped, again.complete) == ([], ["seeded-1"])
    again = run([Seeded(0), Seeded(1)], tmp_path)
    assert (again.skipped, again.complete) == (["seeded-0", "seeded-1"], [])
    assert (tmp_path / "seeded-0.nc").stat().st_mtime_ns == before
    for changed in (Seeded(0, size=299), Raised(0)):
        assert run([changed], tmp_path).complete == ["seeded-0"]
        assert open_dataset(tmp_path / "seeded-0.nc").attrs["key"] == changed.key


def test_what_the_fields_stand_for_changes_the_key_and_is_in_the_file(tmp_path, monkeypatch):
    before = Seeded(0).key
    monkeypatch.setattr(Seeded, "resolved", {"sizes": (2, 18)})
    assert Seeded(0).key != before
    run([Seeded(0)], tmp_path)
    assert json.loads(open_dataset(tmp_path / "seeded-0.nc").attrs["resolved"]) == {
        "sizes": [2, 18]
    }


def test_a_damaged_result_is_computed_again(tmp_path):
    run([Seeded(0), Seeded(1)], tmp_path)
    whole = contents(tmp_path)
    flipped = bytearray(whole["seeded-0.nc"])
    flipped[len(flipped) // 2] ^= 1
    (tmp_path / "seeded-0.nc").write_bytes(flipped)
    (tmp_path / "seeded-1.nc").write_bytes(whole["seeded-1.nc"][:5000])
    assert run([Seeded(0), Seeded(1)], tmp_path).complete == ["seeded-0", "seeded-1"]
    assert contents(tmp_path) == whole


def test_a_failing_task_is_reported_and_the_rest_goes_on(tmp_path, monkeypatch):
    cure = tmp_path / "cure"
    tasks, shown = [failing(cure), Seeded(0)], io.StringIO()
    settings = {"file": shown, "mininterval": 0, "disable": False}  # whatever TQDM_DISABLE says
    bar = lambda items, label: tqdm(items, desc=label, **settings)  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr("romkit.core.runtime.track", bar)
        result = run(tasks, tmp_path)
    assert (result.complete, list(result.failed)) == (["seeded-0"], ["failing"])
    assert "1/2" in shown.getvalue()
    assert "1 running, 1 failed" in shown.getvalue()
    log = result.failed["failing"].read_text()
    assert "Traceback" in log
    assert "cure: expected a file, got none" in log
    cure.touch()
    result = run(tasks, tmp_path)
    assert (result.complete, result.skipped) == (["failing"], ["seeded-0"])
    assert not (tmp_path / "failing.log").exists()


def test_what_a_killed_process_left_is_swept_up_but_nothing_of_another_task(tmp_path):
    for name in ("noise-0.nc", "noise-0.json", "noise-0.5.nc"):
        (tmp_path / f"{name}.0123abcd.tmp").touch()
    run([Doing("noise-0")], tmp_path)
    assert [file.name for file in tmp_path.glob("*.tmp")] == ["noise-0.5.nc.0123abcd.tmp"]


def test_a_running_task_is_awaited_and_not_computed_twice(tmp_path):
    runners = [start_runner(Executor(), [waiting(tmp_path / "pid")], tmp_path) for _ in range(2)]
    wait_for((tmp_path / "pid").exists)
    (tmp_path / "go").touch()
    for runner in runners:
        runner.join(timeout=60)
        assert runner.exitcode == 0
    assert len((tmp_path / "pid").read_text().split()) == 1
    assert set(contents(tmp_path)) == {"waiting.nc"}


@pytest.mark.parametrize(
    ("cluster", "number"), [("local", signal.SIGKILL), ("debug", signal.SIGINT)]
)
def test_a_runner_that_is_killed_or_interrupted_loses_the_running_task_at_most(
    tmp_path, cluster, number
):
    """SIGKILL, which nobody can answer: the local process ends all the same, and the same sweep
    goes on.
    """
    tasks = [Doing("first"), waiting(tmp_path / "pid")]
    run(tasks[:1], tmp_path)
    runner = start_runner(Executor(cluster, 1), tasks, tmp_path)
    wait_for((tmp_path / "pid").exists)
    os.kill(runner.pid, number)
    runner.join(timeout=60)
    assert runner.exitcode != 0
    worker = int((tmp_path / "pid").read_text())
    wait_for(lambda: not _alive(worker), seconds=5)
    assert set(contents(tmp_path)) == {"first.nc"}
    (tmp_path / "go").touch()
    result = run(tasks, tmp_path)
    assert (result.skipped, result.complete) == (["first"], ["waiting"])


def _alive(pid):
    """Whether a process runs; a zombie, which waits for somebody to ask how it ended, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("tasks", "only", "reason"),
    [
        ([Seeded(0), Seeded(0, size=2)], "", "tasks: .*'seeded-0'"),
        ([Seeded(0)], "seeded-7", "only"),
        ([Doing("a/b")], "", "task.name"),
        ([Doing(".hidden")], "", "task.name"),
        ([Doing("")], "", "task.name"),
        ([Doing("a", np.ones(3))], "", "plain values"),
    ],
)
def test_bad_sweeps_are_refused_before_the_work(tmp_path, tasks, only, reason):
    refused(reason, run, tasks, tmp_path, only=only)
    assert not list(tmp_path.glob("*.nc"))


# -- Slurm, against the scheduler of this machine if one runs here -------------------------------------------------


def scheduler_runs():
    if not shutil.which("sinfo"):
        return False
    nodes = subprocess.run(
        ["sinfo", "--noheader", "--format=%t"], capture_output=True, text=True, check=False
    )
    return any(state in nodes.stdout for state in ("idle", "mix", "alloc"))


needs_slurm = pytest.mark.skipif(
    not scheduler_runs(), reason="no Slurm scheduler with a node that is up"
)


@needs_slurm
def test_slurm_writes_the_files_of_this_process_bit_for_bit_and_reports_a_failing_task(tmp_path):
    tasks = [Seeded(seed) for seed in range(6)]
    run(tasks, tmp_path / "process", Executor())
    curable = failing(tmp_path / "cure")
    result = run([*tasks, curable], tmp_path / "slurm", Executor("slurm"))
    assert sorted(result.complete) == [task.name for task in tasks]
    assert contents(tmp_path / "slurm") == contents(tmp_path / "process")
    assert np.isnan(open_dataset(tmp_path / "slurm" / "seeded-2.nc").spectrum.values).sum() == 1
    assert list(result.failed) == ["failing"]
    assert "cure: expected a file, got none" in result.failed["failing"].read_text()
    (tmp_path / "cure").touch()
    assert run([curable], tmp_path / "slurm", Executor("slurm")).complete == ["failing"]


@needs_slurm
def test_a_killed_runner_finds_its_jobs_again(tmp_path):
    """Jobs go on without it; started again, it waits for them and submits none twice."""
    tasks = [waiting(tmp_path / "pid")]
    runner = start_runner(Executor("slurm"), tasks, tmp_path)
    wait_for((tmp_path / "pid").exists)
    runner.kill()
    runner.join()
    threading.Timer(
        5.0, (tmp_path / "go").touch
    ).start()  # a task that ends before the runner looks has no job to find
    assert run(tasks, tmp_path, Executor("slurm")).complete == ["waiting"]
    assert len((tmp_path / "pid").read_text().split()) == 1


def test_without_submitit_tasks_run_in_this_process_alone(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "submitit", None)
    assert run([Seeded(0)], tmp_path).complete == ["seeded-0"]
    for cluster in ("local", "slurm"):
        refused("executor: .*submitit", Executor, cluster)


def test_without_a_scheduler_the_error_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    refused("executor: .*sbatch, squeue and srun", Executor, "slurm")


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
    refused("executor: .*invalid partition", run, [Seeded(0)], tmp_path, Executor("slurm"))


def test_a_queue_that_does_not_answer_means_that_jobs_go_on(programs, monkeypatch, tmp_path):
    """Controllers time out now and then; that must not fail a job."""
    programs(squeue="exit 1")
    monkeypatch.setattr(romkit.tasks, "_ASKING", 1e-3)
    monkeypatch.setattr(romkit.tasks, "_PATIENCE", 1e-3)
    running = romkit.tasks._Running(submitit.SlurmJob(tmp_path, "1"), "slurm")
    assert not running.has_ended()
    programs(squeue="")
    time.sleep(0.01)
    assert running.has_ended()
