"""Exact supports of textbook systems in noise, some cells of `benchmarks/textbook`."""

import numpy as np
import pytest

from benchmarks.textbook.systems import duffing, lorenz, lotka_volterra
from romkit.laws import SINDy, WeakSINDy


@pytest.mark.parametrize("level", [0.0, 0.05])
@pytest.mark.parametrize("system", [lorenz, lotka_volterra, duffing], ids=lambda f: f.__name__)
def test_noisy_runs_have_exactly_the_true_terms(system, level):
    cell = system()
    states = cell.noisy(level, seed=0)
    law = WeakSINDy(degree=cell.degree, threshold=cell.threshold).fit_samples(
        states, 0 * states, cell.parameters, times=cell.times
    )
    names, support = np.array(law.terms), law.support.numpy()
    assert tuple(frozenset(names[column].tolist()) for column in support.T) == cell.terms


def test_sindy_of_noisy_runs_is_in_weak_form():
    cell = lotka_volterra()
    states = cell.noisy(0.05, seed=1)
    rates = np.gradient(states, cell.times, axis=1)
    law = SINDy(degree=2, threshold=0.1).fit_samples(states, rates, times=cell.times)
    assert law.source.startswith("SINDy in weak form")
    names, support = np.array(law.terms), law.support.numpy()
    assert tuple(frozenset(names[column].tolist()) for column in support.T) == cell.terms
    exact = SINDy(degree=2, threshold=0.1).fit_samples(
        cell.states, np.gradient(cell.states, cell.times, axis=1), times=cell.times
    )
    assert "weak" not in exact.source
