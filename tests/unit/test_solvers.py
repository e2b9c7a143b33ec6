"""What single solvers add to the contract: compiled loops, states that are replaced, steps for each
member.
"""

import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch

import romkit
from romkit.engine import is_short
from romkit.engine.formulas import FORMULAS
from romkit.integrators import Galerkin, PetrovGalerkin
from romkit.projections import Path
from romkit.solvers import RK4, Adaptive, Restarted, Status, TorchDiffEq
from romkit.solvers.base import is_time_dependent
from tests.refusals import refused

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
FINE = torch.linspace(0, 1, 51, dtype=torch.float64)


@pytest.fixture(scope="module")
def problem(lorenz):
    """The reduced problem of five contexts, and where it starts."""
    contexts = torch.linspace(3.14, 3.18, 5, dtype=torch.float64).unsqueeze(-1)
    with torch.no_grad():
        P = romkit.load("ncae-lorenz96").double()(contexts)
        yield (
            lorenz.problem(Path.constant(P), contexts),
            P.encode(lorenz.initial_state(contexts, None)),
        )


@needs_compiler
@pytest.mark.parametrize("dynamics", [Galerkin(), PetrovGalerkin()])
def test_it_equals_torch_to_rounding(problem, dynamics):
    field, z0 = dynamics.field(problem[0]), problem[1]
    with torch.no_grad():
        eager, short, compiled = (
            RK4(0.02)(field, z0, FINE, engine=e) for e in ("torch", "auto", "compiled")
        )
    engines = [run.cost["engine"] for run in (eager, short, compiled)]
    assert engines == ["torch", "torch (too short a run to compile)", "compiled"]
    assert torch.allclose(eager.states, compiled.states, rtol=1e-10, atol=1e-11, equal_nan=True)
    assert torch.equal(eager.status, compiled.status)
    with torch.inference_mode():
        assert torch.equal(RK4(0.02)(field, z0, FINE, engine="compiled").states, compiled.states)


@needs_compiler
def test_derivatives_along_a_direction_and_the_time_are_compiled():
    def field(t, y):
        parts = zip((torch.relu, torch.sigmoid, torch.tanh), y.split(2, dim=-1), strict=True)
        return torch.cat(
            [torch.func.jvp(f, (x,), (torch.cos(t + x),))[1] for f, x in parts], dim=-1
        )

    y0 = torch.linspace(-2, 2, 24, dtype=torch.float64).reshape(4, 6)
    with torch.no_grad():
        eager, compiled = (RK4(0.02)(field, y0, FINE, engine=e) for e in ("torch", "compiled"))
    assert compiled.cost["engine"] == "compiled"
    assert torch.allclose(eager.states, compiled.states, rtol=1e-12, atol=1e-12)


MISTRANSLATIONS = {
    "at once": ("sin", FORMULAS["cos"], lambda t, y: torch.sin(y), torch.float64),
    "by one in ten thousand": (
        "sin",
        lambda a: f"(T(1.0001) * each_sin({a}))",
        lambda t, y: torch.sin(y),
        torch.float32,
    ),
    "away from the start": ("relu", lambda a: a, lambda t, y: torch.relu(y - 0.95), torch.float64),
    "at a later time": (
        "cos",
        lambda a: f"({a} * T(0) + T(1))",
        lambda t, y: y * torch.cos(t),
        torch.float64,
    ),
}


@needs_compiler
@pytest.mark.parametrize("case", MISTRANSLATIONS)
def test_a_mistranslation_is_noticed(case, monkeypatch):
    name, formula, field, dtype = MISTRANSLATIONS[case]
    monkeypatch.setitem(FORMULAS, name, formula)
    y = torch.ones(2, 3, dtype=dtype)
    refused("engine", RK4(0.02), field, y, FINE.to(dtype), engine="compiled")


@needs_compiler
def test_a_singular_member_does_not_keep_the_others_from_being_compiled():
    hilbert = (
        1 / (torch.arange(14)[:, None] + torch.arange(14) + 1.0).double()
    )  # condition 1e17: all digits are noise
    eye = torch.eye(14, dtype=torch.float64)

    def field(t, y):
        matrix = hilbert * y[..., :1, None] + eye * (1 - y[..., :1, None])
        return torch.linalg.solve_ex(matrix, torch.cos(y).unsqueeze(-1)).result.squeeze(-1)

    y0 = torch.linspace(0.1, 0.3, 3 * 14, dtype=torch.float64).reshape(3, 14)
    y0[1, 0] = 1.0
    found = RK4(0.02)(field, y0, FINE[:3], engine="compiled")
    assert found.cost["engine"] == "compiled"
    assert found.status[[0, 2]].tolist() == [Status.COMPLETED] * 2


@needs_compiler
def test_what_cannot_be_compiled_runs_in_torch_or_says_why():
    def decides(t, y):
        return -y if float(y.sum()) > 0 else y  # in Python, about numbers of this run

    def reads_the_time(t, y):
        return torch.cos(torch.tensor(float(t), dtype=y.dtype)) * torch.ones_like(y)

    y0, times = (
        torch.zeros(2, 1, dtype=torch.float64),
        torch.linspace(0, 3, 6001, dtype=torch.float64),
    )
    for field, exact in ((decides, 0 * times), (reads_the_time, torch.sin(times))):
        run = RK4(1e-3)(field, y0, times)
        assert run.cost["engine"].startswith("torch (")
        assert torch.allclose(run.states[0, :, 0], exact, atol=1e-9)
    refused("engine", RK4(1e-3), decides, y0, times, engine="compiled")


