"""Hidden contexts that drift within runs, and their law."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import romkit
from romkit.errors import InputError

STARTS = np.array([0.8, 2.2, 1.4, 1.9])
REST, RATE = 1.2, 0.04
TIMES = np.linspace(0, 24, 97)


def oscillator(stiffness, state, times):
    """States (T, 3) of x'' = -k x with k' = -0.04 (k - 1.2)."""
    rates = lambda t, y: [y[1], -y[2] * y[0], -RATE * (y[2] - REST)]  # noqa: E731
    return solve_ivp(
        rates, (0, times[-1]), [*state, stiffness], t_eval=times, rtol=1e-9, atol=1e-10
    ).y.T


@pytest.fixture(scope="module")
def drift():
    draw = np.random.default_rng(0)
    states = [oscillator(k, draw.uniform(0.5, 1.0, 2), TIMES)[:, :2] for k in STARTS]
    return romkit.hidden.drifting_context(romkit.data.from_arrays(states, TIMES), pieces=6)


@pytest.mark.slow
def test_the_law_of_the_drift_is_found(drift):
    assert drift.found.number == 1
    # any affine map of the stiffness goes to its rest at the same rate; c stands last
    np.testing.assert_allclose(drift.coefficients[-1, 0], -RATE, rtol=0.1)
    assert drift.errors["c"] < 0.3 * drift.errors["constant"]


@pytest.mark.slow
def test_runs_have_a_parameter_that_moves(drift):
    hidden = drift.runs["hidden1"]
    assert hidden.dims == ("trajectory", "time")
    exact = np.stack([REST + (k - REST) * np.exp(-RATE * TIMES) for k in STARTS])
    assert abs(np.corrcoef(hidden.values.ravel(), exact.ravel())[0, 1]) > 0.99


@pytest.mark.slow
def test_a_forecast_with_the_drift_is_nearer_than_with_a_context_that_stays(drift):
    hidden = drift.runs["hidden1"].values[1, 0]
    states = drift.runs["state"].values[1]
    ahead = {"duration": 24.0, "dt": 0.25}
    moving = drift.forecast(states[0], [hidden], **ahead)["state"].values
    still = drift.found.forecast(states[0], hidden1=hidden, **ahead)["state"].values
    off = lambda run: np.sqrt(np.square(run - states).mean())  # noqa: E731
    assert off(moving) < 0.5 * off(still)


def test_pieces_of_few_samples_are_refused():
    runs = romkit.data.from_arrays([oscillator(1.0, (1, 0), TIMES)[:, :2]] * 4, TIMES)
    with pytest.raises(InputError, match="pieces"):
        romkit.hidden.drifting_context(runs, pieces=20)
