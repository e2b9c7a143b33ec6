"""The laws of a system."""

import numpy as np
import torch
from torch import Tensor

from romkit.boundary import checked
from romkit.broadcast import align
from romkit.data import check_dataset, context_array, trajectories
from romkit.problem import Parts
from romkit.systems import System
from romkit.systems.motion import along
from romkit.systems.sampled import gives_rows
from romkit.testing.verdict import close, fact, holds, laws_of

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


@checked
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
