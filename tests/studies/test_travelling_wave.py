"""Drift of travelling waves: waves whose drift is known, sampled on a ring."""

import math
from functools import partial

import pytest
import torch

from romkit.systems import Lorenz96
from studies.rollout_drift.scores import amplitude_drift, phase_drift, wave_number_agreement

N = 36
TIMES = torch.linspace(2.0, 12.0, 401, dtype=torch.float64)


def wave(*, number=8, speed=2.0, growth=0.0, phase=0.0, mean=2.5, times=TIMES):
    """(T, N): mean + exp(growth t) cos(number θ - speed t - phase)."""
    theta = 2 * math.pi * torch.arange(N, dtype=torch.float64) / N
    t = times.unsqueeze(-1)
    return mean + torch.exp(growth * t) * torch.cos(number * theta - speed * t - phase)


def value(x):
    return pytest.approx(x, abs=1e-10)


@pytest.mark.parametrize("error", [0.0, 0.03, -0.4, 5.0])
def test_phase_drift_is_the_error_of_the_speed_whatever_direction_lag_mean_amplitude_and_other_modes(error):
    assert phase_drift(TIMES, wave(), wave(speed=2.0 + error)).item() == value(error)
    assert phase_drift(TIMES, wave(speed=-2.0), wave(speed=-2.0 - error)).item() == value(error)
    assert phase_drift(10 * TIMES, wave(), wave(speed=2.0 + error)).item() == value(error / 10)  # ten times as slow
    assert abs(phase_drift(TIMES, wave(speed=0.0), wave(speed=error)).item()) == value(abs(error))
    rom = wave(speed=2.0 + error, phase=3.0, mean=-1.0, growth=-0.1) + wave(number=7, speed=9.0, growth=-0.1)
    assert phase_drift(TIMES, wave(), rom).item() == value(error)


@pytest.mark.parametrize("growth", [0.0, -0.25, 0.1])
def test_a_decaying_wave_gives_the_rate_of_its_decay_beyond_that_of_the_truth(growth):
    assert amplitude_drift(TIMES, wave(), wave(growth=growth, speed=2.3)).item() == value(growth)
    assert amplitude_drift(TIMES, wave(growth=growth), wave(growth=growth)).item() == value(0.0)


def test_a_wave_that_vanishes_has_a_finite_negative_drift():
    drift = amplitude_drift(TIMES, wave(), torch.where(TIMES.unsqueeze(-1) < 7.0, wave(), 2.5)).item()
    assert -math.inf < drift < -1.0


@pytest.mark.parametrize("metric", [phase_drift, amplitude_drift])
def test_only_the_part_before_the_divergence_counts_and_no_wave_has_no_drift(metric):
    rom = wave(speed=2.1, growth=0.05)
    early = metric(TIMES[:200], wave()[:200], rom[:200])
    rom[200:, 3] = torch.nan
    rom[300:] = 1.0  # finite again, but diverged for good
    assert metric(TIMES, wave(), rom).item() == value(early.item())
    for first in (0, 1):
        rom[first:] = torch.inf
        assert metric(TIMES, wave(), rom).isnan()
    assert metric(TIMES, torch.full((len(TIMES), N), 3.1, dtype=torch.float64), wave()).isnan()  # no wave at all


def test_wave_numbers_agree_until_they_change_or_the_member_diverges():
    truth, rom = wave(number=8), wave(number=8, speed=1.0, growth=-0.3)
    assert wave_number_agreement(truth, rom).item() == 1.0
    rom[100:200] = wave(number=7)[100:200]
    assert wave_number_agreement(truth, rom).item() == value(301 / 401)
    rom[300] = torch.nan
    assert wave_number_agreement(truth, rom).item() == value(200 / 401)
    assert wave_number_agreement(truth, torch.full_like(truth, torch.nan)).item() == 0.0


def test_members_are_scored_one_by_one():
    truth = torch.stack([wave(), wave(number=7, speed=-1.0)])
    seventh = wave(number=7, speed=-1.1)
    rom = torch.stack(
        [torch.stack([wave(speed=2 + 0.1 * s, growth=-0.1 * s), seventh + 2 * wave(number=7 + s)]) for s in range(3)]
    )
    rom[1, 0, 50:] = torch.nan
    phase, amplitude = partial(phase_drift, TIMES), partial(amplitude_drift, TIMES)
    for metric in (phase, amplitude, wave_number_agreement):
        loop = torch.stack([torch.stack([metric(truth[c], rom[s, c]) for c in range(2)]) for s in range(3)])
        torch.testing.assert_close(metric(truth, rom), loop, equal_nan=True)


def test_a_lorenz96_wave_that_runs_twice_as_fast_is_ahead_by_its_own_speed():
    x = torch.from_numpy(Lorenz96(transient=200.0).dataset(F=3.2, duration=10.0).state.values[0])
    times = 0.01 * torch.arange(500, dtype=torch.float64)
    speed = phase_drift(times, x[:1].expand(500, -1), x[:500]).abs().item()
    assert speed > 0.5
    assert phase_drift(times, x[:500], x[:1000:2]).item() == pytest.approx(speed, rel=0.02)
    assert phase_drift(times, x[:1000:2], x[:500]).item() == pytest.approx(-speed, rel=0.02)
