"""Steps with a controlled error: tables by their order conditions, tolerances against SciPy and
known solutions, output grids that do not matter, stiff fields, jumps and pulses.
"""

import math
import warnings

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from romkit.engine.pairs import RODAS4, TSIT5
from romkit.laws import DMD, OperatorInference, SINDy
from romkit.solvers import (
    RK4,
    Adaptive,
    Exponential,
    SciPy,
    Status,
    TorchDiffEq,
    checked_step,
)
from romkit.solvers import adaptive as room

T64 = torch.float64
ENGINES = ["torch", "compiled"]


def pendulum(t, y):
    return torch.stack([y[..., 1], -torch.sin(y[..., 0])], dim=-1)


def forced(t, y):
    return torch.stack([y[..., 1], -torch.sin(y[..., 0]) + torch.cos(3 * t)], dim=-1)


STARTS = torch.tensor([[1.0, 0.3], [3.1, 0.0], [0.0, 1e-3], [0.0, 0.0], [2.0, -1.0]], dtype=T64)


def exact(times, push=0.0):
    """(C, T, 2) of the pendulum by SciPy."""

    def field(t, y):
        return [y[1], -math.sin(y[0]) + push * math.cos(3 * t)]

    def solved(y):
        span = (0, float(times[-1]))
        return solve_ivp(field, span, y, "DOP853", times.tolist(), rtol=1e-12, atol=1e-14).y.T

    return torch.from_numpy(np.stack([solved(y.tolist()) for y in STARTS]))


def test_the_explicit_table_meets_its_order_conditions():
    """Up to order five for the solution, and up to four for the interpolation at any time."""
    c, A = np.array(TSIT5.nodes), np.zeros((7, 7))
    for s, row in enumerate(TSIT5.stages):
        A[s, : len(row)] = row
    b, error = A[-1], np.array(TSIT5.error)
    assert np.allclose(A.sum(1), c, atol=1e-14)
    trees = {1: [np.ones(7)], 2: [c], 3: [c**2, 2 * A @ c]}
    trees[4] = [c**3, 8 / 2 * c * (A @ c) / 2 * 2, 3 * A @ c**2, 24 * A @ A @ c / 4]
    for order, rows in trees.items():
        for row in rows:
            share = {"weights": row}["weights"]
            reference = _tree_integral(order, share, c, A)
            assert b @ share == pytest.approx(reference, abs=1e-12)
            assert error @ share == pytest.approx(0, abs=1e-12)
            for theta in (0.2, 0.7, 1.0):
                dense = np.array(TSIT5.dense) @ theta ** np.arange(1, 5)
                assert dense @ share == pytest.approx(reference * theta**order, abs=1e-10)
    assert b @ c**4 == pytest.approx(1 / 5, abs=1e-12)


def _tree_integral(order, row, c, A):
    """Σ b φ of a method of this order: φ = c^(k-1) has 1/k, A c 1/6, c A c 1/8, A c² 1/12, A A c
    1/24, times what the row is multiplied by.
    """
    known = [
        (c ** (order - 1), 1 / order),
        (A @ c, 1 / 6),
        (c * (A @ c), 1 / 8),
        (A @ c**2, 1 / 12),
        (A @ A @ c, 1 / 24),
    ]
    for shape, value in known:
        factor = np.linalg.norm(row) / np.linalg.norm(shape)
        if np.allclose(row, factor * shape, atol=1e-12):
            return factor * value
    raise AssertionError("no tree")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-9])
def test_errors_follow_the_tolerance_at_any_time(engine, rtol):
    times = torch.tensor([0.0, 0.3, 0.31, 0.5, 4.0, 4.001, 10.0], dtype=T64)
    solution = Adaptive(rtol=rtol)(pendulum, STARTS, times, engine=engine)
    assert solution.cost["engine"] == engine
    size = STARTS.abs().amax(-1, keepdim=True).clamp(min=1e-3).unsqueeze(-1)
    # the second one starts near the top, from where errors grow by e^10
    allowed = rtol * torch.tensor([30.0, 1e4, 30.0, 30.0, 300.0], dtype=T64)[:, None, None]
    assert bool(((solution.states - exact(times)).abs() / size < allowed).all())
    assert bool((solution.states[3] == 0).all())  # at rest


