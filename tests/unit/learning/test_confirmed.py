"""Errors of a law that lacks one context."""

import numpy as np
import pytest
import torch

import romkit
from romkit.learning.confirmed import LOST, MOST, errors_without
from romkit.learning.manifolds import Model

TIME = np.linspace(0, 4, 81)
RATES = np.array([0.2, 0.4, 0.5, 0.8, 1.0, 1.1, 1.6])


def decays():
    """Decays that a law with rates linear in the context follows exactly."""
    states = np.exp(-RATES[:, None, None] * TIME[:, None]) * [1.0, 2.0]
    return romkit.data.from_arrays(states, TIME, context={"rate": RATES})


def model(data, degree):
    projection = romkit.fit("identity", data)
    settings = romkit.laws.PolynomialLaw(degree=1, context_degree=degree)
    return Model(projection, settings, settings.fit(projection, data), [])


def test_a_law_that_is_exact_errs_nowhere():
    several = errors_without(model(decays(), 1), decays(), seed=0)
    rows = torch.cat([rows for rows, _ in several])
    assert len(several) == MOST
    assert set(rows.tolist()) <= set(range(1, len(RATES) - 1))
    assert torch.cat([errors for _, errors in several]).max() < 1e-3


@pytest.mark.filterwarnings("ignore::romkit.core.errors.FitWarning")
def test_a_law_that_does_not_know_the_context_errs_at_what_it_lacks():
    data = decays()
    several = errors_without(model(data, 0), data, seed=0)
    of_linear = errors_without(model(data, 1), data, seed=0)
    for (rows, errors), (same_rows, of_exact) in zip(several, of_linear, strict=True):
        assert torch.equal(rows, same_rows)
        assert float(of_exact) < 0.01 * float(errors) < 0.01 * LOST
