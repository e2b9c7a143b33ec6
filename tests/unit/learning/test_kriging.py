"""Expected errors of an interpolation beside those of random runs."""

import numpy as np
import pytest
import torch

from romkit.laws.baselines import interpolated_runs
from romkit.learning.expected import (
    changes,
    expected_changes,
    expected_errors,
    likely,
    make_kriging,
)


def drawn(kernel, contexts, wanted, number=4000):
    """Random runs of a kernel at contexts, with a trend, and at wanted ones; noisy."""
    together = torch.cat([contexts, wanted])
    covariance = kernel.among(together)
    draw = torch.Generator().manual_seed(3)
    factor = torch.linalg.cholesky(covariance)
    normal = torch.randn(len(together), number, generator=draw, dtype=torch.float64)
    values = factor @ normal + 5 + 3 * together.sum(-1, keepdim=True)
    return values[: len(contexts), None, :], values[len(contexts) :, None, :]


@pytest.mark.parametrize("parameters", [1, 2])
@pytest.mark.parametrize(("reach", "noise"), [(0.3, 1e-6), (0.3, 0.1), (1.0, 1e-3)])
def test_expected_errors_and_changes_are_those_of_random_runs(parameters, reach, noise):
    rng = np.random.default_rng(parameters)
    contexts = torch.from_numpy(rng.random((10, parameters)))
    wanted = torch.from_numpy(rng.random((3, parameters)))
    kernel = make_kriging(reach, noise)
    states, truth = drawn(kernel, contexts, wanted)
    error = (interpolated_runs(states, contexts, wanted) - truth).square().mean((1, 2)).sqrt()
    # 4000 draws tell a deviation to about a hundredth
    assert expected_errors(kernel, contexts, wanted) == pytest.approx(error.numpy(), rel=0.06)
    groups = [np.array([2]), np.array([4, 7])]
    of_draws = changes(states, contexts, wanted, groups)  # (k, 1, draws)
    change = np.sqrt(np.square(of_draws).mean((1, 2)))
    assert expected_changes(kernel, contexts, wanted, groups) == pytest.approx(change, rel=0.06)


@pytest.mark.parametrize(("reach", "noise"), [(0.5, 1e-3), (0.5, 1e-2), (0.25, 0.3)])
def test_the_kernel_of_random_runs_is_found(reach, noise):
    contexts = torch.linspace(0, 1, 12, dtype=torch.float64).unsqueeze(1)
    states, _ = drawn(make_kriging(reach, noise), contexts, contexts[:1] + 0.01)
    found = likely(states, contexts)
    assert found.reach == pytest.approx(reach, rel=0.5)
    assert found.noise == pytest.approx(noise, rel=1.5)


def test_a_gap_twice_as_wide_expects_larger_errors():
    """By the square of the ratio at least, for runs that are smooth in the context."""
    kernel = make_kriging(1.0, 1e-10)
    contexts = torch.linspace(0, 1, 9, dtype=torch.float64).unsqueeze(1)
    fewer = contexts[[0, 1, 2, 3, 5, 6, 7, 8]]
    (narrow,) = expected_errors(kernel, contexts, torch.tensor([[0.4375]], dtype=torch.float64))
    (wide,) = expected_errors(kernel, fewer, torch.tensor([[0.5]], dtype=torch.float64))
    assert wide > 4 * narrow


@pytest.mark.parametrize("states", [torch.zeros(4, 3, 2), torch.ones(3, 3, 2)])
def test_runs_that_tell_nothing_have_a_kernel(states):
    contexts = torch.linspace(0, 1, len(states), dtype=torch.float64).unsqueeze(1)
    kernel = likely(states, contexts)
    assert np.isfinite(expected_errors(kernel, contexts, contexts[:1] + 0.1)).all()
