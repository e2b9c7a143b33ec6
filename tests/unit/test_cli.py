"""The command line: what it prints and writes, and how it refuses: one line, exit code 2, no
traceback.
"""

import base64
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import romkit
from romkit.cli import app, facts, inputs
from romkit.core.runtime import bars
from romkit.data import open_dataset, save_dataset
from romkit.systems import SYSTEMS, Lorenz96

COMMAND = typer.main.get_command(app)
COMMANDS = COMMAND.commands


@pytest.fixture(scope="module")
def files(projection, lorenz_data, tmp_path_factory):
    """A folder with a dataset, a model, a law, a basis and a run."""
    folder = tmp_path_factory.mktemp("files")
    law = romkit.laws.SINDy(degree=5, threshold=0.001, refine=False).fit(projection, lorenz_data)
    things = {"m": projection, "law": law, "basis": romkit.basis(lorenz_data, 3)}
    for name, thing in things.items():
        romkit.save(thing, folder / f"{name}.safetensors")
    save_dataset(lorenz_data, folder / "data.nc")
    save_dataset(lorenz_data.isel(time=[0]), folder / "seen.nc")
    known = Lorenz96(transient=1.0).dataset(F=[3.14, 3.15, 3.16, 3.18], duration=0.05)
    save_dataset(known, folder / "known.nc")
    save_dataset(lorenz_data.assign(state=lorenz_data.state * 0 + 0.5), folder / "rest.nc")
    save_dataset(lorenz_data.rename(state="u", trajectory="run"), folder / "raw.nc")
    run = romkit.rollout(lorenz_data.isel(time=slice(3)), projection)
    save_dataset(run, folder / "run.nc")
    save_dataset(run.isel(trajectory=0), folder / "one.nc")
    (folder / "folder.nc").mkdir()
    return folder


@pytest.fixture(autouse=True)
def _here(files, monkeypatch, tmp_path):
    """Lorenz96 with a short transient, and a new folder with links to the files."""
    quick = {"transient": 2.0, "duration": 0.5, "horizon": 1.0}
    monkeypatch.setitem(SYSTEMS, "lorenz96", lambda **given: Lorenz96(**quick | given))
    monkeypatch.chdir(tmp_path)
    for file in files.iterdir():
        Path(file.name).symlink_to(file)


def romkit_command(*words, split=True):
    """Result of a command in this process; words with spaces are several, unless they must not be
    split.
    """
    words = [part for word in words for part in str(word).split()] if split else words
    with patch("typer.testing._get_command", lambda app: COMMAND):  # once is enough
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


@pytest.mark.usefixtures("blank_pictures")
def test_rollout_prints_errors_and_writes_run_and_picture():
    text = ran(
        "rollout --F=3.14,3.15 --dt 0.02 lorenz96 --dynamics petrov-galerkin --duration 0.2 --model m.safetensors"
    )
    words = ("3.14", "3.15", "nrmse", "valid for", "diverged", "idempotency error", "cost")
    written = [f"wrote runs/rollout-lorenz96/rollout.{ending}" for ending in ("nc", "png")]
    assert not [word for word in (*words, *written) if word not in text]
    run = open_dataset("runs/rollout-lorenz96/rollout.nc")
    assert (run.F.values.tolist(), run.attrs["dynamics"]) == ([3.14, 3.15], "PetrovGalerkin")
    assert run.time.values[[1, -1]] == pytest.approx([0.02, 0.2])
    assert Path("runs/rollout-lorenz96/rollout.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize(
    ("run", "model"), [("lorenz96 --F 3.15", "ncae"), ("kuramoto-sivashinsky --L 16", "flow")]
)
def test_the_default_model_is_the_one_that_ships(run, model):
    ran("rollout", run, "--duration 0.1 --out here/and/there")
    assert open_dataset("here/and/there/rollout.nc").attrs["projection"] == model


def test_dataset_writes_what_python_makes():
    assert "wrote mine.nc" in ran("dataset lorenz96 --F 3.14,3.15 --duration 0.2 --out mine.nc")
    same = Lorenz96(transient=2.0).dataset(F=[3.14, 3.15], duration=0.2)
    assert (open_dataset("mine.nc").state.values == same.state.values).all()
    ran("dataset lorenz96 --duration 0.1 --seed 3")
    attrs = open_dataset("runs/lorenz96-train/data.nc").attrs
    assert (attrs["split"], attrs["seed"]) == ("train", 3)


