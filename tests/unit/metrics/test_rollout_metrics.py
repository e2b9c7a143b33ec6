"""Errors over time, valid prediction time, divergence rate, distance from the manifold."""

import pytest
import torch

from romkit.metrics import diverged, idempotency_error, manifold_distance, nrmse, valid_time
from romkit.testing import probe
from tests.properties.test_projection_laws import make

TIMES = 0.5 * torch.arange(9, dtype=torch.float64) + 3.0


def test_nrmse_is_the_error_in_standard_deviations():
    std = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    truth = torch.zeros(2, 5, 3, dtype=torch.float64)
    assert torch.equal(nrmse(truth, truth + std, std), torch.ones(2, 5, dtype=torch.float64))
    one = nrmse(truth, truth + torch.tensor([3.0, 0.0, 0.0]), std)
    torch.testing.assert_close(one, torch.full_like(one, 3**0.5))
    assert nrmse(truth, truth + torch.nan, std).isnan().all()


@pytest.mark.parametrize(("threshold", "expected"), [(0.5, 3.0), (0.05, 1.0), (0.01, 0.0), (2.0, 4.0)])
def test_valid_time_ends_where_the_threshold_is_first_exceeded(threshold, expected):
    errors = torch.tensor([0.02, 0.03, 0.04, 0.06, 0.03, 0.1, 0.5, 0.6, 0.4], dtype=torch.float64)
    assert valid_time(TIMES, errors, threshold).item() == expected


def test_a_diverged_member_is_valid_until_then_and_its_neighbour_is_not_touched():
    errors = torch.full((2, 9), 0.1, dtype=torch.float64)
    errors[1, 4:] = torch.nan
    assert valid_time(TIMES, errors).tolist() == [4.0, 1.5]
    errors[1] = torch.nan
    assert valid_time(TIMES, errors).tolist() == [4.0, 0.0]
    states = torch.zeros(2, 6, 3)
    states[0, 2, 1], states[1, 5, 0] = torch.inf, torch.nan
    assert diverged(states).tolist() == [[False, False, True, True, True, True], [False] * 5 + [True]]  # for good


def test_decoded_states_of_an_exact_projection_lie_on_its_manifold():
    p = probe(make("ncae", (2, 5, 2, 3)))
    std = p.projection.frame.state_std.double()
    on = p.operator.decode(p.operator.encode(p.x))
    assert manifold_distance(p.operator, on, std).max() < 1e-12
    off = manifold_distance(p.operator, p.x, std)
    assert off.min() > 1e-3
    torch.testing.assert_close(off, nrmse(p.x, p.operator(p.x), std))
    p.x[3] = torch.nan
    assert manifold_distance(p.operator, p.x, std).isnan().tolist() == [k == 3 for k in range(len(p.x))]


def test_for_one_standard_deviation_it_is_the_idempotency_error_up_to_the_root_of_n():
    p = probe(make("ae", (2, 5, 2, 3)))
    n = p.x.shape[-1]
    y = p.operator(p.x)
    distance = manifold_distance(p.operator, y, torch.ones(n, dtype=torch.float64))
    torch.testing.assert_close(distance * n**0.5, idempotency_error(p.operator, p.x)[0])
    assert distance.max() > 1e-3  # an autoencoder is off its own manifold
