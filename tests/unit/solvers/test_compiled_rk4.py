"""The compiled loop of RK4: equal to torch's, blind to neighbours, and honest about what it cannot do."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch

import romkit
from romkit.core.errors import InputError
from romkit.engine import pays, trace_field
from romkit.engine.formulas import FORMULAS
from romkit.integrators import Galerkin, PetrovGalerkin
from romkit.projections import Path
from romkit.solvers import RK4, Status

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
TIMES = torch.linspace(0, 1, 51, dtype=torch.float64)


@pytest.fixture(scope="module")
def problem(lorenz):
    """The reduced problem of five contexts, and where it starts."""
    contexts = torch.linspace(3.14, 3.18, 5, dtype=torch.float64).unsqueeze(-1)
    with torch.no_grad():
        P = romkit.load("ncae-lorenz96").double()(contexts)
        yield lorenz.problem(Path.constant(P), contexts), P.encode(lorenz.initial_state(contexts, None))


@pytest.mark.parametrize("dynamics", [Galerkin(), PetrovGalerkin()])
def test_it_equals_torch_to_rounding(problem, dynamics):
    reduced, z0 = problem
    with torch.no_grad():
        eager, compiled = (RK4(0.02)(dynamics.field(reduced), z0, TIMES, engine=e) for e in ("torch", "compiled"))
    assert (eager.cost["engine"], compiled.cost["engine"]) == ("torch", "compiled")
    assert torch.allclose(eager.states, compiled.states, rtol=1e-10, atol=1e-11, equal_nan=True)
    assert torch.equal(eager.status, compiled.status)


def test_it_compiles_in_inference_mode_as_well(problem):
    field, z0 = Galerkin().field(problem[0]), problem[1]
    with torch.no_grad():
        expected = RK4(0.02)(field, z0, TIMES, engine="compiled").states
    with torch.inference_mode():
        found = RK4(0.02)(field, z0, TIMES, engine="compiled").states
    assert torch.equal(found, expected)


@pytest.mark.parametrize("engine", ["torch", "compiled"])
def test_a_diverging_member_leaves_the_others_bit_identical(engine):
    def field(t, y):
        return torch.sin(y) + y * y * (y > 2.0)

    y0 = torch.linspace(-1, 1, 1000, dtype=torch.float64).unsqueeze(-1).repeat(1, 2)
    wild = y0.clone()
    wild[500] = 50.0
    healthy, harmed = (RK4(0.02)(field, start, TIMES, engine=engine) for start in (y0, wild))
    others = torch.arange(1000) != 500
    assert harmed.status[500] == Status.DIVERGED
    assert harmed.states[500, -1].isnan().all()
    assert torch.equal(healthy.states[others], harmed.states[others])


@pytest.mark.parametrize("function", [torch.relu, torch.sigmoid, torch.tanh])
def test_derivatives_along_a_direction_are_compiled(function):
    def field(t, y):
        return torch.func.jvp(function, (y,), (torch.cos(y),))[1]

    y0 = torch.linspace(-2, 2, 8, dtype=torch.float64).reshape(4, 2)
    with torch.no_grad():
        eager, compiled = (RK4(0.02)(field, y0, TIMES, engine=e) for e in ("torch", "compiled"))
    assert compiled.cost["engine"] == "compiled"
    assert torch.allclose(eager.states, compiled.states, rtol=1e-12, atol=1e-12)


def test_a_mistranslation_is_noticed(monkeypatch):
    monkeypatch.setitem(FORMULAS, "sin", FORMULAS["cos"])
    with pytest.raises(InputError, match="disagrees with torch"):
        RK4(0.02)(lambda t, y: torch.sin(y), torch.ones(2, 3, dtype=torch.float64), TIMES, engine="compiled")


def test_a_singular_member_does_not_keep_the_others_from_being_compiled():
    hilbert = 1 / (torch.arange(14)[:, None] + torch.arange(14) + 1.0).double()  # condition 1e17: all digits are noise
    eye = torch.eye(14, dtype=torch.float64)

    def field(t, y):
        matrix = hilbert * y[..., :1, None] + eye * (1 - y[..., :1, None])
        return torch.linalg.solve_ex(matrix, torch.cos(y).unsqueeze(-1)).result.squeeze(-1)

    y0 = torch.linspace(0.1, 0.3, 3 * 14, dtype=torch.float64).reshape(3, 14)
    y0[1, 0] = 1.0
    found = RK4(0.02)(field, y0, TIMES[:3], engine="compiled")
    assert found.cost["engine"] == "compiled"
    assert found.status[[0, 2]].tolist() == [Status.COMPLETED] * 2


def test_what_cannot_be_compiled_runs_in_torch_or_says_why():
    def field(t, y):
        return -y if float(y.sum()) > 0 else y  # a decision in Python, about numbers of this run

    y0 = torch.ones(2, 3, dtype=torch.float64)
    times = torch.arange(0, 6000, dtype=torch.float64) * 1e-4
    assert RK4(1e-4)(field, y0, times).cost["engine"].startswith("torch (")
    with pytest.raises(InputError, match="compile"):
        RK4(1e-4)(field, y0, times, engine="compiled")


@pytest.mark.parametrize(
    ("calls", "members", "steps", "compiled"),
    [(1, 2, 5_000, False), (1, 2, 60_000, True), (10, 2, 5_000, False), (10, 2, 7_000, True), (400, 2, 700, False),
     (400, 2, 1_000, True), (1, 10_000, 500, False), (1, 1_000_000, 500, True)],
)  # fmt: skip
def test_what_is_compiled_depends_on_steps_calls_and_members(calls, members, steps, compiled):
    def field(t, y):
        for _ in range(calls):
            y = torch.sin(y)
        return y

    assert pays(trace_field(field, torch.ones(members, 1, dtype=torch.float64)), 4 * steps) == compiled


def test_a_short_run_is_not_compiled():
    run = RK4(0.02)(lambda t, y: -y, torch.ones(2, 3, dtype=torch.float64), TIMES)
    assert run.cost["engine"] == "torch (too short a run to compile)"


def test_in_single_precision_a_relative_error_of_one_in_ten_thousand_is_noticed(monkeypatch):
    monkeypatch.setitem(FORMULAS, "sin", lambda a: f"(T(1.0001) * sine({a}))")
    with pytest.raises(InputError, match="disagrees with torch"):
        RK4(0.02)(lambda t, y: torch.sin(y), torch.ones(2, 3), TIMES.float(), engine="compiled")


def test_a_mistranslation_away_from_the_start_is_noticed(monkeypatch):
    monkeypatch.setitem(FORMULAS, "relu", lambda a: a)
    with pytest.raises(InputError, match="disagrees with torch"):
        RK4(0.02)(lambda t, y: torch.relu(y - 1), torch.ones(2, 3).double() + 0.05, TIMES, engine="compiled")


def test_a_mistranslation_at_a_later_time_is_noticed(monkeypatch):
    monkeypatch.setitem(FORMULAS, "cos", lambda a: f"({a} * T(0) + T(1))")
    with pytest.raises(InputError, match="disagrees with torch"):
        RK4(0.02)(lambda t, y: y * torch.cos(t), torch.ones(2, 3).double(), TIMES, engine="compiled")


def test_a_field_that_reads_the_time_in_python_is_not_frozen():
    def field(t, y):
        return torch.cos(torch.tensor(float(t), dtype=y.dtype)) * torch.ones_like(y)

    times = torch.linspace(0, 3, 6001, dtype=torch.float64)
    run = RK4(1e-3)(field, torch.zeros(2, 1, dtype=torch.float64), times)
    assert run.cost["engine"].startswith("torch (")
    assert torch.allclose(run.states[0, :, 0], torch.sin(times), atol=1e-9)


def test_a_field_that_depends_on_time_by_torch_is_compiled():
    times = torch.linspace(0, 3, 301, dtype=torch.float64)
    y0 = torch.zeros(2, 1, dtype=torch.float64)
    run = RK4(0.01)(lambda t, y: torch.cos(t) + 0 * y, y0, times, engine="compiled")
    assert run.cost["engine"] == "compiled"
    assert torch.allclose(run.states[0, :, 0], torch.sin(times), atol=1e-9)


def test_intermediate_results_have_to_fit_the_stack(monkeypatch):
    y0 = torch.ones(8, 20_000, dtype=torch.float64)
    solver, times = partial(RK4(0.1), engine="compiled"), torch.tensor([0.0, 1.0], dtype=torch.float64)
    with pytest.raises(InputError, match="do not fit"):
        solver(lambda t, y: -y, y0, times)
    small = y0[:, :500]
    assert torch.allclose(solver(lambda t, y: -y, small, times).states[..., -1, :], torch.exp(-times[-1]), atol=1e-6)
    monkeypatch.setattr("threading.stack_size", lambda: 2**17)
    with pytest.raises(InputError, match="or the stack"):
        solver(lambda t, y: -y, small, times)


def test_a_large_field_runs_in_a_thread():
    y0 = torch.ones(8, 6000, dtype=torch.float64)  # nearly all that is allowed
    solver, times = partial(RK4(0.1), engine="compiled"), torch.tensor([0.0, 1.0], dtype=torch.float64)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(solver, lambda t, y: -y, y0, times).result()
    assert found.cost["engine"] == "compiled"
    assert torch.allclose(found.states[..., -1, :], torch.exp(-times[-1]), atol=1e-6)
