"""Laws of chaotic data: the Lorenz system, whose exponent and coefficients are known."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from romkit.laws import LatentSamples, PolynomialLaw
from romkit.laws.chaos import describe_horizon, predictability

SIGMA, RHO, BETA, STEP = 10.0, 28.0, 8 / 3, 0.05

EXPONENT = 0.9056
"""Largest Lyapunov exponent (Viswanath, 2001)."""


def lorenz(t, s):
    x, y, z = s
    return [SIGMA * (y - x), x * (RHO - z) - y, x * y - BETA * z]


def trajectory(samples: int) -> LatentSamples:
    start = solve_ivp(lorenz, (0, 20), [1.0, 1.0, 20.0], rtol=1e-9, atol=1e-9).y[:, -1]
    t = np.arange(samples) * STEP
    x = solve_ivp(lorenz, (0, t[-1]), start, t_eval=t, method="DOP853", rtol=1e-11, atol=1e-11).y.T
    z = torch.from_numpy(x.copy())[None]
    return LatentSamples.first_order(z, torch.zeros_like(z), times=torch.from_numpy(t))


@pytest.fixture(scope="module", params=[100, 2000])
def fitted(request):
    samples = trajectory(request.param)
    return samples, PolynomialLaw(degree=2).fit_samples(samples)


def test_the_equations_are_found_whatever_the_length(fitted):
    _, law = fitted
    states = torch.tensor([[1.0, 2.0, 20.0], [-8.0, -3.0, 30.0]], dtype=torch.float64)
    right = torch.tensor([lorenz(0, state) for state in states.tolist()], dtype=torch.float64)
    assert torch.allclose(law.predict(states), right, rtol=1e-4, atol=1e-3)


def test_largest_exponent_and_valid_time(fitted):
    samples, law = fitted
    found = predictability(law, samples)
    if len(samples) < 1000:  # too short for an exponent, and followed to its end
        assert found.lost == 0.0
        assert found.valid_time == pytest.approx(50 * STEP, rel=0.05)
        return
    assert found.exponent == pytest.approx(EXPONENT, abs=3 * found.uncertainty)
    assert found.is_chaotic
    assert found.lyapunov_times > 10


def test_chaos_is_told_of_in_lyapunov_times(fitted):
    samples, law = fitted
    told = describe_horizon(law, samples)
    # a run of 100 samples is as long as 4.5 Lyapunov times, which is too short to say
    assert ("Lyapunov times" in told) == (len(samples) == 2000)


def test_errors_of_an_oscillator_do_not_grow():
    t = torch.linspace(0, 30, 301, dtype=torch.float64)
    z = torch.stack([t.cos(), t.sin()], -1)[None]
    samples = LatentSamples.first_order(z, torch.zeros_like(z), times=t)
    found = predictability(PolynomialLaw(degree=1).fit_samples(samples), samples)
    assert found.exponent == pytest.approx(0.0, abs=1e-3)
    assert found.lost == 0.0


def test_a_law_with_no_chaos_follows_whole_runs():
    t = torch.linspace(0, 40, 401, dtype=torch.float64)
    a = torch.tensor([0.1, 0.2], dtype=torch.float64)
    envelope = torch.exp(-a[:, None] * t)
    z = torch.stack([envelope * t.cos(), -envelope * t.sin()], -1)
    samples = LatentSamples.first_order(z, torch.zeros_like(z), a[:, None], times=t)
    law = PolynomialLaw(degree=1, context_degree=1).fit_samples(samples)
    found = predictability(law, samples)
    assert found.exponent == pytest.approx(-0.15, abs=0.01)
    assert found.valid_time == pytest.approx(20.0, rel=0.02)
