"""Inputs of which nobody says how they are between samples: the steps of runs show it."""

import numpy as np
import pytest

import romkit
from romkit.laws.polynomial import PolynomialLaw
from romkit.learning.between import shown_rule, with_rule

STEP = 0.2
TIMES = STEP * np.arange(61)
RATES = np.linspace(1.0, 2.0, 6)


def noise_of_switches(rng):
    """Inputs with another value at each sample, which look like straight lines."""
    return rng.uniform(-1, 1, (len(RATES), len(TIMES)))


def levels(rng):
    """Inputs that rest and jump, which look held."""
    return rng.uniform(-1, 1, (len(RATES), 7)).repeat(10, axis=1)[:, : len(TIMES)]


LOOKS = {"held": levels, "linear": noise_of_switches}


def lags(inputs, rule, noise=0.0):
    """Runs of ẋ = u - rate x from rest, by exact steps."""
    decay = np.exp(-RATES * STEP)
    of_start = (1 - decay) / RATES
    # of a straight line from u₀ to u₁: ∫ exp(rate (s - h)) (u₀ + (u₁ - u₀) s / h) ds
    of_slope = (1 - of_start / STEP) / RATES
    x = np.zeros(inputs.shape)
    for k in range(len(TIMES) - 1):
        pushed = of_start * inputs[:, k]
        if rule == "linear":
            pushed = pushed + of_slope * (inputs[:, k + 1] - inputs[:, k])
        x[:, k + 1] = decay * x[:, k] + pushed
    x = x + noise * np.random.default_rng(1).normal(size=x.shape)
    return romkit.data.from_arrays(
        x[..., None], TIMES, context={"rate": RATES}, control=inputs[..., None]
    )


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("rule", ["held", "linear"])
@pytest.mark.parametrize("look", LOOKS)
def test_steps_of_runs_show_the_rule(look, rule, noise):
    data = lags(LOOKS[look](np.random.default_rng(0)), rule, noise)
    assert romkit.data.inputs_held(data) == (look == "held")
    assert shown_rule(data) == (None if rule == look else rule)


def test_a_stated_rule_stays_and_constant_inputs_show_none():
    data = lags(levels(np.random.default_rng(0)), "linear")
    assert shown_rule(with_rule(data, "held")) is None
    constant = lags(np.ones((len(RATES), len(TIMES))), "held")
    assert shown_rule(constant) is None
    assert shown_rule(data.drop_vars(["control", "input"])) is None


def test_missing_samples_are_no_steps():
    data = lags(levels(np.random.default_rng(0)), "linear")
    data.state[0, 20:30] = np.nan
    data.control[1, 50:] = np.nan
    assert shown_rule(data) == "linear"


def test_the_law_takes_inputs_as_the_runs_show(tmp_path):
    data = lags(noise_of_switches(np.random.default_rng(0)), "held")
    law = PolynomialLaw(degree=1, context_degree=1)
    model = romkit.learn(data, "rate", members=0, kinds=[law])
    assert model.law.held
    assert model.between.is_taken
    assert model.between.error < 0.1 * model.between.error_assumed
    assert model.error < 1e-3
    run = model.test.isel(trajectory=0)
    forecast = model.forecast(
        initial_state=run.state[0].values,
        control=run.control.values,
        duration=12,
        dt=STEP,
        rate=float(run.rate),
    )
    assert np.abs(forecast.state.values - run.state.values).max() < 0.01
    assert "inputs held between samples" in repr(model)
    model.save(tmp_path)
    assert romkit.Learned.load(tmp_path).between == model.between


def test_the_assumed_rule_stays_where_its_law_errs_less(monkeypatch):
    data = lags(levels(np.random.default_rng(0)), "held")
    monkeypatch.setattr("romkit.learning.between.shown_rule", lambda train: "linear")
    law = PolynomialLaw(degree=1, context_degree=1)
    model = romkit.learn(data, "rate", members=0, kinds=[law])
    assert not model.between.is_taken
    assert model.law.held
    assert romkit.data.inputs_held(model.train)
    assert romkit.data.inputs_held(model.test)
    assert model.error < 1e-3
    assert "inputs held between samples" in repr(model)
