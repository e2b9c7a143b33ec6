"""The benchmark of optimizers: its own ones are what they claim, and it runs, resumes and reports."""

import dataclasses
import json
from types import SimpleNamespace

import pytest
import torch

from benchmarks.optimizers import report, run
from benchmarks.optimizers.contestants import CONTESTANTS, QUICK
from benchmarks.optimizers.lbfgs import LBFGS
from benchmarks.optimizers.levenberg_marquardt import LevenbergMarquardt, Residuals, damped_step, gauss_newton
from benchmarks.optimizers.muon import Muon, orthogonalised
from benchmarks.optimizers.problem import make_problem
from benchmarks.optimizers.race import Contestant, Race, paces
from romkit.core.errors import FileError
from romkit.training import Penalty, Reconstruction
from romkit.training.batches import Batch, FlatParameters, batches
from romkit.training.loss import Objective
from romkit.training.optimizers import Adam

OWN = {"Muon": Muon(), "L-BFGS": LBFGS(memory=3), "LM": LevenbergMarquardt()}


@pytest.fixture(scope="module")
def problem():
    short = run.CONFIGS["smoke"].short["lorenz96"]
    return make_problem("lorenz96", range(2), test_every=10, short=short)


def advance(problem, optimizer, seeds, steps, lr=1e-2):
    """Parameters and losses of each of `seeds` after steps on one batch."""
    problem = problem._replace(seeds=seeds, models=[problem.models[seed] for seed in seeds])
    flat = FlatParameters(problem.stack())
    step = optimizer.make_step(flat.function(Objective(flat.stacked, [Reconstruction(), Penalty()])), flat)
    state, losses = optimizer.start(flat.read(), flat), []
    batch = next(batches(problem.rows, seeds, 0, 32, None))
    torch.manual_seed(0)
    for _ in range(steps):
        state, loss = step(state, torch.full((len(seeds), 1), lr), *batch)
        losses.append(loss)
    return state, torch.stack(losses)


@pytest.mark.parametrize("name", OWN)
def test_seeds_do_not_mix_and_their_loss_falls(problem, name):
    lr = 1.0 if name in ("L-BFGS", "LM") else 1e-2
    together, losses = advance(problem, OWN[name], [0, 1], 10, lr)
    for seed in (0, 1):
        alone, _ = advance(problem, OWN[name], [seed], 10, lr)
        torch.testing.assert_close(together.theta[seed], alone.theta[0], rtol=1e-3, atol=1e-5)
    assert together.alive.all()
    assert (losses[-1] < 0.95 * losses[0]).all()


def test_newton_schulz_brings_singular_values_near_one():
    matrix = torch.randn(5, 2, 36, 18, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalised(matrix, 5))
    assert values.min() > 0.6
    assert values.max() < 1.3


def test_lbfgs_minimises_quadratics_each_with_its_own_line_search():
    scales = torch.stack([torch.linspace(1, 100, 20), torch.linspace(1e-2, 1, 20)])
    method = LBFGS(memory=10)
    step = method.make_step(lambda theta: (scales * (theta - 1).square()).sum(1), SimpleNamespace())
    state = method.start(torch.zeros(2, 20), SimpleNamespace())
    losses = []
    for _ in range(60):
        state, loss = step(state, torch.ones(2, 1))
        losses.append(loss)
    assert (torch.stack(losses).diff(dim=0) <= 1e-6).all()
    torch.testing.assert_close(state.theta, torch.ones(2, 20), rtol=0, atol=1e-2)


def test_random_combinations_estimate_the_gauss_newton_matrix(problem):
    flat = FlatParameters(problem.stack())
    residuals, theta = flat.function(Residuals(flat.stacked)), flat.read()
    row = Batch(*(part[7].expand(2, 1, -1) for part in problem.rows))
    J = torch.func.jacrev(lambda t: residuals(t, *row).squeeze(1))(theta)
    exact = torch.stack([2 * J[s, :, s].mT @ J[s, :, s] for s in range(2)])
    torch.manual_seed(0)
    estimate = gauss_newton(residuals, theta, *(part.expand(2, 3000, -1) for part in row))
    assert ((estimate - exact).norm(dim=(1, 2)) < 0.2 * exact.norm(dim=(1, 2))).all()


def test_squared_residuals_are_the_objective(problem):
    stacked = problem.stack()
    batch = [part.expand(2, *part.shape) for part in problem.rows]
    loss = Objective(stacked, [Reconstruction()])(*batch)
    torch.testing.assert_close(Residuals(stacked)(*batch).square().sum(-1).mean(-1), loss)


def test_a_damped_step_solves_its_equation():
    A = torch.randn(2, 9, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    H, g = A.mT @ A, A[:, 0]
    delta, solved = damped_step(H, g, torch.tensor([[0.0], [1e8]], dtype=torch.float64))
    assert solved.all()
    torch.testing.assert_close((H[0] @ delta[0]), -g[0])
    assert delta[1].norm() < 1e-6
    assert not damped_step(-H, g, torch.zeros(2, 1, dtype=torch.float64))[1].any()


def test_a_race_makes_its_steps_and_repeats_itself(problem):
    race = Race(problem, Contestant(Adam(clip=10.0), (1e-2,)), compiled=False)
    first = race.run(1e-2, steps=7, samples=2)
    assert [sample["steps"] for sample in first["curve"]] == [0, 4, 7]
    assert sum(first["curve"][-1]["loss"]) < sum(first["curve"][0]["loss"])
    assert first == race.run(1e-2, steps=7, samples=2)


def test_a_slower_step_has_a_slower_pace(problem):
    races = [Race(problem, Contestant(Adam(clip=10.0), (1e-2,), batch_size=b), compiled=False) for b in (8, 900)]
    fast, slow = paces(races, window=0.02, windows=3)
    assert slow > 1.5 * fast


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


def test_it_runs_resumes_and_reports(tmp_path):
    results = tmp_path / "results.json"
    first = dataclasses.replace(run.CONFIGS["smoke"], contestants=(QUICK,))
    run.main(first, results)
    before = json.loads(results.read_text())["systems"]["pendulum"][QUICK]
    run.main(run.CONFIGS["smoke"], results)
    found = json.loads(results.read_text())
    assert found["systems"]["pendulum"][QUICK] == before
    assert all(list(system) == list(CONTESTANTS) for system in found["systems"].values())
    page = (tmp_path / "RESULTS.md").read_text()
    assert all(page.count(f"| {name} |") == 2 for name in CONTESTANTS)
    assert 10_000 < (tmp_path / "curves.png").stat().st_size < 300_000
    with pytest.raises(FileError, match="race of another size"):
        run.main(dataclasses.replace(first, seeds=1), results)
