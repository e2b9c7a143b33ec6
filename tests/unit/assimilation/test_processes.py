"""Models that inference keeps go to other processes, in use, and give the same numbers there."""

import pickle

import numpy as np
import pytest

import romkit
from romkit.laws import SINDy


@pytest.fixture(scope="module")
def ring():
    system = romkit.systems.Lorenz96(n=8, transient=0.0)
    data = system.dataset(F=[3.14, 3.15, 3.16, 3.2], duration=0.5)
    pod = romkit.fit("pod", data, latent_dim=4, verbose=False)
    law = SINDy(degree=1, threshold=0.0, refine=False).fit(pod, data)
    return system, data, pod, law


def sent(model):
    return pickle.loads(pickle.dumps(model))


def test_a_tracker_of_a_law_goes_on_in_another_process(ring):
    _, data, pod, law = ring
    tracker = romkit.Tracker(pod, noise=0.1, training=data, dynamics=law, false_alarms=None)
    t, seen = data.time.values, data.state.values[1]
    for k in range(3):
        tracker.update(float(t[k]), seen[k])
    other = sent(tracker)
    for k in range(3, 6):
        here, there = tracker.update(float(t[k]), seen[k]), other.update(float(t[k]), seen[k])
        np.testing.assert_array_equal(here.estimate, there.estimate)


def test_a_calibration_infers_the_same_in_another_process(ring):
    _, data, pod, law = ring
    calibration = romkit.calibrate(pod, data, data, dynamics=law, noise=0.1)
    here, there = romkit.infer(calibration, data), romkit.infer(sent(calibration), data)
    assert here.drop_attrs().equals(there.drop_attrs())


def test_a_system_through_a_basis_goes_to_another_process(ring):
    system, data, _, _ = ring
    reduced = system.through(romkit.basis(data, rank=4))
    shares = reduced.unresolved(data)
    other = sent(reduced)
    np.testing.assert_array_equal(other.unresolved(data), shares)
    runs = [romkit.simulate(each, F=3.15, duration=0.1).state for each in (reduced, other)]
    np.testing.assert_array_equal(*runs)