@pytest.mark.parametrize(
    ("calls", "members", "steps", "compiled"),
    [(1, 2, 4_000, False), (1, 2, 6_000, True), (10, 2, 400, False), (10, 2, 600, True), (400, 2, 30, False),
     (400, 2, 60, True), (1, 10_000, 1_000, False), (1, 1_000_000, 50, True)],
)  # fmt: skip
def test_what_is_compiled_depends_on_steps_calls_and_members(calls, members, steps, compiled):
    def field(t, y):
        for _ in range(calls):
            y = torch.sin(y)
        return y

    start = torch.ones(members, 1, dtype=torch.float64)
    time = torch.zeros((), dtype=torch.float64)
    assert is_short(field, time, start, 4 * steps) != compiled


@needs_compiler
def test_intermediate_results_have_to_fit_the_stack(monkeypatch):
    solver, times = (
        partial(RK4(0.1), engine="compiled"),
        torch.tensor([0.0, 1.0], dtype=torch.float64),
    )
    decay, y0 = lambda t, y: -y, torch.ones(8, 20_000, dtype=torch.float64)
    refused("do not fit", solver, decay, y0, times)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(
            solver, decay, y0[:, :6000], times
        ).result()  # nearly all that is allowed, in a thread
    assert found.cost["engine"] == "compiled"
    assert torch.allclose(found.states[..., -1, :], torch.exp(-times[-1]), atol=1e-6)
    monkeypatch.setattr("threading.stack_size", lambda: 2**17)
    refused("or the stack", solver, decay, y0[:, :500], times)


LONG = torch.linspace(0, 2, 21, dtype=torch.float64)
START = torch.tensor([[1.0, 2.0], [0.5, -1.0]], dtype=torch.float64)


def decay(t, y):
    return -y


def double(t, y):
    return 2 * y


@pytest.mark.parametrize("solver", [RK4(0.01), Adaptive(rtol=1e-9, atol=1e-12)])
@pytest.mark.parametrize("every", [1, 7, 20, 50])
def test_states_between_jumps_are_those_of_the_field(solver, every):
    found = Restarted(solver, every, double)(decay, START, LONG)
    jumps = (
        torch.arange(len(LONG)).sub(1).clamp(min=0) // every
    )  # the state at the time of a jump is that before it
    expected = START.unsqueeze(-2) * (2.0**jumps * torch.exp(-LONG)).unsqueeze(-1)
    assert torch.allclose(found.states, expected, rtol=1e-7)
    assert found.status.tolist() == [Status.COMPLETED] * 2
    timed = Restarted(solver, 10, lambda t, y: torch.full_like(y, t.item()))(decay, START, LONG)
    assert torch.allclose(
        timed.states[:, 11], torch.full_like(START, LONG[10] * torch.exp(-LONG[1]).item())
    )
    refused("every", Restarted, solver, 0, double)


@needs_compiler
def test_a_field_is_compiled_once_for_all_parts():
    calls = []

    def counted(t, y):
        calls.append(1)
        return -torch.sin(y)

    eager, compiled = (
        Restarted(RK4(0.01), 3, double)(counted, START, LONG, engine=engine)
        for engine in ("torch", "compiled")
    )
    assert compiled.cost["engine"] == "compiled"
    assert torch.allclose(eager.states, compiled.states, rtol=1e-12)
    calls.clear()
    Restarted(RK4(0.01), 3, double)(counted, START, LONG, engine="compiled")
    assert len(calls) == 5  # its shape looked at, recorded, and compared with torch at three states


T64 = torch.float64
TIMES = torch.linspace(0, 1, 11, dtype=T64)


@pytest.mark.parametrize(
    ("field", "depends"),
    [
        (
            lambda t, y: torch.cos(2 * torch.pi * t) * y,
            True,
        ),  # the same at the start and at the end
        (lambda t, y: y if t < 0.5 else -y, True),
        (lambda t, y: y * float(t), True),
        (lambda t, y: y.to(t.dtype), False),
        (lambda t, y: -y, False),
    ],
)
def test_fields_that_look_at_their_time_are_noticed(field, depends):
    assert is_time_dependent(field, TIMES[0], torch.ones(2, 1, dtype=T64)) == depends


def test_members_take_steps_of_their_own():
    """A stiff member beside an easy one: torchdiffeq's common step makes the easy one exact,
    its own does not.
    """
    rate = torch.tensor([[1.0], [1000.0]], dtype=T64)
    y0 = torch.ones(2, 1, dtype=T64)
    error = {}
    for solver in (Adaptive(rtol=1e-4, atol=1e-6), TorchDiffEq(rtol=1e-4, atol=1e-6)):
        final = solver(lambda t, y: -rate * y, y0, TIMES).states[0, -1, 0]
        error[type(solver)] = abs(final.item() - torch.exp(-TIMES[-1]).item())
    assert error[Adaptive] > 100 * error[TorchDiffEq]
    assert error[Adaptive] < 1e-4
    alone = Adaptive(rtol=1e-4, atol=1e-6)(lambda t, y: -y, y0[:1], TIMES).states[0, -1, 0]
    assert abs(alone.item() - torch.exp(-TIMES[-1]).item()) == pytest.approx(
        error[Adaptive], rel=1e-6
    )


def test_bad_arguments_are_named():
    refused("method", TorchDiffEq, "dopri")
    refused("rtol", Adaptive, rtol=0.0)
    refused("max_step", Adaptive, max_step=-1.0)
    refused("jump_times[0]", Adaptive, jump_times=[math.nan])


def test_late_times_cost_no_accuracy_in_single_precision():
    times = torch.linspace(1e6, 1e6 + 1, 5)
    states = Adaptive()(lambda t, y: -y, torch.ones(2, 1), times).states
    torch.testing.assert_close(states[0, :, 0], torch.exp(times[0] - times), rtol=0, atol=1e-5)
