"""Committed results and pages: results are those of the present tasks, and pages those of the
results.
"""

import importlib
import json
from pathlib import Path

import pytest

from studies import answered
from studies.paper import tables
from studies.paper.figures import FIGURES
from studies.paper.report import page as paper_page
from studies.runner import archived_keys, discover

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RESULTS = {
    name: ROOT / "studies" / name / "results" for name in ("exactness", "paper", "rollout_drift")
}
PAGES = [
    ("benchmarks.basis.report", "results.json", "RESULTS.md"),
    ("benchmarks.export.report", "results.json", "RESULTS.md"),
    ("benchmarks.optimizers.report", "results.json", "RESULTS.md"),
    ("benchmarks.rollout.report", "results.json", "RESULTS.md"),
    ("benchmarks.rollout.report", "results-cuda.json", "RESULTS-cuda.md"),
    ("benchmarks.sindy.report", "results.json", "RESULTS.md"),
    ("benchmarks.training.report", "results.json", "RESULTS.md"),
    ("studies.estimates.report", "full.json", "RESULTS.md"),
    ("studies.first_afternoon.report", "full.json", "RESULTS.md"),
    ("studies.first_afternoon.bars", "bars.json", "BARS.md"),
    ("studies.hidden_contexts.report", "full.json", "RESULTS.md"),
    ("studies.inference.report", "full.json", "RESULTS.md"),
    ("studies.large.report", "full.json", "RESULTS.md"),
    ("studies.large.report", "sampled.json", "SAMPLED.md"),
    ("studies.pretrained.report", "full.json", "RESULTS.md"),
    ("studies.phase.report", "full.json", "RESULTS.md"),
    ("studies.regimes.report", "full.json", "RESULTS.md"),
    ("studies.public_data.report", "full.json", "RESULTS.md"),
    ("studies.sampling.report", "full.json", "RESULTS.md"),
    ("studies.symmetry.report", "full.json", "RESULTS.md"),
    ("studies.wake.report", "full.json", "RESULTS.md"),
]
WRITERS = {"SAMPLED.md": "sampled"}


@pytest.mark.parametrize(("module", "results", "page"), PAGES)
def test_a_page_is_that_of_its_results(module, results, page):
    folder = ROOT.joinpath(*module.split(".")[:-1])
    found = json.loads((folder / results).read_text(encoding="utf-8"))
    report = importlib.import_module(module)
    text = getattr(report, WRITERS.get(page, "page"))(found)
    assert text == (folder / page).read_text(encoding="utf-8")
    for picture in report.draw(found) if hasattr(report, "draw") and page not in WRITERS else ():
        assert f"({picture})" in text
        assert (folder / picture).exists()


def test_pictures_of_answered_studies_are_those_of_their_results():
    for draw in (answered.accuracy, answered.limit_cycle, answered.own_data):
        assert (
            draw(json.loads((ROOT / "studies" / draw.__name__ / "results.json").read_text()))
            .axes[0]
            .get_title("left")
        )


@pytest.mark.parametrize(("study", "presets"), [("exactness", ()), ("rollout_drift", ("full",))])
def test_a_report_is_that_of_its_archives(study, presets, tmp_path, monkeypatch):
    """Its text; that the pictures can be drawn is seen where the study runs."""
    module = importlib.import_module(f"studies.{study}.report")
    monkeypatch.setattr(module, "save_png", lambda figure, path: path)
    for archive in RESULTS[study].glob("*.nc"):
        (tmp_path / archive.name).symlink_to(archive)
    written = module.write(tmp_path, *presets)
    assert written.read_text() == (RESULTS[study] / "REPORT.md").read_text()


def test_the_report_and_the_table_of_the_paper_are_those_of_its_archive():
    folder = RESULTS["paper"]
    results = tables.load(folder / "quick")
    assert (folder / "summary.csv").read_text() == tables.summary(results)
    pictures = [name for name in FIGURES if (folder / "figures" / f"{name}.png").exists()]
    assert (folder / "REPORT.md").read_text() == paper_page("quick", results, pictures)


ANSWERED = ("invariance", "fibre", "gradient")
"""Terms of a loss whose results stay although their tasks have left."""


@pytest.mark.parametrize("study", discover().values(), ids=lambda study: study.name)
def test_tasks_have_different_names_and_archived_results_are_theirs(study):
    """With their recipes and sizes, which are in the keys."""
    for preset in study.presets:
        tasks = study.tasks(preset)
        keys = {task.name: task.key for task in tasks}
        assert len(keys) == len(tasks) > 0
        archived = archived_keys(ROOT / "studies" / study.name / "results" / preset).items()
        assert {
            (name, key) for name, key in archived if not any(term in name for term in ANSWERED)
        } <= keys.items()
