"""A tracker that knows a parameter of its training runs: errors of the model are those at the
contexts of the runs.
"""

import numpy as np
import pytest

import romkit
from romkit.laws import SINDy

NOISE = 0.02


@pytest.fixture(scope="module")
def turning():
    """Turns at six speeds, and their law, which is exact."""
    speed, time = np.linspace(1.0, 2.0, 6), np.linspace(0.0, 4.0, 41)
    angle = speed[:, None] * time
    states = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    data = romkit.data.from_arrays(states, time, context={"speed": speed})
    identity = romkit.fit("identity", data, verbose=False)
    return data, identity, SINDy(degree=1, threshold=0.01).fit(identity, data)


@pytest.mark.parametrize("speed", [1.0, 1.4, 2.0])
def test_a_known_parameter_leaves_the_covariance_of_kalman(turning, speed):
    """A turn keeps distances, so that k observations of both components have N / sqrt(k)."""
    data, identity, law = turning
    tracker = romkit.Tracker(
        identity, noise=NOISE, training=data, dynamics=law, false_alarms=None, speed=speed
    )
    draw, angle = np.random.default_rng(0), speed * data.time.values
    truth = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    for t, x in zip(data.time.values, truth, strict=True):
        tracker.update(float(t), x + NOISE * draw.normal(size=2))
    expected = NOISE / np.sqrt(len(truth))
    assert tracker.members.std(0, ddof=1) == pytest.approx(expected, rel=0.1)
    assert tracker.members.mean(0) == pytest.approx(truth[-1], abs=4 * expected)


def test_thresholds_do_not_depend_on_the_value_that_is_known(turning):
    data, identity, law = turning
    short = data.isel(time=slice(7))
    limits = []
    for speed in (1.0, 1.8):
        tracker = romkit.Tracker(identity, noise=NOISE, training=short, dynamics=law, speed=speed)
        limits.append(tracker.limits["residual"])
    assert limits[0] == pytest.approx(limits[1], rel=0.3)
