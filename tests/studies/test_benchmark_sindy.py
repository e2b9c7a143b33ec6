"""Benchmark of SINDy: its contestants agree, a difference is noticed, and it runs and resumes from end to end."""

import dataclasses
import json

import pytest

from benchmarks import harness
from benchmarks.sindy import report, run


def test_a_difference_is_noticed():
    fits = run.make_contestants(*run.make_problem(2, 500), 2)
    assert run.check(fits) < 1e-6
    ours = fits[run.ROMKIT]
    with pytest.raises(harness.Disagreement, match="coefficients differ"):
        run.check(fits | {"other": lambda: ours() * 1.001})
    with pytest.raises(harness.Disagreement, match="other has another support"):
        run.check(fits | {"other": lambda: ours() * 0})


@pytest.mark.slow
def test_it_runs_reports_and_resumes(tmp_path):
    smoke = run.PRESETS["smoke"]
    found = harness.run(smoke, run.measure, report.page, tmp_path)
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert all(f"| {name} |" in text for case in found["cases"] for name in case["contestants"])
    assert "## 2 problems of 500 samples" in text
    file = tmp_path / "results.json"
    file.write_text(json.dumps(found | {"cases": found["cases"][:1], "complete": False}))
    resumed = harness.run(smoke, run.measure, report.page, tmp_path)
    assert resumed["cases"][0] == found["cases"][0]
    assert len(resumed["cases"]) == 2
    file.write_text(json.dumps(found | {"complete": False}))
    other = harness.run(dataclasses.replace(smoke, degree=2), run.measure, report.page, tmp_path)
    assert other["cases"][0]["contestants"] != found["cases"][0]["contestants"]
