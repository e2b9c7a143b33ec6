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
def model(lorenz_data, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "ncae.safetensors"
    return str(romkit.save(romkit.fit("ncae", lorenz_data, epochs=2), path))


@pytest.fixture(scope="session")
def data_file(lorenz_data, tmp_path_factory):
    return str(save_dataset(lorenz_data, tmp_path_factory.mktemp("data") / "lorenz.nc"))


def romkit_command(*words):
    result = CliRunner().invoke(app, [str(word) for word in words], prog_name="romkit")
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def refusal(*words):
    """The one line on stderr of a command that must be refused."""
    result = romkit_command(*words)
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("romkit: ")
    return lines[0]


def test_rollout_prints_errors_and_writes_run_and_picture(model):
    result = romkit_command("rollout", "lorenz96", "--F", "3.15", "--model", model, "--duration", "0.5")
    assert result.exit_code == 0
    for words in ("lorenz96 at F = 3.15", "NRMSE", "valid for", "completed", "idempotency error", "cost"):
        assert words in result.stdout
    run = open_dataset("runs/rollout-lorenz96/rollout.nc")
    assert float(run.time[-1]) == pytest.approx(0.5)
    assert Path("runs/rollout-lorenz96/rollout.png").read_bytes().startswith(b"\x89PNG")
    assert "wrote runs/rollout-lorenz96/rollout.nc" in result.stdout
    assert "wrote runs/rollout-lorenz96/rollout.png" in result.stdout


def test_several_contexts_and_options_in_any_order(model):
    words = ("rollout", "--F=3.14,3.18", "--dt", "0.02", "lorenz96", "--dynamics", "petrov-galerkin")
    result = romkit_command(*words, "--duration", "0.2", "--model", model, "--out", "here/and/there")
    assert result.exit_code == 0
    assert "F = 3.14" in result.stdout
    assert "F = 3.18" in result.stdout
    run = open_dataset("here/and/there/rollout.nc")
    assert run.F.values.tolist() == [3.14, 3.18]
    assert float(run.time[1]) == pytest.approx(0.02)
    assert run.attrs["dynamics"] == "PetrovGalerkin"


@pytest.mark.parametrize(
    ("system", "context", "model"),
    [("lorenz96", ("--F", "3.15"), "ncae"), ("kuramoto-sivashinsky", ("--L", "16"), "flow")],
)
def test_the_default_model_is_the_one_that_ships(system, context, model):
    result = romkit_command("rollout", system, *context, "--duration", "0.1")
    assert result.exit_code == 0
    assert open_dataset(f"runs/rollout-{system}/rollout.nc").attrs["projection"] == model


def test_dataset_writes_what_python_makes():
    result = romkit_command("dataset", "lorenz96", "--F", "3.14,3.15", "--duration", "0.2", "--out", "mine.nc")
    assert result.exit_code == 0
    assert "wrote mine.nc" in result.stdout
    same = Lorenz96(transient=2.0).dataset(F=[3.14, 3.15], duration=0.2)
    assert (open_dataset("mine.nc").state.values == same.state.values).all()


def test_dataset_is_the_training_set_by_default():
    assert romkit_command("dataset", "lorenz96", "--duration", "0.1", "--seed", "3").exit_code == 0
    data = open_dataset("runs/lorenz96-train/data.nc")
    assert (data.attrs["split"], data.attrs["seed"]) == ("train", 3)


def test_fit_from_a_file_passes_settings_on(data_file):
    settings = ("--set", "epochs=1", "--set", "batch_size=64", "--set", "layers=3,12,36", "--set", "optimizer=adam")
    result = romkit_command("fit", "ncae", data_file, "--seed", "7", *settings, "--out", "my.safetensors")
    assert result.exit_code == 0
    projection = romkit.load("my.safetensors")
    assert projection.latent_dim == 3
    assert projection.report["seed"] == 7
    assert projection.report["recipe"]["snapshots"]["batch_size"] == 64


def test_fit_from_a_system_takes_its_training_set():
    result = romkit_command("fit", "pod", "lorenz96")
    assert result.exit_code == 0
    assert romkit.load("runs/pod-lorenz96/projection.safetensors").report["data"]["split"] == "train"


def test_info_lists_what_there_is():
    text = romkit_command("info").stdout
    for name in (*SYSTEMS, *romkit.projections.METHODS, *romkit.integrators.DYNAMICS, *romkit.presets.PRESETS):
        assert name in text
    assert "F in [3.133, 3.193]" in text
    assert "l1 in [0.35, 0.65] m" in text


def test_info_shows_contexts_that_are_whole_numbers_and_no_labels(lorenz_data):
    labels = ("trajectory", [0, 1, 2], {"role": "label"})
    data = lorenz_data.assign_coords(Re=("trajectory", [50, 100, 150]), run=labels)
    context = describe.dataset(data).partition("\ncontext\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in context] == ["F", "Re"]


def test_a_rollout_of_a_single_sample_is_summarised(lorenz_data, model):
    run = romkit.rollout(lorenz_data.isel(time=[0]), romkit.load(model))
    assert "ms, 3 trajectories at once; engine" in describe.run(run)


def test_info_describes_files_and_systems(model, data_file):
    assert "36 state components" in romkit_command("info", model).stdout
    assert "F  3.14, 3.15, 3.18" in romkit_command("info", data_file).stdout
    assert "indices modulo n" in romkit_command("info", "lorenz96").stdout


@pytest.mark.parametrize("command", ["rollout", "fit", "law", "dataset", "info", "check", "forecast", "compare"])
def test_help_has_an_example(command):
    result = romkit_command(command, "--help")
    assert result.exit_code == 0
    assert f"romkit {command} " in result.stdout.partition("Examples:")[2]


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
        ("fit ncae lorenz96 --set epoch=2", "epoch: "),
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
    assert reason in refusal(*words.split())


def test_a_model_of_another_system_is_refused(model):
    lengths = [word for k in range(1, 5) for word in (f"--l{k}", "0.5")]
    assert "projection of this system" in refusal("rollout", "pendulum", *lengths, "--model", model)


def test_a_folder_that_cannot_be_made_is_refused_before_the_work(data_file):
    Path("taken").touch()
    assert "cannot be written to" in refusal("fit", "ncae", data_file, "--out", "taken/my.safetensors")


def test_interruption_ends_with_130(monkeypatch, model):
    def interrupted(*args, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(romkit, "rollout", interrupted)
    assert romkit_command("rollout", "lorenz96", "--F", "3.15", "--model", model).exit_code == 130


def test_the_installed_command_keeps_stdout_clean():
    command = [Path(sys.executable).parent / "romkit", "info", "nowhere.nc"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("romkit: nowhere.nc: no such file")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("sindy", ["degree=5", "threshold=0.001"]),
        ("neural-ode", ["hidden=8,", "regression_steps=20", "shooting_steps=2"]),
    ],
)
def test_law_fits_and_rollout_and_info_read_it(kind, settings, model, data_file):
    pairs = [word for pair in settings for word in ("--set", pair)]
    result = romkit_command("law", kind, model, data_file, *pairs, "--out", "law.safetensors")
    assert result.exit_code == 0, result.stderr
    assert "wrote law.safetensors" in result.stdout
    text = romkit_command("info", "law.safetensors").stdout
    assert text == result.stdout.partition("\n\nwrote")[0] + "\n"
    assert "residual" in text if kind == "sindy" else "training errors" in text
    for words in ("context  F", "encoded data", "samples"):
        assert words in text
    common = ("--model", model, "--dynamics", "law.safetensors")
    assert romkit_command("rollout", "lorenz96", "--F", "3.15", "--duration", "0.1", *common).exit_code == 0
    law = romkit.load("law.safetensors")
    assert open_dataset("runs/rollout-lorenz96/rollout.nc").attrs["dynamics"] == type(law).__name__
    result = romkit_command("rollout", data_file, *common)
    assert result.exit_code == 0, result.stderr
    assert "wrote runs/rollout-lorenz/rollout.nc" in result.stdout
    assert open_dataset("runs/rollout-lorenz/rollout.nc").sizes["trajectory"] == 3


def test_a_rollout_of_measurements_without_a_system(lorenz_data, model):
    data = lorenz_data[["state", "velocity"]]
    data.attrs = {}
    save_dataset(data, "own.nc")
    words = ("--set", "hidden=8,8", "--set", "regression_steps=20", "--set", "shooting_steps=2")
    assert romkit_command("law", "neural-ode", model, "own.nc", *words).exit_code == 0
    result = romkit_command("rollout", "own.nc", "--model", model, "--dynamics", "runs/neural-ode-own/law.safetensors")
    assert result.exit_code == 0
    assert "full model" not in result.stdout
    assert Path("runs/rollout-own/rollout.png").exists()


def test_files_of_the_wrong_kind_are_refused(model, data_file):
    law = romkit.integrators.SINDy(degree=5, threshold=0.001).fit(romkit.load(model), open_dataset(data_file))
    romkit.save(law, "law.safetensors")
    assert "holds a law, not a projection" in refusal("rollout", data_file, "--model", "law.safetensors")
    romkit.save(romkit.basis(open_dataset(data_file), 3), "basis.safetensors")
    words = ("rollout", data_file, "--model", model, "--dynamics")
    assert "holds a basis, not a law" in refusal(*words, "basis.safetensors")
    assert "energy left out" in romkit_command("info", "basis.safetensors").stdout
    assert "holds a projection, not a law" in refusal("rollout", data_file, "--model", model, "--dynamics", model)
    assert "duration: expected nothing beside a dataset" in refusal(
        "rollout", data_file, "--model", model, "--dynamics", "law.safetensors", "--duration", "3"
    )
    assert "option: expected one of" in refusal("rollout", data_file, "--F", "3", "--model", model)
