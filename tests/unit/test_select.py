"""One search: the rule of acceptance, the race, and the ladder."""

import numpy as np
import pytest

from romkit.select import Policy, preferred, search


class Known:
    """A candidate of known errors on folds of two runs each."""

    def __init__(self, name, errors, complexity=1, segments=None, near=()):
        self.name, self.complexity, self.near = name, complexity, near
        self.whole = np.asarray(errors, dtype=float)
        self.segments = self.whole if segments is None else np.asarray(segments, dtype=float)
        self.tried = []

    def errors(self, fold):
        self.tried.append(fold)
        return self.whole[2 * fold : 2 * fold + 2]

    def segment_errors(self, fold):
        return self.segments[2 * fold : 2 * fold + 2]

    def neighbours(self):
        return self.near


def chosen(*candidates, folds=3):
    return preferred(search([candidates], folds, Policy()), Policy())


def test_the_simplest_within_a_standard_error_of_the_best_is_taken():
    best = Known("best", [0.10, 0.12, 0.09, 0.11, 0.10, 0.10], complexity=9)
    simple = Known("simple", [0.12, 0.10, 0.11, 0.10, 0.09, 0.12], complexity=2)
    worse = Known("worse", [0.20, 0.24, 0.18, 0.22, 0.20, 0.20], complexity=1)
    assert [trial.name for trial in chosen(best, simple, worse)] == ["simple", "best", "worse"]


def test_paired_differences_decide_and_not_those_between_runs():
    """Runs differ tenfold; one candidate is always worse by a fifth."""
    runs = np.array([0.01, 0.1, 0.02, 0.2, 0.05, 0.5])
    assert chosen(Known("best", runs, 9), Known("simple", 1.2 * runs, 1))[0].name == "best"


def test_candidates_that_are_far_behind_leave_the_race():
    fast = [Known(str(k), np.full(6, 0.1 + 0.001 * k)) for k in range(3)]
    slow = Known("slow", np.full(6, 0.5))
    search([[*fast, slow]], 3, Policy())
    assert slow.tried == [0]
    assert all(candidate.tried == [0, 1, 2] for candidate in fast)


def test_candidates_come_back_where_the_first_fold_was_an_easy_one():
    """Three that lead on the first fold lose runs of the others; what was dropped there does not.

    Means differ by between one and two standard errors.
    """
    lucky = [Known(f"lucky {k}", [0.01, 0.01, 0.02, 2.0, 2.0, 2.0]) for k in range(3)]
    steady = Known("steady", np.full(6, 0.05), complexity=9)
    poor = Known("poor", np.full(6, 0.6))
    assert chosen(*lucky, steady, poor)[0].name == "steady"
    assert steady.tried == [0, 1, 2]
    assert poor.tried == [0]


def test_the_ladder_ends_after_two_rungs_without_a_smaller_error():
    errors = [0.5, 0.4, 0.45, 0.3, 0.3, 0.31, 0.01]
    rungs = [[Known(str(k), np.full(2, error))] for k, error in enumerate(errors)]
    search(rungs, 1, Policy())
    assert [rung[0].tried for rung in rungs] == [[0]] * 6 + [[]]


def test_candidates_leave_the_race_once_they_are_refuted():
    best = Known("best", np.full(10, 0.1))
    worse = Known("worse", np.full(10, 0.1) * np.tile([1.3, 1.2], 5))
    search([[best, worse]], 5, Policy())
    assert (len(best.tried), len(worse.tried)) == (5, 2)


def test_neighbours_follow_as_long_as_one_is_preferred():
    third = Known("third", np.full(4, 0.4))
    second = Known("second", np.full(4, 0.1), near=[third])
    first = Known("first", np.full(4, 0.2), near=[second])
    assert chosen(first, folds=2)[0].name == "second"
    assert third.tried == [0]  # too far behind for a second fold


def test_neighbours_of_a_law_are_tried_where_interpolated_runs_lead():
    exact = Known("exact", np.full(6, 1e-6))
    law = Known("law", np.full(6, 0.05), near=[exact])
    runs = Known("runs", np.full(6, 0.01), complexity=10**9)
    assert chosen(law, runs)[0].name == "exact"


@pytest.mark.parametrize("lost", [np.inf, np.nan, 1e9])
def test_diverged_forecasts_count_as_two_deviations(lost):
    assert Policy().logarithms(np.array([lost])) == pytest.approx(np.log(2))


def test_segments_compare_candidates_that_lose_the_phase():
    right = Known("right", np.full(4, 1.3), segments=np.full(4, 0.1))
    wrong = Known("wrong", np.full(4, 1.25), segments=np.full(4, 0.6))
    order = chosen(wrong, right, folds=2)
    assert order[0].name == "right"
    assert order[0].horizon == 1


def test_time_ends_the_search_but_one_candidate_is_always_tried():
    several = [Known(str(k), np.full(6, 0.1)) for k in range(3)]
    order = preferred(search([several], 3, Policy(), seconds=-1.0), Policy())
    assert [len(trial.errors) for trial in order] == [3]


def test_time_ends_the_other_candidates_but_for_the_first():
    others = [Known(str(k), np.full(2, 0.1)) for k in range(3)]
    search([[Known("law", np.full(2, 0.1))]], 1, Policy(), seconds=-1.0, others=others)
    assert [other.tried for other in others] == [[0], [], []]
