"""Regressions between the runs of individuals, beside splines through runs that are smooth."""

import numpy as np
import pytest
import torch

import romkit
from romkit.learning.interpolation import RIDGES, InterpolatedRuns, obstacle, regression
from romkit.numerics import Spline

TIME = np.linspace(0, 10, 41)
CONTEXTS = torch.from_numpy(np.random.default_rng(3).random((9, 2)))
WANTED = torch.tensor([[0.2, 0.7], [1.3, -0.4]], dtype=torch.float64)


def individuals(spread, runs=12, seed=0):
    """Growths to a size, at rates that scatter and that the dose does not tell."""
    draw = np.random.default_rng(seed)
    dose = draw.uniform(1, 4, runs)
    rate = 0.9 * np.exp(spread * draw.standard_normal(runs))
    states = dose[:, None] ** 0.3 / (1 + 20 * np.exp(-rate[:, None] * TIME))
    return romkit.data.from_arrays(states[..., None], TIME, context={"dose": dose})


def test_regressions_go_from_least_squares_to_the_mean():
    values = 2 + CONTEXTS @ torch.tensor([1.0, -3.0], dtype=torch.float64)
    exact = 2 + WANTED @ torch.tensor([1.0, -3.0], dtype=torch.float64)
    for smoother in (Spline(), regression(1e-12)):
        assert smoother.weights(CONTEXTS, WANTED) @ values == pytest.approx(exact, abs=1e-6)
    mean = regression(np.inf).weights(CONTEXTS, WANTED) @ values
    assert mean.numpy() == pytest.approx(float(values.mean()))
    # of one parameter a ridge as large as the variance halves the slope
    line = torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)
    half = regression(2 / 3).weights(line, torch.tensor([[1.0]], dtype=torch.float64))
    assert (half @ line).item() == pytest.approx(0.5)


@pytest.mark.parametrize("ridge", RIDGES)
def test_weights_of_a_regression_have_the_sum_one(ridge):
    assert regression(ridge).weights(CONTEXTS, WANTED).sum(-1).numpy() == pytest.approx(1.0)


def test_bars_hold_the_spread_of_individuals(tmp_path):
    train, test = individuals(0.35, 14), individuals(0.35, 40, seed=9)
    projection = romkit.fit("identity", train)
    between = InterpolatedRuns.of(projection, train, with_bars=True, smoother=regression(np.inf))
    band = between.follow(test)
    truth = test["state"].values
    inside = (band["lower"].values <= truth) & (truth <= band["upper"].values)
    assert 0.75 <= inside.mean() <= 0.99
    between.save(tmp_path)
    again = InterpolatedRuns.load(tmp_path, projection)
    assert again.ridge == np.inf
    assert np.allclose(again.follow(test)["state"], train["state"].mean("trajectory"))


def test_runs_that_end_at_about_one_time_can_be_interpolated():
    data = individuals(0.35)
    for samples, can in ((38, True), (30, False)):
        cut = data.copy(deep=True)
        cut["state"].values[3, samples:] = np.nan
        assert (obstacle(cut) == "") == can
