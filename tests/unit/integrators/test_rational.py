"""Rational laws, on a gene that represses itself through a second substance."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import romkit
from romkit.core.errors import InputError
from romkit.laws import LatentSamples, Rational, RationalLaw


def rate(t, s, half):
    x, y = s
    return [1 / (1 + (y / half) ** 4) - 0.5 * x, x - 0.7 * y]


TIMES = np.linspace(0, 8, 41)


def run(start, half):
    return solve_ivp(rate, (0, 8), start, "LSODA", TIMES, args=(half,), rtol=1e-10, atol=1e-12).y.T


@pytest.fixture(scope="module")
def data():
    """Return runs at four half-saturations, which are the parameter."""
    halves = np.repeat([0.5, 0.7, 0.9, 1.1], 3)
    starts = np.random.default_rng(0).uniform(0.1, 2, (12, 2))
    states = np.array([run(*each) for each in zip(starts, halves, strict=True)])
    return romkit.data.from_arrays(states, TIMES, context={"half": halves})


@pytest.fixture(scope="module")
def law(data):
    return romkit.law(romkit.fit("identity", data, verbose=False), data)


def test_denominator_over_a_parameter_is_found_by_default(law):
    assert isinstance(law, RationalLaw)
    assert (law.latent, round(law.power, 2)) == (1, 4.0)
    for half in (0.5, 0.8, 1.1):
        found = law.context_half(torch.tensor([half], dtype=torch.float64))
        assert float(found) == pytest.approx(half, rel=2e-3)


def test_forecasts_at_an_unseen_parameter(data, law):
    projection = romkit.fit("identity", data, verbose=False)
    forecast = romkit.forecast(
        projection, dynamics=law, initial_state=[1.5, 0.2], duration=8, dt=0.2, half=0.8
    )
    assert np.abs(forecast.state.values - run([1.5, 0.2], 0.8)).max() < 1e-3


def test_denominator_is_one_at_least(law):
    z = torch.tensor([[0.3, -5.0], [0.3, 0.0]], dtype=torch.float64)
    below, at_zero = law.right_hand_side(torch.tensor([0.8], dtype=torch.float64))(z)
    # what is below zero counts as zero there, and the rest is linear
    assert float(below[1] - at_zero[1]) == pytest.approx(0.7 * 5, rel=1e-2)


def test_law_is_saved(law, tmp_path):
    back = romkit.load(romkit.save(law, tmp_path / "law"))
    assert back.formulas(8) == law.formulas(8)


def test_polynomials_have_no_denominator():
    t = torch.linspace(0, 6, 121, dtype=torch.float64)
    growth = torch.linspace(0.1, 0.9, 8, dtype=torch.float64)[:, None]
    z = 1 / (1 + (1 / growth - 1) * torch.exp(-t))  # z' = z - z²
    samples = LatentSamples.first_order(z[..., None], torch.zeros(8, 121, 1), times=t)
    with pytest.raises(InputError, match="denominator"):
        Rational(degree=2).candidates(samples)


def test_states_that_are_negative_are_refused():
    t = torch.linspace(0, 6, 61, dtype=torch.float64)
    z = torch.stack([t.cos(), t.sin()], -1)[None]
    samples = LatentSamples.first_order(z, torch.zeros(1, 61, 2), times=t)
    with pytest.raises(InputError, match="not negative"):
        Rational(degree=1, latent=0, power=1.0).fit_samples(samples)
