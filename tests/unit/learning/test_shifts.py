"""Errors of forecasts that keep the motion and lose its phase."""

import numpy as np
import pytest

from romkit.learning.shifts import shifted

TIME = np.linspace(0, 40, 801)


def wave(frequency, amplitude=1.0):
    phase = 2 * np.pi * frequency * TIME[:, None] - np.arange(3)
    return amplitude * np.cos(phase)


@pytest.mark.parametrize("frequency", [0.5, 0.497, 0.503])
def test_a_wrong_frequency_is_an_error_of_phase(frequency):
    found = shifted(wave(frequency), wave(0.5))
    assert found.error < 0.05
    # the last piece ends as many periods behind as the frequencies differ by
    lag = 40 * (0.5 - frequency) / 0.5 / (TIME[1] - TIME[0])
    assert found.last == pytest.approx(lag, abs=0.2 * abs(lag) + 1)


@pytest.mark.parametrize("amplitude", [0.2, 0.5, 1.6])
def test_a_wrong_amplitude_stays_one(amplitude):
    off = abs(1 - amplitude) / np.sqrt(2)
    assert shifted(wave(0.5, amplitude), wave(0.5)).error == pytest.approx(off, rel=0.15)


def test_noise_and_gaps_are_no_phase():
    rng = np.random.default_rng(0)
    truth = wave(0.5)
    noisy = truth + 0.3 * rng.normal(size=truth.shape)
    noisy[100:140] = np.nan
    found = shifted(truth, noisy)
    assert found.error == pytest.approx(0.3, rel=0.1)
    assert abs(found.last) <= 1


def test_pieces_of_which_nothing_was_observed_are_left_out():
    truth = wave(0.5)
    gap = truth.copy()
    gap[100:300] = np.nan
    assert shifted(wave(0.5, 1.1), gap).error == pytest.approx(0.1 * np.sqrt(0.5), rel=0.2)
    assert np.isinf(shifted(truth, np.full_like(truth, np.nan)).error)
