"""Forecasts of a manifold with a law do not depend on units, on the order of components, or on the
precision in which data are stored.
"""

import numpy as np
import pytest

import romkit
from romkit.laws import PolynomialLaw

TIMES = np.linspace(0.0, 6.0, 61)
SPEEDS = np.linspace(1.0, 2.0, 5)
AHEAD = 1.35


def waves(speeds):
    """Waves of a speed of their own with a harmonic, seen at six places, which decay to a shape."""
    phase = speeds[:, None, None] * TIMES[:, None] - np.linspace(0, 3, 6)
    decay = np.exp(-0.3 * TIMES)[:, None]
    return np.cos(phase) + 0.2 * np.cos(2 * phase) + 0.1 * decay * np.sin(phase)


def forecast(
    second=1.0, size=1.0, order=slice(None), dtype=np.float64, speed=1.0, rounded=np.float64
):
    """Forecast in the first units and order, of data in others, of numbers that were rounded."""
    states = (size * waves(SPEEDS))[..., order].astype(rounded).astype(dtype)
    start = (size * waves(np.array([AHEAD])))[0, 0, order].astype(rounded).astype(dtype)
    data = romkit.data.from_arrays(states, second * TIMES, context={"speed": speed * SPEEDS})
    manifold = romkit.fit("polynomial-manifold", data, latent_dim=2).double()
    law = PolynomialLaw(degree=3, context_degree=1).fit(manifold, data)
    run = romkit.forecast(
        manifold,
        dynamics=law,
        initial_state=start,
        duration=second * 6.0,
        dt=second * 0.1,
        speed=speed * AHEAD,
    )
    states = run.state.values.astype(np.float64) / size
    back = np.argsort(np.arange(6)[order])
    return states[:, back]


@pytest.fixture(scope="module")
def reference():
    return forecast()


def test_the_forecast_is_close_to_the_truth(reference):
    assert np.abs(reference - waves(np.array([AHEAD]))[0]).max() < 0.05


@pytest.mark.parametrize(
    "change",
    [
        {"second": 1e-6},
        {"second": 86400.0, "size": 1e-6},
        {"size": 1e6},
        {"speed": 1e4},
        {"order": np.array([3, 0, 5, 1, 4, 2])},
    ],
    ids=lambda change: "-".join(change),
)
def test_units_and_order_change_nothing(reference, change):
    # coefficients that the data hardly determine amplify rounding
    assert np.abs(forecast(**change) - reference).max() < 5e-6


def test_single_precision_changes_what_it_rounds(reference):
    single = forecast(rounded=np.float32, dtype=np.float32)
    # nothing is computed in the precision of the data
    assert np.array_equal(single, forecast(rounded=np.float32))
    # errors of 6e-8 in the data grow along a run, by about its length in time scales
    assert np.abs(single - reference).max() < 5e-6
