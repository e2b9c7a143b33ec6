"""Runs that are one motion at several speeds."""

import warnings

import numpy as np
import pytest
import torch

import romkit
from romkit.core.errors import ExtrapolationWarning, FitWarning, InputError
from romkit.learning.clocks import fit_clock, interpolate_phases, measure_clocks, sample_phases
from romkit.learning.errors import AT_EQUAL_TIMES
from romkit.learning.interpolation import InterpolatedRuns, obstacle
from tests.quick import linear_laws_only

TIMES = np.linspace(0, 3, 151)


def front(phase):
    """Fuel that burns at once after a delay, its product, and an intermediate."""
    burnt = 1 / (1 + np.exp(-12 * (phase - 1)))
    return np.stack([1 - burnt, burnt * (2 - np.exp(-phase)), 4 * burnt * (1 - burnt)], -1)


def swing(phase):
    """A swing that does not come to rest."""
    return np.stack([np.sin(3 * phase) * np.exp(-0.1 * phase), np.cos(3 * phase)], -1)


def pulses(phase):
    """Two pulses from rest and back, which no law of the state can follow."""
    first, second = np.exp(-np.square((phase - 0.7) / 0.2)), np.exp(-np.square((phase - 1.4) / 0.2))
    return np.stack([first, second, first - second], -1)


def power(c):
    return 2 * c + 0.5 * c**2


def arrhenius(c):
    return 3 / (1 + c) - 2


def runs(motion, law, contexts):
    return np.stack([motion(TIMES / np.exp(law(c))) for c in contexts])


def test_fields_pass_phases_as_each_of_their_cells_does():
    """Of more cells than samples, splines are combined from those of unit vectors."""
    clocks, phases = np.array([-0.3, 0.0, 0.4]), np.linspace(0, 2.5, 40)
    runs = np.stack([swing(TIMES * np.exp(-clock)) for clock in clocks])
    cells = np.random.default_rng(0).normal(size=(2, len(TIMES) + 1))
    of_field = sample_phases(runs @ cells, TIMES, clocks, phases)
    np.testing.assert_allclose(
        of_field, sample_phases(runs, TIMES, clocks, phases) @ cells, atol=1e-12
    )


@pytest.mark.parametrize("motion", [front, swing])
@pytest.mark.parametrize("law", [power, arrhenius])
def test_one_motion_at_several_speeds_is_exact_between_the_runs(motion, law):
    contexts = np.linspace(0, 1, 9)
    states = runs(motion, law, contexts)
    clocks = measure_clocks(states, TIMES, contexts[:, None])
    assert clocks == pytest.approx(law(contexts) - np.median(law(contexts)), abs=2e-4)
    unseen = np.array([0.07, 0.5, 0.93])
    known, wanted = torch.tensor(contexts[:, None]), torch.tensor(unseen[:, None])
    between = interpolate_phases(states, TIMES, clocks, known, wanted, TIMES)
    assert np.abs(between - runs(motion, law, unseen)).max() < 5e-3


def test_clocks_of_two_parameters_are_found():
    contexts = np.random.default_rng(0).uniform(size=(12, 2))
    law = contexts @ [1.5, -0.7]
    states = np.stack([swing(TIMES / np.exp(clock)) for clock in law])
    clocks = measure_clocks(states, TIMES, contexts)
    assert clocks == pytest.approx(law - np.median(law), abs=1e-4)
    wanted = np.array([[0.4, 0.6]])
    found = fit_clock(clocks, torch.tensor(contexts), torch.tensor(wanted))
    assert found == pytest.approx(wanted @ [1.5, -0.7] - np.median(law), abs=1e-3)


def test_runs_of_one_speed_have_one_clock():
    states = np.stack([c * swing(TIMES) for c in (1.0, 1.1, 1.2, 1.3)])
    assert measure_clocks(states, TIMES, np.arange(4.0)[:, None]) == pytest.approx(0.0, abs=1e-3)


