"""Sizes of errors between runs, and the gaps between them."""

import numpy as np
import pytest

from romkit.verbs.sizes import Sizes, Widening, gap_sizes, gaps


def grid(number, parameters):
    axes = np.meshgrid(*[np.linspace(0, 1, number)] * parameters, indexing="ij")
    return np.stack([axis.ravel() for axis in axes], -1)


@pytest.mark.parametrize("parameters", [1, 2, 3])
def test_sizes_at_runs_are_theirs_and_between_them_no_larger_or_smaller(parameters):
    draw = np.random.default_rng(0)
    runs = draw.uniform(size=(7, parameters))
    of_runs = 10.0 ** draw.uniform(-6, 2, size=7)
    assert gap_sizes(runs, of_runs, runs) == pytest.approx(of_runs, rel=1e-6)
    between = gap_sizes(runs, of_runs, draw.uniform(-1, 2, size=(50, parameters)))
    assert (between >= of_runs.min()).all()
    assert (between <= of_runs.max()).all()
    assert gap_sizes(runs, 3 * of_runs, runs[:2] + 0.1) == pytest.approx(
        3 * gap_sizes(runs, of_runs, runs[:2] + 0.1)
    )


@pytest.mark.parametrize("of_runs", [[0.0, 0.0, 0.0], [0.0, 1.0, 2.0]])
def test_runs_at_rest_have_a_size(of_runs):
    runs = np.array([[0.0], [0.5], [1.0]])
    sizes = gap_sizes(runs, np.array(of_runs), np.array([[0.1], [0.5]]))
    assert (sizes > 0).all()
    assert np.isfinite(sizes).all()


@pytest.mark.parametrize("h", [0.01, 0.02, 0.05])
def test_a_gap_goes_with_its_width_to_the_power_five_halves(h):
    def middle(width):
        around = np.array([[0.5 - width], [0.5 - width / 2], [0.5 + width / 2], [0.5 + width]])
        return gaps(around, np.array([[0.5]]))

    assert middle(2 * h) / middle(h) == pytest.approx(2**2.5, rel=0.1)


@pytest.mark.parametrize("parameters", [1, 2, 3])
def test_gaps_vanish_at_runs_and_shrink_with_further_runs(parameters):
    few, many = grid(3, parameters), grid(5, parameters)
    assert gaps(few, few) == pytest.approx(0.0, abs=1e-4)
    wanted = np.random.default_rng(0).uniform(size=(20, parameters))
    assert (gaps(many, wanted) < gaps(few, wanted)).all()
    assert np.array_equal(gaps(np.concatenate([few, few]), wanted), gaps(few, wanted))


@pytest.mark.parametrize("relative", [True, False])
def test_a_gap_adds_to_errors_or_multiplies_them_as_missed_runs_say(relative):
    draw = np.random.default_rng(0)
    sizes, widths = 10.0 ** draw.uniform(-3, 0, size=8), draw.uniform(0.05, 0.1, size=8)
    law = Widening(20.0, relative)
    found = Widening.fitted(sizes, widths, law.of(sizes, widths))
    assert found.relative == relative
    assert found.factor == pytest.approx(20.0, rel=1e-6)


@pytest.mark.parametrize("relative", [True, False])
def test_sizes_do_not_depend_on_the_units_of_contexts(relative):
    runs, of_runs = np.array([[0.0], [1.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    wanted = np.array([[0.3], [2.0]])
    sizes = Sizes(runs, of_runs, np.array([3.0]), Widening(2.0, relative))
    scaled = Sizes(1e6 * runs, of_runs, np.array([3e6]), Widening(2.0, relative))
    assert scaled.at(1e6 * wanted) == pytest.approx(sizes.at(wanted))
