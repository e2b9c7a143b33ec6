"""Errors that widths rest on: those of models that have not seen a run, in their size at a context."""

import warnings

import numpy as np
import pytest

import romkit
from romkit.data.context import contexts_of
from romkit.learning.bars import calibrated as calibrated_by_folds
from romkit.learning.contexts import scaled
from romkit.learning.errors import Forecasts
from romkit.learning.leftout import Fitted, LeftOut
from romkit.metrics import deviations
from romkit.numerics import folds
from romkit.verbs.calibration import Calibration
from romkit.verbs.ensemble import _warn_excess
from romkit.verbs.sizes import gaps

NUMBER = 10
CONTEXTS = np.linspace(0, 1, NUMBER)[:, None]
SHAPE = (NUMBER, 60, 3)


def of_folds(size, seed, unseen_by=1.0):
    """Calibration by left-out runs whose errors at context c are normal, of size(c), larger by a factor
    than those of runs that the model has learned from.
    """
    draw = np.random.default_rng(seed)
    states = draw.normal(size=SHAPE)
    data = romkit.data.from_arrays(states, np.linspace(0, 1, 60), context={"c": CONTEXTS[:, 0]})
    std = deviations(data)
    contexts = scaled(contexts_of(data), data)
    of_context = size(CONTEXTS[:, 0])
    several = folds(CONTEXTS, 5)
    rows = np.concatenate(several)
    errors = (
        unseen_by * of_context[rows, None, None] * std * draw.normal(size=(len(rows), *SHAPE[1:]))
    )
    forecasts = Forecasts(states[rows] - errors, states[rows], {}, {}, None)
    widths = []
    for fold in several:
        kept = np.setdiff1d(np.arange(NUMBER), fold)
        widths.append(gaps(contexts[kept], contexts[fold]))
    missed = LeftOut(None, None, forecasts, of_context[rows], np.concatenate(widths))
    calibration, inside = calibrated_by_folds(Fitted(None, None, of_context), missed, data)
    return calibration, inside, std


@pytest.mark.parametrize("decades", [0.0, 1.0, -3.0])
def test_bars_hold_at_both_ends_of_errors_over_decades(decades):
    """Coverage at level 0.9 where errors are small, and where they are large."""

    def size(c):
        return 10.0 ** (decades * c)

    draw = np.random.default_rng(1)
    wanted = np.array([0.05, 0.5, 0.95])
    shares, of_runs = [], []
    for seed in range(20):
        calibration, inside, std = of_folds(size, seed)
        scale = calibration.scale(calibration.lead, np.zeros((3, *SHAPE[1:])), wanted[:, None])
        errors = size(wanted)[:, None, None] * std * draw.normal(size=(3, *SHAPE[1:]))
        shares.append((np.abs(errors) <= calibration.factor(0.9) * scale).mean((1, 2)))
        of_runs.append(inside)
    assert (np.mean(shares, 0) >= 0.8).all()
    assert (np.mean(shares, 0) <= 0.97).all()
    assert np.mean(of_runs) == pytest.approx(0.9, abs=0.03)


def test_gaps_that_missed_runs_leave_widen_no_bars_beside_runs():
    """Errors in gaps that missed runs leave are ten times as large; beside runs they are theirs."""
    calibration, _, _ = of_folds(np.ones_like, 0, unseen_by=10.0)
    beside = calibration.sizes.at(CONTEXTS[:1])
    assert beside == pytest.approx(1.0, rel=0.2)
    middle = calibration.sizes.at((CONTEXTS[4:5] + CONTEXTS[5:6]) / 2)
    assert beside < middle < 10.0


def lost(missed, run):
    """The same with a forecast that is lost."""
    state = missed.forecasts.state.copy()
    state[run, 30:] = np.nan
    return missed._replace(forecasts=missed.forecasts._replace(state=state))


