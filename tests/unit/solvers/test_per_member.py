"""torchode behind romkit's signature: a step and a status of its own for every member."""

import sys

import pytest
import torch
from scipy.integrate import solve_ivp

from romkit.core.errors import InputError
from romkit.solvers import RK4, Adaptive, PerMember, Status

T64 = torch.float64
TIMES = torch.linspace(0, 1, 11, dtype=T64)


def oscillators(t, y):
    """Pendulums, one of them started close to the top."""
    return torch.stack([y[..., 1], -torch.sin(y[..., 0])], dim=-1)


def blow_up(t, y):
    """ẏ = y²: the solution from y₀ > 0 ends at t = 1/y₀."""
    return y.square()


@pytest.mark.parametrize(("method", "tolerance"), [("dopri5", 1e-9), ("tsit5", 1e-9), ("heun", 1e-6)])
def test_it_agrees_with_scipy(method, tolerance):
    y0 = torch.tensor([[[1.0, 0.3], [3.1, 0.0]], [[0.0, 1e-3], [2.0, -1.0]]], dtype=T64)
    times = torch.linspace(0, 5, 6, dtype=T64)
    found = PerMember(method, rtol=tolerance, atol=tolerance)(oscillators, y0, times)
    assert found.states.shape == (2, 2, 6, 2)
    assert not found.status.any()
    for start, states in zip(y0.flatten(0, 1), found.states.flatten(0, 1), strict=True):
        exact = solve_ivp(
            lambda t, y: oscillators(t, torch.from_numpy(y)).numpy(),
            (0, 5), start.numpy(), method="DOP853", rtol=1e-12, atol=1e-13, t_eval=times.numpy(),
        )  # fmt: skip
        assert torch.allclose(states, torch.from_numpy(exact.y.T), rtol=0, atol=1000 * tolerance)


def test_one_member_may_have_a_field_that_depends_on_time():
    found = PerMember(rtol=1e-9, atol=1e-10)(lambda t, y: torch.cos(t) + 0 * y, torch.zeros(1, dtype=T64), TIMES)
    assert torch.allclose(found.states[:, 0], torch.sin(TIMES), rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "field",
    [
        lambda t, y: torch.cos(2 * torch.pi * t) * y,  # the same at the start and at the end
        lambda t, y: y if t < 0.5 else -y,
    ],
)
def test_members_may_not(field):
    with pytest.raises(InputError, match="field: expected one that does not depend on t"):
        PerMember()(field, torch.ones(2, 1, dtype=T64), TIMES)


@pytest.mark.parametrize("solver", [PerMember(), Adaptive()])
def test_status_is_that_of_each_member(solver):
    y0 = torch.tensor([[-1.0], [2.0], [0.1], [torch.nan], [1e200]], dtype=T64)
    found = solver(blow_up, y0, TIMES)
    bad, good = Status.DIVERGED, Status.COMPLETED
    assert found.status.tolist() == [good, bad, good, bad, bad]
    assert found.states[1, :5].isfinite().all()
    assert found.states[1, 6:].isnan().all()
    assert found.states[3:].isnan().all()
    exact = y0[[0, 2]] / (1 - y0[[0, 2]] * TIMES)
    assert torch.allclose(found.states[[0, 2], :, 0], exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("wild", [50.0, 1e5, torch.inf])
def test_a_diverging_member_leaves_the_others_bit_identical(wild):
    healthy = torch.linspace(-1, 0.5, 1000, dtype=T64).unsqueeze(-1)
    harmed = healthy.clone()
    harmed[500] = wild
    before, after = (PerMember()(blow_up, y0, TIMES) for y0 in (healthy, harmed))
    others = torch.arange(1000) != 500
    assert after.status[500] == Status.DIVERGED
    assert torch.equal(before.states[others], after.states[others])


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


def test_one_time_is_the_start():
    y0 = torch.ones(2, 1, dtype=T64)
    assert torch.equal(PerMember()(blow_up, y0, TIMES[:1]).states, y0.unsqueeze(-2))


def test_float32_stays_float32_and_agrees_with_rk4():
    y0, times = torch.tensor([[1.0, 0.3], [2.0, -1.0]]), TIMES.float()
    found, reference = (solver(oscillators, y0, times).states for solver in (PerMember(), RK4(0.01)))
    assert found.dtype == torch.float32
    assert torch.allclose(found, reference, atol=1e-5)


def test_bad_arguments_are_named():
    with pytest.raises(InputError, match="did you mean 'dopri5'"):
        PerMember("dopri")
    with pytest.raises(InputError, match="rtol: expected a positive number"):
        PerMember(rtol=0.0)


def test_without_torchode_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchode", None)
    with pytest.raises(InputError, match=r"romkit\[torchode\]"):
        PerMember()(blow_up, torch.ones(2, 1, dtype=T64), TIMES)


def test_late_times_cost_no_accuracy_in_single_precision():
    times = torch.linspace(1e6, 1e6 + 1, 5)
    states = PerMember()(lambda t, y: -y, torch.ones(2, 1), times).states
    torch.testing.assert_close(states[0, :, 0], torch.exp(times[0] - times), rtol=0, atol=1e-5)
