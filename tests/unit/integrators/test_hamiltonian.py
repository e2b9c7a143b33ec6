"""Reduced mechanics in canonical coordinates: symplectic lift, Hamilton's equations, and energies
that do not drift.
"""

import numpy as np
import pytest
import torch

import romkit
from romkit.integrators import Galerkin, Hamiltonian
from romkit.projections import CAE, Frame, Path
from romkit.solvers import RK4, ImplicitMidpoint
from romkit.systems import Pendulum
from romkit.systems.problem import FirstOrder, SecondOrder
from tests.properties.test_projection_rules import make
from tests.refusals import refused

T0 = torch.zeros((), dtype=torch.float64)
LENGTHS = (0.4, 0.5, 0.6, 0.5)


def canonical(n):
    """The matrix of the symplectic form Σ dqᵢ ∧ dpᵢ."""
    eye, zero = torch.eye(n, dtype=torch.float64), torch.zeros(n, n, dtype=torch.float64)
    return torch.cat([torch.cat([zero, eye], dim=1), torch.cat([-eye, zero], dim=1)])


@pytest.fixture(scope="module")
def pendulum():
    return Pendulum()


@pytest.fixture(scope="module")
def data(pendulum):
    return pendulum.dataset("train", duration=0.5).isel(trajectory=slice(0, 8))


def reduced(pendulum, model, context=LENGTHS):
    context = torch.tensor(context, dtype=torch.float64)
    return pendulum.problem(Path.constant(model.double().requires_grad_(False)(context)), context)


def states(problem, number, seed=0):
    """Canonical states (number, 8) of motions within and beyond those of the data."""
    z = problem.path.at(T0).encode(
        0.3 * torch.randn(number, 16, generator=torch.Generator().manual_seed(seed)).double()
    )
    rate = torch.randn(number, 4, generator=torch.Generator().manual_seed(seed + 1)).double()
    return Hamiltonian().momentum(problem, T0, torch.cat([z, rate], dim=-1))


def energy(pendulum, problem, y):
    q, v = problem.decode(problem.path.at(T0), Hamiltonian().velocity(problem, T0, y))
    return pendulum.energy(torch.tensor(LENGTHS, dtype=torch.float64))(q, v)


@pytest.mark.parametrize("method", ["pod", "ncae", "flow"])
def test_the_lift_is_symplectic_at_every_context(pendulum, data, method):
    model = romkit.fit(method, data, epochs=1, every=50)
    for problem in (
        reduced(pendulum, model, context) for context in (LENGTHS, (0.2, 0.9, 0.5, 0.35))
    ):
        for y in states(problem, 2):
            D = torch.func.jacrev(lambda y, problem=problem: Hamiltonian().lift(problem, T0, y))(y)
            form = D.T @ canonical(16) @ D
            assert (form - canonical(4)).abs().max() < 1e-12 * max(1.0, float(D.abs().max()) ** 2)


def test_the_field_is_that_of_hamiltons_equations_and_of_galerkin(pendulum, data):
    problem = reduced(pendulum, romkit.fit("ncae", data, epochs=1, every=50))
    H, y = Hamiltonian(), states(problem, 4)
    gradient = torch.func.grad(lambda y: energy(pendulum, problem, y).sum())(y)
    field = H.field(problem)(T0, y)
    assert torch.allclose(
        field, torch.cat([gradient[:, 4:], -gradient[:, :4]], dim=1), rtol=1e-9, atol=1e-9
    )
    w = H.velocity(problem, T0, y)
    along = torch.func.jvp(
        lambda w: H.momentum(problem, T0, w), (w,), (Galerkin().field(problem)(T0, w),)
    )[1]
    assert torch.allclose(field, along, rtol=1e-9, atol=1e-9)


def test_the_error_of_the_energy_is_of_order_two(lorenz_data):
    """A particle in a bowl, on the curve of a constrained autoencoder; Galerkin's motion is the
    same.
    """
    model = make("cae", (1, 3, 1, 2)).double().requires_grad_(False)
    P, H = model(torch.zeros(1, dtype=torch.float64)), Hamiltonian()
    problem = SecondOrder(Path.constant(P), lambda t, q, v: -q)
    w, errors, steps = torch.tensor([[0.3, 0.5]], dtype=torch.float64), [], np.array([0.2, 0.1])
    with torch.no_grad():
        for dt in steps:
            times = torch.arange(0, 4.01, dt, dtype=torch.float64)
            found = H.solve(problem, w, times, solver=ImplicitMidpoint(float(dt)), engine="torch")
            q, v = P.decode_jvp(*found.states[0].chunk(2, dim=-1))
            total = (q.square() + v.square()).sum(-1) / 2
            errors.append((total - total[0]).abs().max().item())
        galerkin = Galerkin().solve(problem, w, times, solver=RK4(float(dt)), engine="torch").states
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(2, abs=0.3)
    assert torch.allclose(found.states, galerkin, atol=0.02)
    model = CAE(Frame.from_dataset(lorenz_data), torch.Generator(), layers=(2, 4, 36)).double()
    problem = FirstOrder(Path.constant(model(F=3.15)))
    refused("dynamics", Hamiltonian().solve, problem, torch.zeros(1, 2), torch.arange(2.0))


def test_quadratic_invariants_are_kept_over_many_steps():
    """Of a nonlinear field: a rigid body without forces, |y|² and its energy."""
    inverse = torch.tensor([1.0, 0.5, 0.25], dtype=torch.float64)
    field = lambda t, y: torch.cross(y, y * inverse, dim=-1)  # noqa: E731
    y0, times = (
        torch.tensor([[0.4, 0.6, 1.0]], dtype=torch.float64),
        torch.arange(0, 50, 0.1, dtype=torch.float64),
    )
    y = ImplicitMidpoint(0.1)(field, y0, times, engine="torch").states[0]
    for invariant in (y.square().sum(-1), (inverse * y.square()).sum(-1)):
        assert (invariant - invariant[0]).abs().max() < 1e-12
    other = RK4(0.1)(field, y0, times).states[0]
    assert (other.square().sum(-1) - 1.52).abs().max() > 1e-9