@pytest.mark.parametrize("number", [3, 1])
def test_lost_forecasts_are_counted_and_left_out(number):
    draw = np.random.default_rng(0)
    states = draw.normal(size=(5, 60, 3))
    data = romkit.data.from_arrays(states, np.linspace(0, 1, 60), context={"c": np.arange(5.0)})
    rows = np.arange(1, 4)
    forecasts = Forecasts(states[rows] + 0.1, states[rows], {}, {}, None)
    missed = LeftOut(None, None, forecasts, np.full(3, 0.1), np.ones(3))
    for run in range(3 - number, 3):
        missed = lost(missed, run)
    calibration, _ = calibrated_by_folds(Fitted(None, None, np.full(5, 0.1)), missed, data)
    if number == 3:
        assert calibration is None
        return
    assert (calibration.lost, calibration.trajectories) == (1, 2)
    assert np.isfinite(calibration.quantiles).all()


def test_a_calibration_of_a_file_has_its_sizes():
    calibration, _, _ = of_folds(lambda c: 1 + c, 0)
    again = Calibration.from_dataset(calibration.to_dataset())
    spread = np.zeros(SHAPE)
    scales = [each.scale(calibration.lead, spread, CONTEXTS) for each in (calibration, again)]
    assert np.array_equal(*scales)


TIMES = np.linspace(0, 1, 40)


def calibrated(spread, error=None):
    """Of six runs whose members spread by some sizes, and whose errors are of size 1."""
    shape = (6, 40, 3)
    if error is None:
        error = np.random.default_rng(0).normal(size=shape)
    sizes = np.broadcast_to(np.asarray(spread, dtype=float)[:, None, None], shape)
    return Calibration.fit(TIMES, error, sizes, np.ones(3), typical=True)


@pytest.mark.parametrize("size", [1e-6, 0.1, 3.0])
@pytest.mark.parametrize("times", [0.5, 1.0, 4.0, 30.0])
def test_intervals_grow_with_members_that_disagree_more_than_ever(size, times):
    calibration = calibrated([size, 0.9 * size, 0.3 * size, size, 0.5 * size, 0.1 * size])
    spread = np.full((1, 40, 3), times * size)
    known = calibration.scale(TIMES, np.full((1, 40, 3), size))
    growth = np.hypot(calibration.growth[:, None] * calibration.profile, spread)
    assert calibration.excess(TIMES, spread) == pytest.approx(max(1.0, times))
    assert calibration.scale(TIMES, spread) == pytest.approx(max(1.0, times) * growth)
    if times <= 1:
        assert (calibration.scale(TIMES, spread) <= known).all()


def test_members_that_agree_on_the_first_states_alone_widen_nothing():
    """Spreads of rounding at the start have no ratio."""
    spread = np.zeros((6, 40, 3))
    spread[:, 1:] = 0.1
    spread[:, 0] = 1e-17
    error = np.random.default_rng(0).normal(size=spread.shape)
    calibration = Calibration.fit(TIMES, error, spread, np.ones(3), typical=True)
    begun = spread[:1].copy()
    begun[:, 0] = 1e-15
    assert calibration.excess(TIMES, begun) == pytest.approx(1.0)


def test_a_calibration_of_a_file_grows_as_before():
    calibration = calibrated([0.1, 0.2, 0.1, 0.3, 0.2, 0.1])
    again = Calibration.from_dataset(calibration.to_dataset())
    spread = np.full((2, 40, 3), 0.9)
    assert np.array_equal(again.scale(TIMES, spread), calibration.scale(TIMES, spread))
    assert again.excess(TIMES, spread)[0, -1] == pytest.approx(3.0)


@pytest.mark.parametrize("excess", [[1.0, 1.9], [1.0, 2.5], [3.0]])
def test_a_forecast_warns_where_members_disagree_by_far_more(excess):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _warn_excess(np.array(excess))
    assert len(caught) == (max(excess) > 2)
