"""Arguments that are of no use at doors of laws and of learned models: one line, at once."""

import numpy as np
import pandas as pd
import pytest

import romkit
from romkit.errors import RomkitError
from romkit.laws import LimitCycle, NeuralODE, PolynomialLaw

TIME = np.linspace(0, 6, 61)


@pytest.fixture(scope="module")
def runs():
    speed = np.linspace(1.0, 2.0, 6)
    states = np.sin(speed[:, None, None] * TIME[:, None] - np.arange(4))
    return romkit.data.from_arrays(states, TIME, context={"speed": speed})


@pytest.fixture(scope="module")
def pod(runs):
    return romkit.fit("pod", runs, latent_dim=2)


LAWS = {
    "a step that no integer holds": NeuralODE(
        hidden=(4,), step=2.0**80, regression_steps=2, shooting_steps=1
    ),
    "a degree that fills the memory": LimitCycle(degree=10**6),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_settings_of_laws_are_refused(runs, pod, law):
    with pytest.raises(RomkitError):
        law.fit(pod, runs)


@pytest.mark.parametrize("table", [pd.DataFrame(), pd.DataFrame({"t": [], "x": []})])
def test_empty_tables_are_refused(table):
    with pytest.raises(RomkitError):
        romkit.learn(table)


def test_a_name_that_no_file_can_have_and_a_module_are_refused(runs):
    with pytest.raises(RomkitError):
        romkit.load("a" * 5000)
    with pytest.raises(RomkitError, match="module numpy"):
        romkit.learn(runs, seed=np)


@pytest.fixture(scope="module")
def model(runs):
    return romkit.learn(runs, latent_dim=2, seconds=1, kinds=[PolynomialLaw(degree=1)])


ODD = {
    "start": (5.0, np.nan, "x", [1, 2], -1e300),
    "context": (pd.DataFrame({"speed": [1.5]}), np.array([1.5, 2.0]), 3, "speed"),
    "duration": (0, -1.0, np.inf, "1 s", None),
    "dt": (0, np.nan, [0.1], 10.0),
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in ODD.items() for v in values])
def test_arguments_of_forecasts_are_refused(model, runs, name, value):
    given = {"initial_state": runs.state[0, 0], "duration": 1.0, "dt": 0.1, "speed": 1.5}
    with pytest.raises(RomkitError):
        model.forecast(**given | {name: value})
