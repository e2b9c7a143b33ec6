"""Saved models: the same forecasts, errors, reports and fits as before, or a refusal."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import romkit
from romkit.cli.main import app
from romkit.core.errors import FileError, InputError
from romkit.core.files import LEARNED
from tests.quick import LINEAR, linear_laws_only

TIME = np.linspace(0, 4, 41)


def turning(count=6):
    """Waves that turn at frequencies of their own."""
    frequency = np.linspace(1.0, 2.0, count)
    phase = frequency[:, None, None] * TIME[:, None] - np.arange(5)
    states = np.cos(phase) + 0.1 * np.cos(2 * phase)
    return romkit.data.from_arrays(states, TIME, context={"c": frequency})


def moved(count=6):
    """Runs that a drive of two rhythms moves."""
    size = np.linspace(1.0, 2.0, count)[:, None, None]
    base = np.stack([np.sin(3.1 * TIME) + np.cos(1.3 * TIME), np.cos(1.3 * TIME) ** 2], axis=-1)
    return romkit.data.from_arrays(size**1.5 * base, TIME, context={"c": size.ravel()})


KINDS = {
    "law": (turning, {"kinds": [LINEAR], "seconds": 2.0}),
    "interpolated": (moved, {"seconds": 0.1}),
    "period": (moved, {"period": 2 * np.pi / 3.1, "kinds": [LINEAR], "seconds": 2.0}),
}


@pytest.fixture(scope="module", params=KINDS)
def saved(request, tmp_path_factory):
    make, options = KINDS[request.param]
    with linear_laws_only():
        model = romkit.learn(make(), latent_dim=2, **options)
    folder = tmp_path_factory.mktemp("models") / "saved"
    return model, model.save(folder)


@pytest.mark.usefixtures("blank_pictures")
def test_a_loaded_model_forecasts_and_reports_as_before(saved, tmp_path):
    model, folder = saved
    again = romkit.Learned.load(folder)
    assert repr(again) == repr(model)
    start = model.test.isel(trajectory=0, time=0).state.values
    options = {"initial_state": start, "duration": 3, "dt": 0.1, "c": float(model.test.c[0])}
    expected, loaded = model.forecast(**options), again.forecast(**options)
    for name in expected.data_vars:
        assert np.allclose(loaded[name], expected[name], rtol=1e-12, atol=1e-12)
    for name, errors in model.errors.items():
        assert np.array_equal(again.errors[name], errors)
    texts = [each.report(tmp_path / "report").read_text() for each in (model, again)]
    assert texts[0] == texts[1]


def edited(change):
    """Edit of a list: with the checksum of its content, as a forger makes it."""

    def edit(file):
        content = json.loads(file.read_text())
        del content["sha256"]
        change(content)
        content["sha256"] = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        file.write_text(json.dumps(content))

    return edit


EDITS = {
    "of an error": lambda file: file.write_text(
        file.read_text().replace('"seconds": ', '"seconds": 1')
    ),
    "without checksums": lambda file: file.write_text('{"files": {}}'),
    "of other facts": edited(lambda content: content.pop("errors")),
    "escape codes": edited(lambda content: content.update(held_out="\x1b[2J")),
    "escape codes in a key": edited(lambda content: content["errors"].update({"\x1b[2J": [1.0]})),
    "files elsewhere": edited(lambda content: content["files"].update({"../a": ""})),
    "no text": lambda file: file.write_bytes(b"\xff\xfe"),
    "too deep": lambda file: file.write_text("[" * 100_000),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_lists_that_were_edited_are_refused(saved, tmp_path, edit):
    folder = shutil.copytree(saved[1], tmp_path / "edited")
    edit(folder / LEARNED)
    with pytest.raises(FileError):
        romkit.Learned.load(folder)


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_save_that_is_cut_keeps_the_earlier_model(saved, tmp_path, monkeypatch, failure):
    model, _ = saved
    folder = model.save(tmp_path / "model")
    before = sorted(folder.rglob("*"))
    of_interest = replace(model, seconds=1.5)

    def cut(*_):
        raise failure

    monkeypatch.setattr("romkit.learning.saved.write_list", cut)
    with pytest.raises((KeyboardInterrupt, FileError)):
        of_interest.save(folder)
    assert sorted(folder.rglob("*")) == before
    assert romkit.Learned.load(folder).seconds == model.seconds


@pytest.mark.parametrize("moved", [1, 5])
def test_a_save_that_is_killed_while_files_move_is_completed(saved, tmp_path, monkeypatch, moved):
    model, _ = saved
    folder = model.save(tmp_path / "model")
    explain_missing_bars = replace(model, seconds=1.5, calibration=None)
    (folder / "notes.txt").write_text("of the user")
    move = Path.replace
    moves = []

    def killed(file, target):
        moves.append(target)
        if len(moves) > count:
            raise KeyboardInterrupt
        return move(file, target)

    def whole(moves):
        return next(number for number, target in enumerate(moves, 1) if target.name == "whole.tmp")

    with monkeypatch.context() as patch:
        count = np.inf
        patch.setattr(Path, "replace", killed)
        explain_missing_bars.save(tmp_path / "counted")
    # the save is complete; so many of its files are in their places
    count = whole(moves) + moved
    moves.clear()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            explain_missing_bars.save(folder)
    again = romkit.Learned.load(folder)
    assert (again.seconds, again.calibration) == (1.5, None)
    assert not list(folder.rglob("*.tmp"))
    assert (folder / "notes.txt").exists()


@pytest.mark.parametrize("damage", ["missing", "changed", "no list"])
def test_folders_that_are_not_whole_are_refused(saved, tmp_path, damage):
    folder = shutil.copytree(saved[1], tmp_path / "damaged")
    match damage:
        case "missing":
            (folder / "train.nc").unlink()
        case "changed":
            (folder / "law.safetensors").write_bytes(b"0" * 100)
        case "no list":
            (folder / LEARNED).unlink()
    with pytest.raises(FileError):
        romkit.Learned.load(folder)


def test_romkit_load_names_the_way_to_a_folder(saved):
    with pytest.raises(FileError, match=r"Learned\.load"):
        romkit.load(saved[1])


def by_command_line(folder, start, *options):
    """Forecast of a command, from the tenth sample of a dataset."""
    romkit.data.save_dataset(start, "start.nc")
    command = ["forecast", str(folder), "--from", "start.nc", "--at", "10", "--duration", "2"]
    return CliRunner().invoke(app, [*command, *options, "--out", "here"])


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize("begin", [0, 5])
def test_the_command_line_forecasts_with_the_folder(saved, tmp_path, monkeypatch, begin):
    """From runs as a user has them, without the inputs of a rhythm; also from a later part."""
    model, folder = saved
    monkeypatch.chdir(tmp_path)
    runs = model.test.drop_vars(("control", "input"), errors="ignore")
    result = by_command_line(folder, runs.isel(time=slice(begin, None)))
    assert result.exit_code == 0, result.output
    run = romkit.data.open_dataset("here/forecast.nc")
    options = {"initial_state": model.test.state[0, begin + 10], "duration": 2, "dt": 0.1}
    if model.interpolated is not None or model.period is not None:
        options["start"] = TIME[begin + 10]
    expected = model.forecast(**options, c=float(model.test.c[0]))
    for name in expected.data_vars:
        assert np.allclose(run[name], expected[name], rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("blank_pictures")
def test_the_command_line_takes_a_level_where_there_are_bars(saved, tmp_path, monkeypatch):
    model, folder = saved
    monkeypatch.chdir(tmp_path)
    runs = model.test.drop_vars(("control", "input"), errors="ignore")
    result = by_command_line(folder, runs, "--level", "0.5")
    has_bars = model.interpolated is not None or model.calibration is not None
    assert (result.exit_code == 0) == has_bars, result.output


def test_settings_that_a_file_cannot_name_are_refused(tmp_path):
    class Own(type(LINEAR)):
        """A law of a user."""

    model = romkit.learn(turning(), latent_dim=2, kinds=[LINEAR], seconds=2.0)
    settings = Own(**vars(LINEAR))
    with pytest.raises(InputError, match="kinds"):
        replace(model, settings=settings).save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
