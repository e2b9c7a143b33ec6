"""Errors that widths rest on: a member that knows a run is not judged by it as by an unseen one."""

import warnings

import numpy as np
import pytest

from romkit.verbs.ensemble import CHANCE, Calibration, _understated, _warn_of_excess

BY_MEMBERS = np.array([False, False, True, True, True])


def errors(of_law, of_members):
    """Errors (V, T, n) of constant size, with signs that alternate."""
    sizes = np.where(BY_MEMBERS, of_members, of_law)
    signs = np.resize([1.0, -1.0], (10, 4))
    return sizes[:, None, None] * signs


@pytest.mark.parametrize("ratio", [1.6, 4.0, 1000.0])
def test_errors_of_members_that_know_are_raised_to_those_of_the_law(ratio):
    assert _understated(errors(ratio, 1.0), BY_MEMBERS) == pytest.approx(ratio)


@pytest.mark.parametrize("ratio", [0.1, 1.0, 0.99 * CHANCE])
def test_differences_by_chance_and_worse_members_raise_nothing(ratio):
    assert _understated(errors(ratio, 1.0), BY_MEMBERS) == 1.0


@pytest.mark.parametrize("lost", [BY_MEMBERS, ~BY_MEMBERS])
def test_without_forecasts_of_either_nothing_is_raised(lost):
    relative = errors(5.0, 1.0)
    relative[lost] = np.nan
    assert _understated(relative, BY_MEMBERS) == 1.0


def test_a_single_lost_trajectory_leaves_the_others():
    relative = errors(5.0, 1.0)
    relative[0, 3:] = np.inf
    assert _understated(relative, BY_MEMBERS) == pytest.approx(5.0)


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
