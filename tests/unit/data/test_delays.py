"""Delay coordinates give one sensor a law; runs with times of their own come to common ones."""

import numpy as np
import pytest

import romkit
from romkit.core.errors import DataWarning
from romkit.data import delayed, from_arrays, resampled
from romkit.laws import DMD
from tests.refusals import refused

TIME = 0.05 * np.arange(200)
pytestmark = pytest.mark.filterwarnings("ignore::romkit.errors.DataWarning")


@pytest.mark.parametrize("frequencies", [(2.0,), (2.0, 5.3), (1.0, 2.7, 4.1)])
def test_a_sum_of_m_sines_has_a_linear_law_in_2m_minus_1_delays(frequencies):
    x = sum(np.sin(w * TIME + w) for w in frequencies)[:, None]
    count = 2 * len(frequencies)
    data = delayed(from_arrays(x, TIME), delays=count - 1, every=5)
    pod = romkit.fit("pod", data, latent_dim=count, verbose=False)
    law = DMD().fit(pod, data)
    eigenvalues = np.linalg.eigvals(np.asarray(law.step(0.05)[0]))
    found = np.sort(np.abs(np.log(eigenvalues.astype(complex)).imag) / 0.05)[::2]
    assert np.allclose(found, sorted(frequencies), rtol=1e-6)
    assert float(romkit.rollout(data, pod, dynamics=law).nrmse.max()) < 1e-4
    own = DMD().fit(romkit.fit("pod", from_arrays(x, TIME), latent_dim=1), from_arrays(x, TIME))
    assert np.abs(np.asarray(own.step(0.05)[0]).imag).max() == 0  # which cannot turn round


def test_delays_are_columns_of_the_past():
    rng = np.random.default_rng(0)
    x, v, u = rng.normal(size=(2, 200, 3)), rng.normal(size=(2, 200, 3)), rng.normal(size=(2, 200))
    data = from_arrays(x, TIME, velocity=v, control=u, context={"a": [1.0, 2.0]}, names=list("pqr"))
    data.state[1, 50, 2] = np.nan
    past = delayed(data, delays=2, every=3)
    assert past.component.values.tolist()[:4] == ["p", "q", "r", "p(t-0.15)"]
    for name, values in (("state", data.state.values), ("velocity", v)):
        for k in range(3):
            columns = past[name].values[..., 3 * k : 3 * k + 3]
            assert np.array_equal(columns, values[:, 6 - 3 * k : 200 - 3 * k], equal_nan=True)
    assert np.array_equal(past.time, data.time[6:])
    assert np.array_equal(past.control[..., 0], u[:, 6:])
    assert past.a.values.tolist() == [1.0, 2.0]
    gone = ~romkit.data.schema.complete(past, ["state"])
    assert np.flatnonzero(gone[1]).tolist() == [44, 47, 50]


def test_delays_that_cannot_be_are_refused():
    data = from_arrays(np.sin(TIME)[:, None], TIME)
    refused("data", delayed, data, 20, every=10)
    refused("delays", delayed, data, 0)
    uneven = from_arrays(np.sin(TIME**2)[:, None], TIME**2)
    refused("data", delayed, uneven)


def runs(intervals, velocity=False):
    times = [np.arange(0, 8, step) for step in intervals]
    x = [np.stack([np.sin(t), np.cos(t)], -1) for t in times]
    rates = [np.stack([np.cos(t), -np.sin(t)], -1) for t in times] if velocity else None
    return from_arrays(x, times, velocity=rates)


@pytest.mark.parametrize("velocity", [False, True])
@pytest.mark.parametrize("intervals", [(0.1, 0.2), (0.1, 0.07), (0.05, 0.1, 0.03)])
def test_runs_with_intervals_of_their_own_come_to_common_times(intervals, velocity):
    data = resampled(runs(intervals, velocity))
    step = max(intervals)
    assert np.allclose(np.diff(data.time), step)
    right = np.stack([np.sin(data.time), np.cos(data.time)], -1)
    known = np.isfinite(data.state.values)
    assert known[:, : int(7.5 / step)].all()
    # of fourth order in the interval of the data: 5/384 h^4 for splines, less with rates
    assert np.abs(data.state.values - right)[known].max() < 0.2 * step**4
    assert ("velocity" in data) == velocity
    pod = romkit.fit("pod", data, latent_dim=2, verbose=False)
    assert float(romkit.rollout(data, pod, dynamics=DMD().fit(pod, data)).nrmse.max()) < 0.01


def test_gaps_and_ends_stay_missing_and_samples_stay():
    x = np.sin(TIME)[:, None].copy()
    x[60:80] = np.nan
    data = resampled(from_arrays([x, x[:50]], TIME), 0.05)
    assert np.array_equal(data.state.isnull()[0, :, 0], np.isnan(x[:, 0]))
    assert data.state.isnull()[1, 50:].all()
    known = ~np.isnan(x[:, 0])
    assert np.allclose(data.state[0, known, 0], x[known, 0], atol=1e-12)
    fine = resampled(from_arrays(x, TIME), 0.01)
    assert int(fine.state.isnull().sum()) == 104  # from 59 to 80 of the old interval, ends apart


def test_adaptive_times_with_inputs_and_a_moving_context():
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.uniform(0.02, 0.05, 300))
    times -= times[0]
    data = from_arrays(np.sin(times)[:, None], times, control=2 * times)
    data = data.assign_coords(F=(("trajectory", "time"), 3 * times[None], {"role": "context"}))
    even = resampled(data, 0.03)
    assert np.allclose(even.control[0, :, 0], 2 * even.time)
    assert np.allclose(even.F[0], 3 * even.time)
    assert np.abs(even.state[0, :, 0] - np.sin(even.time)).max() < 1e-5
    assert romkit.data.even_step(even.time.values) == pytest.approx(0.03)


def test_what_cannot_be_resampled_is_refused():
    refused("step", resampled, runs((0.1, 0.2)), 9.0)
    refused("step", resampled, runs((0.1, 0.2)), -1.0)
    short = from_arrays([np.sin(TIME)[:, None], np.ones((2, 1))], TIME)
    refused("data", resampled, short)
    with pytest.warns(DataWarning, match="resampled"):
        runs((0.1, 0.07))
