"""Sizes of errors from place to place: what an interpolation is without one of its runs."""

import numpy as np
import pytest
import torch

from romkit.laws.baselines import interpolated_runs
from romkit.learning.expected import LOCAL, changes


@pytest.mark.parametrize("parameters", [1, 2, 3])
def test_changes_are_the_differences_of_interpolations(parameters):
    rng = np.random.default_rng(parameters)
    contexts = torch.from_numpy(rng.random((9, parameters)))
    wanted = torch.from_numpy(rng.random((4, parameters)))
    states = torch.from_numpy(rng.standard_normal((9, 6, 5)))
    groups = [np.array([2]), np.array([3, 5])]
    square = torch.zeros(4, 6, 5, dtype=torch.float64)
    whole = interpolated_runs(states, contexts, wanted)
    for group in groups:
        kept = np.setdiff1d(np.arange(9), group)
        fewer = interpolated_runs(states[kept], contexts[kept], wanted)
        square += (fewer - whole).square()
    of_all = square.mean(-1, keepdim=True)
    expected = (LOCAL * square + (1 - LOCAL) * of_all).sqrt()
    found = changes(states, contexts, wanted, groups)
    assert np.allclose(found, expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
def test_they_move_with_a_front(speed):
    """Components ahead of a front and behind it depend on no single run."""
    contexts = torch.linspace(0, 1, 9, dtype=torch.float64).unsqueeze(1)
    times = torch.linspace(0, 1, 40, dtype=torch.float64)
    places = torch.linspace(0, 3, 60, dtype=torch.float64)
    front = 0.5 + speed * (1 + 0.2 * contexts[..., None]) * times[:, None]  # (C, T, 1)
    states = torch.tanh((places - front) / 0.1)
    wanted = torch.tensor([[0.4375]], dtype=torch.float64)
    (size,) = changes(states, contexts, wanted, [np.array([k]) for k in range(1, 8)])
    for t in (10, 25, 39):
        at_front = abs(places - front[3, t]) < 0.1
        assert size[t, at_front].mean() > 1.5 * size[t, ~at_front].mean()


def test_they_are_large_where_runs_are_few_or_unlike():
    """Runs of one parameter, even ones that bend on the left alone."""
    contexts = torch.linspace(0, 1, 9, dtype=torch.float64).unsqueeze(1)
    bent = torch.sin(12 * contexts) * (contexts < 0.5)
    states = bent[:, :, None].expand(9, 30, 2)
    wanted = torch.tensor([[0.3], [0.95]], dtype=torch.float64)
    on_the_left, on_the_right = changes(
        states, contexts, wanted, [np.array([k]) for k in range(1, 8)]
    )
    assert (on_the_left > 3 * on_the_right).all()


def test_runs_that_begin_alike_have_a_size_at_their_start():
    contexts = torch.linspace(0, 1, 5, dtype=torch.float64).unsqueeze(1)
    times = torch.linspace(0, 1, 100, dtype=torch.float64)
    states = ((contexts * 3).exp() * times)[:, :, None]
    wanted = torch.tensor([[0.4]], dtype=torch.float64)
    size = changes(states, contexts, wanted, [np.array([1]), np.array([2])])
    assert size.min() >= 1e-3 * size.max() > 0
