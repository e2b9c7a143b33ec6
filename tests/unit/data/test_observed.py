"""Checks of observations, and snapshots with gaps."""

import numpy as np
import pandas as pd
import pytest

import romkit
from romkit.data import check_states
from romkit.data.observed import check_observations, observed
from tests.refusals import refused


@pytest.fixture(scope="module")
def seen():
    system = romkit.systems.Lorenz96(n=8, transient=0.0)
    return system.dataset(F=[3.14, 3.2], duration=0.1).drop_vars("velocity")


def test_good_observations_pass(seen):
    assert check_observations(seen).sizes == seen.sizes
    one = seen.isel(trajectory=0, time=3)
    assert check_observations(one.drop_vars("time")).state.shape == (1, 1, 8)
    gaps = seen.copy(deep=True)
    gaps.state[0, :4] = np.nan  # the first observations
    check_observations(gaps)


def test_bad_observations_are_refused(seen):
    times = seen.time.values
    infinite, empty = seen.copy(deep=True), seen.copy(deep=True)
    infinite.state[0, 5, 3] = -np.inf
    empty.state[1] = np.nan
    for bad in (
        infinite,
        empty,
        seen.assign_coords(time=np.where(times == times[3], np.nan, times)),
        seen.assign_coords(time=times + 5j),
        seen.assign_coords(time=pd.date_range("2020", periods=len(times))),
        seen.assign_coords(time=times.astype(str)),
        seen.assign_coords(time=np.round(times, 1)),
        seen.isel(time=slice(None, None, -1)),
        seen.drop_vars("time"),
        seen.rename(state="u"),
        seen.assign(state=seen.state * 1j),
    ):
        refused(r"observations|data", check_observations, bad)


def test_snapshots_of_which_some_components_are_there(seen):
    holes = seen.copy(deep=True)
    rng = np.random.default_rng(0)
    holes.state.values[rng.random(holes.state.shape) < 0.3] = np.nan
    holes.state.values[..., 0] = np.nan  # no snapshot is complete
    refused("complete snapshot", check_states, holes)
    check_states(holes, whole=False)
    counts = np.isfinite(holes.state.values).sum(-1)
    assert np.array_equal(observed(holes, 5), counts >= 5)
    holes.state.values[1] = np.nan
    refused("snapshot in every trajectory", check_states, holes, whole=False)
