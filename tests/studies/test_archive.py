"""Archives: the results of a folder in one file, which takes its place."""

import json
import sys
from dataclasses import replace
from functools import partial
from typing import ClassVar

import h5py
import pytest
import xarray as xr
from typer.testing import CliRunner

from romkit import tasks
from romkit.certificates import gains
from romkit.core import runtime
from romkit.core.errors import FileError
from romkit.data import open_dataset
from romkit.laws import SINDy
from romkit.systems import CylinderWake
from studies.__main__ import app
from studies.large import run, sampled
from studies.large.measuring import seconds
from studies.runner import Numbers, Study, archived_keys, merge, numbers, read, rekey
from studies.wake import reduced
from studies.wake import tasks as wake
from studies.wake.stability import full_growth
from tests.refusals import refused
from tests.studies.sweeps import Raised, Seeded

TASKS = [Seeded(seed, size=20) for seed in range(3)]


class Renamed(Seeded):
    """The same results under another key."""

    resolved: ClassVar[dict[str, object]] = {"recipe": {"epochs": 2}}


@pytest.fixture
def folder(tmp_path):
    """Of a sweep, empty but for its archive."""
    tasks.run(TASKS, tmp_path / "loose")
    merge(tmp_path / "loose", tmp_path / "quick.nc")
    return tmp_path / "quick"


def test_an_archive_has_the_same_results_bit_for_bit_and_their_records(folder):
    for task, data in zip(TASKS, read(folder), strict=True):
        alone = open_dataset(folder.with_name("loose") / f"{task.name}.nc")
        record = json.loads((folder.with_name("loose") / f"{task.name}.json").read_text())
        assert json.loads(data.attrs.pop("record")) == record
        assert data.identical(alone)
        assert list(data.variables) == list(alone.variables)
        assert all(
            data[name].values.tobytes() == alone[name].values.tobytes() for name in alone.variables
        )


def test_what_is_archived_is_complete_and_a_task_that_changed_replaces_its_result(folder):
    changed, more = replace(TASKS[1], size=19), Seeded(7, size=20)
    result = tasks.run([TASKS[0], changed, more], folder, known=archived_keys(folder))
    assert (result.skipped, result.complete) == (["seeded-0"], ["seeded-1", "seeded-7"])
    assert {file.name for file in folder.glob("*.*")} >= {"seeded-7.nc", "seeded-7.json"}
    assert {data.attrs["task"]: data.sizes["row"] for data in read(folder)} == {
        "seeded-0": 20,
        "seeded-1": 19,
        "seeded-2": 20,
        "seeded-7": 20,
    }
    assert merge(folder, folder.with_suffix(".nc")) == ["seeded-1", "seeded-7"]
    assert archived_keys(folder)["seeded-1"] == changed.key
    assert len(archived_keys(folder)) == 4


def test_a_truncated_archive_is_refused_and_other_programs_read_a_whole_one(folder):
    archive = folder.with_suffix(".nc")
    with xr.open_dataset(archive, group="seeded-0", engine="h5netcdf") as data:
        xr.testing.assert_equal(data.load(), read(folder)[0])
    archive.write_bytes(archive.read_bytes()[:5000])
    for use in (archived_keys, read):
        with pytest.raises(FileError, match="cannot be read as an archive"):
            use(folder)
    refused("folder", merge, folder, archive)


def test_keys_are_renewed_where_the_settings_are_the_same_and_that_is_noted(folder):
    archive = folder.with_suffix(".nc")
    renamed = [Renamed(task.seed, task.size) for task in TASKS]
    refused("got 3 others", rekey, archive, renamed)
    assert rekey(archive, renamed, vouch=True) == [task.name for task in TASKS]
    assert tasks.run(renamed, folder, known=archived_keys(folder)).complete == []
    with h5py.File(archive) as file:
        assert "Keys were renewed" in file.attrs["keys"]
    before = json.loads(read(folder)[0].attrs["computed_as"])
    assert (before["key"], json.loads(before["resolved"])) == (TASKS[0].key, {})
    assert rekey(archive, renamed) == []
    rekey(archive, TASKS, vouch=True)
    assert json.loads(read(folder)[0].attrs["computed_as"]) == before
    refused("got 1 others.* seeded-2", rekey, archive, TASKS[:2], vouch=True)
    raised = [Raised(task.seed, task.size) for task in TASKS]
    refused("present settings", rekey, archive, raised)


