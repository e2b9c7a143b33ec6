"""Committed pages are those that the committed results give."""

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ("benchmarks.optimizers.report", "results.json", "RESULTS.md"),
    ("benchmarks.rollout.report", "results.json", "RESULTS.md"),
    ("benchmarks.rollout.report", "results-cuda.json", "RESULTS-cuda.md"),
    ("benchmarks.sindy.report", "results.json", "RESULTS.md"),
    ("benchmarks.training.report", "results.json", "RESULTS.md"),
    ("studies.large.report", "full.json", "RESULTS.md"),
    ("studies.large.report", "sampled.json", "SAMPLED.md"),
    ("studies.pretrained.report", "full.json", "RESULTS.md"),
    ("studies.wake.report", "full.json", "RESULTS.md"),
]

WRITERS = {"SAMPLED.md": "sampled"}


@pytest.mark.parametrize(("module", "results", "page"), PAGES)
def test_a_page_is_that_of_its_results(module, results, page):
    folder = ROOT.joinpath(*module.split(".")[:-1])
    found = json.loads((folder / results).read_text(encoding="utf-8"))
    assert getattr(importlib.import_module(module), WRITERS.get(page, "page"))(found) == (folder / page).read_text(
        encoding="utf-8"
    )
