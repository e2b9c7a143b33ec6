"""First states that a model cannot have are warned of; those that it has, and latent ones, are not."""

import warnings

import numpy as np
import pytest

import romkit
from romkit.core.errors import ExtrapolationWarning

TIMES = np.linspace(0, 6, 61)
PHASES = 2 * np.pi * np.arange(8) / 8
ZIGZAG = np.array([1.0, -1.0] * 4)
"""Orthogonal to all waves."""


@pytest.fixture(scope="module")
def model():
    """Waves in two modes, and their law."""
    speeds = np.linspace(1, 2, 4)
    waves = np.sin(speeds[:, None, None] * TIMES[:, None] - PHASES)
    data = romkit.data.from_arrays(waves, TIMES, context={"speed": speeds})
    pod = romkit.fit("pod", data, latent_dim=2)
    return pod, romkit.laws.SINDy(degree=1, context_degree=1).fit(pod, data)


def forecast(model, state):
    pod, law = model
    return romkit.forecast(pod, dynamics=law, initial_state=state, duration=1.0, dt=0.5, speed=1.5)


@pytest.mark.parametrize("off", [ZIGZAG, 100.0, np.eye(8)[3] * 5])
def test_a_start_that_is_none_of_the_model_is_warned_of(model, off):
    wave = np.sin(-PHASES)
    with pytest.warns(ExtrapolationWarning, match="initial_state") as caught:
        ahead = forecast(model, wave + off)
    missed = ahead["state"].isel(time=0).values - (wave + off)
    # waves have a variance of one half
    said = f"{np.sqrt(np.mean(missed**2) / 0.5):.2g} deviations"
    assert any(said in str(warning.message) for warning in caught)


@pytest.mark.parametrize("state", [np.sin(-PHASES), np.sin(-PHASES) + 0.1 * ZIGZAG, [0.3, -0.2]])
def test_a_start_that_the_model_has_is_not(model, state):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        forecast(model, state)
    assert not [warning for warning in caught if "initial_state" in str(warning.message)]


def test_of_several_starts_those_that_are_none_are_counted(model):
    states = np.stack([np.sin(-PHASES), np.sin(-PHASES) + ZIGZAG, np.sin(1 - PHASES)])
    with pytest.warns(ExtrapolationWarning, match="in 1 of 3 forecasts"):
        forecast(model, states)