@pytest.mark.usefixtures("blank_pictures")
def test_fit_takes_a_file_with_settings_or_the_training_set_of_a_system():
    settings = (
        "--seed 7 --set epochs=1 --set batch_size=64 --set layers=3,12,36 --set optimizer=adam"
    )
    ran("fit ncae data.nc", settings, "--out my.safetensors")
    projection = romkit.load("my.safetensors")
    assert projection.latent_dim == 3
    assert projection.report["seed"] == 7
    assert projection.report["recipe"]["snapshots"]["batch_size"] == 64
    assert Path("my.png").is_file()
    ran("fit pod lorenz96")
    assert (
        romkit.load("runs/pod-lorenz96/projection.safetensors").report["data"]["split"] == "train"
    )
    assert not Path("runs/pod-lorenz96/projection.png").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "",
            [
                *SYSTEMS,
                *romkit.projections.METHODS,
                *romkit.integrators.DYNAMICS,
                *romkit.presets.PRESETS,
            ],
        ),
        ("", ["F in [3.133, 3.193]", "l1 in [0.35, 0.65] m"]),
        ("lorenz96", ["indices modulo n"]),
        ("ncae", ["bandwidth", "epochs", "rollouts.steps", "quick"]),
        ("sindy", ["threshold", "0.1", "STLSQ"]),
        ("lspg", ["dt"]),
        ("m.safetensors", ["36 state components"]),
        ("data.nc", ["F  3.14, 3.15, 3.18"]),
        ("basis.safetensors", ["energy left out"]),
    ],
)
def test_info_describes_everything_by_name(name, words):
    text = ran("info", name)
    assert not [word for word in words if word not in text]


def test_descriptions_of_contexts_of_whole_numbers_and_of_a_single_sample(lorenz_data, projection):
    labels = ("trajectory", [0, 1, 2], {"role": "label"})
    data = lorenz_data.assign_coords(Re=("trajectory", [50, 100, 150]), run=labels)
    assert list(facts.data_facts(data)["context"]) == ["F", "Re"]
    run = facts.run_facts(romkit.rollout(lorenz_data.isel(time=[0]), projection))
    assert [row["F"].value for row in run["trajectories"]] == lorenz_data.F.values.tolist()
    assert run["cost"]["reduced model"]["seconds_computing"] > 0


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"study"}))
def test_help_has_an_example(command):
    assert f"romkit {command}" in ran(command, "--help").partition("Examples:")[2]


