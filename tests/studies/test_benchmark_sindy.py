"""The benchmark of SINDy: its contestants find the same, a difference is noticed, and it runs from end to end."""

import json

import pytest

from benchmarks.sindy import contestants, report
from benchmarks.sindy.problem import make_problem
from benchmarks.sindy.run import CONFIGS, measure


def test_a_difference_is_noticed():
    fits = contestants.make_contestants(make_problem(2, 500), 2)
    assert contestants.check(fits) < 1e-6
    ours = fits[contestants.ROMKIT]
    with pytest.raises(contestants.Disagreement, match="coefficients differ"):
        contestants.check(fits | {"other": lambda: ours() * 1.001})
    with pytest.raises(contestants.Disagreement, match="other has another support"):
        contestants.check(fits | {"other": lambda: ours() * 0})


def test_the_report_has_every_contestant():
    config = CONFIGS["smoke"]
    cases = json.loads(json.dumps([measure(config, *case) for case in config.cases]))
    found = {"config": {"degree": 3, "repeats": 2}, "cases": cases, "device": "", "versions": {}}
    text = report.page(found)
    assert all(name in text for case in cases for name in case["contestants"])
    assert "## 2 problems of 500 samples" in text
