"""Study of large states: the system without polynomial terms, and its fastest full model."""

import torch

from romkit.testing import check_system
from studies.large.reaction import Reaction, exponential
from studies.large.sampled import _refined


def test_the_contract_of_systems_holds():
    check_system(Reaction(cells=6))


def test_the_two_full_models_agree():
    system, c = Reaction(cells=12), torch.tensor([1.0, 5.0], dtype=torch.float64)
    times = torch.linspace(0, 0.02, 5, dtype=torch.float64)
    explicit = system.simulate(system.start(c[None]), c[None], times).state[0]
    errors = [(exponential(system, c, times, steps) - explicit).norm() / explicit.norm() for steps in (10, 20)]
    assert errors[1] < 1e-4
    assert 3.5 < errors[0] / errors[1] < 4.5  # of order two


def test_states_are_refined_in_place():
    coarse, fine = (torch.linspace(0, 1, cells + 2, dtype=torch.float64)[1:-1] for cells in (100, 203))
    bump = lambda x: (torch.sin(torch.pi * x)[:, None] * torch.sin(2 * torch.pi * x)).flatten()  # noqa: E731
    assert abs(_refined(bump(coarse).numpy(), 203) - bump(fine).numpy()).max() < 1e-12
