"""The runner of studies: results are complete or absent, never lost, and the same from every executor."""

import io
import json
import os
import resource
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from tqdm import tqdm

import romkit.tasks
from romkit.core import runtime
from romkit.core.errors import InputError
from romkit.data import open_dataset
from romkit.tasks import Executor, Task, run
from tests.studies.sweeps import Dying, Failing, Raised, Seeded, Waiting, contents, start_runner, wait_for


@dataclass(frozen=True)
class Named(Task):
    """A task of any name and field."""

    label: str
    value: object = 0

    @property
    def name(self) -> str:
        return self.label

    def run(self) -> xr.Dataset:
        return xr.Dataset({"ones": ("i", np.ones(10**5))})


def test_a_result_says_what_made_it(tmp_path):
    task = Seeded(1)
    assert run([task], tmp_path).complete == ["seeded-1"]
    attrs = open_dataset(tmp_path / "seeded-1.nc").attrs
    assert (attrs["key"], attrs["seed"], json.loads(attrs["config"])) == (task.key, 1, {"seed": 1, "size": 300})
    assert json.loads(attrs["versions"]) == runtime.versions()
    assert attrs["device"]
    record = json.loads((tmp_path / "seeded-1.json").read_text())
    assert record["key"] == task.key
    assert 0 < record["cpu_seconds"] < 60
    assert 0 < record["wall_seconds"] < 600
    assert {"host", "commit", "started"} <= set(record)


def test_a_local_process_writes_the_same_file_and_one_that_is_killed_fails_its_task_alone(tmp_path):
    tasks = [Dying(), Failing(str(tmp_path / "cure")), Seeded(2)]
    run(tasks[2:], tmp_path / "here")
    result = run(tasks, tmp_path / "processes", Executor("local", 2))
    assert result.complete == ["seeded-2"]
    assert contents(tmp_path / "here") == contents(tmp_path / "processes")
    assert np.isnan(open_dataset(tmp_path / "processes" / "seeded-2.nc").spectrum.values).sum() == 1
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


def test_what_is_complete_is_skipped(tmp_path):
    run([Seeded(0)], tmp_path)
    before = (tmp_path / "seeded-0.nc").stat().st_mtime_ns
    again = run([Seeded(0), Seeded(1)], tmp_path)
    assert (again.skipped, again.complete) == (["seeded-0"], ["seeded-1"])
    assert (tmp_path / "seeded-0.nc").stat().st_mtime_ns == before


def test_only_takes_the_tasks_with_the_text_in_their_name_each_once(tmp_path):
    assert run([Seeded(0), Seeded(1), Seeded(1)], tmp_path, only="-1").complete == ["seeded-1"]


@pytest.mark.parametrize("changed", [Seeded(0, size=299), Raised(0)])
def test_another_configuration_or_code_version_is_computed_again(tmp_path, changed):
    run([Seeded(0)], tmp_path)
    assert run([changed], tmp_path).complete == ["seeded-0"]
    assert open_dataset(tmp_path / "seeded-0.nc").attrs["key"] == changed.key


def test_what_the_fields_stand_for_changes_the_key_and_is_in_the_file(tmp_path, monkeypatch):
    before = Seeded(0).key
    monkeypatch.setattr(Seeded, "resolved", {"sizes": (2, 18)})
    assert Seeded(0).key != before
    run([Seeded(0)], tmp_path)
    assert json.loads(open_dataset(tmp_path / "seeded-0.nc").attrs["resolved"]) == {"sizes": [2, 18]}


