"""Spread of individuals: known scatter is found, and what the context explains is none."""

import numpy as np
import pytest

import romkit
from romkit.learning.contexts import further_contexts, widest_gaps
from romkit.learning.symptoms import individual_spread

TIME = np.linspace(0, 5, 51)


def people(dose, scatter, seed=0):
    """Decays from a dose, of people whose sizes and rates scatter."""
    rng = np.random.default_rng(seed)
    size = dose * np.exp(scatter * rng.standard_normal(len(dose)))
    rate = np.exp(scatter * rng.standard_normal(len(dose)))
    states = size[:, None] * np.exp(-rate[:, None] * TIME)
    states = np.stack([states, 1 - np.exp(-rate[:, None] * TIME)], axis=-1)
    return romkit.data.from_arrays(states, TIME, context={"dose": dose})


@pytest.mark.parametrize("seed", [0, 1])
def test_individuals_that_the_dose_does_not_tell_apart_have_their_spread(seed):
    dose = np.linspace(1.0, 1.1, 24)
    data = people(dose, 0.4, seed)
    states = data["state"].values
    scaled = states / states.std((0, 1))
    exact = np.sqrt(scaled.var(0, ddof=1).mean())
    assert individual_spread(data) == pytest.approx(exact, rel=0.3)


@pytest.mark.parametrize("scatter", [0.0, 0.02])
@pytest.mark.parametrize("widest", [2.0, 10.0])
def test_runs_that_the_dose_tells_apart_are_no_individuals(scatter, widest):
    data = people(np.linspace(1.0, widest, 9), scatter)
    assert np.isnan(individual_spread(data))


@pytest.mark.parametrize("frequencies", [(1.0, 2.0), (3.0, 9.0)])
def test_oscillations_out_of_phase_are_no_individuals(frequencies):
    frequency = np.linspace(*frequencies, 9)
    phase = frequency[:, None] * 4 * TIME
    states = np.stack([np.sin(phase), np.cos(phase)], axis=-1)
    data = romkit.data.from_arrays(states, TIME, context={"frequency": frequency})
    assert np.isnan(individual_spread(data))


def test_repeats_have_the_deviation_of_one_run():
    """Two runs at each dose, from zero to it at rates of their own."""
    rng = np.random.default_rng(0)
    dose = np.repeat(np.linspace(1, 3, 40), 2)
    rate = np.exp(0.5 * rng.standard_normal(80))
    rise = 1 - np.exp(-rate[:, None] * TIME)
    data = romkit.data.from_arrays((dose[:, None] * rise)[..., None], TIME, context={"dose": dose})
    # of the same dose, with rates of all
    many = dose[:, None, None] * rise
    exact = np.sqrt(many.var(1, ddof=1).mean()) / data.state.values.std()
    assert individual_spread(data) == pytest.approx(exact, rel=0.3)


def test_more_runs_are_wanted_in_the_widest_gaps():
    contexts = np.array([[0.1], [0.5], [2.0]])
    assert widest_gaps(contexts, 2) == pytest.approx([0.3, 1.25])
    assert widest_gaps(contexts, 1) == pytest.approx([1.25])
    assert "1.25" in further_contexts(["rate"], contexts, 1)
    both = further_contexts(["p1", "p2"], np.random.default_rng(0).random((5, 2)), 2)
    assert "p1" in both
    assert "p2" in both


def test_runs_that_share_a_context_and_start_apart_are_no_individuals():
    time = np.linspace(0, 3, 31)
    size, rate = np.meshgrid([1.0, 2.0, 3.0], [0.5, 0.7, 0.9])
    states = size.reshape(-1, 1, 1) * np.exp(-rate.reshape(-1, 1) * time)[..., None]
    data = romkit.data.from_arrays(states, time, context={"rate": rate.ravel()})
    assert np.isnan(individual_spread(data))
