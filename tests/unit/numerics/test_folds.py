"""Folds of whole contexts, and the error of a forecast."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from romkit.numerics import LOST, find_interior, folds, forecast_error, groups_of


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=30),
    st.integers(1, 8),
    st.integers(1, 2),
)
def test_a_fold_has_whole_contexts_and_each_run_is_in_one_at_most(rows, number, parameters):
    contexts = np.array(rows, dtype=float)[:, :parameters]
    several = folds(contexts, number)
    assert 0 < len(several) <= number
    held = np.concatenate(several)
    assert len(held) == len(np.unique(held))
    sizes = [len(groups_of(contexts[fold])) for fold in several]
    assert max(sizes) - min(sizes) <= 1 or len(groups_of(contexts)) == 1
    if len(groups_of(contexts)) > 1:
        for fold in several:
            same = (contexts[:, None] == contexts[fold]).all(-1).any(-1)
            assert np.array_equal(np.flatnonzero(same), fold)
    inner = find_interior(contexts)
    if len(groups_of(contexts[inner])) >= 2:
        assert np.array_equal(np.sort(held), np.flatnonzero(inner))


def test_ends_stay_and_every_kth_context_is_in_a_fold():
    contexts = np.arange(8.0)[:, None]
    assert [fold.tolist() for fold in folds(contexts, 3)] == [[1, 4], [2, 5], [3, 6]]
    # a single context between others would be no comparison
    assert [fold.tolist() for fold in folds(contexts[:3], 5)] == [[0], [1], [2]]
    # runs of one context, and without any, are left out one by one
    for single in (np.ones((3, 1)), np.ones((3, 0))):
        assert [fold.tolist() for fold in folds(single, 5)] == [[0], [1], [2]]
    assert folds(contexts[:1], 5) == []


def test_a_parameter_that_does_not_vary_has_no_ends():
    contexts = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]])
    assert find_interior(contexts).tolist() == [False, True, False]


def test_the_error_is_a_root_mean_square_over_components_and_a_mean_over_time():
    truth = np.zeros((2, 4, 3))
    states = np.full((2, 4, 3), 0.3)
    states[1, 2:] = np.nan
    np.testing.assert_allclose(forecast_error(states, truth), [0.3, (0.3 + LOST) / 2])
    np.testing.assert_allclose(forecast_error(states, truth, 0.6), [0.5, (0.5 + LOST) / 2])
    assert forecast_error(states, truth, lost=np.inf)[1] == np.inf
    assert forecast_error(1e200 * states, truth)[0] == LOST


def test_what_is_missing_of_the_truth_does_not_count():
    truth = np.zeros((5, 2))
    truth[0], truth[1, 0] = np.nan, np.nan
    states = np.array([[9.0, 9.0], [9.0, 0.4], [0.4, 0.4], [0.4, 0.4], [0.4, 0.4]])
    assert forecast_error(states, truth) == pytest.approx(0.4)
    assert np.isnan(forecast_error(states, np.full((5, 2), np.nan)))