def test_a_damaged_result_is_computed_again(tmp_path):
    run([Seeded(0), Seeded(1)], tmp_path)
    whole = contents(tmp_path)
    flipped = bytearray(whole["seeded-0.nc"])
    flipped[len(flipped) // 2] ^= 1
    (tmp_path / "seeded-0.nc").write_bytes(flipped)
    (tmp_path / "seeded-1.nc").write_bytes(whole["seeded-1.nc"][:5000])
    assert run([Seeded(0), Seeded(1)], tmp_path).complete == ["seeded-0", "seeded-1"]
    assert contents(tmp_path) == whole


def test_a_failing_task_is_reported_and_the_rest_goes_on(tmp_path):
    cure = tmp_path / "cure"
    tasks = [Failing(str(cure)), Seeded(0)]
    result = run(tasks, tmp_path)
    assert (result.complete, list(result.failed)) == (["seeded-0"], ["failing"])
    log = result.failed["failing"].read_text()
    assert "Traceback" in log
    assert "cure: expected a file, got none" in log
    cure.touch()
    result = run(tasks, tmp_path)
    assert (result.complete, result.skipped) == (["failing"], ["seeded-0"])
    assert not (tmp_path / "failing.log").exists()


def test_a_full_disk_leaves_no_half_file(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        result = run([Named("large")], tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "File too large" in result.failed["large"].read_text()
    assert set(names(tmp_path)) == {"large.json", "large.log"}
    assert run([Named("large")], tmp_path).complete == ["large"]


def test_what_a_killed_process_left_is_swept_up_but_nothing_of_another_task(tmp_path):
    for name in ("noise-0.nc", "noise-0.json", "noise-0.5.nc"):
        (tmp_path / f"{name}.0123abcd.tmp").touch()
    run([Named("noise-0")], tmp_path)
    assert [file.name for file in tmp_path.glob("*.tmp")] == ["noise-0.5.nc.0123abcd.tmp"]


def names(folder):
    """Files for users in a folder of results."""
    return sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))


def test_a_running_task_is_awaited_and_not_computed_twice(tmp_path):
    runners = [start_runner(Executor(), [Waiting(1, str(tmp_path))], tmp_path) for _ in range(2)]
    wait_for((tmp_path / "waiting-1.pid").exists)
    (tmp_path / "go").touch()
    for runner in runners:
        runner.join(timeout=60)
        assert runner.exitcode == 0
    assert len((tmp_path / "waiting-1.pid").read_text().split()) == 1
    assert set(contents(tmp_path)) == {"waiting-1.nc"}


@pytest.mark.parametrize(("cluster", "number"), [("local", signal.SIGKILL), ("debug", signal.SIGINT)])
def test_a_runner_that_is_killed_or_interrupted_loses_the_running_task_at_most(tmp_path, cluster, number):
    """SIGKILL, which nobody can answer: the local process ends all the same, and the same sweep goes on."""
    tasks = [Waiting(k, str(tmp_path)) for k in range(2)]
    run(tasks[:1], tmp_path)
    runner = start_runner(Executor(cluster, 1), tasks, tmp_path)
    wait_for((tmp_path / "waiting-1.pid").exists)
    os.kill(runner.pid, number)
    runner.join(timeout=60)
    assert runner.exitcode != 0
    worker = int((tmp_path / "waiting-1.pid").read_text())
    wait_for(lambda: not _alive(worker), seconds=5)
    assert set(contents(tmp_path)) == {"waiting-0.nc"}
    (tmp_path / "go").touch()
    result = run(tasks, tmp_path)
    assert (result.skipped, result.complete) == (["waiting-0"], ["waiting-1"])


def _alive(pid):
    """Whether a process runs; a zombie, which waits for somebody to ask how it ended, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("tasks", "only", "reason"),
    [
        ([Seeded(0), Seeded(0, size=2)], "", "2 different ones named 'seeded-0'"),
        ([Seeded(0)], "seeded-7", "text in the name of a task"),
        ([Named("a/b")], "", "letters, digits"),
        ([Named(".hidden")], "", "letters, digits"),
        ([Named("")], "", "letters, digits"),
        ([Named("a", np.ones(3))], "", "fields of plain JSON"),
    ],
)
def test_bad_sweeps_are_refused_before_the_work(tmp_path, tasks, only, reason):
    with pytest.raises(InputError, match=reason):
        run(tasks, tmp_path, only=only)
    assert not list(tmp_path.glob("*.nc"))


def test_the_bar_tells_done_running_failed_and_time_left(tmp_path, monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(
        "romkit.core.runtime.track", lambda items, label: tqdm(items, desc=label, file=shown, mininterval=0)
    )
    run([Failing(str(tmp_path / "cure")), Seeded(0), Seeded(1)], tmp_path)
    assert "2/3" in shown.getvalue()
    assert "1 running, 1 failed" in shown.getvalue()


def test_former_names_of_executors_warn_and_work():
    with pytest.warns(DeprecationWarning, match="Executor"):
        former = romkit.tasks.InProcess(), romkit.tasks.Workers(3)
    assert former == (Executor(), Executor("local", 3))
    with former[0]:
        pass
