"""The contract of systems: shapes, the field, terms and rows, the metric, datasets."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from romkit.core import tensors
from romkit.core.boundary import validated
from romkit.core.broadcast import align
from romkit.core.types import Kwargs
from romkit.data import ContextParameter, check_dataset, trajectories
from romkit.data.contexts import context_array
from romkit.systems import System
from romkit.systems.problem import Parts
from romkit.systems.sampled import gives_rows
from romkit.testing.rules import TOLERANCE, close, fact, holds, list_rules

SAMPLES = 5
"""Output times of the datasets that the rules look at."""


def corners(system: System) -> Tensor:
    """(3, p) low, middle and high ends of the training range; (1, 0) without parameters."""
    values = {p.name: np.linspace(p.low, p.high, 3) for p in system.context}
    return torch.from_numpy(np.atleast_2d(context_array(system.context_names, values)))


class Probe:
    """A system, and where it is tested: what rules share is computed once, since transients are
    long.

    Attributes:
        system: that is tested.
    """

    def __init__(self, system: System):
        self.system = system

    @functools.cached_property
    def contexts(self) -> Tensor:
        """(C, p)."""
        return corners(self.system)

    @functools.cached_property
    def start(self) -> Parts:
        """States (C, n) where trajectories start, behind the transient."""
        return self.system.start(self.contexts)

    @functools.cached_property
    def nearby(self) -> Parts:
        """States (C, 4, n) a little away from the start."""
        draw = torch.Generator().manual_seed(0)
        states = []
        for part in self.start:
            x = part.unsqueeze(1).expand(-1, 4, -1)
            noise = torch.randn(x.shape, generator=draw, dtype=torch.float64)
            states.append(x + 0.05 * (1 + x.abs()) * noise)
        return tuple(states)


def context(p: Probe) -> None:
    """Entries of the context are `ContextParameter`s with low < high."""
    system = p.system
    entries: Sequence[object] = system.context
    strangers = [entry for entry in entries if not isinstance(entry, ContextParameter)]
    how = "write ContextParameter(name, units, low, high)"
    holds(not strangers, f"context: expected ContextParameter, got {strangers}; {how}")
    empty = [entry.name for entry in system.context if not entry.low < entry.high]
    fact("ranges of the context with low < high", [], empty)


def right_hand_side(p: Probe) -> None:
    """The right-hand side takes a state alone and states with leading axes, and gives tensors of
    their shape.
    """
    system, contexts, size = p.system, p.contexts, p.system.state_size
    # NumPy, too, as `System.start` takes it
    starts = tensors.tensor("initial_state", system.initial_state(contexts, None))
    how = "give contexts.new_zeros(len(contexts), n), or np.zeros((len(contexts), n)), say"
    expected, got = (len(contexts), size), tuple(starts.shape)
    holds(got == expected, f"initial_state: expected shape {expected}, got {got}; {how}")
    fact(f"precision of the start ({how})", contexts.dtype, starts.dtype)
    t, order = torch.zeros((), dtype=torch.float64), system.order
    states = starts.unsqueeze(1).repeat(1, 4, 1)  # (C, 4, n)
    axes = "index the last axis, x[..., 0] and c[..., 0], and join by torch.stack(..., dim=-1)"
    for x, c in ((states[0, 0], contexts[0]), (states, contexts)):
        kept = x.clone()
        rate = system.field(c)(t, *(x,) * order)
        shape, what = tuple(x.shape), f"rhs of states {tuple(x.shape)}, contexts {tuple(c.shape)}"
        kind = type(rate).__name__
        holds(isinstance(rate, Tensor), f"{what}: expected a tensor, got {kind}; {axes}")
        got = tuple(rate.shape)
        holds(got == shape, f"{what}: expected shape {shape}, got {got}; {axes}")
        holds(torch.equal(x, kept), f"{what}: expected x unchanged; do not write into x")


def names(p: Probe) -> None:
    """A name and a unit for each component, contexts of as many parameters, and a start."""
    system = p.system
    fact("units, one per component", len(system.state_names), len(system.state_units))
    fact("names that are used once", system.state_size, len({*system.state_names}))
    drawn = {
        "training": system.train_contexts(np.random.default_rng(0)),
        "test": system.test_contexts(),
    }
    for kind, contexts in drawn.items():
        fact(f"shape of the {kind} contexts", (len(contexts), len(system.context)), contexts.shape)
    for state in p.start:
        fact("shape of the start", (len(p.contexts), system.state_size), tuple(state.shape))
        fact("precision of the start", torch.float64, state.dtype)
        holds(bool(state.isfinite().all()), "the start is finite")


def field(p: Probe) -> None:
    """The field is finite, takes batches and both precisions, and can be differentiated."""
    system, c, parts = p.system, p.contexts, p.nearby
    t = torch.zeros((), dtype=torch.float64)
    rate = system.field(c)(t, *parts)  # (C, 4, n)
    holds(bool(rate.isfinite().all()), "the field is finite near the start")
    _check_batch(system, c, parts, rate)
    single = system.field(c.float())(t.float(), *(x.float() for x in parts))
    how = "return an array of NumPy, or end rhs with .to(x.dtype)"
    fact(f"precision of the field at float32 states ({how})", torch.float32, single.dtype)
    close("field in float32 = float64", single.double(), rate, 1e-3)
    directions, h = tuple(torch.cos(x) for x in parts), 1e-6
    _, tangent = torch.func.jvp(lambda *x: system.field(c)(t, *x), parts, directions)
    pairs = list(zip(parts, directions, strict=True))
    ahead = system.field(c)(t, *(x + h * v for x, v in pairs))
    behind = system.field(c)(t, *(x - h * v for x, v in pairs))
    quotient = (ahead - behind) / (2 * h)
    close("torch.func.jvp of the field = finite differences", tangent, quotient, 1e-5)


def _check_batch(system: System, c: Tensor, parts: Parts, rate: Tensor) -> None:
    """Rates (C, T, n) of all contexts and states are those of each alone."""
    t, loop = torch.zeros((), dtype=torch.float64), torch.empty_like(rate)
    for k in range(rate.shape[0]):
        for i in range(rate.shape[1]):
            loop[k, i] = system.field(c[k])(t, *(x[k, i] for x in parts))
    close("contexts (C, p) with states (C, T, n) = loop", rate, loop)


def terms(p: Probe) -> None:
    """The terms, where a system gives them, add up to its right-hand side, and are linear in each
    argument.
    """
    system = p.system
    if not system.terms():
        return
    c, (x,) = p.contexts, p.nearby
    total = torch.zeros_like(x)
    for term in system.terms():
        value = term(*(x,) * term.degree)
        if term.coefficient is None:
            total = total + value
        else:
            total = total + align(term.coefficient(c), x) * value
        # A form is linear in each of its arguments, at x with this value
        y = torch.cos(x)
        for k in range(term.degree):
            arguments = [x] * term.degree
            arguments[k] = y
            shifted = term(*arguments)
            arguments[k] = 2 * x - y
            close("B(2 x - y) = 2 B(x) - B(y)", term(*arguments), 2 * value - shifted)
    rate = system.field(c)(torch.zeros((), dtype=torch.float64), x)
    close("sum of the terms = rhs", total, rate)


def rows(p: Probe, *, rows: int = 1000) -> None:
    """Rows of the right-hand side, where a system gives them, are those of `rhs`, in any order, at
    every context.

    `rows`: rows of the right-hand side that are looked at, at most.
    """
    system = p.system
    if not gives_rows(system):
        return
    c, (x,) = p.contexts, p.nearby
    t = torch.zeros((), dtype=torch.float64)
    draw = torch.Generator().manual_seed(0)
    numbers = torch.randperm(system.state_size, generator=draw)[:rows]
    stencils = x[..., system.stencil(numbers)]  # (..., s, k)
    rates = system.rhs_rows(t, numbers, stencils, align(c, x))
    close("rhs_rows at the stencil = rows of rhs", rates, system.field(c)(t, x)[..., numbers])


def symmetry(p: Probe) -> None:
    """The field commutes with the shifts that a system declares."""
    system = p.system
    if system.symmetry is None:
        return
    c, (x,) = p.contexts, p.nearby
    error = system.commutator(system.symmetry, x, c)
    rule = f"f(g x) = g f(x): relative error {error:.1e}, tolerance {TOLERANCE:.0e}"
    holds(error <= TOLERANCE, rule)


def metric(p: Probe) -> None:
    """`weigh` is linear in u, symmetric and positive semidefinite, at every context and state."""
    system, c, (x, *_) = p.system, p.contexts, p.nearby
    draw = torch.Generator().manual_seed(1)
    u, v = torch.randn(2, *x.shape, 3, generator=draw, dtype=torch.float64)
    weigh = system.metric(c)
    close("W(2 u - v) = 2 W u - W v", weigh(x, 2 * u - v), 2 * weigh(x, u) - weigh(x, v))
    close("uᵀ W v = vᵀ W u", u.mT @ weigh(x, v), (v.mT @ weigh(x, u)).mT)
    energy = (u * weigh(x, u)).sum(-2)
    holds(bool((energy >= -1e-10).all()), f"uᵀ W u >= 0: the smallest is {energy.min().item():.1e}")
    loop = torch.stack([system.metric(c[k])(x[k], u[k]) for k in range(len(c))])
    close("metric of a batch = loop", weigh(x, u), loop)


def datasets(p: Probe) -> None:
    """Trajectories obey the field, are the same for the same seed, and one by one as together."""
    system, c = p.system, p.contexts
    span: Kwargs = {"duration": SAMPLES * system.dt}
    contexts: Kwargs = dict(zip(system.context_names, c.T.numpy(), strict=True))
    data = check_dataset(system.dataset(**contexts, **span))
    recorded = ("state", "velocity", "acceleration")[: system.order + 1]
    *states, rate = (trajectories(data, name) for name in recorded)
    times = torch.from_numpy(data["time"].values.copy())
    close(f"recorded {recorded[-1]} = field", rate, system.rates(c, times, *states), 1e-9)
    _check_integral("states", states[0], [*states, rate][1], system.dt)
    if system.order == 2:
        _check_integral("velocities", states[1], rate, system.dt)
    start = tuple(state[-1:] for state in p.start)
    alone = system.simulate(start, c[-1:], times).state
    close("one trajectory = the same in a batch", alone, states[0][-1:], 1e-9)
    once, twice = system.dataset("train", seed=3, **span), system.dataset("train", seed=3, **span)
    fact("two datasets of one seed are identical", True, once.identical(twice))
    if system.context_may_move:
        moving = system.simulate(p.start, lambda t: c, times).state
        close("a context that is a constant function = a constant", moving, states[0], 1e-9)


def _check_integral(what: str, values: Tensor, rate: Tensor, dt: float) -> None:
    """Values (C, 5, n) change by the integral of their rates, by Simpson's rule."""
    odd, even = rate[:, 1] + rate[:, 3], rate[:, 2]
    ends = rate[:, 0] + rate[:, 4]
    simpson = (ends + 4 * odd + 2 * even) * dt / 3
    coarse = (ends + 4 * even) * 2 * dt / 3
    # the rule is not accurate where dt is long
    doubt = ((simpson - coarse).abs().max() / simpson.abs().max().clamp(min=1.0)).item()
    change = values[:, 4] - values[:, 0]
    close(f"{what} = integral of their rates", change, simpson, 1e-3 * dt + doubt)


RULES: tuple[Callable[[Probe], None], ...] = (
    context,
    right_hand_side,
    names,
    field,
    terms,
    rows,
    metric,
    symmetry,
    datasets,
)
"""Rules of every system."""


@validated
def check_system(system: System) -> None:
    """Raise AssertionError with rule, error and tolerance if `system` breaks a rule of systems.

    Args:
        system: with a short transient, since the rules start from where its datasets begin.

    Example:
        >>> import romkit
        >>> romkit.testing.check_system(romkit.systems.Lorenz96(n=8, transient=0.0))  # silent
    """
    with list_rules(system.name):
        probe = Probe(system)
        for rule in RULES:
            rule(probe)
