"""Runs at common times: their interval, gaps that stay, and inputs, held or straight lines."""

import re
import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline

import romkit
from romkit.errors import DataWarning

DRAW = np.random.default_rng(2)
TIME = 0.2 * np.arange(30)


def driven(inputs, **about):
    states = np.stack([np.sin(TIME), np.cos(TIME)], axis=-1)
    data = romkit.data.from_arrays(states, TIME, control=inputs)
    data.control.attrs.update(about)
    return data


STAIRCASE = np.repeat(DRAW.normal(size=(6, 1)), 5, axis=0)
NOISE = DRAW.normal(size=(30, 1))


@pytest.mark.parametrize("step", [0.05, 0.1, 0.2, 0.13])
@pytest.mark.parametrize(
    ("inputs", "about"),
    [(NOISE, {"between": "held"}), (STAIRCASE, {}), (STAIRCASE, {"units": "N"})],
)
def test_held_inputs_stay_until_the_next_sample(step, inputs, about):
    data = romkit.data.resampled(driven(inputs, **about), step)
    place = np.floor(data.time.values / 0.2 + 1e-9).astype(int)
    assert np.array_equal(data.control.values[0], inputs[place])
    assert romkit.data.inputs_held(data)


@pytest.mark.parametrize("step", [0.05, 0.1, 0.13])
@pytest.mark.parametrize(
    ("inputs", "about"),
    [(NOISE, {}), (NOISE, {"between": "linear"}), (STAIRCASE, {"between": "linear"})],
)
def test_linear_inputs_are_straight_lines(step, inputs, about):
    data = romkit.data.resampled(driven(inputs, **about), step)
    lines = np.interp(data.time, TIME, inputs[:, 0])
    assert np.allclose(data.control.values[0, :, 0], lines, rtol=0, atol=1e-12)
    assert not romkit.data.inputs_held(data)


def test_an_empty_cell_is_a_gap_of_its_component_alone():
    time = np.cumsum(DRAW.uniform(0.1, 0.2, size=80))
    states = np.stack([np.sin(time), np.cos(time), np.sin(2 * time)], axis=-1)
    empty = np.zeros(states.shape, dtype=bool)
    empty[3::7, 0] = empty[5::9, 2] = True
    empty[10:20, 1] = True  # longer than what is filled
    data = romkit.data.from_arrays(np.where(empty, np.nan, states), time)
    even = romkit.data.resampled(data, 0.15)
    t = even.time.values
    exact = np.stack([np.sin(t), np.cos(t), np.sin(2 * t)], axis=-1)
    error = abs(even.state.values[0] - exact)
    inner = slice(6, -6)
    assert np.nanmax(error[inner]) < 0.02
    assert np.isfinite(error[inner][:, [0, 2]]).all()
    in_gap = (t > time[9]) & (t < time[20])
    assert np.isnan(error[in_gap, 1]).all()
    assert np.isfinite(error[inner][~in_gap[inner], 1]).mean() > 0.9


def decays(offsets):
    """exp(-t/5) sampled densely at first and rarely later, once for each offset of the clock."""
    times = [np.append(np.arange(0, 8, 0.5), [9, 12, 24]) + offset for offset in offsets]
    states = [np.exp(-t / 5)[:, None] for t in times]
    with pytest.warns(DataWarning):
        return romkit.data.from_arrays(states, times)


@pytest.mark.parametrize("step", [0.25, 0.5, 1.0])
def test_gaps_that_stay_are_warned_of_and_filled_on_request(step):
    data = decays([0, 0.1])
    with pytest.warns(DataWarning, match="longest=") as warned:
        short = romkit.data.resampled(data, step)
    longest = float(re.search(r"longest=([\d.]+)", str(warned[0].message))[1])
    inside = (short.time > 12.2) & (short.time < 23.8)
    assert np.isnan(short.state.values[:, inside]).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = romkit.data.resampled(data, step, longest=longest)
    assert np.isfinite(whole.state.values[:, inside]).all()
    late = whole.time.values[inside.values]
    assert abs(whole.state.values[0, inside, 0] - np.exp(-late / 5)).max() < 0.1


def test_states_follow_a_spline():
    data = romkit.data.resampled(driven(NOISE), 0.05)
    inner = slice(4, -4)  # ends of a natural interpolant are less accurate
    exact = np.stack([np.sin(data.time), np.cos(data.time)], axis=-1)
    assert abs(data.state.values[0] - exact)[inner].max() < 1e-4


def burning(method, delta, rtol=1e-6):
    """Times and states of a flame, y' = y² - y³: rest, a front at 1 / delta, and rest again."""
    duration = 2 / delta
    flame = solve_ivp(lambda _, y: y**2 - y**3, (0, duration), [delta], method, rtol=rtol)
    return flame.t, flame.y.T