def test_a_run_that_has_ended_goes_on_as_the_next_one_from_where_it_was():
    clocks = np.array([0.5, 0.0, -0.5])
    states = np.stack([swing(TIMES / np.exp(clock)) for clock in clocks])
    states[0] += 0.25  # of another level
    phases = np.linspace(0, TIMES[-1] * np.exp(0.5), 80)
    expected = swing(phases)
    found = sample_phases(states, TIMES, clocks, phases)
    assert found[0] == pytest.approx(expected + 0.25, abs=1e-4)
    assert found[1:] == pytest.approx(np.stack([expected] * 2), abs=1e-4)


def dataset(motion, law, contexts):
    names = {"speed": contexts}
    return romkit.data.from_arrays(runs(motion, law, contexts), TIMES, context=names)


def test_learn_finds_the_clock_and_keeps_it(tmp_path):
    data = dataset(pulses, power, np.linspace(-1, 0, 9)).isel(time=slice(None, None, 2))
    with warnings.catch_warnings(), linear_laws_only():
        warnings.simplefilter("ignore", FitWarning)
        model = romkit.learn(data, latent_dim=3, seconds=1.5)
    assert model.interpolated.clocks is not None
    assert model.error < 0.01
    assert model.error < 0.2 * model.of_law().error
    # equal times are another method, and keep their errors
    assert model.error < 0.2 * model.mean_errors[AT_EQUAL_TIMES]
    assert "at equal phases" in str(model).splitlines()[0]
    unseen = np.array([-0.7, -0.3])
    truth = runs(pulses, power, unseen)
    again = [model, romkit.Learned.load(model.save(tmp_path / "saved"))]
    for each in again:
        band = each.forecast(duration=3.0, dt=0.02, speed=unseen)
        assert np.abs(band["state"].values - truth).max() < 0.02
    assert "phases" in model.advice
    with pytest.raises(InputError):
        model.forecast(duration=6.0, dt=0.02, speed=-0.3)


def test_bars_follow_the_time_of_a_front():
    """They are widest where the front passes, whose time is known least."""
    data = dataset(front, lambda c: power(c) + 0.03 * np.sin(20 * c), np.linspace(0, 1, 9))
    projection = romkit.fit("identity", data)
    clocks = measure_clocks(data.state.values, TIMES, np.linspace(0, 1, 9)[:, None])
    between = InterpolatedRuns.fit(projection, data, with_bars=True, clocks=clocks)
    band = between.forecast(duration=3.0, dt=0.02, speed=0.56)
    width = (band.upper - band.lower).values[..., 0].ravel()
    passes = np.abs(band.state.values[..., 0].ravel() - 0.5).argmin()
    assert abs(int(width.argmax()) - passes) <= 5


def test_runs_that_rest_before_the_end_can_be_interpolated():
    ends = np.array([2.0, 2.2, 2.4, 2.6, 3.0])
    is_known = ends[:, None] >= TIMES
    resting = dataset(front, power, np.linspace(-2, -1, 5))
    moving = dataset(swing, power, np.linspace(-2, -1, 5))
    for data, can in ((resting, True), (moving, False)):
        states = np.where(is_known[..., None], data["state"].values, np.nan)
        cut = data.assign(state=(data["state"].dims, states))
        assert (obstacle(cut) == "") == can


@pytest.mark.parametrize(("motion", "is_told"), [(swing, True), (front, False)])
def test_the_time_is_told_at_which_the_next_slower_run_has_ended(motion, is_told):
    contexts = np.array([-1.0, -0.8, -0.5, -0.3, 0.0])
    data = dataset(motion, lambda c: c, contexts - 1.5)
    clocks = contexts - np.median(contexts)
    projection = romkit.fit("identity", data)
    between = InterpolatedRuns.fit(projection, data, with_bars=False, clocks=clocks)
    # between -0.5 and -0.3, which ends 0.1 of logarithms sooner
    end = TIMES[-1] * np.exp(-0.1)
    for duration in (end - 0.1, end + 0.1):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ExtrapolationWarning)
            between.forecast(duration=duration, dt=0.02, speed=-1.9)
        told = [str(warning.message) for warning in caught]
        assert any(f"{end:.4g}" in line for line in told) == (is_told and duration > end)