def test_torch_and_compiled_take_the_same_steps():
    times = torch.linspace(0, 10, 7, dtype=T64)
    compiled, eager = (Adaptive()(pendulum, STARTS, times, engine=e).states for e in ENGINES[::-1])
    assert torch.allclose(compiled, eager, rtol=0, atol=1e-11)


@pytest.mark.parametrize("engine", ENGINES)
def test_output_times_change_nothing(engine):
    """Six grids of 0.2 to 40 times an interval of a half, uneven ones, and a single point."""
    rtol, end = 1e-6, 20.0
    uneven = torch.tensor([0.0, 0.01, 0.02, 7.0, 7.3, 15.0, 19.0, 19.99, end], dtype=T64)
    grids = [torch.linspace(0, end, n, dtype=T64) for n in (201, 41, 11, 5)]
    grids += [uneven, torch.tensor([0.0, end], dtype=T64)]
    runs = [Adaptive(rtol=rtol)(pendulum, STARTS, grid, engine=engine).states for grid in grids]
    for grid, states in zip(grids, runs, strict=True):
        for k, t in enumerate(grid):
            same = (grids[0] - t).abs() < 1e-12
            if bool(same.any()):
                apart = states[:, k] - runs[0][:, same.nonzero()[0, 0]]
                assert float(apart.abs().max()) < 10 * rtol


@pytest.mark.parametrize("engine", ENGINES)
def test_pieces_of_work_change_nothing(engine, monkeypatch):
    times = torch.linspace(0, 10, 5, dtype=T64)
    whole = Adaptive()(pendulum, STARTS, times, engine=engine).states
    monkeypatch.setattr(room, "FEW", 3)
    monkeypatch.setattr(room, "PIECE", 0.0)
    assert torch.equal(Adaptive()(pendulum, STARTS, times, engine=engine).states, whole)


@pytest.mark.parametrize("engine", ENGINES)
def test_members_do_not_see_each_other(engine):
    """A diverging, a lost and a stiff neighbour."""

    def field(t, y):
        rate = torch.stack([y[..., 0] ** 2, -50 * y[..., 1]], dim=-1)
        return torch.where(y[..., :1] > 5, (1 - y).sqrt(), rate)

    y0 = torch.tensor([[-1.0, 1.0], [2.0, 1.0], [torch.nan, 0.0], [0.1, 1.0]], dtype=T64)
    calm = y0.clone()
    calm[[1, 2]] = 0.1
    times = torch.linspace(0, 2, 5, dtype=T64)
    together, unharmed = (Adaptive()(field, y, times, engine=engine) for y in (y0, calm))
    assert together.status.tolist() == [0, 1, 1, 0]
    assert torch.equal(together.states[[0, 3]], unharmed.states[[0, 3]])
    well = y0[[0, 3], 0]
    expected = well[:, None] / (1 - well[:, None] * times)
    assert torch.allclose(together.states[[0, 3], :, 0], expected, rtol=0, atol=1e-6)


def van_der_pol(t, y):
    return torch.stack([y[..., 1], 1000 * (1 - y[..., 0] ** 2) * y[..., 1] - y[..., 0]], dim=-1)


def robertson(t, y):
    a, b, c = y.unbind(-1)
    slow, fast, faster = 0.04 * a, 3e7 * b * b, 1e4 * b * c
    return torch.stack([faster - slow, slow - faster - fast, fast], dim=-1)


def following(t, y):
    """Prothero and Robinson: the solution from 1 is cos t."""
    return -1e4 * (y - torch.cos(t)) - torch.sin(t)


