"""Inputs of runs at common times: held or straight lines, as they are in the data."""

import re
import warnings

import numpy as np
import pytest

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
