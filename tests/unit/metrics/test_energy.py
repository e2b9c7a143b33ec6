"""Energy drift of numbers and of an oscillator; the pendulum's energy is checked against MuJoCo in `test_chain`."""

import math

import pytest
import torch

from romkit.metrics import energy_drift, peak_energy_drift


def test_an_oscillator_that_gains_gives_its_gain_and_a_diverged_member_an_infinite_peak():
    t = torch.linspace(0, 10, 101, dtype=torch.float64)
    growth = torch.tensor([[0.0], [0.01], [-0.02]], dtype=torch.float64)
    q, v = torch.exp(growth * t) * torch.cos(t), torch.exp(growth * t) * torch.sin(t)
    energy = (q.square() + v.square()) / 2
    drift = energy_drift(energy, energy[:, 0])
    torch.testing.assert_close(drift, torch.expm1(2 * growth * t))
    assert drift[0].abs().max() < 1e-14
    expected = [0.0, math.expm1(0.2), -math.expm1(-0.4)]
    assert peak_energy_drift(energy, energy[:, 0]).tolist() == pytest.approx(expected, abs=1e-14)
    of_the_caller = torch.tensor([4.0])
    assert energy_drift(torch.tensor([[1.0, 2.0, 0.5]]), of_the_caller).tolist() == [[0.0, 0.25, -0.125]]
    energy = torch.ones(2, 5)
    energy[0, 3:] = torch.nan
    assert energy_drift(energy, torch.ones(2))[0].isnan().tolist() == [False, False, False, True, True]
    assert peak_energy_drift(energy, torch.ones(2)).tolist() == [torch.inf, 0.0]
    assert peak_energy_drift(torch.tensor([1.0, torch.inf]), torch.tensor(1.0)) == torch.inf