DELTAS = (0.002, 0.003, 0.005)


def error_of_splines(data, clocks, states):
    """Largest error, in deviations, of splines through common times at the samples between them."""
    deviation = np.concatenate(states).std()
    grid = data.time.values
    errors = []
    for run, clock, samples in zip(data.state.values[..., 0], clocks, states, strict=True):
        known = np.isfinite(run)
        inside = clock <= grid[known][-1]
        spline = CubicSpline(grid[known], run[known])
        errors.append(abs(spline(clock[inside]) - samples[inside, 0]).max())
    return max(errors) / deviation


@pytest.mark.parametrize("method", ["RK45", "BDF", "Radau", "LSODA"])
def test_output_of_adaptive_integrators_has_a_grid_of_its_size_and_no_gaps(method):
    clocks, states = zip(*(burning(method, delta) for delta in DELTAS), strict=True)
    intervals = np.concatenate([np.diff(clock) for clock in clocks])
    assert intervals.max() > 20 * intervals.min()
    with pytest.warns(DataWarning, match="times of their own"):
        own = romkit.data.from_arrays(list(states), list(clocks))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is missing
        data = romkit.data.resampled(own)
    for run, clock in zip(data.state.values[..., 0], clocks, strict=True):
        assert np.isfinite(run[data.time.values <= clock[-1]]).all()
    most = max(len(clock) for clock in clocks)
    assert data.sizes["time"] <= max(4 * most, 1000) + 1
    assert error_of_splines(data, clocks, states) < 0.01


@pytest.mark.parametrize(("first", "last"), [(0.99, 1.06), (1.0, 1.03), (0.3, 1.03)])
def test_a_hole_in_the_output_of_an_integrator_stays(first, last):
    clocks, states = [], []
    for delta in DELTAS:
        clock, flame = burning("BDF", delta, rtol=1e-9)
        in_hole = (clock * delta > first) & (clock * delta < last)
        is_there = ~in_hole if delta == DELTAS[1] else np.full(len(clock), True)
        clocks.append(clock[is_there])
        states.append(flame[is_there])
    with pytest.warns(DataWarning, match="times of their own"):
        own = romkit.data.from_arrays(states, clocks)
    with pytest.warns(DataWarning, match="lie in gaps"):
        data = romkit.data.resampled(own)
    is_missing = np.isnan(data.state.values[1, :, 0])
    behind = np.searchsorted(clocks[1] * DELTAS[1], first)
    start, end = clocks[1][[behind - 1, behind]]
    in_hole = (data.time.values > start) & (data.time.values < end)
    assert is_missing[in_hole].all()
    assert not is_missing[~in_hole & (data.time.values <= clocks[1][-1])].any()
    assert np.isfinite(data.state.values[0][data.time.values <= clocks[0][-1]]).all()


@pytest.mark.parametrize("hole", [1.0, 3.0])
def test_a_hole_in_measurements_at_random_times_stays(hole):
    intervals = np.random.default_rng(5).exponential(0.05, size=200)
    intervals[[120, 122]] = hole  # two, with a sample between them
    time = np.cumsum(intervals)
    data = romkit.data.from_arrays(np.sin(time)[:, None], time)
    with pytest.warns(DataWarning, match="lie in gaps"):
        even = romkit.data.resampled(data)
    t, x = even.time.values, even.state.values[0, :, 0]
    for place in (120, 122):
        inside = (t > time[place - 1]) & (t < time[place])
        assert np.isnan(x[inside]).all()
    assert np.isfinite(x).mean() > 0.95 * (1 - 2 * hole / time[-1])
    known = np.isfinite(x)
    assert abs(x - np.sin(t))[known].max() < 0.02


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_noise_at_uneven_times_does_not_refine_the_grid_without_end(noise):
    draw = np.random.default_rng(6)
    time = np.cumsum(np.exp(draw.uniform(-9, 0, size=300)))
    states = np.sin(time)[:, None] + noise * draw.normal(size=(300, 1))
    data = romkit.data.resampled(romkit.data.from_arrays(states, time), longest=10.0)
    assert data.sizes["time"] <= 4 * 300 + 1
    assert np.isfinite(data.state.values).all()


def test_a_component_with_few_samples_in_a_run_is_named():
    x = np.stack([np.sin(0.1 * np.arange(30)), np.cos(0.1 * np.arange(30))], axis=-1)
    runs = np.stack([x, x])
    runs[1, 3:, 1] = np.nan
    data = romkit.data.from_arrays(runs, 0.1, names=["a", "b"])
    with pytest.warns(DataWarning, match="b of runs 1"):
        common = romkit.data.resampled(data, 0.1)
    assert np.isnan(common.state.values[1, :, 1]).all()
    assert np.isfinite(common.state.values[0]).all()
