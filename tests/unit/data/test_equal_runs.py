"""Runs that are equal at different values of a parameter."""

import warnings

import numpy as np
import pandas as pd
import pytest

import romkit
from romkit.data.habits import warn_habits
from romkit.errors import DataWarning

TIME = np.linspace(0, 3, 31)


def turning(speed, **more):
    """Runs that turn at speeds."""
    phase = np.asarray(speed)[:, None] * TIME
    states = np.stack([np.cos(phase), np.sin(phase)], axis=-1)
    return romkit.data.from_arrays(states, TIME, **more)


def told(data):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_habits(data, "equal runs")
    return [str(each.message) for each in caught if each.category is DataWarning]


def test_equal_runs_are_named_with_the_parameter_that_differs():
    context = {"load": [1.0, 1.1, 1.2, 1.3], "width": [2.0, 2.0, 2.0, 2.0]}
    (message,) = told(turning([1.0, 1.1, 1.2, 1.1], context=context))
    assert "runs 1 and 3" in message
    assert "load = 1.1 and load = 1.3" in message
    assert "width" not in message


def test_one_warning_names_all():
    load = np.linspace(1, 2, 6)
    (message,) = told(turning([1.0, 1.0, 1.0, 1.3, 1.3, 1.5], context={"load": load}))
    assert "3 runs" not in message.partition(";")[0]
    assert "2, 4" in message


def test_equal_contexts_other_inputs_other_bits_and_rest_are_silent():
    load = {"load": [1.0, 1.2]}
    assert not told(turning([1.0, 1.0, 2.0], context={"load": [1.0, 1.0, 1.5]}))
    pushes = np.stack([np.sin(TIME), np.cos(TIME)])[..., None]
    assert not told(turning([1.0, 1.0], context=load, control=pushes))
    assert told(turning([1.0, 1.0], context=load, control=np.stack([pushes[0]] * 2)))
    assert not told(turning([1.0, 1.0 + 1e-15], context=load))
    assert not told(turning([0.0, 0.0], context=load))
    assert not told(turning([1.0, 1.0]))


def test_missing_samples_are_compared_too():
    data = turning([1.0, 1.0, 1.5], context={"load": [1.0, 1.2, 1.4]})
    data.state[:, 25:] = np.nan
    assert told(data)
    data.state[0, 20] = np.nan
    assert not told(data)


@pytest.mark.parametrize("door", ["describe", "learn"])
def test_doors_tell(door):
    speed = np.linspace(1, 2, 5)
    applied = speed.copy()
    applied[3] = speed[1]
    if door == "describe":
        tables = []
        for run, (v, w) in enumerate(zip(speed, applied, strict=True)):
            tables.append(
                pd.DataFrame({"run": run, "time": TIME, "x": np.cos(w * TIME), "speed": v})
            )
        with pytest.warns(DataWarning, match="runs 1 and 3 are equal"):
            romkit.data.describe(pd.concat(tables), context=["speed"])
        return
    data = turning(applied, context={"speed": speed})
    with pytest.warns(DataWarning, match="runs 1 and 3 are equal"):
        romkit.learn(data, seconds=1, kinds=["sindy"])
