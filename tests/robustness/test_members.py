"""Of two thousand members twenty blow up: the others are bit-equal to what they are without them."""

import numpy as np
import pytest
import torch

import romkit
from romkit.solvers import RK4, Adaptive, ImplicitMidpoint, PerMember, Restarted, SciPy, Status

MEMBERS, WILD = 2_000, 20
TIMES = torch.linspace(0, 1, 6, dtype=torch.float64)
PLACES = torch.from_numpy(np.random.default_rng(0).choice(MEMBERS, WILD, replace=False))


def field(t, y):
    """Blows up in finite time from above 2; elementwise, so that rounding knows no neighbours."""
    return torch.sin(y) + y * y * (y > 2.0)


def starts(members, wild):
    y0 = torch.linspace(-1, 0.5, members, dtype=torch.float64).unsqueeze(-1).repeat(1, 2)
    harmed = y0.clone()
    harmed[wild] = torch.linspace(50, 1e5, len(wild), dtype=torch.float64).unsqueeze(-1)
    return y0, harmed


@pytest.mark.parametrize(
    ("solver", "engine"),
    [
        (RK4(0.02), "torch"),
        (RK4(0.02), "compiled"),
        (ImplicitMidpoint(0.05), "torch"),
        (Restarted(RK4(0.02), 2, lambda t, y: y), "torch"),
        (Restarted(RK4(0.02), 2, lambda t, y: y), "compiled"),
        (PerMember(), "torch"),
    ],
    ids=lambda solver: type(solver).__name__,
)
def test_others_are_left_alone(solver, engine):
    before, after = (solver(field, y0, TIMES, engine=engine) for y0 in starts(MEMBERS, PLACES))
    lost = torch.zeros(MEMBERS, dtype=torch.bool)
    lost[PLACES] = True
    assert torch.equal(after.status == Status.DIVERGED, lost)
    assert (before.status == Status.COMPLETED).all()
    assert torch.equal(before.states[~lost], after.states[~lost])


def test_scipy_solves_one_after_the_other():
    """Twenty members: SciPy takes some milliseconds for each."""
    wild = torch.tensor([17])
    before, after = (SciPy("LSODA")(field, y0, TIMES) for y0 in starts(MEMBERS // 100, wild))
    others = torch.arange(MEMBERS // 100) != 17
    assert after.status[17] == Status.DIVERGED
    assert torch.equal(before.states[others], after.states[others])


def test_members_of_adaptive_share_their_steps():
    """The documented exception: others move, by less than the tolerance; and each singularity costs steps of all."""
    wild = PLACES[:2]
    before, after = (Adaptive(rtol=1e-6, atol=1e-8)(field, y0, TIMES) for y0 in starts(MEMBERS, wild))
    others = torch.ones(MEMBERS, dtype=torch.bool)
    others[wild] = False
    assert (after.status[others] == Status.COMPLETED).all()
    assert (after.status[wild] == Status.DIVERGED).all()
    assert torch.allclose(before.states[others], after.states[others], rtol=0, atol=1e-5)


def test_trajectories_of_a_system_and_of_its_reduced_model():
    system, projection = romkit.systems.Lorenz96(transient=1.0), romkit.load("ncae-lorenz96")
    data = system.dataset(F=np.linspace(3.14, 3.18, 200), duration=0.1)
    states = data.state.values[:, 0]
    harmed = states.copy()
    harmed[[3, 77]] = 1e13
    F = data.F.values
    run = {"duration": 0.2, "engine": "torch", "F": F}
    with pytest.warns(romkit.errors.DivergenceWarning):
        before, after = (romkit.rollout(system, projection, initial_state=x, **run) for x in (states, harmed))
    others = np.setdiff1d(np.arange(200), [3, 77])
    assert (after.status.values[[3, 77]] != 0).all()
    for name in ("truth", "rom"):
        assert np.array_equal(before[name].values[others], after[name].values[others])