def test_the_commands_say_what_they_did_and_refuse_in_one_line(folder):
    loose, archive = folder.with_name("loose"), folder.with_suffix(".nc")
    result = CliRunner().invoke(app, ["archive", str(loose), str(archive)])
    assert (result.exit_code, result.stdout) == (0, f"3 results are now in {archive}\n")
    for words in (["archive", str(folder), str(archive)], ["rekey", "papr", "quick", str(archive)]):
        result = CliRunner().invoke(app, words)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    result = CliRunner().invoke(app, ["rekey", "paper", "smoke", str(archive)])
    assert "expected results of tasks of this preset, got 3 others" in result.stderr


def roots(of):
    return {"root": of**0.5, "of": of}


def test_numbers_are_archived_by_title_and_not_computed_again(tmp_path, monkeypatch):
    planned = [Numbers.of(f"root, of {number}", roots, of=number) for number in (4, 9)]
    folder, archive = tmp_path / "full", tmp_path / "full.json"
    monkeypatch.setattr(Study, "tasks", lambda study, preset: planned)
    monkeypatch.setattr("studies.wake.report.page", lambda found: ", ".join(found))
    monkeypatch.setattr("studies.wake.report.draw", lambda found: {})
    assert tasks.run(planned, folder, only="4").complete == ["root-of-4"]
    assert merge(folder, archive) == ["root-of-4"]
    assert numbers(folder)["root, of 4"] | {"versions": 0, "sources": 0} == {
        "root": 2.0,
        "of": 4,
        "versions": 0,
        "sources": 0,
    } | {"device": runtime.device_name("cpu")}
    (folder / "root-of-4.nc").unlink()
    sweep = Study("wake").run("full", tmp_path)
    assert (sweep.skipped, sweep.complete) == (["root-of-4"], ["root-of-9"])
    assert (tmp_path / "RESULTS.md").read_text() == "root, of 4, root, of 9"


@pytest.fixture
def short_runs(monkeypatch):
    """Runs of the wake as long as three periods need, one number of its modes, and the coarse mesh;
    bounds that are valid, and larger; one call for each timing of large states, and one value of
    each range that is sampled.
    """
    monkeypatch.setattr(gains, "CUTS", 2)
    monkeypatch.setattr(sys.modules["romkit.certificates.certify"], "STEPS", 5)
    monkeypatch.setattr(reduced, "LAST", 100)
    monkeypatch.setattr(reduced, "LENGTH", 2.0)
    monkeypatch.setattr(reduced, "TIMINGS", 1)
    monkeypatch.setattr(reduced, "CylinderWake", partial(CylinderWake, duration=2.0))
    monkeypatch.setattr(wake, "RANK", 16)
    monkeypatch.setattr(wake, "full_growth", partial(full_growth, mesh="coarse"))
    for timed in (run, sampled):
        monkeypatch.setattr(timed, "seconds", lambda call, repeats=1: seconds(call, 1))
    for values in ("TOLERANCES", "SHARES", "CONTEXTS"):
        monkeypatch.setattr(sampled, values, getattr(sampled, values)[-1:])


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize("name", ["exactness", "large", "pretrained", "wake"])
def test_the_smoke_preset_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SINDy, "SHARES", (0.01, 0.0))
    sweep = Study(name).run("smoke", tmp_path)
    assert sweep.complete
    assert not sweep.failed
