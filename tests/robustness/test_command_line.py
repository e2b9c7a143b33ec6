"""Wrong words on the command line: one line on stderr and exit code 2 before anything is computed, no traceback."""

from pathlib import Path

import pytest
import typer
from matplotlib.figure import Figure

import romkit
from romkit.cli import app
from romkit.data import save_dataset
from romkit.systems import SYSTEMS, Lorenz96
from tests.robustness.examples import ensemble, world
from tests.unit.test_cli import refusal, romkit_command

BAD = ("", "nan", "-1", "9" * 23, "a\x1b[31mb", "x" * 5000, "/proc/nowhere/a", "a=b")
"""Texts that few options take."""

COMMANDS = typer.main.get_command(app).commands

FAULTS = {
    "fit cae data.nc --set seed=3": "--set: expected a setting",
    "fit cae data.nc --set method=cae": "--set: expected a setting",
    "fit cae data.nc --set data=a": "--set: expected a setting",
    "fit cae data.nc --set checkpoint=a": "--set: expected a setting",
    "fit cae data.nc --set device=cpu": "--set: expected a setting",
    "fit cae data.nc --set system=lorenz96 --set latent_weight=1": "--set: expected a setting",
    "fit cae data.nc --set seeds=3": "seeds: expected",
    "fit cae data.nc --set seeds=[]": "seeds: expected a list",
    "fit cae data.nc --seed 99999999999999999999999": "seed: expected an integer",
    "fit cae data.nc --seed -1": "seed: expected an integer",
    "fit cae data.nc --set layers=2,4 --checkpoint data.nc": "data.nc: cannot be written to",
    "fit cae data.nc --set engine=maybe": "engine: expected one of auto",
    "fit cae data.nc --set compile=maybe": "compile: expected a setting",
    "fit cae data.nc --set layers=(2,60,200)": "layers: expected sizes",
    "fit cae data.nc --set layers=2,4 --set epoch=3": "did you mean 'epochs'",
    "fit cae data.nc --set basis=many": "basis: expected an integer",
    "fit cae data.nc --out folder.nc": "folder.nc: is a folder",
    "fit cae lorenz96 --out data.nc/a": "cannot be written to",
    "dataset lorenz96 --seed -1": "seed: expected an integer",
    "dataset lorenz96 --duration 1e13": "memory",
    "dataset lorenz96 --out folder.nc": "folder.nc: is a folder",
    "dataset lorenz96 --F 3.1 --out data.nc": "data.nc: is there, from an earlier run",
    "rollout lorenz96 --F 3.15 --model m.safetensors --dynamics RK4": "dynamics: expected one of",
    "rollout lorenz96 --F 3.15 --model m.safetensors --out data.nc/a": "cannot be written to",
    "rollout lorenz96 --F 3.15 --model m.safetensors --duration 1e13": "memory",
    "law sindy m.safetensors data.nc --set degree=60": "at least 3782 samples, one per candidate term",
    "law sindy m.safetensors data.nc --set degree=600": "degree: expected at most 10000 terms",
    "law sindy m.safetensors data.nc --set threshold=nan": "threshold: expected",
    "law sindy m.safetensors data.nc --members 1": "members: expected",
    "forecast m.safetensors --dynamics law.safetensors --from data.nc --duration 1e13": "memory",
    "info data.nc.safetensors": "no such file",
    "compare data.nc --workers -1": "workers: expected an integer >= 1",
    "explore nowhere.safetensors": "no such file",
    "explore data.nc": "is not a complete safetensors file",
    "explore m.safetensors --port 99999999": "less than or equal to 65535",
}  # fmt: skip
"""Command lines, and a part of the line that refuses each."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a dataset, a model, an ensemble and a run."""
    folder = tmp_path_factory.mktemp("typed")
    save_dataset(world()["data"], folder / "data.nc")
    romkit.save(world()["projection"], folder / "m.safetensors")
    romkit.save(world()["law"], folder / "law.safetensors")
    save_dataset(world()["run"], folder / "run.nc")
    ensemble().save(folder / "ensemble")
    (folder / "folder.nc").mkdir()
    return folder


@pytest.fixture(autouse=True)
def _here(files, monkeypatch):
    monkeypatch.chdir(files)
    for name in ("plot_rollout", "plot_latent"):  # slow, and tested elsewhere
        monkeypatch.setattr(romkit.plotting, name, lambda run: Figure())
    monkeypatch.setitem(
        SYSTEMS, "lorenz96", lambda **given: Lorenz96(n=4, transient=0.0, duration=0.2, horizon=0.1, **given)
    )


@pytest.mark.parametrize("typed", FAULTS)
def test_faults_that_were_found(typed):
    before = set(Path().rglob("*"))
    assert FAULTS[typed] in refusal(typed)
    assert {path for path in Path().rglob("*") if path.is_file()} <= before


VALID = {
    "rollout": "lorenz96 --F 3.15 --model m.safetensors --duration 0.05 --force",
    "fit": "pod data.nc --set latent_dim=2 --force",
    "law": "dmd m.safetensors data.nc --force",
    "dataset": "lorenz96 --F 3.15 --force",
    "info": "m.safetensors",
    "check": "data.nc",
    "forecast": "m.safetensors --from data.nc --duration 0.05 --dynamics law.safetensors --force",
    "compare": "lorenz96 --methods pod --laws dmd --set latent_dim=2",
    "report": "run.nc",
    "explore": "m.safetensors",
    "study": "nothing",
}


def attempts(command):
    """A valid command with one option or argument changed."""
    valid = VALID[command].split()
    first = next((k for k, word in enumerate(valid) if word.startswith("--")), len(valid))
    own = [p for p in COMMANDS[command].params if not getattr(p, "is_flag", False) and p.name != "workers"]
    options = [option for p in own for option in p.opts if option.startswith("--")]
    for text in BAD:
        yield from ([*valid[:k], text, *valid[k + 1 :]] for k in range(first))
        yield from ([*valid, option, text] for option in options)


def fault(words):
    """Whatever a command does that is neither its job nor a refusal in one line."""
    try:
        result = romkit_command(*words, split=False)
    except Exception as error:
        return f"{type(error).__name__}: {error!s:.200}"
    lines = result.stderr.splitlines()
    refused = len(lines) == 1 and lines[0].startswith("romkit: ") and lines[0].isprintable()
    return "" if result.exit_code == 0 or (result.exit_code == 2 and refused) else f"{result.exit_code} {lines}"


def test_every_command_has_a_valid_call():
    assert set(VALID) == set(COMMANDS)


@pytest.mark.parametrize("command", [name for name in VALID if name not in ("explore", "study")])
def test_nothing_that_is_typed_ends_in_a_traceback(command):
    result = romkit_command(command, VALID[command])
    assert result.exit_code == 0, result.stderr
    found = {" ".join(words)[:200]: fault([command, *words]) for words in attempts(command)}
    assert not {words: wrong[:300] for words, wrong in found.items() if wrong}
