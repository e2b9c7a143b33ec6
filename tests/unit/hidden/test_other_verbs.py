"""The discovered parameter is one like any other: laws, rollouts, inference, tracking and
continuation along it.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import romkit

GAINS = np.array([-0.3, 0.1, 0.5, 0.3, -0.1])
TIMES = np.linspace(0, 12, 61)


def oscillator(gain, start, times):
    """States (T, 2) of x'' = -x + g x' - x² x', at rest up to g = 0; a gain may be a function of
    time.
    """
    at = gain if callable(gain) else lambda t: gain
    rates = lambda t, y: [y[1], -y[0] + (at(t) - y[0] ** 2) * y[1]]  # noqa: E731
    return solve_ivp(rates, (0, times[-1]), start, t_eval=times, rtol=1e-9, atol=1e-10).y.T


@pytest.fixture(scope="module")
def found():
    draw = np.random.default_rng(0)
    states = [oscillator(g, draw.uniform(-1.5, 1.5, 2), TIMES) for g in np.repeat(GAINS, 2)]
    runs = romkit.data.from_arrays(states, TIMES)
    runs = runs.assign_coords(batch=("trajectory", np.repeat(np.arange(len(GAINS)), 2)))
    return romkit.hidden_context(runs, group="batch")


@pytest.fixture(scope="module")
def model(found):
    projection = romkit.fit("identity", found.runs)
    return projection, romkit.law(projection, found.runs, kinds=["polynomial"])


@pytest.fixture(scope="module")
def gain_of(found):
    """Line from the hidden parameter to the gain."""
    return np.polynomial.Polynomial.fit(found.values["value"].values[:, 0], GAINS, 1)


def test_rollout(found, model):
    projection, law = model
    run = romkit.rollout(found.runs, projection, dynamics=law)
    assert float(run["nrmse"].max()) < 1e-5


def test_the_critical_point_is_on_the_branch(found, model, gain_of):
    projection, law = model
    hidden = found.values["value"].values[:, 0]
    ends = float(hidden[GAINS.argmin()]), float(hidden[GAINS.argmax()])
    branch = romkit.continuation(projection, dynamics=law, start=[0.0, 0.0], hidden1=ends)
    assert branch["special_kind"].values.tolist() == ["Hopf"]
    critical = float(branch["special_parameter"][0])
    assert abs(gain_of(critical)) < 1e-5
    assert abs(float(branch["frequency"][0]) - 1) < 1e-5


def test_inference(found, model, gain_of):
    projection, law = model
    states = oscillator(0.2, [1.0, 0.5], TIMES[:31])
    new = romkit.data.from_arrays([states], TIMES[:31])
    told = romkit.infer(projection, new, training=found.runs, dynamics=law, noise=1e-3)
    assert told["parameter"].values.tolist() == ["hidden1"]
    assert abs(gain_of(float(told["estimate"][0, 0])) - 0.2) < 1e-3


def test_a_drift_is_tracked(found, model, gain_of):
    projection, law = model
    times = np.linspace(0, 40, 401)
    states = oscillator(lambda t: 0.1 + 0.3 * t / 40, [0.5, 0.0], times)
    noise = 0.02
    measured = states + noise * np.random.default_rng(1).standard_normal(states.shape)
    tracker = romkit.Tracker(
        projection, noise=noise, training=found.runs, dynamics=law, drift=0.1, false_alarms=None
    )
    tracks = [tracker.update(t, x) for t, x in zip(times, measured, strict=True)]
    told = gain_of(np.array([float(track.estimate[0]) for track in tracks[200:]]))
    expected = 0.1 + 0.3 * times[200:] / 40
    assert np.sqrt(np.mean((told - expected) ** 2)) < 0.03
