"""The laws of systems and of solvers."""

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from romkit.core.boundary import Positive, validated
from romkit.core.errors import InputError
from romkit.core.tensors import align
from romkit.data import check_dataset, context_array, trajectories
from romkit.solvers import Solver, Status
from romkit.systems import System
from romkit.systems.base import along
from romkit.systems.problem import Parts
from romkit.systems.through import gives_rows

TOLERANCE = 1e-10
"""Largest relative error allowed in float64 where two ways to compute the same are compared."""


def holds(ok: bool, law: str) -> None:
    """Raise AssertionError unless the law holds."""
    if not ok:
        raise AssertionError(law)


def close(law: str, a: Tensor, b: Tensor, tolerance: float = TOLERANCE) -> None:
    """Raise AssertionError unless a = b, relative to the largest entry of b (at least 1); NaN equals nothing."""
    holds(a.shape == b.shape, f"{law}: shapes {tuple(a.shape)} and {tuple(b.shape)} differ")
    if a.numel() > 0:
        error = ((a - b).abs().max() / b.abs().max().clamp(min=1.0)).item()
        holds(error <= tolerance, f"{law}: relative error {error:.1e}, tolerance {tolerance:.0e}")


def fact(law: str, expected: object, got: object) -> None:
    """Raise AssertionError unless two facts are equal."""
    holds(expected == got, f"{law}: expected {expected}, got {got}")


def refused(law: str, error: type[Exception], call: Callable[[], object]) -> None:
    """Raise AssertionError unless a call raises the error."""
    with contextlib.suppress(error):
        call()
        raise AssertionError(f"{law}: expected {error.__name__}, got a result")


@contextlib.contextmanager
def laws_of(what: str) -> Iterator[None]:
    """Put the name of the object under test in front of the first law that does not hold."""
    try:
        yield
    except AssertionError as broken:
        raise AssertionError(f"{what}: {broken}") from None


ROWS = 1000
"""Rows of the right-hand side that are looked at, at most."""

SAMPLES = 5
"""Output times of the datasets that the laws look at."""


def corners(system: System) -> Tensor:
    """(3, p) low, middle and high ends of the training range; (1, 0) without parameters."""
    values = {p.name: np.linspace(p.low, p.high, 3) for p in system.context}
    return torch.from_numpy(np.atleast_2d(context_array(system.context_names, values)))


def nearby(system: System) -> tuple[Tensor, Parts]:
    """Contexts (C, p), and states (C, 4, n) a little away from where trajectories start."""
    contexts, draw = corners(system), torch.Generator().manual_seed(0)
    starts = [part.unsqueeze(1).expand(-1, 4, -1) for part in system.start(contexts)]
    noise = [torch.randn(part.shape, generator=draw, dtype=torch.float64) for part in starts]
    return contexts, tuple(x + 0.05 * (1 + x.abs()) * u for x, u in zip(starts, noise, strict=True))


def names(system: System) -> None:
    """A name and a unit for each component, and a range for each parameter."""
    fact("units, one per component", len(system.state_names), len(system.state_units))
    fact("names that are used once", system.state_size, len({*system.state_names}))
    fact("ranges of the context with low < high", [], [p.name for p in system.context if not p.low < p.high])
    for kind, contexts in (
        ("training", system.train_contexts(np.random.default_rng(0))),
        ("test", system.test_contexts()),
    ):
        fact(f"shape of the {kind} contexts", (len(contexts), len(system.context)), contexts.shape)
    for part in system.start(corners(system)):
        fact("shape of the start", (len(corners(system)), system.state_size), tuple(part.shape))
        fact("precision of the start", torch.float64, part.dtype)
        holds(bool(part.isfinite().all()), "the start is finite")


def field(system: System) -> None:
    """The field is finite, takes batches and both precisions, and can be differentiated."""
    t, (c, parts) = torch.zeros((), dtype=torch.float64), nearby(system)
    rate = system.field(c)(t, *parts)
    holds(bool(rate.isfinite().all()), "the field is finite near the start")
    each = [[system.field(c[k])(t, *(x[k, i] for x in parts)) for i in range(4)] for k in range(len(c))]
    close("contexts (C, p) with states (C, T, n) = loop", rate, torch.stack([torch.stack(row) for row in each]))
    single = system.field(c.float())(t.float(), *(x.float() for x in parts))
    fact("precision of the field at float32 states", torch.float32, single.dtype)
    close("field in float32 = float64", single.double(), rate, 1e-3)
    along, h = tuple(torch.cos(x) for x in parts), 1e-6
    tangent = torch.func.jvp(lambda *x: system.field(c)(t, *x), parts, along)[1]
    ahead, behind = (system.field(c)(t, *(x + s * v for x, v in zip(parts, along, strict=True))) for s in (h, -h))
    close("torch.func.jvp of the field = finite differences", tangent, (ahead - behind) / (2 * h), 1e-5)


