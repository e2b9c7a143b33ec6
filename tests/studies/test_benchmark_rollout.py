"""The rollout benchmark: its contestants compute the same, a difference is noticed, and it runs from end to end."""

import dataclasses
import json
import shutil

import pytest
import torch

from benchmarks.rollout import agreement, report, with_torch
from benchmarks.rollout.problem import make_problem
from benchmarks.rollout.run import CONFIGS, Case, measure

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")


@pytest.fixture(scope="module")
def problem():
    with torch.no_grad():
        yield make_problem(3)


@pytest.fixture(scope="module")
def states(problem):
    solvers = with_torch.fixed(problem)
    return {name: solvers[name](1)[0] for name in (with_torch.EAGER, with_torch.TORCHDIFFEQ)}


def test_jax_has_the_field_of_romkit(problem):
    pytest.importorskip("diffrax")
    from benchmarks.rollout.with_jax import field_once, members_first, members_last

    fields = {field.__name__: field_once(problem, field) for field in (members_first, members_last)}
    assert agreement.check_fields(problem, fields) < 1e-12


def test_diffrax_and_the_scan_follow_the_trajectories_of_romkit(problem, states):
    pytest.importorskip("diffrax")
    from benchmarks.rollout import with_jax

    solvers = with_jax.fixed(problem)
    found = states | {name: solvers[name](1)[0] for name in (with_jax.SCAN, with_jax.DIFFRAX)}
    same = {with_torch.EAGER, with_jax.SCAN, with_jax.DIFFRAX}
    assert agreement.check_trajectories(problem, found, same)[with_jax.SCAN] > 0


def test_a_difference_is_noticed(problem, states):
    velocity = problem.g(problem.times(0)[0], problem.z0)
    with pytest.raises(agreement.Disagreement, match="the field of other differs"):
        agreement.check_fields(problem, {"other": velocity * (1 + 1e-9)})
    other = states | {"other": states[with_torch.EAGER] * (1 + 1e-9)}
    with pytest.raises(agreement.Disagreement, match="the trajectory of other differs"):
        agreement.check_trajectories(problem, other, {with_torch.EAGER, "other"})
    other = states | {"other": states[with_torch.EAGER] * 1.01}
    with pytest.raises(agreement.Disagreement, match="other has an error of"):
        agreement.check_trajectories(problem, other, {with_torch.EAGER})


def test_tolerances_are_the_largest_that_match_rk4(problem):
    found = agreement.calibrate(problem, with_torch.torchdiffeq_dopri5, 1)
    assert found["error"] <= found["rk4_error"]
    looser = with_torch.torchdiffeq_dopri5(problem, found["tolerance"] * 10**0.5)(1)
    exact = agreement._exact(problem, 1)
    assert (looser - exact).abs().max() > found["rk4_error"]


def test_the_report_has_every_contestant():
    smoke = dataclasses.replace(CONFIGS["smoke"], cases=(Case(2, romkit=50, eager=1),), jax=False)
    with torch.no_grad():
        found = json.loads(json.dumps(measure(smoke, "cpu")))
    text = report.page(found)
    assert all(f"| {name} |" in text for case in found["cases"] for name in case["contestants"])
    assert all(result["cpu_us"] > 0 for case in found["cases"] for result in case["contestants"].values())
    assert "## 2 contexts" in text
    assert "## Cost against n" in text
    assert "## What a rollout prints" in text
