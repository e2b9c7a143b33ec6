"""Sum of the Lyapunov exponents against orbits whose exponents are known, and against the full variational equation."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import romkit
from romkit.integrators import Galerkin, PetrovGalerkin
from romkit.projections import Path
from romkit.systems import Lorenz96
from studies.rollout_drift.scores import lyapunov_sum


def test_of_the_circle_to_which_a_hopf_normal_form_settles():
    """ṙ = μ r - r³, θ̇ = 1 has the orbit r² = μ with Floquet exponent -2 μ."""
    mu = torch.tensor([0.5, 2.0], dtype=torch.float64).unsqueeze(-1)

    def hopf(t, z):
        x, y = z.split(1, dim=-1)
        growth = mu - x**2 - y**2
        return torch.cat([growth * x - y, growth * y + x], dim=-1)

    angle = torch.linspace(0, 2 * math.pi, 9, dtype=torch.float64)[:-1]
    circle = mu.sqrt().unsqueeze(-1) * torch.stack([angle.cos(), angle.sin()], dim=-1)
    torch.testing.assert_close(lyapunov_sum(hopf, circle), -2 * mu.squeeze(-1))


def test_of_van_der_pol_against_the_variational_equation():
    """The determinant of the monodromy matrix is the exponential of the sum over a period."""

    def field(t, z):
        x, y = z.unbind(-1)
        return torch.stack([y, (1 - x**2) * y - x], dim=-1)

    def augmented(t, w):
        x, y, M = w[0], w[1], w[2:].reshape(2, 2)
        J = np.array([[0.0, 1.0], [-2 * x * y - 1, 1 - x**2]])
        return np.concatenate([[y, (1 - x**2) * y - x], (J @ M).ravel()])

    tight = {"rtol": 1e-11, "atol": 1e-11}
    settled = solve_ivp(lambda t, w: field(t, torch.tensor(w)).numpy(), (0, 100), [2.0, 0.0], **tight).y
    crossing = lambda t, w: w[1]  # noqa: E731
    crossing.direction = -1
    found = solve_ivp(augmented, (0, 20), [*settled[:, -1], 1, 0, 0, 1], events=crossing, dense_output=True, **tight)
    first, second = found.t_events[0][:2]
    monodromy = found.sol(second)[2:].reshape(2, 2) @ np.linalg.inv(found.sol(first)[2:].reshape(2, 2))
    times = np.linspace(first, second, 1001)[:-1]
    states = torch.tensor(found.sol(times)[:2].T)
    expected = math.log(np.linalg.det(monodromy)) / (second - first)
    assert lyapunov_sum(field, states).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("dynamics", [Galerkin(), PetrovGalerkin()])
def test_of_a_reduced_model_against_finite_differences(dynamics):
    system = Lorenz96(n=8, transient=2.0)
    data = system.dataset(F=[3.14, 3.18], duration=2.0)
    model = romkit.fit("ncae", data, layers=(2, 4, 8), seeds=range(2), epochs=1, engine="torch").double()
    P = model(torch.tensor([[3.14], [3.16], [3.18]], dtype=torch.float64).expand(2, -1, -1))
    field = dynamics.field(system.problem(Path.constant(P), P.context))
    states = torch.randn(2, 3, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    h, expected = 1e-5, torch.zeros(2, 3, dtype=torch.float64)
    with torch.no_grad():
        for z in states.unbind(-2):
            for k, axis in enumerate(h * torch.eye(2, dtype=torch.float64)):
                expected += (field(0.0, z + axis) - field(0.0, z - axis))[..., k] / (2 * h) / states.shape[-2]
        torch.testing.assert_close(lyapunov_sum(field, states), expected, rtol=1e-6, atol=1e-7)


def test_of_a_member_that_diverged():
    states = torch.tensor([[[1.0], [2.0]], [[1.0], [float("nan")]]])
    found = lyapunov_sum(lambda t, z: -(z**2), states)
    assert found[0] == -3.0
    assert found[1].isnan()
