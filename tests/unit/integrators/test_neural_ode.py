"""The neural ODE: it learns a known field, the same alone and in a stack."""

import pytest
import torch

from romkit.core.adam import Adam
from romkit.laws import NeuralODE
from tests.refusals import refused

SETTINGS = NeuralODE(hidden=(16,), segment=4, regression_steps=800, shooting_steps=50)
TIMES = torch.linspace(0, 4, 41, dtype=torch.float64)


def spirals(rate):
    """z (8, 41, 2) and ż of eight trajectories of ż = (-0.1 z₀ - rate z₁, rate z₀ - 0.1 z₁)."""
    start = torch.linspace(0.5, 1.5, 8, dtype=torch.float64).unsqueeze(-1)
    radius, angle = start * torch.exp(-0.1 * TIMES), rate * TIMES.expand(8, -1)
    z = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=-1)
    zdot = torch.stack(
        [-0.1 * z[..., 0] - rate * z[..., 1], rate * z[..., 0] - 0.1 * z[..., 1]], dim=-1
    )
    return z, zdot


@pytest.fixture(scope="module")
def fitted():
    return SETTINGS.fit_samples(*spirals(1.3), times=TIMES)


def test_it_learns_a_linear_field_of_segments_within_the_data(fitted):
    assert fitted.velocity_error.item() < 0.05
    assert fitted.trajectory_error.item() < 0.05
    z, zdot = spirals(1.3)
    g = fitted.right_hand_side(z.new_zeros(0))
    assert (g(z) - zdot).square().mean().sqrt() < 0.05 * zdot.square().mean().sqrt()
    refused("segment", NeuralODE(segment=100).fit_samples, z, zdot, times=TIMES)


def test_what_never_moves_stays_in_any_unit_of_time():
    z, zdot = (torch.cat([x, 0 * x[..., :1]], dim=-1) for x in spirals(1.3))
    field = NeuralODE(hidden=(8,), segment=4, regression_steps=5, shooting_steps=5)
    law = field.fit_samples(z + 1, 1e-6 * zdot, times=1e6 * TIMES)
    assert law.right_hand_side(z.new_zeros(0))(z + 1)[..., 2].abs().max() < 1e-20
    assert law.velocity_error.isfinite()
    assert law.trajectory_error.isfinite()


def test_a_stack_fits_each_on_its_own(fitted):
    both = [torch.stack(parts) for parts in zip(spirals(1.3), spirals(0.7), strict=True)]
    stacked = SETTINGS.fit_samples(*both, times=TIMES)
    assert stacked.velocity_error.shape == (2,)
    assert stacked.velocity_error[0].item() == pytest.approx(fitted.velocity_error.item(), rel=1e-6)


def test_steps_are_those_of_adam():
    draw = torch.Generator().manual_seed(0)
    several = [torch.randn(3, 4, generator=draw).double(), torch.randn(5, generator=draw).double()]
    plain = [tensor.clone() for tensor in several]
    theirs = [tensor.clone().requires_grad_() for tensor in several]
    adam, optimizer = Adam(plain), torch.optim.Adam(theirs)
    for k in range(20):
        rate = 0.1 / (1 + k)
        gradients = [torch.randn(tensor.shape, generator=draw).double() for tensor in plain]
        adam.step(gradients, rate)
        optimizer.param_groups[0]["lr"] = rate
        for tensor, gradient in zip(theirs, gradients, strict=True):
            tensor.grad = gradient
        optimizer.step()
    for tensor, expected in zip(plain, theirs, strict=True):
        assert torch.allclose(tensor, expected, rtol=1e-13, atol=1e-14)
