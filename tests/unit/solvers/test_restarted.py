"""States that are replaced at intervals: against the exact solution, piece by piece, compiled and not."""

import shutil

import pytest
import torch

from romkit.solvers import RK4, Adaptive, Restarted, Status
from tests.refusals import refused

TIMES = torch.linspace(0, 2, 21, dtype=torch.float64)
START = torch.tensor([[1.0, 2.0], [0.5, -1.0]], dtype=torch.float64)


def decay(t, y):
    return -y


def double(t, y):
    return 2 * y


@pytest.mark.parametrize("solver", [RK4(0.01), Adaptive(rtol=1e-9, atol=1e-12)])
@pytest.mark.parametrize("every", [1, 7, 20, 50])
def test_states_between_jumps_are_those_of_the_field(solver, every):
    found = Restarted(solver, every, double)(decay, START, TIMES)
    jumps = torch.arange(len(TIMES)).sub(1).clamp(min=0) // every  # the state at the time of a jump is that before it
    expected = START.unsqueeze(-2) * (2.0**jumps * torch.exp(-TIMES)).unsqueeze(-1)
    assert torch.allclose(found.states, expected, rtol=1e-7)
    assert found.status.tolist() == [Status.COMPLETED] * 2
    timed = Restarted(solver, 10, lambda t, y: torch.full_like(y, t.item()))(decay, START, TIMES)
    assert torch.allclose(timed.states[:, 11], torch.full_like(START, TIMES[10] * torch.exp(-TIMES[1]).item()))
    refused("every", Restarted, solver, 0, double)


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_a_field_is_compiled_once_for_all_parts():
    calls = []

    def counted(t, y):
        calls.append(1)
        return -torch.sin(y)

    eager, compiled = (
        Restarted(RK4(0.01), 3, double)(counted, START, TIMES, engine=engine) for engine in ("torch", "compiled")
    )
    assert compiled.cost["engine"] == "compiled"
    assert torch.allclose(eager.states, compiled.states, rtol=1e-12)
    calls.clear()
    Restarted(RK4(0.01), 3, double)(counted, START, TIMES, engine="compiled")
    assert len(calls) == 5  # its shape looked at, recorded, and compared with torch at three states