MODEL = "rollout lorenz96 --F 3.15 --model m.safetensors"
OWN = "rollout data.nc --model m.safetensors"
REFUSALS = {
    "frobnicate": "No such command",
    "rollout lorenz69 --F 3.15": "did you mean 'lorenz96'?",
    "rollout lorenz96": "F is missing: add --F 3.16",
    "rollout lorenz96 --F": "--F: expected a number",
    "rollout lorenz96 --F nan": "expected finite numbers",
    "rollout lorenz96 --G 3.15": "did you mean '--F'?",
    "rollout lorenz96 --F 3.15 --duraton 5": "did you mean '--duration'?",
    "rollout lorenz96 --F 3.15 --dynamics galerkn": "did you mean 'galerkin'?",
    "rollout lorenz96 --F 3.15 --model nowhere.safetensors": "no such file",
    "rollout --F 3.15": "Missing argument 'SYSTEM'",
    "rollout pendulum --l1 1 --l2 1 --l3 1 --l4 1 --model m.safetensors": "projection of this system",
    "rollout data.nc --model law.safetensors": "holds a law, not a projection",
    f"{MODEL} --duration 1e13": "memory",
    f"{OWN} --dynamics basis.safetensors": "holds a basis, not a law",
    f"{OWN} --dynamics m.safetensors": "holds a projection, not a law",
    f"{OWN} --dynamics law.safetensors --duration 3": "expected nothing beside a dataset",
    f"{OWN} --F 3": "option: expected one of",
    "dataset lorenz96 --split trian": "did you mean 'train'?",
    "dataset lorenz96 --split test --F 3.15": "a split or contexts by name",
    "dataset lorenz96 --out folder.nc": "folder.nc: is a folder",
    "dataset lorenz96 --F 3.1 --out data.nc": "data.nc: is there, from an earlier run",
    "fit ncea lorenz96": "did you mean 'ncae'?",
    "fit ncae lorenz96 --preset slow": "preset: ",
    "fit ncae lorenz96 --set epochs": "expected name=value",
    "fit cae data.nc --set layers=2,4 --set epoch=3": "did you mean 'epochs'",
    "fit cae data.nc --set layers=2,36 --checkpoint data.nc": "data.nc: cannot be written to",
    "fit cae data.nc --set layers=(2,60,200)": "layers: expected sizes",
    "fit cae data.nc --set seeds=[]": "seeds: expected a list",
    "fit cae data.nc --seed 99999999999999999999999": "seed: expected an integer",
    "law sindy m.safetensors data.nc --set degree=three": "degree: expected an integer",
    "law sindy m.safetensors data.nc --set degree=60": "at least 3782 samples, one per candidate term",
    "law sindy m.safetensors data.nc --set library=cubic": "library: expected a Library",
    "law sindy m.safetensors data.nc --members 1": "members: expected",
    "law auto m.safetensors data.nc --set degree=2": "--set: expected nothing beside auto",
    "law auto m.safetensors data.nc --seconds 0": "seconds: expected a positive number",
    "forecast m.safetensors --dynamics law.safetensors --from data.nc --duration 1e13": "memory",
    "forecast m.safetensors --dynamics law.safetensors --from raw.nc --duration 1": "or `romkit check FILE --state",
    "forecast m.safetensors --dynamics law.safetensors --from data.nc --duration 1 --device gpu": "device: expected",
    "forecast m.safetensors --dynamics law.safetensors --from data.nc --duration 1 --level 0.5": "--level: ",
    "infer m.safetensors raw.nc --training lorenz96": "or `romkit check FILE --out NEW`",
    "infer m.safetensors seen.nc --training data.nc": "training: expected 4 constant contexts or more",
    "infer m.safetensors seen.nc --training lorenz96 --noise 0": "noise: expected a positive number",
    "infer m.safetensors seen.nc --training lorenz96 --sensors x99": "sensors: expected one of x0",
    "compare data.nc --workers -1": "workers: expected an integer >= 1",
    "explore data.nc": "is not a complete safetensors file",
    "explore m.safetensors --port 99999999": "less than or equal to 65535",
}
"""Command lines, and a part of the line that refuses each."""
NOT_BY_SET = ("seed=3", "method=cae", "data=a", "checkpoint=a", "device=cpu", "system=lorenz96")
REFUSALS |= {
    f"fit cae data.nc --set {setting}": "--set: expected a setting" for setting in NOT_BY_SET
}


@pytest.mark.parametrize("words", REFUSALS)
def test_bad_input_is_one_line_and_leaves_no_file_or_folder(words):
    before = set(Path().rglob("*"))
    assert REFUSALS[words] in refusal(words)
    assert set(Path().rglob("*")) <= before


def test_a_parameter_that_is_called_like_an_option_has_a_prefix():
    t = np.linspace(0, 1, 30)
    rates = [1.0, 1.5, 2.0]
    runs = np.stack([np.exp(-rate * t) for rate in rates])[..., None]
    data = romkit.data.from_arrays(runs, t, context={"dt": rates})
    save_dataset(data, "decay.nc")
    projection = romkit.fit("identity", data)
    romkit.save(projection, "decay.safetensors")
    law = romkit.laws.PolynomialLaw(degree=1).fit(projection, data)
    romkit.save(law, "rate.safetensors")
    command = "forecast decay.safetensors --dynamics rate.safetensors --from decay.nc --duration 1"
    assert "--context.dt" in refusal(command, "--dt 0.1")
    ran(command, "--context.dt 1.2 --dt 0.1 --out here")
    forecast = open_dataset("here/forecast.nc")
    assert float(forecast.dt) == 1.2
    last = forecast.state.values.ravel()[-1]
    assert last == pytest.approx(np.exp(-1.2), rel=1e-3)


