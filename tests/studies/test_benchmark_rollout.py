"""Rollout benchmark: its contestants compute the same, a difference is noticed, and it runs from end to end."""

import dataclasses
import shutil

import pytest
import torch

from benchmarks import harness
from benchmarks.rollout import contestants, report, run

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")


@pytest.fixture(scope="module")
def problem():
    with torch.no_grad():
        yield contestants.make_problem(3)


@pytest.fixture(scope="module")
def states(problem):
    solvers = contestants.fixed_steps(problem)
    return {name: solvers[name](1)[0] for name in (contestants.EAGER, contestants.TORCHDIFFEQ)}


def test_jax_and_diffrax_have_field_and_trajectories_of_romkit(problem, states):
    pytest.importorskip("diffrax")
    from benchmarks.rollout import with_jax

    assert contestants.check_fields(problem, with_jax.fields_once(problem)) < 1e-12
    solvers = with_jax.fixed_steps(problem)
    found = states | {name: solvers[name](1)[0] for name in (contestants.SCAN, contestants.DIFFRAX)}
    assert contestants.check_trajectories(problem, found)[contestants.SCAN] > 0


def test_a_difference_is_noticed(problem, states):
    velocity = problem.g(problem.times(0)[0], problem.z0)
    with pytest.raises(harness.Disagreement, match="the field of other differs"):
        contestants.check_fields(problem, {"other": velocity * (1 + 1e-9)})
    eager = states[contestants.EAGER]
    with pytest.raises(harness.Disagreement, match=f"the trajectory of {contestants.SCAN} differs"):
        contestants.check_trajectories(problem, states | {contestants.SCAN: eager * (1 + 1e-9)})
    with pytest.raises(harness.Disagreement, match="other has an error of"):
        contestants.check_trajectories(problem, states | {"other": eager * 1.01})


def test_tolerances_are_the_largest_that_match_rk4(problem):
    found = contestants.calibrate(problem, contestants.torchdiffeq_dopri5, 1)
    assert found["error"] <= found["rk4_error"]
    looser = contestants.torchdiffeq_dopri5(problem, found["tolerance"] * 10**0.5, 1)
    assert (looser - contestants.rk4(problem, 1, dt=contestants.DT / 10)).abs().max() > found["rk4_error"]


@pytest.mark.slow
def test_it_runs_and_reports(tmp_path):
    smoke = dataclasses.replace(run.PRESETS["smoke"], cases=(run.Case(2, romkit=50, eager=1),))
    found = harness.run(smoke, run.measure, report.page, tmp_path)
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert all(f"| {name} |" in text for case in found["cases"] for name in case["contestants"])
    assert all(result["cpu_us"] > 0 for case in found["cases"] for result in case["contestants"].values())
    assert all(title in text for title in ("## 2 contexts", "## Cost against n", "## What a rollout prints"))
