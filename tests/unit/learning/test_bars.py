"""Errors that widths rest on: a member that knows a run is not judged by it as by an unseen one."""

import numpy as np
import pytest

from romkit.verbs.ensemble import CHANCE, _understated

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
