"""Studies of large states: the systems, full models and scores that they bring along."""

import numpy as np
import pytest
import torch

from romkit.bases import Basis
from romkit.systems import CylinderWake
from romkit.testing import check_system
from studies.large.reaction import Reaction, exponential
from studies.large.sampled import _refined

pytest.importorskip("skfem")

from studies.wake.reduced import LAST, STEP, DragLift, cycle
from studies.wake.stability import critical, full_growth, reduced_growth


def test_the_contract_of_systems_holds():
    check_system(Reaction(cells=6))


def test_the_two_full_models_agree():
    system, c = Reaction(cells=12), torch.tensor([1.0, 5.0], dtype=torch.float64)
    times = torch.linspace(0, 0.02, 5, dtype=torch.float64)
    explicit = system.simulate(system.start(c[None]), c[None], times).state[0]
    errors = [
        (exponential(system, c, times, steps) - explicit).norm() / explicit.norm()
        for steps in (10, 20)
    ]
    assert errors[1] < 1e-4
    assert 3.5 < errors[0] / errors[1] < 4.5  # of order two


def test_states_are_refined_in_place():
    coarse, fine = (
        torch.linspace(0, 1, cells + 2, dtype=torch.float64)[1:-1] for cells in (100, 203)
    )
    bump = lambda x: (torch.sin(torch.pi * x)[:, None] * torch.sin(2 * torch.pi * x)).flatten()  # noqa: E731
    assert abs(_refined(bump(coarse).numpy(), 203) - bump(fine).numpy()).max() < 1e-12


def test_drag_and_lift_of_coordinates_are_those_of_their_states():
    system = CylinderWake(mesh="coarse")
    gen = torch.Generator().manual_seed(0)
    modes = torch.linalg.qr(torch.randn(system.state_size, 4, dtype=torch.float64, generator=gen))[
        0
    ]
    basis = Basis(modes, torch.from_numpy(system.flow.inflow))
    y, c = (
        torch.randn(3, 5, 4, dtype=torch.float64, generator=gen),
        torch.tensor([[60.0], [80.0], [100.0]]).double(),
    )
    found = DragLift.of(basis, "coarse")(y, c.unsqueeze(1))
    torch.testing.assert_close(found, system.forces(basis.decode(y), c), rtol=1e-10, atol=1e-10)


def test_period_and_largest_lift_of_a_growing_wave():
    times = np.arange(3 * LAST) * STEP
    wave = np.tanh(times / 4) * np.sin(2 * np.pi * 3.1 * times) + 0.1
    strouhal, largest = cycle(wave)
    assert strouhal == pytest.approx(0.31, rel=1e-3)
    assert largest == pytest.approx(wave[-LAST:].max())


def test_growth_of_a_field_is_that_of_its_linear_part_at_the_steady_state():
    A = torch.tensor([[0.3, -2.0], [2.0, 0.3]], dtype=torch.float64)
    field = lambda z: A @ (z - 1) - (z - 1) * (z - 1).square().sum()  # noqa: E731
    assert reduced_growth(field, torch.tensor([1.1, 0.9], dtype=torch.float64)) == pytest.approx(
        0.3 + 2j
    )
    assert critical(lambda re: complex(0.01 * (re - 51.5), 17)) == pytest.approx(51.5, abs=0.05)


def test_disturbances_of_the_flow_decay_below_and_grow_above_the_onset():
    assert full_growth(40.0, "coarse").real < 0 < full_growth(70.0, "coarse").real
