"""Benchmarks: contestants compute the same, a difference is noticed, and each runs from end to end."""

import json
import shutil
from types import SimpleNamespace

import pytest
import torch

from benchmarks import harness
from benchmarks.harness import Disagreement
from benchmarks.ncae import make_problem
from benchmarks.optimizers import report, run
from benchmarks.rollout import contestants
from benchmarks.rollout import run as rollout
from benchmarks.rollout.contestants import EAGER, SCAN
from benchmarks.sindy import run as sindy
from benchmarks.training import run as training
from benchmarks.training.contestants import SHORT
from romkit.training.optimizers import Adam

# -- all of them ---------------------------------------------------------------------------------------------------

SMOKE = {
    name: harness.preset(name, "smoke")
    for name in ("export", "optimizers", "rollout", "sindy", "training")
}
SMALLER = {"rollout": {"cases": SMOKE["rollout"]["cases"][1:]}, "training": {"repeats": 1}}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOKE)
def test_it_runs_and_reports_every_contestant(name, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "WARM_UP", 1)
    for module in (contestants, rollout):
        monkeypatch.setattr(module, "STEPS", 20)
    found = harness.run(name, SMOKE[name] | SMALLER.get(name, {}), tmp_path)
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    for part in found.get("cases") or found["systems"].values():
        assert all(f"| {contestant} |" in text for contestant in part.get("contestants", part))
    if name == "optimizers":
        assert 10_000 < (tmp_path / "curves.png").stat().st_size < 300_000


@pytest.mark.slow
def test_known_singular_values_are_found(tmp_path):
    pytest.importorskip("distributed", reason="distributed is not installed")
    runs = harness.run("basis", harness.preset("basis", "smoke"), tmp_path)["runs"]
    assert {run["contestant"] for run in runs} == {
        "romkit",
        "dask",
        "dask, 2 power iterations",
        "Gram matrix",
    }
    assert all(
        run["error"] < 1e-6 for run in runs if run["contestant"] != "dask"
    )  # which makes no iterations


@pytest.mark.slow
def test_verbs_on_chunks_are_right(tmp_path):
    runs = harness.run("chunks", harness.preset("chunks", "smoke"), tmp_path)["runs"]
    assert all(run["error"] is None or run["error"] < 1e-2 for run in runs)
    assert all(0 < run["before_gb"] <= run["memory_gb"] for run in runs)


def test_a_benchmark_goes_on_where_it_was_interrupted(tmp_path):
    file, smoke = tmp_path / "results.json", SMOKE["sindy"]
    found = harness.run("sindy", smoke, tmp_path)
    file.write_text(json.dumps(found | {"cases": found["cases"][:1], "complete": False}))
    resumed = harness.run("sindy", smoke, tmp_path)
    assert resumed["cases"][0] == found["cases"][0]
    assert len(resumed["cases"]) == 2
    file.write_text(json.dumps(found | {"complete": False}))
    other = harness.run("sindy", smoke | {"degree": 2}, tmp_path)
    assert other["cases"][0]["contestants"] != found["cases"][0]["contestants"]


# -- optimizers ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def task():
    return run.make_task("lorenz96", SimpleNamespace(**SMOKE["optimizers"]))


def test_a_race_makes_its_steps_and_repeats_itself(task):
    race = run.Race(task, run.Contestant(Adam(clip=10.0), (1e-2,)), compiled=False)
    first = race.run(1e-2, steps=7, samples=2)
    assert [sample["steps"] for sample in first["curve"]] == [0, 4, 7]
    assert sum(first["curve"][-1]["loss"]) < sum(first["curve"][0]["loss"])
    assert first == race.run(1e-2, steps=7, samples=2)
    assert min(run.paces([race, race], window=0.02, windows=1)) > 0


def test_the_smallest_of_equal_rates_is_chosen_and_seconds_are_those_to_an_accuracy():
    assert run.choose({0.1: [2.0, 2.0], 0.3: [1.05, 1.0], 0.9: [1.0, 1.0]}) == 0.3
    assert run.choose({0.1: [2.0, 2.0], 0.3: [1.0, float("nan")]}) == 0.1
    samples = {"velocity_rmse": [0.1], "loss": [0.5], "position_rmse": [0.5, 0.1]}
    later = samples | {"loss": [0.1], "position_rmse": [0.1, 0.1]}
    result = {"curve": [{"steps": 10} | samples, {"steps": 20} | later], "step_s": 0.1}
    assert report.seconds_to_errors(result, (0.1, 0.1)) == 2
    assert report.seconds_to_errors(result, (0.1, 0.05)) is None
    assert report.seconds_to_loss(result, 0.5) == 1


