"""The paper study: its smoke preset end to end, and how published numbers and claims are judged."""

import functools

import numpy as np
import pandas as pd
import pytest

from romkit.verbs.presets import PRESETS
from studies.paper import datasets, propositions, tables
from studies.paper.claims import NO, OPEN, UNTESTABLE, YES, compare, judge, ratio
from studies.paper.datasets import VELOCITY_TERM
from studies.paper.figures import FIGURES
from studies.paper.report import TABLES
from studies.paper.tables import METHOD_OF, Measured, load, measure, reference
from studies.paper.tasks import Training, tasks
from studies.runner import Study


@pytest.mark.slow
def test_smoke_runs_every_task_and_covers_tables_figures_and_claims(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "CACHE", tmp_path / "datasets")
    # fewer points of each manifold, and the largest speed between two contexts less exactly
    monkeypatch.setattr(propositions, "POINTS", 20)
    monkeypatch.setattr(propositions, "LEVELS", 2)
    # the page and this test read the same files
    monkeypatch.setattr(tables, "load", functools.cache(load))
    sweep = Study("paper").run("smoke", tmp_path)
    assert not sweep.failed
    assert len(sweep.complete) == len(tasks("smoke"))
    results = tables.load(tmp_path / "smoke")
    measured = [entry for entry in reference() if measure(results, entry) is not None]
    assert {(entry.table, entry.system) for entry in measured} == {
        (e.table, e.system) for e in reference()
    }
    assert {entry.method for entry in measured} == set(METHOD_OF)
    for name in FIGURES:
        assert 5_000 < (tmp_path / "figures" / f"{name}.png").stat().st_size < 150_000
    verdicts, report = judge(results), (tmp_path / "REPORT.md").read_text()
    assert UNTESTABLE not in {verdict.verdict for verdict in verdicts}
    assert all(verdict.statement in report for verdict in verdicts)
    assert all(f"### {title}" in report for title in TABLES.values())


def test_every_published_number_has_a_task():
    quick = [task for task in tasks("quick") if isinstance(task, Training)]
    there = {
        (task.kind, task.system, task.method, task.condition)
        for task in quick
        if dict(task.settings).get("velocity_weight", 1.0) == VELOCITY_TERM.get(task.method, 1.0)
    }
    for entry in reference():
        noise = (
            entry.table.removeprefix("train_noise_")
            if entry.table.startswith("train_noise")
            else ""
        )
        kind, condition = (
            ("noise", f"{noise} {entry.condition.removeprefix('sigma=')}")
            if noise
            else ("clean", "clean")
        )
        assert (kind, entry.system, METHOD_OF[entry.method], condition) in there, entry


def test_a_preset_that_changes_changes_the_keys_of_its_trainings(monkeypatch):
    def keys():
        return {task.name: task.key for task in tasks("smoke")}

    before, quick = keys(), PRESETS["quick"]
    monkeypatch.setitem(
        PRESETS, "quick", lambda *names: quick(*names).replace_settings({"clip": 5.0})
    )
    assert {name for name, key in keys().items() if key == before[name]} == {"lorenz96-bifurcation"}


def test_diverged_seeds_count_except_where_the_paper_leaves_them_out():
    entries = {
        e.table: e for e in reference() if e[1:5] == ("lorenz96", "NcAE", "clean", "position_rmse")
    }
    measured = Measured(np.array([0.1, 0.3, np.inf]), np.array([False, False, True]))
    found = tables.statistics(entries["reconstruction"], measured)
    assert (found["ours"], found["n_seeds"]) == (np.inf, 3)
    found = tables.statistics(entries["ablation_modulation"], measured)
    assert (found["ours"], found["spread"], found["n_seeds"]) == pytest.approx((0.2, 0.1, 2))


def test_mismatch_in_pattern_does_not_see_the_level_of_a_method():
    """Errors that are wrong by a factor of each method's own fit the pattern; those of one
    condition do not.
    """
    frame = pd.DataFrame(
        [e for e in reference() if e.table == "test_noise_state" and np.isfinite(e.mean)]
    )
    level = frame["method"].map({method: k * np.log(2) for k, method in enumerate(METHOD_OF)})
    odd = np.log(3) * (frame["condition"] == "sigma=0.50")
    assert tables.mismatch(frame.assign(ratio=level)) > 1
    assert tables.pattern_mismatch(frame.assign(ratio=level)) == pytest.approx(0, abs=1e-12)
    assert tables.pattern_mismatch(frame.assign(ratio=level + odd)) == pytest.approx(np.log(3) / 3)


def test_a_published_mean_is_reached_in_the_digits_that_it_is_given_with():
    where = ("reconstruction", "pendulum", "NcAE", "clean", "position_rmse")
    entry = next(e for e in reference() if e[:5] == where)
    assert (entry.mean, entry.precision) == pytest.approx((0.012, 0.001))
    finite = np.zeros(2, dtype=bool)
    for second, reached in ((0.0129, True), (0.0133, False), (np.inf, False)):
        assert (
            tables.statistics(entry, Measured(np.array([0.0119, second]), finite))["reached"]
            == reached
        )


def test_a_comparison_is_decided_by_its_interval():
    a, b = np.linspace(0.9, 1.1, 10), np.linspace(1.9, 2.1, 10)
    assert ratio(a, b).value == pytest.approx(0.5)
    assert ratio(a, b).p < 0.01
    assert compare("", a, b).outcome == YES
    assert compare("", b, a).outcome == NO
    assert compare("", a, a[::-1]).outcome == OPEN
    assert compare("", a, b, factor=0.4).outcome == NO
    assert compare("", a, np.where(b > 2, np.inf, b)).outcome == YES
