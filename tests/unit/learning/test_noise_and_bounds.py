"""Models of noisy runs, and models that cannot blow up."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import romkit
from romkit.laws import PolynomialLaw
from romkit.laws.bounded import BoundedLaw


def run(start, mu):
    """Return a run (101, 2) of van der Pol's oscillator."""
    times = np.linspace(0, 12, 101)
    return solve_ivp(
        lambda t, s: [s[1], mu * (1 - s[0] ** 2) * s[1] - s[0]],
        (0, 12),
        start,
        t_eval=times,
        rtol=1e-9,
        atol=1e-9,
    ).y.T


@pytest.fixture(scope="module")
def model():
    """Return a bounded model of five runs with two per cent of noise."""
    draw = np.random.default_rng(0)
    values = np.linspace(0.5, 1.5, 5)
    states = np.array([run(draw.uniform(-2, 2, 2), mu) for mu in values])
    noisy = states + 0.02 * states.std((0, 1)) * draw.standard_normal(states.shape)
    runs = romkit.data.from_arrays(noisy, np.linspace(0, 12, 101), context={"mu": values})
    return romkit.learn(
        runs, kinds=[PolynomialLaw(degree=3, context_degree=1)], latent_dim=2, bounded=True
    )


def test_equation_of_noisy_runs_has_the_terms_of_the_truth(model):
    assert isinstance(model.law, BoundedLaw)
    assert model.law.last is not None
    assert model.law.coefficient_count == 4
    forecast = model.forecast(initial_state=[1.0, 0.0], duration=12, dt=0.12, mu=0.9)
    error = forecast.state.values[:101] - run([1.0, 0.0], 0.9)
    assert np.sqrt((error**2).mean()) < 0.02


@pytest.mark.filterwarnings("ignore:the reduced model leaves")
def test_forecasts_from_far_away_come_back(model):
    starts = np.random.default_rng(1).uniform(-9, 9, (20, 2))
    for start in starts:
        forecast = model.forecast(initial_state=start, duration=40, dt=0.5, mu=0.9)
        assert np.abs(forecast.state.values[-20:]).max() < 4