STIFF = [
    (van_der_pol, [2.0, 0.0], 1500.0, 1e-3),
    (robertson, [1.0, 0.0, 0.0], 1e4, 1e-4),
    (following, [1.0], 20.0, 1e-4),
    (
        lambda t, y: y @ torch.tensor([[-1.0, 0.0], [199.0, -200.0]], dtype=T64),
        [1.0, 1.0],
        50.0,
        1e-5,
    ),
]


@pytest.mark.parametrize(("field", "start", "end", "allowed"), STIFF)
def test_stiff_fields_are_noticed_and_integrated_implicitly(
    field, start, end, allowed, monkeypatch
):
    methods = []
    monkeypatch.setattr(
        room.stepping,
        "Implicit",
        lambda rate, kind=room.stepping.Implicit: methods.append(1) or kind(rate),
    )
    y0, times = torch.tensor([start], dtype=T64), torch.linspace(0, end, 4, dtype=T64)

    def one(t, y):
        return field(torch.tensor(t), torch.from_numpy(y).unsqueeze(0))[0].numpy()

    reference = solve_ivp(one, (0, end), start, "Radau", times.tolist(), rtol=1e-7, atol=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = Adaptive()(field, y0, times, engine="torch")
    assert methods
    assert solution.status.tolist() == [Status.COMPLETED]
    error = (solution.states[0] - torch.from_numpy(reference.y.T)).abs().max(0).values
    size = torch.from_numpy(abs(reference.y).max(1)).clamp(min=1e-2)
    assert bool((error < allowed * size).all())


def test_the_implicit_method_is_of_order_four_and_compiled(monkeypatch):
    monkeypatch.setattr(room, "WORTHWHILE", {"torch": 0, "compiled": 0})
    y0 = torch.tensor([[2.0, 0.0], [1.5, 0.0]], dtype=T64)
    times = torch.linspace(0, 150, 7, dtype=T64)
    compiled, eager = (Adaptive()(van_der_pol, y0, times, engine=e).states for e in ENGINES[::-1])
    assert torch.allclose(compiled, eager, rtol=0, atol=1e-5)
    errors = []
    for rtol in (1e-5, 1e-7):
        states = Adaptive(rtol=rtol)(
            following, y0[:, :1] * 0 + 1, 2 * times[:2], engine="compiled"
        ).states
        errors.append(float((states[:, -1, 0] - torch.cos(2 * times[1])).abs().max()))
    assert errors[1] < errors[0] / 10


def test_a_stiff_field_of_many_components_is_said(monkeypatch):
    monkeypatch.setitem(room._implicit.__kwdefaults__, "largest", 1)
    times = torch.tensor([0.0, 40.0], dtype=T64)
    with pytest.warns(RuntimeWarning, match="stiff"):
        Adaptive()(lambda t, y: -100 * (y - 1), torch.zeros(1, 2, dtype=T64), times, engine="torch")


def pulse(t, y):
    """100 for a twentieth of a time unit."""
    return -y + 100 * ((t >= 5) & (t < 5.05)).to(y)


def after_pulse(t):
    return 100 * (1 - math.exp(-0.05)) * math.exp(-(t - 5.05))


@pytest.mark.parametrize(
    "solver",
    [
        Adaptive(forced_step=0.02),
        Adaptive(max_step=0.02),
        Adaptive(jump_times=[5.0, 5.05]),
        TorchDiffEq(max_step=0.02),
        TorchDiffEq(jump_times=[5.0, 5.05]),
        *(SciPy(method, jump_times=[5.0, 5.05]) for method in SciPy.METHODS),
        SciPy("BDF", forced_step=0.02),
    ],
    ids=str,
)
def test_a_short_pulse_is_not_passed_over(solver):
    times = torch.tensor([0.0, 4.0, 7.0], dtype=T64)
    states = solver(pulse, torch.zeros(2, 1, dtype=T64), times).states
    assert states[:, -1, 0].tolist() == pytest.approx([after_pulse(7.0)] * 2, rel=1e-3)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_step_that_ends_at_a_jump_sees_one_side_of_it(engine):
    def field(t, y):
        return 1 + 2 * (t >= 1).to(y) + 0 * y

    times = torch.tensor([0.0, 1.0, 2.0], dtype=T64)
    y0 = torch.zeros(3, 1, dtype=T64)
    solver = Adaptive(rtol=1e-3, max_step=10.0, jump_times=[1.0])
    states = solver(field, y0, times, engine=engine).states
    assert torch.allclose(states[:, :, 0], torch.tensor([0.0, 1.0, 4.0], dtype=T64), atol=1e-12)


def test_a_relay_without_known_times_is_crossed_by_the_shortest_steps():
    def field(t, y):
        return torch.where(t > 0.7321, 1.0, 0.0) + 0 * y

    times = torch.tensor([0.0, 1.0], dtype=T64)
    solution = Adaptive()(field, torch.zeros(1, 1, dtype=T64), times, engine="torch")
    assert float(solution.states[0, -1, 0]) == pytest.approx(1 - 0.7321, rel=1e-5)


def test_fixed_steps_are_checked():
    times = torch.linspace(0, 10, 11, dtype=T64)
    step = checked_step(pendulum, STARTS[:1], times, rtol=1e-6)
    states = RK4(step)(pendulum, STARTS[:1], times).states
    assert float((states - exact(times)[:1]).abs().max()) < 3e-5
    longer = RK4(4 * step)(pendulum, STARTS[:1], times).states
    assert float((longer - exact(times)[:1]).abs().max()) > 1e-5
    with pytest.warns(RuntimeWarning, match="step"):
        checked_step(pulse, torch.zeros(1, 1, dtype=T64), times, rtol=1e-9, most_steps=200)


@pytest.mark.parametrize("engine", ENGINES)
def test_even_steps_have_order_five_and_smooth_solutions_at_any_output_time(engine):
    times = torch.linspace(0, 4, 38, dtype=T64)  # most are within steps
    start = STARTS[:1]
    errors = []
    for dt in (0.2, 0.1):
        states = room.even_steps(dt)(pendulum, start, times, engine=engine).states
        errors.append(float((states - exact(times)[:1]).abs().max()))
    assert math.log2(errors[0] / errors[1]) > 4.5
    assert errors[1] < 1e-5
    # of changing steps, second differences this close would be noise
    moves = 1e-4 * torch.tensor([[-1.0], [0.0], [1.0]], dtype=T64)
    three = start + torch.cat([moves, 0 * moves], dim=-1)
    y = room.even_steps(0.2)(pendulum, three, times, engine=engine).states
    second = (y[0] - 2 * y[1] + y[2]) / 1e-8
    assert float(second.abs().max()) < 30


def test_steps_that_shrank_in_a_leap_grow_again():
    times = torch.linspace(0, 10, 11, dtype=T64)
    step = checked_step(
        pendulum, STARTS[:1], times, rtol=1e-5, dt=5.0, make=room.even_steps, order=5
    )
    states = room.even_steps(step)(pendulum, STARTS[:1], times).states
    assert float((states - exact(times)[:1]).abs().max()) < 3e-4
    longer = room.even_steps(2 * step)(pendulum, STARTS[:1], times).states
    assert float((longer - exact(times)[:1]).abs().max()) > 1e-4


def test_the_implicit_table_is_that_of_its_source():
    """A-stability function at minus infinity is zero, rows of the couplings add up to the drifts."""
    gamma, stages = RODAS4.gamma, len(RODAS4.nodes)
    C = np.zeros((stages, stages))
    A = np.zeros((stages, stages))
    for s in range(stages):
        C[s, : len(RODAS4.couplings[s])] = RODAS4.couplings[s]
        A[s, : len(RODAS4.stages[s])] = RODAS4.stages[s]
    transform = np.linalg.inv(np.eye(stages) / gamma - C)  # of Hairer and Wanner's a and gamma
    a, g = A @ transform, transform
    assert np.allclose(a.sum(1), RODAS4.nodes, atol=1e-12)
    assert np.allclose(g.sum(1), RODAS4.drifts, atol=1e-12)


@pytest.mark.parametrize("stiffness", [1.0, 1e5])
def test_linear_laws_take_exact_steps(stiffness):
    """Of two members with matrices of their own, over even and uneven times, against SciPy's expm."""
    A = torch.tensor([[[-1.0, 2.0], [-2.0, -1.0]], [[-stiffness, 0.0], [1.0, -0.1]]], dtype=T64)
    b, y0 = torch.tensor([1.0, -2.0], dtype=T64), torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=T64)
    times = torch.tensor([0.0, 0.5, 1.0, 7.0, 30.0], dtype=T64)
    states = Exponential()(lambda t, y: (A @ y.unsqueeze(-1)).squeeze(-1) + b, y0, times).states
    for member in range(2):
        for k, t in enumerate(times.tolist()):
            rest = np.linalg.solve(A[member].numpy(), -b.numpy())
            expected = rest + expm(t * A[member].numpy()) @ (y0[member].numpy() - rest)
            assert np.allclose(states[member, k], expected, rtol=0, atol=1e-9)


