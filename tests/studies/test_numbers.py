"""Numbers of a study: their archive is JSON, and tasks whose numbers it has are not computed again; smoke presets."""

import pytest

from romkit.core import runtime
from romkit.tasks import run
from studies.runner import Numbers, Study, merge, numbers


def roots(of):
    return {"root": of**0.5, "of": of}


TASKS = [Numbers.of("root, of 4", roots, of=4), Numbers.of("root, of 9", roots, of=9)]


def test_numbers_are_archived_by_title_and_not_computed_again(tmp_path, monkeypatch):
    folder, archive = tmp_path / "full", tmp_path / "full.json"
    monkeypatch.setattr(Study, "tasks", lambda study, preset: TASKS)
    monkeypatch.setattr("studies.wake.report.page", lambda found: ", ".join(found))
    assert run(TASKS, folder, only="4").complete == ["root-of-4"]
    assert merge(folder, archive) == ["root-of-4"]
    assert numbers(tmp_path / "full")["root, of 4"] | {"versions": 0} == {"root": 2.0, "of": 4, "versions": 0} | {
        "device": runtime.device_name("cpu")
    }
    (folder / "root-of-4.nc").unlink()
    sweep = Study("wake").run("full", tmp_path)
    assert (sweep.skipped, sweep.complete) == (["root-of-4"], ["root-of-9"])
    assert (tmp_path / "RESULTS.md").read_text() == "root, of 4, root, of 9"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exactness", "large", "pretrained", "wake"])
def test_the_smoke_preset_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sweep = Study(name).run("smoke", tmp_path)
    assert sweep.complete
    assert not sweep.failed
