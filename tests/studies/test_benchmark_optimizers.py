"""Benchmark of optimizers: Muon is what it claims, and the race runs and reports."""

import pytest
import torch

from benchmarks import harness
from benchmarks.optimizers import report, run
from benchmarks.optimizers.muon import Muon, orthogonalised
from romkit.training.optimizers import Adam

SMOKE = run.PRESETS["smoke"]


@pytest.fixture(scope="module")
def task():
    return run.make_task("lorenz96", SMOKE)


def advance(problem, seeds, steps):
    """Parameters and losses of each of `seeds` after steps of Muon on one batch."""
    problem = problem._replace(seeds=seeds, models=[problem.models[seed] for seed in seeds])
    objective, flat = problem.objective(1e-3)
    step, losses = Muon().make_step(flat.function(objective), flat), []
    state, batch = Muon().start(flat.read(), flat), next(problem.batches(32))
    for _ in range(steps):
        state, loss = step(state, torch.full((len(seeds), 1), 1e-2), *batch)
        losses.append(loss)
    return state, torch.stack(losses)


def test_seeds_do_not_mix_and_their_loss_falls(task):
    together, losses = advance(task.problem, [0, 1], 10)
    for seed in (0, 1):
        alone, _ = advance(task.problem, [seed], 10)
        torch.testing.assert_close(together.theta[seed], alone.theta[0], rtol=1e-3, atol=1e-5)
    assert together.alive.all()
    assert (losses[-1] < 0.95 * losses[0]).all()


def test_newton_schulz_brings_singular_values_near_one():
    matrix = torch.randn(5, 2, 36, 18, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalised(matrix, 5))
    assert values.min() > 0.6
    assert values.max() < 1.3


def test_a_race_makes_its_steps_and_repeats_itself(task):
    race = run.Race(task, run.Contestant(Adam(clip=10.0), (1e-2,)), compiled=False)
    first = race.run(1e-2, steps=7, samples=2)
    assert [sample["steps"] for sample in first["curve"]] == [0, 4, 7]
    assert sum(first["curve"][-1]["loss"]) < sum(first["curve"][0]["loss"])
    assert first == race.run(1e-2, steps=7, samples=2)
    assert min(run.paces([race, race], window=0.02, windows=1)) > 0


def test_the_smallest_of_equal_rates_is_chosen():
    assert run.choose({0.1: [2.0, 2.0], 0.3: [1.05, 1.0], 0.9: [1.0, 1.0]}) == 0.3
    assert run.choose({0.1: [2.0, 2.0], 0.3: [1.0, float("nan")]}) == 0.1


def test_seconds_to_accuracy():
    curve = [
        {"steps": s, "position_rmse": [p, 0.1], "velocity_rmse": [0.1], "loss": [p]} for s, p in ((10, 0.5), (20, 0.1))
    ]
    result = {"curve": curve, "step_s": 0.1}
    assert report.seconds_to_errors(result, (0.1, 0.1)) == 2
    assert report.seconds_to_errors(result, (0.1, 0.05)) is None
    assert report.seconds_to_loss(result, 0.5) == 1


@pytest.mark.slow
def test_it_runs_and_reports(tmp_path):
    found = harness.run(SMOKE, run.measure, report.page, tmp_path)
    report.write_curves(tmp_path)
    assert all(list(system) == list(run.CONTESTANTS) for system in found["systems"].values())
    page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert all(page.count(f"| {name} |") == 2 for name in run.CONTESTANTS)
    assert 10_000 < (tmp_path / "curves.png").stat().st_size < 300_000
