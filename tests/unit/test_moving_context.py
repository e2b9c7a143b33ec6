"""Contexts that vary in time: the extra term of the latent field, and rollouts along a ramp."""

import numpy as np
import pytest
import torch

import romkit
from romkit.errors import InputError
from romkit.integrators import LSPG, Galerkin, PetrovGalerkin
from romkit.metrics import nrmse
from romkit.projections import ContextPath
from romkit.solvers import RK4
from romkit.types import Dual


@pytest.fixture(scope="module")
def ncae(lorenz_data):
    return romkit.fit("ncae", lorenz_data, seed=1, epochs=2).double()


def ramp(t):
    """From one end of the training range to the other in one unit of time: fast, so that the term matters."""
    return torch.as_tensor([[3.133 + 0.06 * float(t)]], dtype=torch.float64)


def latent_truth(t, z):
    return torch.stack([z[..., 1], -z[..., 0]], dim=-1)


def full_field(path):
    """The full field whose trajectories are φ(z(t); c(t)) with ż = latent_truth."""

    def f(t, x):
        P = path.at(t)
        z = P.encode(x)
        return P.decode_jvp(z, latent_truth(t, z)).tangent + path.drift(t, z)

    return f


def test_drift_against_finite_differences(ncae):
    path, z = ContextPath(ncae, ramp), torch.tensor([[0.3, -0.2]], dtype=torch.float64)
    t, h = torch.tensor(0.4, dtype=torch.float64), 1e-4
    difference = (path.at(t + h).decode(z) - path.at(t - h).decode(z)) / (2 * h)
    assert torch.allclose(path.drift(t, z), difference, atol=1e-6)


@pytest.mark.parametrize("dynamics", [Galerkin(), PetrovGalerkin()])
def test_a_manufactured_motion_is_followed_only_with_the_extra_term(ncae, dynamics):
    path = ContextPath(ncae, ramp)
    z0 = torch.tensor([[0.3, -0.2]], dtype=torch.float64)
    times = torch.linspace(0, 0.5, 6, dtype=torch.float64)
    exact = RK4(0.01)(latent_truth, z0, times).states
    f, x0 = full_field(path), path.at(times[0]).decode(z0)
    followed = dynamics.solve_along(path, f, x0, times, RK4(0.1)).states
    without = RK4(0.1)(lambda t, z: dynamics.latent_field(path.at(t), f)(t, z), z0, times).states
    assert (followed - exact).abs().max() < 1e-4
    assert (without - exact).abs().max() > 1e-2


def test_lspg_needs_no_extra_term(ncae):
    path = ContextPath(ncae, ramp)
    z0 = torch.tensor([[0.3, -0.2]], dtype=torch.float64)
    times = torch.linspace(0, 0.5, 11, dtype=torch.float64)
    exact = RK4(0.01)(latent_truth, z0, times).states
    states = LSPG().solve_along(path, full_field(path), path.at(times[0]).decode(z0), times, None).states
    assert (states - exact).abs().max() < 2e-3


def test_a_ramp_of_the_forcing_is_as_good_as_a_constant_one():
    system, projection = romkit.systems.Lorenz96(transient=60.0), romkit.load("ncae-lorenz96")
    start = system.settled_state(torch.tensor([[3.136]], dtype=torch.float64))[0].numpy()
    run = {"duration": 3.0, "dt": 0.1, "initial_state": start}
    constant = romkit.rollout(system, projection, F=3.136, **run)
    moving = romkit.rollout(system, projection, F=lambda t: 3.136 + 0.008 * t, **run)
    assert moving.F.dims == ("time",)
    assert moving.F.values[[0, -1]] == pytest.approx([3.136, 3.16])
    assert moving.nrmse.max() < 1.5 * constant.nrmse.max() + 0.02


def test_a_constant_function_equals_a_constant(lorenz, ncae):
    run = {"duration": 0.2, "dt": 0.02}
    constant = romkit.rollout(lorenz, ncae, F=[3.14, 3.18], **run)
    function = romkit.rollout(lorenz, ncae, F=lambda t: [3.14, 3.18], **run)
    for name in ("truth", "rom", "nrmse"):
        assert np.allclose(function[name], constant[name], atol=1e-9)


def test_mechanical_systems_refuse_it():
    with pytest.raises(InputError, match="l1: expected numbers for pendulum, got a function of time"):
        romkit.rollout(
            romkit.systems.Pendulum(), romkit.load("ncae-pendulum"), l1=lambda t: 0.4, l2=0.5, l3=0.5, l4=0.5
        )


class Turned:
    """An operator whose latent coordinates are turned by an angle: the same manifold, parametrised differently."""

    def __init__(self, P, angle):
        self.P, self.R = P, torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(2, 2)

    def encode(self, x):
        return self.P.encode(x) @ self.R.T

    def decode(self, z):
        return self.P.decode(z @ self.R)

    def decode_jacobian(self, z):
        x, J = self.P.decode_jacobian(z @ self.R)
        return Dual(x, J @ self.R.T)


class TurningPath:
    """A path on which the latent coordinates turn by one radian per unit of time, beside what the context does."""

    def __init__(self, path):
        self.path = path

    def at(self, t):
        return Turned(self.path.at(t), t)

    def drift(self, t, z):
        P, inner = self.at(t), z @ self.at(t).R
        turning = torch.stack([inner[..., 1], -inner[..., 0]], -1)  # d(z R)/dt
        return self.path.drift(t, inner) + (P.P.decode_jacobian(inner).tangent @ turning.unsqueeze(-1)).squeeze(-1)


def test_a_ramp_is_followed_as_a_constant_context_is_but_only_with_the_extra_term():
    """Lorenz96 with the shipped model, over the range on one side of the change of wave number.

    Only the tangential part of ∂ₜφ matters, by which the parametrisation of the manifold turns as the context moves.
    The shipped model has chosen one that hardly turns, so it is turned here, which must not change the rollout.
    """
    system, model = romkit.systems.Lorenz96(), romkit.load("ncae-lorenz96").double()
    low, high, duration = 3.167, 3.193, 4.0
    contexts = torch.tensor([[low], [high]], dtype=torch.float64)
    times = torch.linspace(0, duration, 41, dtype=torch.float64)
    starts = system.settled_state(contexts)

    def along(t):
        return (contexts[:1] + (high - low) * t / duration).to(torch.float64)

    def error(truth, P, latent):
        return nrmse(truth, P.decode(latent), model.normalization.state_std).square().mean().sqrt().item()

    def followed(path, solve):
        truth = system.simulate(starts[:1], along, times).state
        states = solve(path).states
        ends = torch.cat([path.at(t).decode(states[:, k]) for k, t in enumerate(times)])
        return nrmse(truth, ends.unsqueeze(0), model.normalization.state_std).square().mean().sqrt().item()

    def with_term(path):
        return Galerkin().solve_along(path, system.field(along), starts[:1], times, RK4(0.02))

    def without_term(path):
        f, z0 = system.field(along), Galerkin().latent_state(path.at(times[0]), starts[:1])
        return RK4(0.02)(lambda t, z: Galerkin().latent_field(path.at(t), f)(t, z), z0, times)

    with torch.no_grad():
        P, truth = model(contexts), system.simulate(starts, contexts, times).state
        static = error(truth, P, Galerkin().solve(P, system.field(contexts), starts, times, RK4(0.02)).states)
        plain, turning = ContextPath(model, along), TurningPath(ContextPath(model, along))
        assert followed(plain, with_term) < 1.5 * static
        assert followed(turning, with_term) == pytest.approx(followed(plain, with_term), rel=0.01)
        assert followed(turning, without_term) > 20 * static
