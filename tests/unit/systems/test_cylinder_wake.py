"""The flow past a cylinder on the coarse mesh: conservation, forces, steady flow; and what a basis
sees of it.
"""

import numpy as np
import pytest
import torch

import romkit
from romkit.systems import CylinderWake
from romkit.systems.cylinder_wake import flow
from romkit.systems.cylinder_wake.elements import MESHES, discretisation
from romkit.systems.cylinder_wake.flow import integrate, rate
from romkit.testing.systems import Probe, field, metric, names, terms
from tests.refusals import refused

T0 = torch.zeros((), dtype=torch.float64)
SYSTEM = CylinderWake(mesh="coarse", transient=0.0, duration=0.08, step=0.001)
FLOW = discretisation("coarse")


@pytest.fixture(scope="module")
def data():
    return SYSTEM.dataset(
        Re=[90.0, 150.0]
    )  # corners of the contract too, so that steady flows are there


PROBE = Probe(SYSTEM)


@pytest.mark.parametrize("law", [names, field, terms, metric])
def test_contract(law):
    law(PROBE)


def test_the_flow_is_incompressible_and_keeps_its_boundary_values(data):
    states = data.state.values
    assert np.abs(FLOW.divergence @ states[0].T).max() < 1e-13
    fixed = np.setdiff1d(np.arange(FLOW.n), FLOW.free)
    assert np.abs(states[..., fixed] - FLOW.inflow[fixed]).max() == 0
    assert FLOW.inflow.max() == pytest.approx(1.5, rel=0.02)


def test_convection_is_bilinear_and_none_in_a_plane_channel():
    draw = np.random.default_rng(0)
    u, v = (np.zeros(FLOW.n) for _ in range(2))
    u[FLOW.free], v[FLOW.free] = draw.standard_normal((2, len(FLOW.free)))
    linear = FLOW.linearised_convection(u) @ v
    assert np.allclose(
        linear, FLOW.convection(u, v) + FLOW.convection(v, u), atol=1e-12 * np.abs(linear).max()
    )
    poiseuille = 6 * FLOW.places[:, 1] * (0.41 - FLOW.places[:, 1]) / 0.41**2 * (FLOW.along == 0)
    assert (
        np.abs(FLOW.convection(poiseuille, poiseuille)).max() < 1e-12
    )  # (u · ∇) u = 0 in a plane channel


def test_steady_flow_solves_the_equations_and_stays_or_is_refused(monkeypatch):
    u = SYSTEM.steady(90.0)
    assert np.abs(rate(FLOW, u, 0.1 / 90)).max() < 1e-9
    *_, end = integrate(FLOW, u, 0.1 / 90, np.linspace(0, 0.05, 3), 0.001)
    assert np.abs(end - u).max() < 1e-9
    SYSTEM.steady(90.0)[:] = 0.0
    assert SYSTEM.steady(90.0).max() > 1.0
    monkeypatch.setitem(flow._newton.__kwdefaults__, "iterations", 2)
    refused(
        "Re",
        flow.steady,
        FLOW,
        0.1 / 400,
    )


def test_the_steps_converge_at_order_two():
    start, times = (
        SYSTEM.initial_state(torch.tensor([[90.0]]), None)[0].numpy(),
        np.array([0.0, 0.05]),
    )
    *_, exact = integrate(FLOW, start, 0.1 / 90, times, 0.05 / 400)
    errors = []
    for count in (50, 100):
        *_, end = integrate(FLOW, start, 0.1 / 90, times, 0.05 / count)
        errors.append(np.abs(end - exact).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.35)


def test_forces_are_what_the_momentum_equation_leaves_on_the_cylinder(data):
    """Reaction M u̇ + N(u, u) + ν K u + Bᵀ p on the cylinder, with the pressure of that very state."""
    u, nu = data.state.values[1, -1], 0.1 / 150
    load = FLOW.convection(u, u) + nu * FLOW.stiffness @ u
    right = np.concatenate([-load[FLOW.free], np.zeros(FLOW.divergence.shape[0])])
    solved = FLOW.leray.solve(right)
    rates = np.zeros(FLOW.n)
    rates[FLOW.free] = solved[: len(FLOW.free)]
    reaction = FLOW.mass @ rates + load + FLOW.divergence.T @ solved[len(FLOW.free) :]
    on_cylinder = reaction[FLOW.cylinder]
    expected = [-20 * on_cylinder[FLOW.along[FLOW.cylinder] == k].sum() for k in range(2)]
    assert np.allclose([data.drag.values[1, -1], data.lift.values[1, -1]], expected, atol=1e-9)
    assert 2.5 < expected[0] < 4.0


def test_a_basis_in_the_mass_matrix_sees_no_pressure_and_no_boundary(data):
    basis = romkit.fit("pod", data, basis=5, latent_dim=2).basis  # takes the mass matrix by itself
    gram = basis.modes.mT @ torch.from_numpy(SYSTEM.weight @ basis.modes.numpy())
    assert (gram - torch.eye(5)).abs().max() < 1e-12
    assert np.abs(FLOW.divergence @ basis.modes.numpy()).max() < 1e-10
    assert basis.modes[np.setdiff1d(np.arange(FLOW.n), FLOW.free)].abs().max() < 1e-12
    through, c = SYSTEM.through(basis), torch.tensor([[60.0], [120.0]], dtype=torch.float64)
    y = torch.randn(2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    full = basis.encode_tangent(SYSTEM.field(c)(T0, basis.decode(y)))
    assert torch.allclose(through.field(c)(T0, y), full, rtol=0, atol=1e-10)
    refused(
        "modes orthonormal in the metric of cylinder-wake",
        SYSTEM.through,
        romkit.basis(data, rank=5),
    )


def test_bad_input():
    refused("mesh", CylinderWake, mesh="corse")
    assert [*MESHES] == ["coarse", "fine", "standard"]
