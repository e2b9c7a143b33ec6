"""torchode behind romkit's signature: a step and a status of its own for every member."""

import sys

import pytest
import torch

from romkit.solvers import Adaptive, PerMember
from tests.refusals import refused

T64 = torch.float64
TIMES = torch.linspace(0, 1, 11, dtype=T64)


@pytest.mark.parametrize(
    "field",
    [
        lambda t, y: torch.cos(2 * torch.pi * t) * y,  # the same at the start and at the end
        lambda t, y: y if t < 0.5 else -y,
    ],
)
def test_fields_of_several_members_do_not_depend_on_time(field):
    refused("field: expected one that does not depend on t", PerMember(), field, torch.ones(2, 1, dtype=T64), TIMES)


def test_members_take_steps_of_their_own():
    """A stiff member beside an easy one: torchdiffeq's common step makes the easy one exact, torchode's does not."""
    rate = torch.tensor([[1.0], [1000.0]], dtype=T64)
    y0 = torch.ones(2, 1, dtype=T64)
    error = {}
    for solver in (PerMember(rtol=1e-4, atol=1e-6), Adaptive(rtol=1e-4, atol=1e-6)):
        final = solver(lambda t, y: -rate * y, y0, TIMES).states[0, -1, 0]
        error[type(solver)] = abs(final.item() - torch.exp(-TIMES[-1]).item())
    assert error[PerMember] > 100 * error[Adaptive]
    assert error[PerMember] < 1e-4
    alone = PerMember(rtol=1e-4, atol=1e-6)(lambda t, y: -y, y0[:1], TIMES).states[0, -1, 0]
    assert abs(alone.item() - torch.exp(-TIMES[-1]).item()) == pytest.approx(error[PerMember], rel=1e-9)


def test_bad_arguments_are_named(monkeypatch):
    refused("did you mean 'dopri5'", PerMember, "dopri")
    refused("did you mean 'dopri", Adaptive, "dopri")
    refused("rtol: expected a positive number", PerMember, rtol=0.0)
    monkeypatch.setitem(sys.modules, "torchode", None)
    refused("romkit[torchode]", PerMember(), lambda t, y: -y, torch.ones(2, 1, dtype=T64), TIMES)


def test_late_times_cost_no_accuracy_in_single_precision():
    times = torch.linspace(1e6, 1e6 + 1, 5)
    states = PerMember()(lambda t, y: -y, torch.ones(2, 1), times).states
    torch.testing.assert_close(states[0, :, 0], torch.exp(times[0] - times), rtol=0, atol=1e-5)