@pytest.fixture(scope="module")
def quick_xla():
    """JAX compiles without optimizing, which takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")
        yield


# -- rollouts ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem():
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    return contestants.make_problem(3)


@pytest.fixture(scope="module")
@torch.no_grad()
def states(problem):
    solvers = contestants.fixed_steps(problem)
    return {name: solvers[name](1)[0] for name in (EAGER, contestants.TORCHDIFFEQ)}


@pytest.mark.slow
@pytest.mark.usefixtures("quick_xla")
@torch.no_grad()
def test_jax_and_diffrax_have_field_and_trajectories_of_romkit(problem, states):
    pytest.importorskip("diffrax")
    from benchmarks.rollout import with_jax

    assert contestants.check_fields(problem, with_jax.fields_once(problem)) < 1e-12
    solvers = with_jax.fixed_steps(problem)
    found = states | {name: solvers[name](1)[0] for name in (SCAN, contestants.DIFFRAX)}
    assert contestants.check_trajectories(problem, found)[SCAN] > 0


@torch.no_grad()
def test_a_difference_between_rollouts_is_noticed(problem, states):
    velocity = problem.g(problem.times(0)[0], problem.z0)
    with pytest.raises(Disagreement, match="the field of other differs"):
        contestants.check_fields(problem, {"other": velocity * (1 + 1e-9)})
    with pytest.raises(Disagreement, match=f"the trajectory of {SCAN} differs"):
        contestants.check_trajectories(problem, states | {SCAN: states[EAGER] * (1 + 1e-9)})
    with pytest.raises(Disagreement, match="other has an error of"):
        contestants.check_trajectories(problem, states | {"other": states[EAGER] * 1.01})


@torch.no_grad()
def test_tolerances_are_the_largest_that_match_rk4(problem, monkeypatch):
    monkeypatch.setattr(contestants, "STEPS", 20)
    dopri5 = contestants.ADAPTIVE["torchdiffeq, dopri5"]
    found = contestants.calibrate(problem, dopri5, 1)
    assert found["error"] <= found["rk4_error"]
    looser = dopri5(problem, found["tolerance"] * 10**0.5)(1)
    assert (looser - contestants.rk4(problem, 1, dt=contestants.DT / 10)).abs().max() > found[
        "rk4_error"
    ]


# -- SINDy and training --------------------------------------------------------------------------------------------


def test_a_difference_between_equations_is_noticed():
    fits = sindy.make_contestants(*sindy.make_problem(2, 500), 2)
    assert sindy.check(fits) < 1e-6
    ours = fits[sindy.ROMKIT]
    with pytest.raises(Disagreement, match="coefficients differ"):
        sindy.check(fits | {"other": lambda: ours() * 1.001})
    with pytest.raises(Disagreement, match="other has another support"):
        sindy.check(fits | {"other": lambda: ours() * 0})


@pytest.fixture(scope="module", params=["lorenz96", "pendulum"])
def stack(request):
    settings = SHORT[request.param] | {"duration": 0.2}
    return make_problem(request.param, range(2), batch_size=32, settings=settings)


def test_geoopt_and_romkit_compute_the_same_loss_and_gradient(stack):
    training.check_geoopt(stack)
    other = stack._replace(plan=stack.plan.replace_settings({"velocity_weight": 1.01}))
    with pytest.raises(Disagreement, match="loss of geoopt's contestant differs"):
        training.check_geoopt(other)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_xla")
def test_jax_and_romkit_compute_the_same_loss_gradient_and_steps(stack):
    pytest.importorskip("jax")
    training.check_jax(stack)
    if stack.system == "lorenz96":  # whose layers are fewer, and compiled sooner
        training.check_jax_step(stack, "riemannian-adam")
        training.check_jax_step(stack, "adam")
