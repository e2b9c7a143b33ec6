"""`romkit study`: the studies of a checkout, by name, in a process of their own."""

import os
import signal
import sys
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from typer.testing import CliRunner

import romkit
import studies
from romkit import cli
from romkit.tasks import Executor, Sweep
from studies.__main__ import app
from tests.studies.sweeps import wait_for

TASKS = """
from pathlib import Path
from tests.studies.sweeps import Seeded, failing

def tasks(preset):
    return [Seeded(0), failing(Path("cure").absolute())]
"""
REPORT = """
def write(folder, preset):
    return folder / "REPORT.md"
"""


@pytest.fixture
def toy_study(tmp_path, monkeypatch):
    """A study `toy` beside the real ones, in an empty working folder."""
    package = tmp_path / "packages" / "toy"
    package.mkdir(parents=True)
    for name, text in {"__init__": "", "tasks": TASKS, "report": REPORT}.items():
        (package / f"{name}.py").write_text(text)
    (package / "presets.toml").write_text("[smoke]\n[paper]\n")
    monkeypatch.setattr(studies, "__path__", [*studies.__path__, str(package.parent)])
    monkeypatch.chdir(tmp_path)
    yield
    for name in ("studies.toy", "studies.toy.tasks", "studies.toy.report"):
        sys.modules.pop(name, None)


def study_command(words):
    """What `romkit study` runs in a process of its own, in this one."""
    return CliRunner().invoke(app, ["study", *words.split()], prog_name="romkit")


@pytest.mark.slow
def test_the_command_runs_where_the_user_is_and_ends_by_ctrl_c(tmp_path):
    """In a folder that has another `studies`, which must not be taken; SIGINT in the middle of a
    task.
    """
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "__main__.py").write_text("print('somebody else')")
    words = ["study", "paper", "--preset", "smoke", "--only", "bifurcation"]
    command = [sys.executable, "-c", "from romkit.cli import main; main()", *words]
    environment = os.environ | {"PYTHONPATH": str(Path(studies.__file__).parents[1])}
    # Processes in the background inherit that SIGINT is ignored.
    answer = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    process = Popen(
        command,
        env=environment,
        cwd=tmp_path,
        preexec_fn=answer,
        stdout=PIPE,
        stderr=PIPE,
        text=True,
    )
    lock = tmp_path / "runs" / "paper" / "smoke" / ".running" / "lorenz96-bifurcation.lock"
    wait_for(lambda: lock.exists() or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=60)[1] or process.returncode in (
        130,
        -signal.SIGINT,
    )
    assert process.returncode != 0
    assert not list(lock.parents[1].glob("*.nc"))


def test_the_command_lists_studies_with_their_presets_and_its_help_has_an_example(toy_study):
    lines = study_command("").stdout.splitlines()
    assert ["toy", "smoke,", "paper"] in [line.split() for line in lines]
    assert not any(line.startswith("runner") for line in lines)
    assert "romkit study " in study_command("--help").stdout.partition("Examples:")[2]


def test_the_command_runs_a_study_and_ends_with_1_if_a_task_failed(toy_study):
    result = study_command("toy --preset smoke")
    assert result.exit_code == 1
    assert "1 tasks computed, 0 were complete, 1 failed" in result.stdout
    assert "romkit: failing failed, the traceback is in" in result.stderr
    Path("cure").touch()
    result = study_command("toy --preset smoke")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "1 tasks computed, 1 were complete, 0 failed" in result.stdout


def test_the_command_passes_its_options_on(toy_study, monkeypatch):
    given = {}
    monkeypatch.setattr(
        "romkit.tasks.run",
        lambda tasks, *place, **more: given.update(place=place, **more) or Sweep(),
    )
    result = study_command(
        "toy --preset smoke --executor workers --workers 2 --only seeded --out here"
    )
    assert (result.exit_code, given["only"]) == (0, "seeded")
    assert given["place"] == (Path("here/smoke").absolute(), Executor("local", 2))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("toi --preset smoke", "did you mean 'toy'?"),
        ("toy", "--preset: expected one of paper, smoke"),
        ("toy --preset smok", "did you mean 'smoke'?"),
        ("toy --preset smoke --executor workrs", "did you mean 'workers'?"),
        ("toy --preset smoke --workers 2", "1 for tasks in this process"),
        ("toy --preset smoke --executor workers --workers 0", "workers: expected an integer >= 1"),
        ("toy --preset smoke --only nothing", "text in the name of a task"),
        ("--no-such-option", "romkit: No such option: --no-such-option; see romkit study --help"),
    ],
)
def test_bad_input_of_the_command_is_one_line(toy_study, words, reason):
    result = study_command(words)
    assert result.exit_code == 2
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_a_checkout_the_command_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(romkit, "__file__", str(tmp_path / "romkit" / "__init__.py"))
    result = CliRunner().invoke(cli.app, ["study"], prog_name="romkit")
    assert result.exit_code == 2
    assert "a checkout of romkit" in result.stderr
