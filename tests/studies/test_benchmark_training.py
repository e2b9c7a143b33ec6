"""The training benchmark: its contestants compute the same, and it runs from end to end."""

import dataclasses
import json

import pytest

from benchmarks.training import agreement, report
from benchmarks.training.engine import Engine
from benchmarks.training.plain import Plain
from benchmarks.training.problem import make_problem
from benchmarks.training.run import CONFIGS, measure


@pytest.fixture(scope="module", params=["lorenz96", "pendulum"])
def problem(request):
    return make_problem(request.param, range(2), batch_size=32, duration=0.2)


def test_geoopt_and_romkit_compute_the_same_loss_and_gradient(problem):
    agreement.check_plain(problem)


def test_jax_and_romkit_compute_the_same_loss_and_gradient():
    pytest.importorskip("jax")
    agreement.check_jax(make_problem("lorenz96", range(2), batch_size=32, duration=0.2))


def test_a_difference_is_noticed(problem):
    other = problem._replace(plan=problem.plan.with_settings({"velocity_weight": 1.01}))
    with pytest.raises(agreement.Disagreement, match="loss of geoopt's contestant differs"):
        agreement.check_plain(other)


def test_the_contestants_train(problem):
    for contestant in (Plain(problem, 2), Engine(problem, 2, optimizer="adam", compiled=False)):
        contestant.run()


def test_the_report_has_every_contestant(problem):
    config = CONFIGS["smoke"]
    result = json.loads(json.dumps(measure(problem, config)))
    found = {"config": dataclasses.asdict(config), "systems": {problem.system: result}, "device": "", "versions": {}}
    text = report.page(found, {})
    assert all(name in text for name in result["contestants"])
    assert result["floor"]["megaflop"] > 0
