"""Exported laws with inputs: held or straight lines between samples, as the data that they were
fitted to, against the solution of the equations that the data come from.
"""

import itertools
import warnings

import numpy as np
import pytest
import torch
from scipy.linalg import expm

import romkit
from romkit.laws import DMD, NeuralODE, SINDy
from tests.unit.test_export import Exported, assert_standard, needs_compiler, simulated

DT, STEPS, FINE = 0.2, 40, 20
A = np.array([[-0.7, 0.9], [-0.9, -0.3]])
B = np.array([[1.0, 0.2], [0.0, 0.5]])
RATES = np.block(
    [
        [A, B, np.zeros((2, 2))],
        [np.zeros((2, 4)), np.eye(2)],
        [np.zeros((2, 6))],
    ]
)
PIECE = expm(DT * RATES)
DRAW = np.random.default_rng(3)


def motion(inputs, start, between):
    """States (T, 2) at the samples of the inputs (T, 2), piece by piece: ẋ = A x + B u, u̇ = slope."""
    states = [start]
    for before, after in itertools.pairwise(inputs):
        slope = (after - before) / DT if between == "linear" else np.zeros(2)
        states.append(PIECE[:2] @ np.concatenate([states[-1], before, slope]))
    return np.array(states)


def dataset(between, runs=3):
    inputs = DRAW.normal(size=(runs, STEPS, 2))
    states = np.stack([motion(u, DRAW.normal(size=2), between) for u in inputs])
    data = romkit.data.from_arrays(states, DT, control=inputs)
    data.control.attrs["between"] = between
    return data


@pytest.fixture(scope="module", params=["held", "linear"])
def driven(request, tmp_path_factory):
    """How inputs are between samples, a projection, a law, and inputs and states of a new run."""
    data = dataset(request.param)
    modes = romkit.fit("pod", data, latent_dim=2)
    law = DMD().fit(modes, data)
    inputs = DRAW.normal(size=(STEPS, 2))
    states = motion(inputs, np.array([1.0, -0.5]), request.param)
    return request.param, modes, law, inputs, states


def test_laws_know_how_their_inputs_are(driven, tmp_path):
    between, modes, law, *_ = driven
    assert law.held is (between == "held")
    assert romkit.load(romkit.save(law, tmp_path / "law.safetensors")).held == law.held
    data = dataset(between)
    settings = {"hidden": (4,), "regression_steps": 2, "shooting_steps": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator in (SINDy(degree=1), NeuralODE(**settings)):
            assert estimator.fit(modes, data).held is law.held


def test_constant_inputs_tell_nothing():
    data = dataset("held")
    constant = data.assign(control=(data.control.dims, np.ones(data.control.shape)))
    assert romkit.data.controls.held_if_told(constant) is None
    assert romkit.data.controls.held_if_told(data) is True
    assert romkit.data.controls.held_if_told(data.drop_vars("control")) is None


def test_forecasts_take_inputs_as_the_law_does(driven):
    """Arrays declare nothing, and these look like no staircase."""
    _, modes, law, inputs, states = driven
    run = romkit.forecast(
        modes,
        dynamics=law,
        initial_state=states[0],
        duration=DT * (STEPS - 1),
        dt=DT,
        control=inputs,
        rtol=1e-9,
    )
    assert abs(run.state.values - states).max() < 1e-6


@needs_compiler
def test_c_takes_inputs_as_the_law_does(driven, tmp_path):
    between, modes, law, inputs, states = driven
    made = Exported(romkit.export(modes, tmp_path / "model.c", dynamics=law))
    latent = made.mapped("encode", states[0], 2)
    decoded = [states[0]]
    for k in range(STEPS - 1):
        if between == "held":
            made.set("control", inputs[k])
        else:
            made.call("set_control", k * DT, inputs[k], DT, inputs[k + 1])
        for fine in range(FINE):
            made.call("step", k * DT + fine * DT / FINE, DT / FINE, latent)
        decoded.append(made.mapped("decode", latent, 2))
    assert abs(np.array(decoded) - states).max() < 1e-8


@needs_compiler
def test_an_fmu_takes_inputs_as_the_law_does(driven, tmp_path):
    between, modes, law, inputs, states = driven
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        file = romkit.export(modes, tmp_path / "model.fmu", dynamics=law, dt=0.01)
    assert len(caught) == (between == "linear")
    assert_standard(file)
    slopes = np.diff(inputs, axis=0, append=inputs[-1:]) / DT
    columns = {"u0": inputs[:, 0], "u1": inputs[:, 1]}
    if between == "linear":
        columns |= {"der(u0)": slopes[:, 0], "der(u1)": slopes[:, 1]}
    names = list(columns)
    given = np.zeros(STEPS, dtype=[(name, float) for name in ("time", *names)])
    given["time"] = DT * np.arange(STEPS)
    for name in names:
        given[name] = columns[name]
    latent = modes.double()().encode(torch.from_numpy(states[0])).detach().numpy()
    start = {f"latent[{k}]": value for k, value in enumerate(latent)}
    stop = DT * (STEPS - 1)
    run = simulated(file, stop, DT, input=given, start_values=start, output=["x0", "x1"])
    for k in (0, 1):
        assert abs(run[f"x{k}"] - states[:, k]).max() < 1e-8


def test_programs_take_inputs_as_the_law_does(driven, tmp_path):
    between, modes, law, inputs, states = driven
    file = romkit.export(modes, tmp_path / "model.pt2", dynamics=law)
    step, encode, decode = (
        torch.export.load(tmp_path / f"model{part}.pt2").module()
        for part in ("", "-encode", "-decode")
    )
    assert file.name == "model.pt2"
    context = torch.zeros(1, 0, dtype=torch.float64)
    latent = encode(torch.from_numpy(states[:1]), context)
    h = torch.tensor(DT / FINE, dtype=torch.float64)
    for k in range(2):
        for fine in range(FINE):
            ends = inputs[k : k + 1]
            if between == "linear":
                shares = np.array([[fine], [fine + 1]]) / FINE
                ends = inputs[k] + shares * (inputs[k + 1] - inputs[k])
            t = torch.tensor(k * DT, dtype=torch.float64) + fine * h
            latent = step(t, h, latent, context, *torch.from_numpy(ends).unsqueeze(1))
    assert abs(decode(latent, context).numpy() - states[2]).max() < 1e-8
