"""Errors of forecasts that keep the motion and lose its phase."""

import numpy as np
import pytest

from romkit.learning.symptoms import shifted

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


@pytest.mark.parametrize("samples", [3.3, 7.0, 40.0])
@pytest.mark.parametrize("late", [0.3, 1.0])
def test_the_shift_is_found_between_coarse_samples(samples, late):
    """A forecast that falls behind by so many periods, of few samples each."""
    times = np.arange(400)
    phases = 2 * np.pi * times[:, None] / samples - np.arange(3)
    behind = late * times[:, None] / 399
    found = shifted(np.cos(phases - 2 * np.pi * behind), np.cos(phases))
    in_the_last_piece = late * 15 / 16 * samples
    assert found.last == pytest.approx(in_the_last_piece, rel=0.15, abs=0.1)
    # each piece falls behind by an eighth
    assert found.error < 2 * np.pi * late / 8


def test_pieces_without_samples_are_left_out():
    truth = wave(0.5)
    truth[:300] = np.nan
    found = shifted(wave(0.497), truth)
    assert found.error < 0.05
    assert found.last > 0
    truth[:] = np.nan
    assert shifted(wave(0.5), truth) == (np.inf, 0.0)


def test_a_forecast_at_rest_has_no_phase():
    assert shifted(np.zeros((100, 2)), wave(0.5)[:100, :2]).last == 0


def test_gaps_of_the_truth_leave_the_error_of_the_amplitude():
    gap = wave(0.5)
    gap[100:300] = np.nan
    assert shifted(wave(0.5, 1.1), gap).error == pytest.approx(0.1 * np.sqrt(0.5), rel=0.2)