def terms(system: System) -> None:
    """The terms, where a system gives them, add up to its right-hand side, and are linear in each argument."""
    c, parts = nearby(system)
    total = torch.zeros_like(parts[0])
    for term in system.terms():
        value = term.form(*parts * term.degree)
        total = total + (value if term.coefficient is None else align(term.coefficient(c), parts[0]) * value)
        for k in range(term.degree):
            shifted = (*parts * k, torch.cos(parts[0]), *parts * (term.degree - k - 1))
            both = tuple(2 * a - b for a, b in zip(parts * term.degree, shifted, strict=True))
            both = tuple(b if i == k else parts[0] for i, b in enumerate(both))
            close("B(2 x - y) = 2 B(x) - B(y)", term.form(*both), 2 * value - term.form(*shifted))
    if system.terms():
        close("sum of the terms = rhs", total, system.field(c)(torch.zeros((), dtype=torch.float64), *parts))


def rows(system: System) -> None:
    """Rows of the right-hand side, where a system gives them, are those of `rhs`, in any order, at every context."""
    if not gives_rows(system):
        return
    (c, (x,)), t = nearby(system), torch.zeros((), dtype=torch.float64)
    some = torch.randperm(system.state_size, generator=torch.Generator().manual_seed(0))[:ROWS]
    found = system.rhs_rows(t, some, x[..., system.stencil(some)], align(c, x))
    close("rhs_rows at the stencil = rows of rhs", found, system.field(c)(t, x)[..., some])


