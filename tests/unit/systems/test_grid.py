"""Systems whose state is a field on a grid: datasets, forecasts and pictures have its axes."""

from typing import ClassVar

import numpy as np
import pytest

import romkit
from romkit.data import ContextParameter
from romkit.systems import System

X, Y = np.linspace(0, 1, 4), np.linspace(0, 2, 3)


class Cooling(System):
    """Fields on a plane that decay at a rate."""

    name, state_names = "cooling", [f"T{k}" for k in range(12)]
    dt, duration, horizon = 0.1, 1.0, 0.9
    context = (ContextParameter("rate", "1", 1.0, 2.0, "of decay"),)
    grid: ClassVar = {"y": Y, "x": X}

    def rhs(self, t, x, c):
        return -c * x

    def initial_state(self, contexts, rng):
        return np.tile(np.add.outer(Y, X).ravel(), (len(contexts), 1))


def test_fields_have_the_axes_of_the_grid():
    data = Cooling().dataset(rate=[1.0, 1.5, 2.0])
    pod = romkit.fit("pod", data, latent_dim=1)
    run = romkit.rollout(Cooling(), pod, rate=1.2)
    fields = romkit.data.fields(run)
    assert fields.rom_state.dims == ("time", "y", "x")
    assert np.array_equal(fields.x, X)
    assert np.array_equal(fields.y, Y)
    np.testing.assert_allclose(
        fields.truth_state[-1], np.exp(-1.2 * 0.9) * np.add.outer(Y, X), rtol=1e-5
    )
    ahead = romkit.forecast(
        pod,
        initial_state=data.isel(time=0, trajectory=0),
        duration=0.9,
        dt=0.1,
        system=Cooling(),
        rate=1.2,
    )
    assert ahead.state.dims == ("time", "y", "x")


def test_a_grid_of_another_size_is_refused():
    class Wrong(Cooling):
        grid: ClassVar = {"x": X}

    with pytest.raises(romkit.errors.InputError, match="12 points"):
        Wrong().dataset(rate=[1.0, 2.0])
