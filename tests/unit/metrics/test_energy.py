"""Energy drift: of numbers, of an oscillator, and of the pendulum, whose energy is checked against MuJoCo."""

import math

import mujoco
import pytest
import torch

from romkit.metrics import energy_drift, peak_energy_drift
from romkit.systems import Pendulum
from romkit.systems.mujoco.engine import compile_chain

LENGTHS = {"l1": 0.4, "l2": 0.5, "l3": 0.6, "l4": 0.45}


def test_an_oscillator_that_gains_gives_its_gain():
    t = torch.linspace(0, 10, 101, dtype=torch.float64)
    growth = torch.tensor([[0.0], [0.01], [-0.02]], dtype=torch.float64)
    q, v = torch.exp(growth * t) * torch.cos(t), torch.exp(growth * t) * torch.sin(t)
    energy = (q.square() + v.square()) / 2
    drift = energy_drift(energy, energy[:, 0])
    torch.testing.assert_close(drift, torch.expm1(2 * growth * t))
    assert drift[0].abs().max() < 1e-14
    expected = [0.0, math.expm1(0.2), -math.expm1(-0.4)]
    assert peak_energy_drift(energy, energy[:, 0]).tolist() == pytest.approx(expected, abs=1e-14)


def test_the_scale_is_that_of_the_caller():
    energy = torch.tensor([[1.0, 2.0, 0.5]])
    assert energy_drift(energy, torch.tensor([4.0])).tolist() == [[0.0, 0.25, -0.125]]


def test_a_diverged_member_has_an_infinite_peak_and_its_neighbour_is_not_touched():
    energy = torch.ones(2, 5)
    energy[0, 3:] = torch.nan
    assert energy_drift(energy, torch.ones(2))[0].isnan().tolist() == [False, False, False, True, True]
    assert peak_energy_drift(energy, torch.ones(2)).tolist() == [torch.inf, 0.0]


def test_the_pendulum_keeps_its_energy_and_a_push_is_seen():
    data = Pendulum().dataset(**LENGTHS, duration=1.0)
    q, v = (torch.from_numpy(data[name].values[0]) for name in ("state", "velocity"))
    energy = Pendulum().energy(**LENGTHS)
    kept = energy(q, v)
    assert peak_energy_drift(kept, kept[0]).item() < 1e-4
    pushed = torch.where(torch.arange(1000) < 500, kept, energy(q, 1.1 * v))
    assert peak_energy_drift(pushed, kept[0]).item() > 0.05


def test_the_change_of_the_pendulum_energy_is_that_of_mujoco():
    data = Pendulum().dataset(**LENGTHS, duration=1.0)
    q, v = (data[name].values[0, ::100] for name in ("state", "velocity"))
    model = compile_chain(list(LENGTHS.values()), 1e-3)
    model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    state, expected = mujoco.MjData(model), []
    for angles, rates in zip(q, 1.3 * v, strict=True):  # not the motion's own velocities: the energy must change
        state.qpos[:], state.qvel[:] = angles[:4], rates[:4]
        mujoco.mj_forward(model, state)
        expected.append(state.energy.sum())
    expected = torch.tensor(expected, dtype=torch.float64)
    energy = Pendulum().energy(**LENGTHS)(torch.from_numpy(q), 1.3 * torch.from_numpy(v))
    scale = energy[0]
    torch.testing.assert_close(energy_drift(energy, scale), energy_drift(expected, scale), rtol=1e-9, atol=1e-9)
    assert peak_energy_drift(energy, scale) > 0.1


def test_an_infinite_energy_is_an_infinite_drift():
    assert peak_energy_drift(torch.tensor([1.0, torch.inf]), torch.tensor(1.0)) == torch.inf
