"""Errors that widths rest on: a member that knows a run is not judged by it as by an unseen one."""

import warnings

import numpy as np
import pytest

from romkit.verbs.calibration import Calibration
from romkit.verbs.ensemble import _warn_of_excess
from romkit.verbs.missed import CHANCE, Judged, Runs, _understated, calibration_of

BY_MEMBERS = np.array([False, False, True, True, True])


def sizes(of_law, of_members):
    """Sizes (V,) of errors of the law and of members."""
    return np.where(BY_MEMBERS, of_members, of_law)


@pytest.mark.parametrize("ratio", [1.6, 4.0, 1000.0])
def test_errors_of_members_that_know_are_raised_to_those_of_the_law(ratio):
    assert _understated(sizes(ratio, 1.0), BY_MEMBERS) == pytest.approx(ratio)


@pytest.mark.parametrize("ratio", [0.1, 1.0, 0.99 * CHANCE])
def test_differences_by_chance_and_worse_members_raise_nothing(ratio):
    assert _understated(sizes(ratio, 1.0), BY_MEMBERS) == 1.0


@pytest.mark.parametrize("usable", [BY_MEMBERS, ~BY_MEMBERS])
def test_without_forecasts_of_either_nothing_is_raised(usable):
    assert _understated(sizes(5.0, 1.0)[usable], BY_MEMBERS[usable]) == 1.0


NUMBER, HELD_OUT, MISSED = 10, [3, 6], [2, 4, 8]
CONTEXTS = np.linspace(0, 1, NUMBER)[:, None]
WIDTH, STD = np.ones(1), np.array([1.0, 100.0, 1e-3])


def who_has_not_seen():
    unseen = np.zeros((1 + len(MISSED), NUMBER), dtype=bool)
    unseen[:, HELD_OUT] = True
    for member, run in enumerate(MISSED, start=1):
        unseen[member, run] = True
    return unseen


def runs_of(size, seed, unseen_by=1.0, members=0.0):
    """Forecasts whose errors at context c are normal, of size(c), larger by a factor where the law has
    not seen a run; members apart by a share of the size.
    """
    draw = np.random.default_rng(seed)
    unseen = who_has_not_seen()
    factor = np.where(unseen, unseen_by, 1.0)[..., None, None]
    of_context = size(CONTEXTS[:, 0])[:, None, None]
    errors = factor * of_context * draw.normal(size=(NUMBER, 60, 3)) * STD
    truth = np.zeros((NUMBER, 60, 3))
    apart = members * of_context * STD * draw.normal(size=(len(unseen), NUMBER, 60, 3))
    apart[0] = 0.0
    runs = Runs(CONTEXTS, unseen)
    return truth, errors + apart, runs


def calibrated_runs(truth, states, runs, parts=8):
    judged = Judged.of(truth, states, STD, runs, parts)
    return calibration_of(judged, runs, WIDTH, STD, np.linspace(0, 1, 60))


@pytest.mark.parametrize("decades", [0.0, 1.0, -3.0])
def test_bars_hold_at_both_ends_of_errors_over_decades(decades):
    """Coverage at level 0.9 where errors are small, and where they are large."""

    def size(c):
        return 10.0 ** (decades * c)

    draw = np.random.default_rng(1)
    wanted = np.array([0.05, 0.5, 0.95])
    shares = []
    for seed in range(20):
        calibration = calibrated_runs(*runs_of(size, seed))
        scale = calibration.scale(calibration.lead, np.zeros((3, 60, 3)), wanted[:, None])
        errors = size(wanted)[:, None, None] * STD * draw.normal(size=(3, 60, 3))
        shares.append((np.abs(errors) <= calibration.factor(0.9) * scale).mean((1, 2)))
    assert (np.mean(shares, 0) >= 0.8).all()
    assert (np.mean(shares, 0) <= 0.97).all()


def test_gaps_that_missed_runs_leave_widen_no_bars_beside_runs():
    """Errors in gaps that missed runs leave are ten times as large; beside runs they are theirs."""
    calibration = calibrated_runs(*runs_of(np.ones_like, 0, unseen_by=10.0))
    beside = calibration.sizes.at(CONTEXTS[:1])
    assert beside == pytest.approx(1.0, rel=0.2)
    middle = calibration.sizes.at((CONTEXTS[4:5] + CONTEXTS[5:6]) / 2)
    assert beside < middle < 10.0


@pytest.mark.parametrize("parts", [0, 8])
def test_the_distance_of_a_member_from_what_it_misses_is_part_of_its_spread_once(parts):
    truth, states, runs = runs_of(np.ones_like, 0)
    states[1, MISSED[0]] += 50 * STD
    judged = Judged.of(truth, states, STD, runs, parts)
    (own,) = {0: np.sqrt([1 / 3]), 8: np.sqrt([7 / 8])}[parts]
    assert judged.own[MISSED[0]] == pytest.approx(50 * own, rel=0.2)
    assert not judged.own[HELD_OUT].any()
    assert not judged.spread[MISSED[0]].any()


def test_lost_forecasts_are_counted_and_left_out():
    truth, states, runs = runs_of(np.ones_like, 0)
    states[1, MISSED[0]] = np.nan
    calibration = calibrated_runs(truth, states, runs)
    assert calibration.lost == 1
    assert calibration.trajectories == len(HELD_OUT + MISSED) - 1
    assert np.isfinite(calibration.quantiles).all()


def test_a_calibration_of_a_file_has_its_sizes():
    calibration = calibrated_runs(*runs_of(lambda c: 1 + c, 0, members=0.1))
    again = Calibration.from_dataset(calibration.to_dataset())
    spread = np.full((NUMBER, 60, 3), 0.1) * STD
    scales = [each.scale(calibration.lead, spread, CONTEXTS) for each in (calibration, again)]
    assert np.array_equal(*scales)


TIMES = np.linspace(0, 1, 40)


def calibrated(spread, error=None):
    """Of six runs whose members spread by some sizes, and whose errors are of size 1."""
    shape = (6, 40, 3)
    if error is None:
        error = np.random.default_rng(0).normal(size=shape)
    sizes = np.broadcast_to(np.asarray(spread, dtype=float)[:, None, None], shape)
    return Calibration.of(TIMES, error, sizes, np.ones(3), typical=True)


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
    calibration = Calibration.of(TIMES, error, spread, np.ones(3), typical=True)
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
        _warn_of_excess(np.array(excess))
    assert len(caught) == (max(excess) > 2)
