"""Condition number of the latent covariance and variation of the latent speed."""

import pytest
import torch

from romkit.metrics import latent_condition_number, latent_speed_variation

ANGLE = 2 * torch.pi * torch.arange(200, dtype=torch.float64) / 200
CIRCLE = torch.stack([ANGLE.cos(), ANGLE.sin()], dim=-1)
TURN = torch.linalg.qr(torch.randn(2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q


def test_a_circle_has_condition_one_and_an_ellipse_its_squared_aspect_wherever_it_lies():
    assert latent_condition_number(CIRCLE).item() == pytest.approx(1.0)
    ellipse = CIRCLE * torch.tensor([3.0, 1.0]) @ TURN + torch.tensor([5.0, -2.0])
    assert latent_condition_number(ellipse).item() == pytest.approx(9.0)
    z = torch.randn(50, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert latent_condition_number(z).item() == pytest.approx(torch.linalg.cond(z.T.cov()).item())


def test_latents_that_do_not_move_along_an_axis_have_condition_infinity_and_lost_ones_none():
    assert latent_condition_number(CIRCLE * torch.tensor([1.0, 0.0])).item() == torch.inf
    assert latent_condition_number(torch.ones(10, 1)) == torch.inf
    z = torch.stack([CIRCLE, 2 * CIRCLE])
    z[1, 7, 0] = torch.nan
    number = latent_condition_number(z)
    assert number[0].item() == pytest.approx(1.0)  # its neighbour is not touched
    assert number[1].isnan()


def test_uniform_motion_has_no_variation_and_known_speeds_have_theirs():
    assert latent_speed_variation(CIRCLE).item() == pytest.approx(0.0, abs=1e-12)
    speeds = torch.tensor([1.0, 3.0] * 10, dtype=torch.float64)
    for unit in (1.0, 1e3):
        assert latent_speed_variation(unit * speeds.unsqueeze(-1) * CIRCLE[:20]).item() == pytest.approx(0.5)
    assert latent_speed_variation(torch.zeros(10, 2)).isnan()
    assert latent_speed_variation(torch.full((10, 2), torch.nan)).isnan()


def test_members_are_scored_one_by_one_or_pooled():
    z = torch.randn(2, 3, 40, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for metric in (latent_condition_number, latent_speed_variation):
        loop = torch.stack([torch.stack([metric(z[s, c]) for c in range(3)]) for s in range(2)])
        torch.testing.assert_close(metric(z), loop)
        assert metric(z.flatten(1, 2)).shape == (2,)