BAD = ("", "nan", "-1", "9" * 23, "a\x1b[31mb", "x" * 5000, "/proc/nowhere/a", "a=b")
"""Texts that few options take."""
VALID = {
    "rollout": "lorenz96 --F 3.15 --model m.safetensors --duration 0.05 --force",
    "fit": "pod data.nc --set latent_dim=2 --force",
    "law": "dmd m.safetensors data.nc --force",
    "dataset": "lorenz96 --F 3.15 --force",
    "info": "m.safetensors",
    "check": "data.nc",
    "learn": "known.nc --latent-dim 1 --kinds dmd --force",
    "forecast": "m.safetensors --from data.nc --duration 0.05 --dynamics law.safetensors --force",
    "branches": "lorenz96 --F 0.5,0.6 --from rest.nc --points 2 --force",
    "infer": "m.safetensors seen.nc --training known.nc --noise 0.1 --force",
    "compare": "lorenz96 --methods pod --laws dmd --set latent_dim=2",
    "plot": "run.nc",
    "report": "run.nc",
}


def attempts(command):
    """A valid command with one option or argument changed; an option by every third text."""
    valid = VALID[command].split()
    first = next((k for k, word in enumerate(valid) if word.startswith("--")), len(valid))
    own = [
        p
        for p in COMMANDS[command].params
        if not getattr(p, "is_flag", False) and p.name != "workers"
    ]
    options = [option for p in own for option in p.opts if option.startswith("--")]
    for number, text in enumerate(BAD):
        yield from ([*valid[:k], text, *valid[k + 1 :]] for k in range(first))
        yield from ([*valid, option, text] for option in options[number % 3 :: 3])


def fault(words):
    """Whatever a command does that is neither its job nor a refusal in one line."""
    try:
        with bars(False):  # a busy machine would show one
            result = romkit_command(*words, split=False)
    except Exception as error:
        return f"{type(error).__name__}: {error!s:.200}"
    lines = result.stderr.splitlines()
    refused = len(lines) == 1 and lines[0].startswith("romkit: ") and lines[0].isprintable()
    return (
        ""
        if result.exit_code == 0 or (result.exit_code == 2 and refused)
        else f"{result.exit_code} {lines}"
    )


def remembered(verb):
    """A verb that computes once for the same arguments, whatever is done with the result."""
    results = {}

    def call(*given, **settings):
        key = repr((given, settings))
        if key not in results:
            results[key] = verb(*given, **settings)
        return results[key]

    return call


VERBS = ("fit", "rollout", "law", "forecast", "continuation", "infer", "learn", "load")


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"explore", "study"}))
def test_nothing_that_is_typed_ends_in_a_traceback(command, monkeypatch):
    for name in VERBS:  # most texts change where a result goes, or are refused
        monkeypatch.setattr(romkit, name, remembered(getattr(romkit, name)))
    monkeypatch.setattr(inputs, "read_files", remembered(inputs.read_files))
    ran(command, VALID[command])
    found = {" ".join(words)[:200]: fault([command, *words]) for words in attempts(command)}
    assert not {words: wrong[:300] for words, wrong in found.items() if wrong}


