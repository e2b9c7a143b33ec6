"""`romkit.learn` of fields without a time, and of runs that do not move."""

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

import romkit
from romkit.errors import InputError
from romkit.learning import SteadyModel

X = np.linspace(0, 1, 40)
MU = np.linspace(1, 3, 12)


def field(mu):
    return np.sin(np.pi * X) * mu**2 + np.exp(-mu * X)


@pytest.fixture(scope="module")
def model():
    states = np.stack([field(mu) for mu in MU])
    data = xr.Dataset({"u": (("mu", "x"), states)}, {"mu": MU, "x": X})
    return romkit.learn(data, "mu")


def test_a_field_at_another_parameter_is_that_of_the_formula(model):
    predicted = model.predict(mu=2.1)
    assert predicted.u.dims == ("x",)
    np.testing.assert_allclose(predicted.u, field(2.1), atol=1e-4)
    np.testing.assert_allclose(model.predict(mu=[1.3, 2.1]).u[1], predicted.u)


def test_the_claim_is_the_error_of_fields_that_were_left_out(model):
    # a model of the others, by the same rule, errs as it is claimed
    k = 5
    weights = model.runs.smoother.weights
    rows = np.delete(np.arange(12), k)
    contexts = (MU - 1) / 2
    w = weights(torch.from_numpy(contexts[rows])[:, None], torch.from_numpy(contexts[[k]])[:, None])
    states = np.stack([field(mu) for mu in MU])
    error = (w.numpy() @ states[rows] - states[k])[0] / np.sqrt(states.var(0).mean())
    claimed = np.sort(model.errors["prediction"])
    assert np.isclose(np.sqrt(np.mean(error**2)), claimed, rtol=1e-6).any()
    assert model.error < 1e-4 < model.errors["nearest field"].mean()


def test_a_saved_model_predicts_the_same(model, tmp_path):
    loaded = SteadyModel.load(model.save(tmp_path / "model"))
    xr.testing.assert_equal(loaded.predict(mu=1.7), model.predict(mu=1.7))
    assert loaded.error == model.error


def conduction(left, right):
    """Temperatures of a bar, T(0) = 0 and T(1) = 1, whose halves conduct by `left` and `right`."""
    middle = right / (left + right)
    return np.where(X < 0.5, 2 * X * middle, middle + (2 * X - 1) * (1 - middle))


def test_two_parameters_in_a_table_of_one_row_each_with_intervals_that_hold():
    rng = np.random.default_rng(1)
    values = rng.uniform(1, 3, (30, 2))
    names = [f"T{k}" for k in range(len(X))]
    table = pd.DataFrame([conduction(*value) for value in values], columns=names)
    table = table.assign(left=values[:, 0], right=values[:, 1])
    model = romkit.learn(table, ["left", "right"])
    left, right = rng.uniform(1.3, 2.7, (2, 100))
    predicted = model.predict(left=left, right=right)
    truth = np.array([conduction(a, b) for a, b in zip(left, right, strict=True)])[:, 10]
    assert np.abs(predicted.T10 - truth).max() < 1e-3
    inside = (predicted.lower_T10 <= truth) & (truth <= predicted.upper_T10)
    assert inside.mean() > 0.8


def test_runs_at_rest_are_learned_as_functions_of_their_parameters():
    t = np.linspace(0, 5, 51)
    k = np.linspace(1, 2, 8)
    several = [
        pd.DataFrame({"run": i, "time": t, "p": v**2 + 0 * t, "q": 1 / v + 0 * t, "k": v})
        for i, v in enumerate(k)
    ]
    predicted = romkit.learn(pd.concat(several, ignore_index=True), "k").predict(k=1.55)
    assert float(predicted.p) == pytest.approx(1.55**2, abs=1e-4)
    assert float(predicted.q) == pytest.approx(1 / 1.55, abs=1e-4)
    # and in romkit's schema
    states = np.stack([np.tile([v**2, 1 / v], (51, 1)) for v in k])
    runs = romkit.data.from_arrays(states, t, context={"k": k})
    assert isinstance(romkit.learn(runs), SteadyModel)


@pytest.mark.parametrize("option", [{"latent_dim": 2}, {"kinds": ["sindy"]}, {"period": 1.0}])
def test_options_of_motion_are_refused(option):
    data = xr.Dataset({"u": (("mu", "x"), MU[:, None] * X)}, {"mu": MU, "x": X})
    with pytest.raises(InputError, match=next(iter(option))):
        romkit.learn(data, "mu", **option)


def test_two_fields_tell_nothing_of_a_third():
    data = xr.Dataset({"u": (("mu", "x"), MU[:2, None] * X)}, {"mu": MU[:2], "x": X})
    with pytest.raises(InputError, match="context"):
        romkit.learn(data, "mu")