def test_a_linear_law_says_so_and_is_exact_on_any_grid():
    t = torch.linspace(0, 6, 61, dtype=T64)
    z, rate = torch.stack([t.cos(), t.sin()], -1)[None], torch.stack([-t.sin(), t.cos()], -1)[None]
    for settings in (DMD(), SINDy(degree=1, threshold=0.0), OperatorInference(degree=1)):
        law = settings.fit_samples(z, rate, times=t)
        assert law.affine
    assert not SINDy(degree=2, threshold=0.0).fit_samples(z + 0.1 * z**2, rate, times=t).affine


@pytest.mark.parametrize("engine", ["torch", "compiled"])
def test_members_that_take_too_many_steps_are_lost(engine):
    """An oscillator of sixty turns beside one at rest."""
    y0 = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    times = torch.linspace(0, 120 * torch.pi, 81, dtype=torch.float64)
    field = lambda t, y: torch.stack([y[..., 1], -y[..., 0]], -1)  # noqa: E731
    solution = Adaptive(most_steps=300)(field, y0, times, engine=engine)
    assert solution.status.tolist() == [Status.DIVERGED, Status.COMPLETED]
    exact = torch.stack([times.cos(), -times.sin()], -1)
    known = solution.states[0].isfinite().all(-1)
    assert 1 < int(known.sum()) < 81
    assert torch.allclose(solution.states[0][known], exact[known], atol=2e-2)
    assert bool((solution.states[1] == 0).all())
    free = Adaptive(most_steps=100_000)(field, y0, times[:3], engine="torch")
    assert torch.equal(free.states, Adaptive()(field, y0, times[:3], engine="torch").states)


def test_a_run_that_slides_along_a_jump_is_given_up(monkeypatch):
    monkeypatch.setitem(Adaptive._drive.__kwdefaults__, "patience", 500)

    def towards_zero(t, y):
        return torch.from_numpy(-0.7 * np.sign(y.numpy()))

    y0 = torch.tensor([[0.1], [5.0]], dtype=torch.float64)
    times = torch.linspace(0, 0.2, 21, dtype=torch.float64)
    with pytest.warns(RuntimeWarning, match="jumps"):
        solution = Adaptive()(towards_zero, y0, times)
    assert solution.status.tolist() == [1, 0]
    # both are right as long as they have numbers
    exact = y0 - 0.7 * times
    error = (solution.states[..., 0] - exact).nan_to_num(0.0)
    assert float(error.abs().max()) < 1e-6
    assert float(solution.times[solution.states[0, :, 0].isfinite()].max()) == pytest.approx(0.14)