def test_interruption_ends_with_130(monkeypatch):
    def interrupted(*args, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(romkit, "rollout", interrupted)
    assert romkit_command(MODEL).exit_code == 130


def test_the_installed_command_keeps_stdout_clean():
    command = [Path(sys.executable).parent / "romkit", "info", "nowhere.nc"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("romkit: nowhere.nc: no such file")
    assert result.stderr.count("\n") == 1


def test_help_comes_without_the_packages_that_are_slow_to_import():
    code = "import sys, romkit.cli; assert not {'torch', 'xarray', 'matplotlib', 'scipy'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_auto_takes_the_best_law_and_prints_what_was_tried(monkeypatch):
    # a network takes seconds, here as on data of its own
    monkeypatch.setattr("romkit.verbs.law.KINDS", ("polynomial", "limit-cycle"))
    printed = ran("law auto m.safetensors data.nc --seconds 0.2 --out auto.safetensors")
    assert "tried polynomial" in printed
    assert "error nan" not in printed  # of a kind that was not tried, the reason
    assert "wrote auto.safetensors" in printed


@pytest.mark.usefixtures("blank_pictures")
def test_law_fits_and_rollout_and_info_read_it(lorenz_data):
    printed = ran(
        "law sindy m.safetensors data.nc --set degree=1 --set threshold=0.001 --out own.safetensors"
    )
    assert "wrote own.safetensors" in printed
    text = ran("info own.safetensors")
    assert text == printed.partition("\n\nwrote")[0] + "\n"
    for words in ("residual", "context  F", "encoded data", "samples"):
        assert words in text
    own = lorenz_data[["state", "velocity"]]
    own.attrs = {}  # measurements, without a system that romkit knows
    save_dataset(own, "own.nc")
    for source in ("lorenz96 --F 3.15 --duration 0.1", "data.nc", "own.nc"):
        text = ran(
            "rollout", source, "--dynamics own.safetensors --out run --force --model m.safetensors"
        )
        assert ("full model" in text) == ("--F" in source)
        assert open_dataset("run/rollout.nc").attrs["dynamics"] == "Equation"


OUTSIDE = re.compile(r"(?:src|href)=\"(?!data:)|<script|@import|url\(")


REPORTS = {
    "run.nc": ("nrmse", "attributes", "<img"),
    "one.nc": ("nrmse", "attributes", "<img"),
    "data.nc": ("trajectory", "attributes", "lorenz96"),
    "m.safetensors": ("ncae", "<img", "torch"),
    "law.safetensors": ("Equation", "residual"),
    "basis.safetensors": ("modes", "energy left out"),
    "ncae-lorenz96": ("ncae", "recipe"),
}


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize("name", REPORTS)
def test_everything_has_a_report_that_stands_alone(name):
    ran("report", name, "--out page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    assert not [word for word in REPORTS[name] if word not in page]
    assert not OUTSIDE.search(page)


def test_text_of_a_file_is_not_markup(lorenz_data):
    notes = {"note": "<script>alert(1)</script>", "other": "| [a](b) *c*"}
    Path("lorenz").mkdir()
    save_dataset(lorenz_data.assign_attrs(notes), "lorenz/data.nc")
    ran("report lorenz/data.nc")
    page = Path("report-lorenz.html").read_text(
        encoding="utf-8"
    )  # data.nc is what commands call every dataset
    assert "&lt;script&gt;" in page
    assert "<td>| [a](b) *c*</td>" in page
    assert "<script" not in page


@pytest.mark.parametrize("words", ["run.nc", "data.nc --out drawn.svg", "one.nc"])
def test_plot_draws_what_a_file_holds(words):
    said, picture = ran(f"plot {words}").split()
    assert said == "wrote"
    assert Path(picture).stat().st_size > 1000
    assert "expected" in refusal("plot data.nc --variable nothing")


def test_the_report_of_a_study_is_one_page_with_its_pictures():
    Path("results").mkdir()
    Path("results/curve.png").write_bytes(b"not really a picture")
    text = "# How far\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n![a curve](curve.png) [more](elsewhere.md) <script>\n"
    Path("results/REPORT.md").write_text(text)
    ran("report results/REPORT.md --out page.html")
    page, picture = (
        Path("page.html").read_text(encoding="utf-8"),
        base64.b64encode(b"not really a picture").decode(),
    )
    assert all(
        part in page
        for part in ("<title>How far</title>", "<h1>How far</h1>", "<td>2</td>", picture)
    )
    assert not OUTSIDE.search(page)
    Path("results/curve.png").unlink()
    assert "curve.png: no such file" in refusal("report results/REPORT.md --out other.html")
    assert not Path("other.html").exists()


@pytest.mark.parametrize(
    "place", ["../secret.png", "{here}/secret.png", "link.png", "notes.txt", "..%2Fsecret.png"]
)
def test_a_report_shows_pictures_below_its_folder_alone(place):
    """The page goes to others, and the report may come from a stranger."""
    Path("results").mkdir()
    for name in ("secret.png", "results/notes.txt"):
        Path(name).write_text("PRIVATE KEY")
    Path("results/link.png").symlink_to(Path("secret.png").absolute())
    Path("results/REPORT.md").write_text(f"![a]({place.format(here=Path.cwd())})\n")
    assert "no picture below" in refusal("report results/REPORT.md --out page.html") or (
        place.startswith("..%")  # a name like any other
    )
    assert not Path("page.html").exists()


@pytest.mark.parametrize("name", ["module.txt", "module", "data.nc"])
def test_a_file_to_import_may_have_any_name_and_has_to_be_python(name):
    Path(name).write_text("x = 1\n")
    ran(f"--import {name} info lorenz96")
    Path(name).write_bytes(b"\x89HDF\x00")
    assert "cannot be imported" in refusal(f"--import {name} info lorenz96")


def test_info_of_a_missing_file_is_told_at_once():
    assert "no such file" in refusal("info nowhere.nc")
