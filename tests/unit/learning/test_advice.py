"""Advice of a learned model: what its errors and its runs say."""

from dataclasses import replace

import numpy as np
import pytest

import romkit
from romkit.learning.advice import WITHOUT_A_MODEL, Evidence
from tests.unit.learning.test_individuals import people


def evidence(train, forecast, nearest):
    """Errors of three held-out runs, as large on runs that were seen."""
    values = {"forecast": forecast, "projection": 0.01, "rest": 1.0}
    values |= dict.fromkeys(WITHOUT_A_MODEL, nearest)
    held_out = {name: np.full(3, value) for name, value in values.items()}
    return Evidence(
        errors=held_out,
        seen=held_out,
        latent_dim=2,
        train=train,
        test=train.isel(trajectory=slice(3)),
        has_inputs=False,
        held_out=False,
    )


@pytest.mark.parametrize(("forecast", "nearest"), [(0.5, 0.4), (0.4, 0.5), (0.3, 0.32)])
def test_a_model_of_individuals_is_not_called_better_than_chance_makes_it(forecast, nearest):
    judged = evidence(people(np.linspace(1.0, 1.1, 24), 0.4), forecast, nearest)
    assert judged.individual_spread > 0.3
    sentence = judged.sentence()
    assert sentence.startswith("Not better")
    assert "dose" in sentence


@pytest.mark.parametrize("nearest", [1.5, 3.0])
def test_a_model_that_is_better_by_far_is_called_so(nearest):
    individuals = evidence(people(np.linspace(1.0, 1.1, 24), 0.4), 0.4, nearest)
    assert not individuals.sentence().startswith("Not better")
    others = evidence(people(np.linspace(1.0, 3.0, 9), 0.0), 0.1, 0.12)
    assert not others.sentence().startswith("Not better")
    assert np.isnan(others.individual_spread)


@pytest.mark.parametrize(
    ("clocks", "said"), [((0.998, 1.009), "1.1%"), ((0.25, 4.0), "from 0.25 to 4 times")]
)
def test_clocks_are_told_with_digits_that_differ(clocks, said):
    judged = evidence(people(np.linspace(1.0, 3.0, 9), 0.0), 0.03, 0.2)
    errors = dict(judged.errors) | {"law": np.full(3, 0.3)}
    at_phases = replace(judged, errors=errors, interpolated_in="c", clocks=clocks)
    assert said in at_phases.sentence()


@pytest.mark.parametrize("lost", [1, 2])
def test_advice_on_lost_forecasts_says_where_more_runs_would_help(lost):
    runs = people(np.linspace(1.0, 3.0, 9), 0.0)
    judged = evidence(runs, forecast=0.1, nearest=0.3)
    forecast = judged.errors["forecast"].copy()
    forecast[lost] = np.inf
    judged = replace(judged, errors=judged.errors | {"forecast": forecast})
    sentence = judged.sentence()
    assert (
        sentence.count(f"{float(runs.dose[lost]):.4g}") == 2
    )  # which is lost, and where to add runs


@pytest.mark.parametrize(("in_phase", "told"), [(0.05, True), (0.16, True), (0.4, False)])
def test_forecasts_that_lose_their_phase_alone_are_told_from_others(in_phase, told):
    runs = people(np.linspace(1.0, 3.0, 9), 0.0)
    judged = replace(evidence(runs, 0.55, 1.2), in_phase=in_phase, late=0.3)
    sentence = judged.sentence()
    assert ("phase" in sentence) == told
    assert ("would not help" in sentence) == (not told)
    # small errors are what they are
    assert "phase" not in replace(evidence(runs, 0.1, 1.2), in_phase=0.01).sentence()


def test_a_manifold_that_is_too_small_is_told_from_a_law_that_fails():
    judged = evidence(people(np.linspace(1.0, 3.0, 9), 0.0), 0.6, 1.2)
    small = replace(judged, errors=judged.errors | {"projection": np.full(3, 0.5)})
    assert "manifold of 2 latents" in small.sentence()
    assert "No law" not in small.sentence()
    assert "No law" in judged.sentence()


@pytest.mark.parametrize(
    ("noise", "error", "said"),
    # measured runs cannot err by less than their noise
    [(0.1, 0.15, True), (0.1, 0.3, False), (0.0, 0.15, False), (0.1, 0.05, False)],
)
def test_an_error_that_is_mostly_noise_blames_nothing_else(noise, error, said):
    t, c = np.linspace(0, 10, 201), np.linspace(1, 2, 9)
    states = np.sin(c[:, None, None] * t[:, None] + np.arange(3))
    states = states + noise * np.random.default_rng(0).normal(size=states.shape)
    data = romkit.data.from_arrays(states, t, context={"c": c})
    judged = evidence(data, error, 0.9)
    if noise:
        assert judged._noise == pytest.approx(noise / np.sqrt(0.5), rel=0.1)
    assert ("Most of the error" in judged.sentence()) == said
    coarse = evidence(data.isel(time=slice(None, None, 20)), error, 0.9)
    assert np.isnan(coarse._noise)
