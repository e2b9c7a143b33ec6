"""The command line: what it prints and writes, and how it refuses."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import romkit
from romkit.cli import app, describe
from romkit.data import open_dataset, save_dataset
from romkit.systems import SYSTEMS, Lorenz96


@pytest.fixture(autouse=True)
def _quick_systems(monkeypatch, tmp_path):
    """Lorenz96 with a short transient, in an empty folder."""
    quick = {"transient": 2.0, "duration": 0.5, "horizon": 1.0}
    monkeypatch.setitem(SYSTEMS, "lorenz96", lambda **given: Lorenz96(**quick | given))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def model(projection, tmp_path_factory):
    return str(romkit.save(projection, tmp_path_factory.mktemp("models") / "ncae.safetensors"))


@pytest.fixture(scope="session")
def data_file(lorenz_data, tmp_path_factory):
    return str(save_dataset(lorenz_data, tmp_path_factory.mktemp("data") / "lorenz.nc"))


def romkit_command(*words, split=True):
    """Result of a command in this process; words with spaces are several, unless they must not be split."""
    words = [part for word in words for part in str(word).split()] if split else words
    result = CliRunner().invoke(app, words, prog_name="romkit")
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def ran(*words):
    """Output of a command that succeeds."""
    result = romkit_command(*words)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def refusal(*words):
    """The one line on stderr of a command that must be refused."""
    result = romkit_command(*words)
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("romkit: ")
    return lines[0]


def test_rollout_prints_errors_and_writes_run_and_picture(model):
    text = ran("rollout lorenz96 --F 3.15 --duration 0.5 --model", model)
    for words in ("lorenz96 at F = 3.15", "NRMSE", "valid for", "completed", "idempotency error", "cost"):
        assert words in text
    assert float(open_dataset("runs/rollout-lorenz96/rollout.nc").time[-1]) == pytest.approx(0.5)
    assert Path("runs/rollout-lorenz96/rollout.png").read_bytes().startswith(b"\x89PNG")
    assert "wrote runs/rollout-lorenz96/rollout.nc" in text
    assert "wrote runs/rollout-lorenz96/rollout.png" in text


def test_several_contexts_and_options_in_any_order(model):
    words = "rollout --F=3.14,3.18 --dt 0.02 lorenz96 --dynamics petrov-galerkin --duration 0.2 --out here/and/there"
    text = ran(words, "--model", model)
    assert "F = 3.14" in text
    assert "F = 3.18" in text
    run = open_dataset("here/and/there/rollout.nc")
    assert run.F.values.tolist() == [3.14, 3.18]
    assert float(run.time[1]) == pytest.approx(0.02)
    assert run.attrs["dynamics"] == "PetrovGalerkin"


@pytest.mark.parametrize(("run", "model"), [("lorenz96 --F 3.15", "ncae"), ("kuramoto-sivashinsky --L 16", "flow")])
def test_the_default_model_is_the_one_that_ships(run, model):
    ran("rollout", run, "--duration 0.1 --out run")
    assert open_dataset("run/rollout.nc").attrs["projection"] == model


def test_dataset_writes_what_python_makes():
    assert "wrote mine.nc" in ran("dataset lorenz96 --F 3.14,3.15 --duration 0.2 --out mine.nc")
    same = Lorenz96(transient=2.0).dataset(F=[3.14, 3.15], duration=0.2)
    assert (open_dataset("mine.nc").state.values == same.state.values).all()
    ran("dataset lorenz96 --duration 0.1 --seed 3")
    attrs = open_dataset("runs/lorenz96-train/data.nc").attrs
    assert (attrs["split"], attrs["seed"]) == ("train", 3)


def test_fit_takes_a_file_with_settings_or_the_training_set_of_a_system(data_file):
    settings = "--seed 7 --set epochs=1 --set batch_size=64 --set layers=3,12,36 --set optimizer=adam"
    ran("fit ncae", data_file, settings, "--out my.safetensors")
    projection = romkit.load("my.safetensors")
    assert projection.latent_dim == 3
    assert projection.report["seed"] == 7
    assert projection.report["recipe"]["snapshots"]["batch_size"] == 64
    assert Path("my.png").is_file()
    ran("fit pod lorenz96")
    assert romkit.load("runs/pod-lorenz96/projection.safetensors").report["data"]["split"] == "train"
    assert not Path("runs/pod-lorenz96/projection.png").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", [*SYSTEMS, *romkit.projections.METHODS, *romkit.integrators.DYNAMICS, *romkit.presets.PRESETS]),
        ("", ["F in [3.133, 3.193]", "l1 in [0.35, 0.65] m"]),
        ("lorenz96", ["indices modulo n"]),
        ("ncae", ["bandwidth", "epochs", "rollouts.steps", "quick"]),
        ("sindy", ["threshold", "0.1", "STLSQ"]),
        ("lspg", ["dt"]),
        ("MODEL", ["36 state components"]),
        ("DATA", ["F  3.14, 3.15, 3.18"]),
    ],
)
def test_info_describes_everything_by_name(name, words, model, data_file):
    text = ran("info", {"MODEL": model, "DATA": data_file}.get(name, name)) if name else ran("info")
    assert not [word for word in words if word not in text]


def test_contexts_may_be_whole_numbers_and_labels_are_none(lorenz_data):
    labels = ("trajectory", [0, 1, 2], {"role": "label"})
    data = lorenz_data.assign_coords(Re=("trajectory", [50, 100, 150]), run=labels)
    context = describe.dataset(data).partition("\ncontext\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in context] == ["F", "Re"]


def test_a_rollout_of_a_single_sample_is_summarised(lorenz_data, model):
    run = romkit.rollout(lorenz_data.isel(time=[0]), romkit.load(model))
    assert "ms, 3 trajectories at once; engine" in describe.run(run)


@pytest.mark.parametrize(
    "command", sorted({command.callback.__name__ for command in app.registered_commands} - {"study"})
)
def test_help_has_an_example(command):
    assert f"romkit {command}" in ran(command, "--help").partition("Examples:")[2]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("rollout lorenz69 --F 3.15", "did you mean 'lorenz96'?"),
        ("rollout lorenz96", "add F=..."),
        ("rollout lorenz96 --F", "--F: expected a number"),
        ("rollout lorenz96 --F --dt 0.1", "--F: expected a number"),
        ("rollout lorenz96 --F high", "got 'high'"),
        ("rollout lorenz96 --F nan", "expected finite numbers"),
        ("rollout lorenz96 --G 3.15", "did you mean '--F'?"),
        ("rollout lorenz96 --F 3.15 --duraton 5", "did you mean '--duration'?"),
        ("rollout lorenz96 --F 3.15 --duration -5", "duration: expected a positive number"),
        ("rollout lorenz96 --F 3.15 --duration long", "--duration"),
        ("rollout lorenz96 --F 3.15 --dynamics galerkn", "did you mean 'galerkin'?"),
        ("rollout lorenz96 --F 3.15 --model nowhere.safetensors", "no such file"),
        ("rollout --F 3.15", "Missing argument 'SYSTEM'"),
        ("dataset lorenz96 --split trian", "did you mean 'train'?"),
        ("dataset lorenz96 --split test --F 3.15", "a split or contexts by name"),
        ("fit ncea lorenz96", "did you mean 'ncae'?"),
        ("fit ncae lorenz", "did you mean 'lorenz96'?"),
        ("fit ncae nowhere.nc", "no such file"),
        ("fit ncae lorenz96 --set epochs", "expected name=value"),
        ("fit ncae lorenz96 --set epochs=none", "epochs: expected an integer"),
        ("fit ncae lorenz96 --preset slow", "preset: "),
        ("fit ncae lorenz96 --device abacus", "device: "),
        ("law sindi m.safetensors lorenz96", "did you mean 'sindy'?"),
        ("law sindy nowhere.safetensors lorenz96", "no such file"),
        ("law sindy ncae-lorenz96 nowhere.nc", "no such file"),
        ("law sindy ncae-lorenz96 lorenz96 --set degre=3", "did you mean 'degree'?"),
        ("law sindy ncae-lorenz96 lorenz96 --set degree=three", "degree: expected an integer"),
        ("law sindy ncae-lorenz96 lorenz96 --set library=cubic", "library: expected a Library"),
        ("law neural-ode ncae-lorenz96 lorenz96 --set hidden=0", "hidden: expected"),
        ("check nowhere.nc", "no such file"),
        ("forecast ncae-lorenz96 --from nowhere.nc --duration 1", "no such file"),
        ("compare nowhere.nc", "no such file"),
        ("rollout nowhere.py:Burgers --model ncae-lorenz96 --nu 1", "no such file"),
        ("rollout nowhere.nc --model ncae-lorenz96", "no such file"),
        ("info nowhere.nc", "no such file"),
        ("info lorenz", "did you mean 'lorenz96'?"),
        ("frobnicate", "No such command"),
    ],
)
def test_bad_input_is_one_line(words, reason):
    assert reason in refusal(words)


def test_a_model_of_another_system_is_refused(model):
    assert "projection of this system" in refusal("rollout pendulum --l1 1 --l2 1 --l3 1 --l4 1 --model", model)


def test_a_folder_that_cannot_be_made_is_refused_before_the_work(data_file):
    Path("taken").touch()
    assert "cannot be written to" in refusal("fit ncae", data_file, "--out taken/my.safetensors")


def test_interruption_ends_with_130(monkeypatch, model):
    def interrupted(*args, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(romkit, "rollout", interrupted)
    assert romkit_command("rollout lorenz96 --F 3.15 --model", model).exit_code == 130


def test_the_installed_command_keeps_stdout_clean():
    command = [Path(sys.executable).parent / "romkit", "info", "nowhere.nc"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("romkit: nowhere.nc: no such file")
    assert result.stderr.count("\n") == 1


def test_help_comes_without_the_packages_that_are_slow_to_import():
    code = "import sys, romkit.cli; assert not {'torch', 'xarray', 'matplotlib', 'scipy'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("kind", "settings", "shown"),
    [
        ("sindy", "--set degree=5 --set threshold=0.001", "residual"),
        ("neural-ode", "--set hidden=8, --set regression_steps=20 --set shooting_steps=2", "training errors"),
    ],
)
def test_law_fits_and_rollout_and_info_read_it(kind, settings, shown, model, data_file, lorenz_data):
    printed = ran("law", kind, model, data_file, settings, "--out law.safetensors")
    assert "wrote law.safetensors" in printed
    text = ran("info law.safetensors")
    assert text == printed.partition("\n\nwrote")[0] + "\n"
    for words in (shown, "context  F", "encoded data", "samples"):
        assert words in text
    own = lorenz_data[["state", "velocity"]]
    own.attrs = {}  # measurements, without a system that romkit knows
    save_dataset(own, "own.nc")
    dynamics = type(romkit.load("law.safetensors")).__name__
    for source in ("lorenz96 --F 3.15 --duration 0.1", data_file, "own.nc"):
        text = ran("rollout", source, "--dynamics law.safetensors --out run --force --model", model)
        assert ("full model" in text) == ("--F" in source)
        assert open_dataset("run/rollout.nc").attrs["dynamics"] == dynamics


def test_files_of_the_wrong_kind_are_refused(model, data_file):
    law = romkit.integrators.SINDy(degree=5, threshold=0.001).fit(romkit.load(model), open_dataset(data_file))
    romkit.save(law, "law.safetensors")
    romkit.save(romkit.basis(open_dataset(data_file), 3), "basis.safetensors")
    assert "energy left out" in ran("info basis.safetensors")
    words = f"rollout {data_file} --model {model}"
    assert "holds a law, not a projection" in refusal("rollout", data_file, "--model law.safetensors")
    assert "holds a basis, not a law" in refusal(words, "--dynamics basis.safetensors")
    assert "holds a projection, not a law" in refusal(words, "--dynamics", model)
    assert "expected nothing beside a dataset" in refusal(words, "--dynamics law.safetensors --duration 3")
    assert "option: expected one of" in refusal(words, "--F 3")
