"""Training benchmark: its contestants compute the same, and it runs from end to end."""

import dataclasses

import pytest

from benchmarks import harness
from benchmarks.ncae import make_problem
from benchmarks.training import contestants, report, run


@pytest.fixture(scope="module", params=["lorenz96", "pendulum"])
def problem(request):
    settings = contestants.SHORT[request.param] | {"duration": 0.2}
    return make_problem(request.param, range(2), batch_size=32, settings=settings)


def test_geoopt_and_romkit_compute_the_same_loss_and_gradient(problem):
    run.check_geoopt(problem)


def test_jax_and_romkit_compute_the_same_loss_gradient_and_steps(problem):
    pytest.importorskip("jax")
    run.check_jax(problem)
    for optimizer in ("adam", "riemannian-adam"):
        run.check_jax_step(problem, optimizer)


def test_a_difference_is_noticed(problem):
    other = problem._replace(plan=problem.plan.with_settings({"velocity_weight": 1.01}))
    with pytest.raises(harness.Disagreement, match="loss of geoopt's contestant differs"):
        run.check_geoopt(other)


@pytest.mark.slow
def test_it_runs_and_reports(tmp_path):
    config = dataclasses.replace(run.PRESETS["smoke"], repeats=1)
    found = harness.run(config, run.measure, report.page, tmp_path)
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    for system, result in found["systems"].items():
        assert f"## {system}" in text
        assert all(text.count(f"| {name} |") == 2 for name in result["contestants"])
        assert result["floor"]["megaflop"] > 0
