"""States at which runs go in two directions, as positions without rates do."""

import numpy as np
import pytest

import romkit
from romkit.learning.symptoms import opposite_share, quarter_period
from tests.unit.learning.test_advice import evidence

TIMES = np.linspace(0, 30, 301)
SPEED = np.linspace(1.0, 1.5, 5)


def swings(decay=0.02, noise=0.0):
    """Positions and rates (5, 301, 2, 2) of two masses that ring down in two modes."""
    slow = SPEED[:, None] * TIMES
    modes = []
    for phase in (slow, 2.6 * slow + 1.0):
        size = np.exp(-decay * TIMES)
        modes.append(np.stack([size * np.cos(phase), -size * np.sin(phase)], axis=-1))
    first, second = modes
    masses = np.stack([first + 0.3 * second, first - 0.3 * second], axis=-2)
    return masses + noise * np.random.default_rng(0).normal(size=masses.shape)


def runs(states, times=TIMES):
    states = states.reshape(*states.shape[:2], -1)
    return romkit.data.from_arrays(states, times, context={"speed": SPEED})


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("decay", [0.0, 0.02])
def test_positions_alone_have_two_ways_and_with_rates_one(decay, noise):
    masses = swings(decay, noise)
    assert opposite_share(runs(masses)) < 0.05
    assert opposite_share(runs(masses[..., 0])) > 0.2
    unit = np.array([1e-6, 1e6])
    in_units = opposite_share(runs(unit * masses[..., 0]))
    assert in_units == pytest.approx(opposite_share(runs(masses[..., 0])), abs=0.02)


def test_waves_fronts_and_runs_that_never_return_have_one_way():
    place = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    wave = np.cos(SPEED[:, None, None] * TIMES[:, None] - place)
    front = np.tanh(place - 0.2 * SPEED[:, None, None] * TIMES[:, None])
    for states in (wave, front, front[..., :1]):
        assert opposite_share(runs(states)) == 0.0
    standing = np.cos(SPEED[:, None, None] * TIMES[:, None]) * np.cos(place)
    assert opposite_share(runs(standing)) > 0.2


def test_a_quarter_of_the_period_is_counted_in_samples():
    course = np.cos(2 * np.pi * TIMES / 4.0)
    states = np.stack([course, course], axis=-1) * SPEED[:, None, None]
    assert quarter_period(runs(states)) == pytest.approx(10, abs=1)
    assert quarter_period(runs(states, TIMES**1.5)) is None
    growing = np.exp(0.01 * TIMES)[:, None] * SPEED[:, None, None]
    assert quarter_period(runs(np.concatenate([growing, growing], -1))) is not None


def test_the_past_that_advice_names_makes_a_state_of_positions():
    positions = runs(swings()[..., 0])
    sentence = evidence(positions, forecast=0.6, nearest=1.2).sentence()
    assert "delayed" in sentence
    past = romkit.data.delayed(positions, delays=1, every=quarter_period(positions))
    assert opposite_share(past) < 0.05
    assert "delayed" not in evidence(past, forecast=0.6, nearest=1.2).sentence()