def metric(system: System) -> None:
    """`weigh` is linear in u, symmetric and positive semidefinite, at every context and state."""
    c, (x, *_) = nearby(system)
    u, v = torch.randn(2, *x.shape, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weigh = system.metric(c)
    close("W(2 u - v) = 2 W u - W v", weigh(x, 2 * u - v), 2 * weigh(x, u) - weigh(x, v))
    close("uᵀ W v = vᵀ W u", u.mT @ weigh(x, v), (v.mT @ weigh(x, u)).mT)
    energy = (u * weigh(x, u)).sum(-2)
    holds(bool((energy >= -1e-10).all()), f"uᵀ W u >= 0: the smallest is {energy.min().item():.1e}")
    loop = torch.stack([system.metric(c[k])(x[k], u[k]) for k in range(len(c))])
    close("metric of a batch = loop", weigh(x, u), loop)


def datasets(system: System) -> None:
    """Trajectories obey the field, are the same for the same seed, and one by one as together."""
    c = corners(system)
    span = {"duration": SAMPLES * system.dt}
    data = check_dataset(system.dataset(**dict(zip(system.context_names, c.T.numpy(), strict=True)), **span))
    x, *rates = (trajectories(data, name) for name in ("state", "velocity", "acceleration")[: system.order + 1])
    times = torch.from_numpy(data["time"].values.copy())
    found = along(system.field(c), times, *(x, *rates)[: system.order])
    close(f"recorded {('velocity', 'acceleration')[system.order - 1]} = field", rates[-1], found, 1e-9)
    simpson = (rates[0][:, :-2] + 4 * rates[0][:, 1:-1] + rates[0][:, 2:]) * system.dt / 3
    close("states = integral of the velocity", x[:, 2:] - x[:, :-2], simpson, 1e-3 * system.dt)
    alone = system.simulate(tuple(part[-1:] for part in system.start(c)), c[-1:], times).state
    close("one trajectory = the same in a batch", alone, x[-1:], 1e-9)
    first, again = (system.dataset("train", seed=3, **span) for _ in range(2))
    fact("two datasets of one seed are identical", True, first.identical(again))
    if system.context_may_move:
        moving = system.simulate(system.start(c), lambda t: c, times).state
        close("a context that is a constant function = a constant", moving, x, 1e-9)


@validated
def check_system(system: System) -> None:
    """Raise AssertionError with law, error and tolerance if `system` breaks a law of systems.

    Args:
        system: with a short transient, since the laws start from where its datasets begin.

    Example:
        >>> import romkit
        >>> romkit.testing.check_system(romkit.systems.Lorenz96(n=8, transient=0.0))  # silent
    """
    with laws_of(system.name):
        for law in (names, field, terms, rows, metric, datasets):
            law(system)


TIMES = torch.linspace(0, 2, 5, dtype=torch.float64)
STARTS = torch.tensor([[0.2], [0.5], [3.0]], dtype=torch.float64)


def logistic(t: Tensor, y: Tensor) -> Tensor:
    """ẏ = y (1 - y): settles at 1 from y₀ > 0, and ends in finite time for y₀ < 0."""
    return y * (1 - y)


def logistic_solution(t: Tensor, y0: Tensor) -> Tensor:
    """(..., T, 1) from y0 (..., 1) at t = 0."""
    decay = torch.exp(-t).unsqueeze(-1)
    return y0.unsqueeze(-2) / (y0.unsqueeze(-2) * (1 - decay) + decay)


def accuracy(solver: Solver, tolerance: float) -> None:
    """States at the requested times, and there alone, in the precision of the start; a record of the cost."""
    times, states, status, cost = solver(logistic, STARTS, TIMES)
    fact("output at the requested times alone", TIMES.tolist(), times.tolist())
    close("states = known solution", states, logistic_solution(TIMES, STARTS), tolerance)
    fact("status of what completes", [Status.COMPLETED] * 3, status.tolist())
    recorded = {"solver", "engine", "seconds_compiling", "seconds_computing"}
    fact("what the cost records", [], sorted(recorded - cost.keys()))
    single = solver(logistic, STARTS.float(), TIMES)
    fact("precision of float32 states", torch.float32, single.states.dtype)
    close("float32 = float64", single.states.double(), states, max(tolerance, 1e-5))


def members(solver: Solver, tolerance: float) -> None:
    """A batch equals a loop, and a member that is lost is NaN and leaves the others as they are."""
    together = solver(logistic, STARTS, TIMES).states
    alone = torch.stack([solver(logistic, y0, TIMES).states for y0 in STARTS])
    close("batch = loop", together, alone, tolerance)
    lost = torch.tensor([[-1.0], [torch.nan]], dtype=torch.float64)  # the first one ends at t = log 2
    beside = solver(logistic, torch.cat([lost, STARTS]), TIMES)
    fact("status of what diverges", [Status.DIVERGED] * 2 + [Status.COMPLETED] * 3, beside.status.tolist())
    fact("finite before it diverges, NaN from then on", [True] * 2 + [False] * 3, _finite(beside.states[0]))
    fact("NaN from the start stays", [False] * 5, _finite(beside.states[1]))
    close("neighbours of what diverges", beside.states[2:], together, tolerance)


def clock(solver: Solver, tolerance: float) -> None:
    """Times may start anywhere, and may be a single one; they must be sorted."""
    start, times = torch.ones(1, dtype=torch.float64), TIMES + 3
    states = solver(lambda t, y: torch.cos(t) * y, start, times).states
    exact = torch.exp(torch.sin(times) - torch.sin(times[0])).unsqueeze(-1)
    close("times that do not start at zero", states, exact, tolerance)
    close("a single time", solver(logistic, STARTS, TIMES[:1]).states, STARTS.unsqueeze(-2))
    for name, wrong in (("falling times", TIMES.flip(0)), ("equal times", TIMES[[0, 1, 1]]), ("a table", TIMES[None])):
        refused(f"{name} are refused", InputError, lambda wrong=wrong: solver(logistic, STARTS, wrong))
    refused("an unknown engine is refused", InputError, lambda: solver(logistic, STARTS, TIMES, engine="abacus"))


def convergence(solver: Solver, order: float) -> None:
    """The error over steps of length 0.2, 0.1 and 0.05 falls with this order.

    The field is sped up so far that one step per output time is short for the solver.
    """
    tiny, errors, steps, y0 = 1e-6, [], (0.2, 0.1, 0.05), STARTS[:2]
    for h in steps:
        times = torch.arange(round(2 / h) + 1, dtype=torch.float64)
        states = solver(lambda t, y, h=h: h / tiny * logistic(t, y), y0, tiny * times).states
        errors.append((states - logistic_solution(h * times, y0)).abs().max().item())
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    holds(abs(slope - order) < 0.3, f"order of convergence: expected {order:g}, got {slope:.2f}")


@validated
def check_solver(solver: Solver, *, order: Positive | None = None, tolerance: Positive = 1e-6) -> None:
    """Raise AssertionError with law, error and tolerance if `solver` breaks a law of solvers.

    Args:
        solver: with settings that solve ẏ = y (1 - y) over two units of time to the tolerance.
        order: of a method with a fixed step, to be confirmed by regression.
        tolerance: largest relative error.

    Example:
        >>> import romkit
        >>> from romkit.solvers import RK4
        >>> romkit.testing.check_solver(RK4(0.02), order=4)  # silent, since every law holds
    """
    with laws_of(str(solver)):
        for law in (accuracy, members, clock):
            law(solver, tolerance)
        if order is not None:
            convergence(solver, order)


def _finite(states: Tensor) -> list[bool]:
    return states.isfinite().all(-1).tolist()
