"""Laws of smoothers: what they reproduce, and that leaving out by leverage is a refit."""

import numpy as np
import pytest
import torch
from scipy.interpolate import RBFInterpolator

from romkit.core.polynomials import Monomials
from romkit.numerics import Design, Kriging, Nearest, Polynomial, Spline, changes, chosen, left_out
from romkit.numerics.smoothers import matern

SMOOTHERS = {
    "mean": Polynomial(0),
    "plane": Polynomial(1),
    "parabola": Polynomial(2),
    "ridge": Polynomial(2, ridge=0.1),
    "spline": Spline(),
    "shepard": Nearest(),
    "gaussian": Nearest(0.3),
    "kriging": Kriging(reach=0.5, degree=1),
    "ordinary": Kriging(matern, reach=0.5, noise=0.01),
}
SPANS = {"mean": 0, "plane": 1, "parabola": 2, "ridge": 0, "spline": 1, "kriging": 1, "ordinary": 0}
INTERPOLATES = ("spline", "shepard", "kriging")


def contexts(number, parameters, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).uniform(0, 1, (number, parameters)))


@pytest.mark.parametrize("parameters", [1, 2])
@pytest.mark.parametrize("name", SMOOTHERS)
def test_weights_sum_to_one_and_reproduce_their_span(name, parameters):
    c, wanted = contexts(12, parameters), contexts(5, parameters, seed=1)
    weights = SMOOTHERS[name].weights(c, wanted)
    assert weights.shape == (5, 12)
    assert weights.dtype == torch.float64
    monomials = Monomials(parameters, SPANS.get(name, 0))
    torch.testing.assert_close(weights @ monomials(c), monomials(wanted), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", INTERPOLATES)
def test_interpolation_passes_through_the_runs(name):
    c = contexts(8, 2)
    identity = torch.eye(8, dtype=torch.float64)
    torch.testing.assert_close(SMOOTHERS[name].weights(c, c), identity, rtol=0, atol=1e-6)


def test_smoothers_are_those_of_others():
    c, wanted, values = contexts(9, 2), contexts(4, 2, seed=1), contexts(9, 3, seed=2)
    of_scipy = RBFInterpolator(c.numpy(), values.numpy(), kernel="thin_plate_spline")
    of_spline = Spline().weights(c, wanted) @ values
    np.testing.assert_allclose(of_spline, of_scipy(wanted.numpy()), atol=1e-12)
    x, y, at = c[:, :1], values[:, 0], wanted[:, :1]
    of_numpy = np.polynomial.Polynomial.fit(x[:, 0], y, 3)(at[:, 0].numpy())
    np.testing.assert_allclose(Polynomial(3).weights(x, at) @ y, of_numpy, atol=1e-12)


def test_a_ridge_without_end_is_the_mean_and_runs_at_one_context_share_its_weight():
    c = torch.tensor([[0.0], [0.0], [1.0], [3.0]], dtype=torch.float64)
    wanted = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
    heavy = Polynomial(1, ridge=1e12).weights(c, wanted)
    torch.testing.assert_close(heavy, torch.full((2, 4), 0.25, dtype=torch.float64))
    weights = Spline().weights(c, wanted)
    torch.testing.assert_close(weights[0], torch.tensor([0.5, 0.5, 0.0, 0.0]).double())
    torch.testing.assert_close(weights[:, 0], weights[:, 1])


@pytest.mark.parametrize("name", SMOOTHERS)
def test_weights_left_out_and_their_changes_are_those_of_refits(name):
    c, wanted, smoother = contexts(10, 1), contexts(3, 1, seed=1), SMOOTHERS[name]
    groups = [np.array([1, 4]), np.array([7])]
    weights = left_out(smoother, c, groups)
    change = changes(smoother, c, wanted, groups)
    whole = smoother.weights(c, wanted)
    for number, group in enumerate(groups):
        kept = np.setdiff1d(np.arange(10), group)
        refit = smoother.weights(c[kept], c[group])
        assert torch.equal(weights[group][:, kept], refit)
        assert not weights[group][:, group].any()
        torch.testing.assert_close(
            (change[number] + whole)[:, kept], smoother.weights(c[kept], wanted)
        )
    assert not weights[[0, 2, 3]].any()


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_residuals_left_out_by_leverage_are_those_of_refits(ridge):
    draw = np.random.default_rng(0)
    columns = torch.from_numpy(draw.normal(size=(12, 4)))
    values = torch.from_numpy(draw.normal(size=(12, 2, 3)))
    penalty = torch.full((4,), ridge, dtype=torch.float64) if ridge else None
    groups = [np.array([0, 5, 6]), np.array([3]), np.array([11])]
    residuals = Design(columns, penalty).validation_residuals(values, groups)
    for group in groups:
        kept = np.setdiff1d(np.arange(12), group)
        refit = Design(columns[kept], penalty).coefficients(values[kept])
        predicted = torch.einsum("ck,k...->c...", columns[group], refit)
        torch.testing.assert_close(residuals[group], values[group] - predicted)


def test_a_row_that_alone_determines_a_coefficient_has_no_residual():
    columns = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    values = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
    residuals = Design(columns).validation_residuals(values, [[0], [1], [2]])
    torch.testing.assert_close(residuals, torch.tensor([-1.0, 1.0, torch.inf]).double())


def test_the_variance_of_kriging_is_the_least_of_all_weights():
    c, wanted = contexts(7, 1), contexts(4, 1, seed=1)
    kriging = Kriging(matern, noise=0.01)
    weights = kriging.weights(c, wanted)
    least = kriging.variance(c, wanted, weights)
    for seed in range(5):
        other = contexts(4, 7, seed=seed + 2) - 0.5
        unbiased = weights + 0.1 * (other - other.mean(-1, keepdim=True))
        assert (kriging.variance(c, wanted, unbiased) > least).all()


def test_the_degree_of_the_values_is_chosen():
    c = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
    groups = [torch.tensor([k]) for k in range(1, 8)]
    candidates = [Polynomial(degree) for degree in range(5)]
    draw = np.random.default_rng(0)
    for degree in range(4):
        values = (3 * c - 1) ** degree + 1e-3 * torch.from_numpy(draw.normal(size=(9, 40)))
        assert chosen(candidates, c, values, groups).degree == degree
