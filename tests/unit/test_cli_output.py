"""What commands print and how they are typed: JSON, silence, completion, interruptions, several
files, names first.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import romkit
from romkit.cli import facts, forecast, inputs, output
from romkit.data import open_dataset, save_dataset
from romkit.systems import SYSTEMS, Lorenz96
from tests.unit.test_cli import ran, refusal, romkit_command


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch, blank_pictures):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """run0.nc to run4.nc, waves at five speeds, and pod.safetensors and law.safetensors of them."""
    folder = tmp_path_factory.mktemp("runs")
    time, speeds = np.linspace(0, 3, 61), np.linspace(0.8, 1.2, 5)
    mix = np.random.default_rng(0).normal(size=(2, 5))
    for k, speed in enumerate(speeds):
        angle = 2 * speed * time
        state = np.stack([np.cos(angle), np.sin(angle)], axis=-1) @ mix
        coords = {"time": time, "speed": ("trajectory", [speed], {"role": "context"})}
        variables = {"state": (("trajectory", "time", "component"), state[None])}
        save_dataset(xr.Dataset(variables, coords), folder / f"run{k}.nc")
    data = inputs.read_data([str(folder / "run*.nc")])
    pod = romkit.fit("pod", data, latent_dim=2)
    romkit.save(pod, folder / "pod.safetensors")
    law = romkit.laws.SINDy(degree=1, threshold=0.01, refine=False).fit(pod, data)
    romkit.save(law, folder / "law.safetensors")
    return folder


@pytest.fixture
def runs(folder):
    """Links to the files, and the runs as one dataset."""
    for file in folder.iterdir():
        Path(file.name).symlink_to(file)
    return inputs.read_data(["run*.nc"])


def as_json(*words):
    """The one JSON object that a command prints."""
    result = romkit_command(*words, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_every_command_prints_one_json_object(runs):
    assert "lorenz96" in as_json("info")["systems"]
    assert as_json("info lorenz96")["context"]["F"]["low"] == 3.133
    assert as_json("info pod.safetensors")
    found = as_json("check run*.nc --out data.nc")
    assert found["sizes"]["trajectory"] == 5
    assert found["wrote"] == ["data.nc"]
    assert np.allclose(found["context"]["speed"], runs.speed)
    assert as_json("fit pod data.nc --set latent_dim=2")["wrote"]
    assert as_json("law dmd pod.safetensors data.nc")["wrote"] == ["runs/dmd-data/law.safetensors"]
    found = as_json("rollout data.nc --model pod.safetensors --dynamics law.safetensors")
    errors = [run["nrmse"] for run in found["trajectories"]]
    assert np.allclose(errors, open_dataset("runs/rollout-data/rollout.nc").nrmse.median("time"))
    forecast = "forecast pod.safetensors --dynamics law.safetensors --duration 1 --from data.nc"
    assert as_json(forecast)["sizes"]["time"] == 21
    found = as_json("compare data.nc --methods pod --laws dmd --set latent_dim=2")
    assert found["combinations"][0]["law"] == "dmd"
    assert found["combinations"][0]["parameters"] == 2 * runs.sizes["component"]
    assert as_json("plot data.nc --out a.png")["wrote"] == ["a.png"]
    assert as_json("report data.nc")["wrote"] == ["report-data.html"]


def test_numbers_that_json_lacks_are_null():
    text = facts.format_json(
        {"a": [np.nan, np.inf, 1.0], "b": np.float32(2), "c": np.arange(2), 1: None}
    )
    assert json.loads(text) == {"a": [None, None, 1.0], "b": 2.0, "c": [0, 1], "1": None}


def test_a_quiet_command_writes_and_prints_nothing(runs):
    result = romkit_command("fit pod run*.nc --set latent_dim=2 --quiet")
    assert (result.exit_code, result.stdout) == (0, "")
    assert Path("runs/pod-run/projection.safetensors").is_file()
    assert refusal("fit pod run*.nc --set latent_dim=2 -q").endswith("or add --force")


def test_several_files_and_patterns_are_runs_of_one_dataset(runs):
    names = [f"run{k}.nc" for k in range(5)]
    assert inputs.read_data(names).identical(runs)
    assert "5 of up to 61 samples" in ran("info run*.nc")
    ran("fit pod", *names, "--set latent_dim=2 --out of-files.safetensors")
    ran("fit pod run?.nc --set latent_dim=2 --out of-pattern.safetensors")
    first, second = (romkit.load(f"of-{kind}.safetensors") for kind in ("files", "pattern"))
    x = runs.state.values[0]
    P = [model(speed=0.9) for model in (first, second)]
    assert np.array_equal(P[0](x), P[1](x))
    ran("law dmd of-files.safetensors", *names, "--out dmd.safetensors")
    ran("rollout run1.nc run3.nc --model pod.safetensors --dynamics dmd.safetensors --out here")
    assert open_dataset("here/rollout.nc").speed.values.tolist() == [0.9, 1.1]
    start = "forecast pod.safetensors --dynamics dmd.safetensors --duration 1 --out there"
    ran(start, "--from run*.nc --trajectory 2")
    assert float(open_dataset("there/forecast.nc").speed) == 1.0
    ran("plot run0.nc run1.nc")
    assert {"run0.png", "run1.png"} <= {file.name for file in Path().iterdir()}
    assert "--out" in refusal("plot run0.nc run1.nc --out a.png")
    assert "matches no file" in refusal("fit pod nothing*.nc")


def test_tables_of_several_runs_are_one_dataset(runs):
    for k in range(5):
        columns = {f"a{j}": runs.state.values[k, :, j] for j in range(5)}
        table = xr.Dataset({name: ("time", column) for name, column in columns.items()})
        table = table.assign_coords(time=runs.time).to_dataframe().assign(speed=0.8 + 0.1 * k)
        table.reset_index().to_csv(f"table{k}.csv", index=False)
    ran("check table*.csv --context speed --out tables.nc")
    assert np.allclose(open_dataset("tables.nc").state, runs.state)


def test_training_goes_on_from_a_finished_model(runs):
    settings = "--set layers=2,5 --set batch_size=64 --preset quick"
    ran(f"fit cae run*.nc {settings} --set epochs=2 --out short.safetensors")
    start = "--start short.safetensors --set epochs=3 --out longer.safetensors"
    ran(f"fit cae run*.nc {settings} {start}")
    longer = romkit.load("longer.safetensors")
    short = romkit.load("short.safetensors")
    assert longer.report["losses"][0] < short.report["losses"][0]
    assert "start: expected" in refusal(f"fit cae run*.nc --set layers=2,3,5 {start} --force")


def test_a_basis_is_suggested_for_large_states_and_taken(tmp_path):
    time, speed = np.linspace(0, 3, 21), np.array([1.0, 1.1, 1.2])
    places = np.linspace(0, 2 * np.pi, 600, endpoint=False)
    phase = places - speed[:, None, None] * time[:, None]
    state = sum(np.sin(k * phase) / k for k in (1, 2, 3))
    coords = {"time": time, "speed": ("trajectory", speed, {"role": "context"})}
    variables = {"state": (("trajectory", "time", "component"), state)}
    save_dataset(xr.Dataset(variables, coords), "wide.nc")
    quick = "fit cae wide.nc --set layers=2,4 --set epochs=1 --set batch_size=16"
    result = romkit_command(quick, "--basis 4")
    assert result.exit_code == 0, result.stderr
    assert "hint" not in result.stderr
    assert romkit.load("runs/cae-wide/projection.safetensors").basis.rank == 4
    result = romkit_command("fit cae wide.nc --set layers=2,600 --set epochs=1 --force")
    assert "--basis 64" in result.stderr
    assert "hint" not in romkit_command("fit pod wide.nc --set latent_dim=2").stderr


def test_interrupted_commands_say_what_is_kept(runs, monkeypatch):
    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    for verb in ("fit", "compare", "rollout"):
        monkeypatch.setattr(romkit, verb, interrupted)
    for words, kept in {
        "fit pod run*.nc": "--checkpoint",
        "fit pod run*.nc --checkpoint progress": "progress",
        "compare run*.nc": "runs/compare-run",
        "rollout run*.nc --model pod.safetensors --dynamics law.safetensors": "nothing was written",
    }.items():
        result = romkit_command(words)
        assert result.exit_code == 130
        (line,) = result.stderr.splitlines()
        assert line.startswith("romkit: interrupted; ")
        assert kept in line


def test_a_missing_parameter_is_named_with_its_range():
    line = refusal("rollout lorenz96")
    assert "F is missing: add --F 3.16 (range 3.133 ... 3.193)" in line
    line = refusal("rollout pendulum --l1 0.5 --l3 0.5")
    assert "l2, l4 are missing: add --l2 0.5 (range 0.35 ... 0.65 m) --l4 0.5" in line
    assert "F is missing" in refusal("branches lorenz96")


@pytest.mark.parametrize(
    "words",
    [
        "compare lorenz96 --methods wrong",
        "compare lorenz96 --laws wrong",
        "compare lorenz96 --set wrong=3",
        "fit wrong lorenz96",
        "fit ncae lorenz96 --set wrong=3",
        "fit ncae lorenz96 --preset wrong",
        "fit ncae lorenz96 --device wrong",
        "fit ncae lorenz96 --start wrong",
        "law wrong ncae-lorenz96 lorenz96",
        "law sindy wrong lorenz96",
        "law sindy ncae-lorenz96 lorenz96 --set wrong=3",
        "rollout lorenz96 --F 3.15 --dynamics wrong",
        "rollout lorenz96 --F 3.15 --model wrong",
        "forecast wrong --from lorenz96 --duration 1 --dynamics wrong.safetensors",
        "infer ncae-lorenz96 seen.nc --training lorenz96 --dynamics wrong",
        "infer ncae-lorenz96 seen.nc --training lorenz96 --sensors wrong",
        "branches lorenz96 --F 1,2 --dynamics wrong",
    ],
)
def test_names_are_checked_before_anything_is_simulated(words, monkeypatch):
    def simulated(*arguments, **settings):
        raise AssertionError("simulated")

    states = ("trajectory", "time", "component"), np.zeros((1, 1, 36))
    coords = {"time": [0.0], "component": [f"x{k}" for k in range(36)]}
    save_dataset(xr.Dataset({"state": states}, coords), "seen.nc")
    monkeypatch.setattr(Lorenz96, "simulate", simulated)
    monkeypatch.setitem(SYSTEMS, "lorenz96", Lorenz96)
    before = set(Path().rglob("*"))
    assert "wrong" in refusal(words)
    assert set(Path().rglob("*")) == before


def program(*words, **variables):
    """A process of the command line, by `python -m romkit`."""
    command = [sys.executable, "-m", "romkit", *words]
    environment = os.environ | variables
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_python_runs_the_package():
    result = program("--version")
    assert (result.returncode, result.stderr) == (0, "")
    assert romkit.__version__ in result.stdout


def test_a_command_goes_on_when_its_reader_has_gone():
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe:
        stream = output.closable(pipe)
        print("the first lines", file=stream, flush=True)
        print("more", file=stream, flush=True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk")
def test_a_full_disk_is_told_once():
    with open("/dev/full", "w") as disk:
        stream = output.closable(disk)
        with pytest.raises(OSError, match="No space left"):
            print("a line", file=stream, flush=True)
        # as at the end of the process
        stream.flush()


def test_shells_complete_commands_and_options():
    variables = {"_ROMKIT_COMPLETE": "complete_bash"}
    code = "import sys; from romkit.cli import app; app(prog_name='romkit')"
    for line, word in {"romkit ro": "rollout", "romkit rollout --du": "--duration"}.items():
        environment = (
            os.environ | variables | {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        )
        result = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert word in result.stdout.split(), result.stderr


@pytest.mark.parametrize("ending", [".nc", ".csv"])
def test_parameters_in_the_names_of_files_are_the_context(runs, ending):
    for speed, run in zip(runs.speed.values, runs.state.values, strict=True):
        wave = xr.Dataset({"u": (("time", "x"), run)}, {"time": runs.time.values})
        if ending == ".csv":
            table = wave.u.to_pandas().rename(columns=lambda place: f"u{place}")
            table.to_csv(f"wave_{speed:g}.csv")
        else:
            wave.to_netcdf(f"wave_{speed:g}.nc", engine="h5netcdf")
    pattern = f"wave_{{speed}}{ending}"
    found = as_json(f"check {pattern} --out waves.nc")
    assert np.allclose(found["context"]["speed"], runs.speed)
    assert np.allclose(open_dataset("waves.nc").state, runs.state)
    if ending == ".nc":
        assert as_json(f"info {pattern}")["sizes"]["trajectory"] == 5


def test_refusals_are_in_words_of_the_command():
    names = output.typed_names(output.documented(forecast.forecast))
    assert names["start"] == "--from"
    assert names["model"] == "MODEL"
    words = output.translate_refusal
    assert words("dt: expected a number, got 0; give dt=0.1", names).endswith("give --dt 0.1")
    assert words("duration: expected x, got -1; give duration > 0", names) == (
        "--duration: expected x, got -1; give --duration > 0"
    )
    assert words("F: expected a number, got none; add --F 3.14", names).startswith("F: ")
