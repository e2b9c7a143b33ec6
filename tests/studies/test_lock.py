"""Runners that share a folder: they wait for one another, and the dead block nobody."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from romkit.core.errors import FileError
from romkit.tasks.lock import locked
from studies.runner import InProcess, run
from tests.studies.sweeps import Seeded, Waiting, contents, start_runner, wait_for

TASKS = [Seeded(seed, size=25) for seed in range(4)]
RUNNER = """
import sys
from pathlib import Path
from studies.runner import InProcess, run
from tests.studies.test_lock import TASKS
for line in sys.stdin:
    sweep = run(TASKS, Path(line.strip()), InProcess())
    print(len(sweep.complete) + len(sweep.skipped), len(sweep.failed), flush=True)
"""


def test_two_runners_in_one_folder_ten_times(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "TQDM_DISABLE": "1"}
    command = [sys.executable, "-c", RUNNER]
    runners = [subprocess.Popen(command, env=environment, stdin=PIPE, stdout=PIPE, text=True) for _ in range(2)]
    for number in range(10):
        for runner in runners:
            print(tmp_path / str(number), file=runner.stdin, flush=True)
        assert [runner.stdout.readline() for runner in runners] == ["4 0\n", "4 0\n"]
    for runner in runners:
        runner.communicate()
    for number in range(10):
        names = {file.name for file in (tmp_path / str(number)).iterdir()}
        assert names == {f"{task.name}.{kind}" for task in TASKS for kind in ("nc", "json")}


def test_a_running_task_is_awaited_and_not_computed_twice(tmp_path):
    tasks = [Waiting(1, str(tmp_path))]
    runners = [start_runner("Workers(1)", tasks, tmp_path) for _ in range(2)]
    wait_for((tmp_path / "waiting-1.pid").exists)
    (tmp_path / "go").touch()
    assert [runner.wait(timeout=60) for runner in runners] == [0, 0]
    assert len((tmp_path / "waiting-1.pid").read_text().split()) == 1
    assert set(contents(tmp_path)) == {"waiting-1.nc"}


def test_a_killed_process_leaves_its_lock_to_the_next(tmp_path):
    code = "import sys; from pathlib import Path; from romkit.tasks.lock import locked\nwith locked(Path(sys.argv[1])):"
    code += "\n    print('held', flush=True); sys.stdin.read()"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    file = tmp_path / "seeded-0.nc"
    holder = subprocess.Popen([sys.executable, "-c", code, file], env=environment, stdin=PIPE, stdout=PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    (tmp_path / "seeded-0.nc.0123abcd.tmp").touch()
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert (tmp_path / "seeded-0.nc.lock").exists()
    assert run([Seeded(0, size=20)], tmp_path, InProcess()).complete == ["seeded-0"]
    assert {file.name for file in tmp_path.iterdir()} == {"seeded-0.nc", "seeded-0.json"}


def test_a_lock_that_cannot_be_made_says_so(tmp_path):
    with pytest.raises(FileError, match="cannot be made"), locked(tmp_path / "nowhere" / "a.nc"):
        pass
