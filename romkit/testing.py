"""The contracts, for romkit's tests and for classes of your own: each raises AssertionError with
the first broken law.

For example:

    romkit.testing.check_projection(model)                    # tangents, Jacobians, batching, stacks, idempotency
    romkit.testing.check_dynamics(Galerkin(), model)          # finds motions on an invariant manifold
    romkit.testing.check_system(Lorenz96(transient=2.0))      # shapes, field, metric, datasets
    romkit.testing.check_solver(RK4(0.01), order=4)           # accuracy, order, members, times
"""

import contextlib
import copy
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from romkit.core.boundary import Positive, validated
from romkit.core.broadcast import align
from romkit.core.errors import InputError, one_line
from romkit.data import ContextParameter, check_dataset, trajectories
from romkit.data.context import context_array
from romkit.integrators import LatentDynamics
from romkit.projections import Operator, Path, Projection, stack
from romkit.projections.storage import packed, unpacked
from romkit.solvers import RK4, Solution, Solver, Status
from romkit.systems import System
from romkit.systems.problem import PROBLEMS, Parts, Problem
from romkit.systems.sampled import gives_rows

__all__ = ["check_dynamics", "check_projection", "check_solver", "check_system"]

TOLERANCE = 1e-10
"""Largest relative error allowed in float64 where two ways to compute the same are compared."""


def holds(ok: bool, law: str) -> None:
    """Raise AssertionError unless the law holds."""
    if not ok:
        raise AssertionError(law)


def close(law: str, a: Tensor, b: Tensor, tolerance: float = TOLERANCE) -> None:
    """Raise AssertionError unless a = b, relative to the largest entry of b (at least 1); NaN
    equals nothing.
    """
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
    """Put the name of the object in front of the first law that it breaks, or of the error that it
    raises.
    """
    try:
        yield
    except AssertionError as broken:
        raise AssertionError(f"{what}: {broken}") from None
    except (RuntimeError, IndexError, TypeError, AttributeError) as error:
        frames = [
            frame.name
            for frame in traceback.extract_tb(error.__traceback__)[1:]
            if frame.filename == __file__
        ]
        law = frames[1:2] or frames  # the first is the contract itself
        raise AssertionError(
            f"{what}: {law[0]}: {type(error).__name__}: {one_line(str(error))}"
        ) from error


class Probe(NamedTuple):
    """Random points to test a projection at: its operator, states x and directions v (B, n),
    contexts c (B, p).
    """

    projection: Projection
    operator: Operator
    x: Tensor
    v: Tensor
    c: Tensor


def probe(projection: Projection, *, batch: int = 16, spread: float = 1.0) -> Probe:
    """A float64 copy of `projection` with random states and contexts.

    Args:
        projection: a single model (unstack a stack first).
        batch: number of points.
        spread: contexts are uniform over `spread` times the training range, so 10 reaches far
            outside it.
    """
    double = copy.deepcopy(projection).cpu().double()
    frame = double.frame
    draw = torch.Generator().manual_seed(0)

    def normal(size: int) -> Tensor:
        return torch.randn(batch, size, generator=draw, dtype=torch.float64)

    y, dy = normal(frame.size), normal(frame.size)
    x, v = frame.denormalise(y), frame.denormalise_tangent(dy)
    if frame.basis is not None:  # states beside its subspace too
        x, v = (u + frame.state_std * normal(frame.basis.size) for u in (x, v))
    relative = (
        2 * torch.rand(batch, len(frame.context_shift), generator=draw, dtype=torch.float64) - 1
    )
    c = frame.context_shift + spread * relative * frame.context_scale
    return Probe(double, double(c), x, v, c)


def left_inverse(p: Probe) -> None:
    """ρ(φ(z)) = z at latents z of the data."""
    z = p.operator.encode(p.x)
    close(
        "ρ(φ(z)) = z, to float64 though parameters are float32",
        p.operator.encode(p.operator.decode(z)),
        z,
    )


def idempotency(p: Probe) -> None:
    """P(P(x)) = P(x)."""
    once = p.operator(p.x)
    close("P(P(x)) = P(x), to float64 though parameters are float32", p.operator(once), once)


def tangents(p: Probe) -> None:
    """The hand-written tangents of encoder, decoder and P equal torch.func.jvp."""
    z, dz = p.operator.encode_jvp(p.x, p.v)
    for name, function, own, point, direction in (
        ("encode_jvp", p.operator.encode, (z, dz), p.x, p.v),
        ("decode_jvp", p.operator.decode, p.operator.decode_jvp(z, dz), z, dz),
        ("jvp", p.operator, p.operator.jvp(p.x, p.v), p.x, p.v),
    ):
        oracle = torch.func.jvp(function, (point,), (direction,))
        for part, a, b in zip(("value", "tangent"), own, oracle, strict=True):
            close(f"{part} of {name} = torch.func.jvp", a, b)


def jacobian(p: Probe) -> None:
    """decode_jacobian equals torch.func.jacfwd, point by point."""
    z = p.operator.encode(p.x)
    _, own = p.operator.decode_jacobian(z)
    loop = [
        torch.func.jacfwd(p.projection(c).decode)(point) for c, point in zip(p.c, z, strict=True)
    ]
    close("decode_jacobian = torch.func.jacfwd", own, torch.stack(loop))


def curvature(p: Probe) -> None:
    """decode_curvature is the derivative of decode_jvp along its own direction."""
    z, w = p.operator.encode_jvp(p.x, p.v)
    oracle = torch.func.jvp(lambda point: p.operator.decode_jvp(point, w).tangent, (z,), (w,))[1]
    close(
        "decode_curvature = torch.func.jvp of decode_jvp", p.operator.decode_curvature(z, w), oracle
    )


def batching(p: Probe) -> None:
    """A batch of contexts equals a loop over them, also where each context has several states."""
    loop = torch.stack([p.projection(c)(x) for c, x in zip(p.c, p.x, strict=True)])
    close("batch of contexts = loop", p.operator(p.x), loop)
    several = p.x.unsqueeze(1).expand(-1, 3, -1)
    close("states (C, T, n) = loop", p.operator(several)[:, 2], loop)


def storage(p: Probe) -> None:
    """A projection that is saved and loaded is the same one: `config` has all that the constructor
    needs.
    """
    again = unpacked(p.projection.name, *packed(p.projection))
    close("saved and loaded = itself", again.double()(p.c)(p.x), p.operator(p.x))


def stacking(p: Probe) -> None:
    """A stack of this model and another one equals the two of them."""
    other = perturbed(p.projection)
    together = stack([p.projection, other])(p.c.unsqueeze(0))(p.x.expand(2, -1, -1))
    close("stack = its members", together, torch.stack([p.operator(p.x), other(p.c)(p.x)]))


def perturbed(projection: Projection) -> Projection:
    """Another one of its kind, with parameters a little away from its own, the same in every call."""
    other, draw = copy.deepcopy(projection), torch.Generator().manual_seed(0)
    for parameter in other.parameters():
        if parameter.requires_grad:
            parameter.data += 0.05 * (
                torch.rand(parameter.shape, generator=draw, dtype=torch.float64) - 0.5
            )
    return other


LAWS: tuple[Callable[[Probe], None], ...] = (
    tangents,
    jacobian,
    curvature,
    batching,
    stacking,
    storage,
)
"""Laws of every projection."""

IDEMPOTENT_LAWS: tuple[Callable[[Probe], None], ...] = (left_inverse, idempotency)
"""Further laws of those that declare `idempotent`."""


@validated
def check_projection(projection: Projection, *, spreads: Sequence[Positive] = (1.0, 10.0)) -> None:
    """Raise AssertionError with law, error and tolerance if `projection` breaks a law of its kind.

    Args:
        projection: a single model, trained or not; it is copied and tested in float64.
        spreads: contexts are drawn from each of these multiples of the training range.

    Example:
        >>> import romkit
        >>> romkit.testing.check_projection(romkit.load("ncae-lorenz96"), spreads=(1.0,))  # silent
    """
    laws = LAWS + IDEMPOTENT_LAWS if projection.idempotent else LAWS
    if projection.seeds is not None:
        raise InputError(
            "projection",
            expected="a single one",
            got="a stack",
            fix="take one of romkit.unstack(...)",
        )
    for spread in spreads:
        points = probe(projection, spread=spread)
        with laws_of(f"{projection.name}, contexts over {spread:g} x the training range"):
            for law in laws:
                law(points)


LATENT_TIMES = torch.linspace(1.0, 1.2, 5, dtype=torch.float64)

STEPS = RK4(0.01)
"""Solver where two ways to compute the same are compared: steps that a tolerance sets differ."""


def latent_law(t: Tensor, *parts: Tensor) -> Tensor:
    """ż = g(t, z), or z̈ = g(t, z, ż): smooth, bounded, different in every coordinate."""
    z, rate = parts[0], parts[-1]
    return torch.sin(z.roll(1, -1)) - 0.5 * rate + 0.1 * torch.cos(t)


def manufactured(path: Path, order: int) -> Problem:
    """The problem whose trajectories are the decoded ones of `latent_law`, in a metric that depends
    on the state.
    """

    def field(t: Tensor, *parts: Tensor) -> Tensor:
        P = path.at(t)
        if order == 1:
            z = P.encode(*parts)
            return P.decode_jvp(z, latent_law(t, z)).tangent - path.relative(
                t, z, torch.zeros_like(*parts)
            )
        z, dz = P.encode_jvp(*parts)
        return P.decode_jvp(z, latent_law(t, z, dz)).tangent + P.decode_curvature(z, dz)

    return PROBLEMS[order](path, field, lambda x, u: (1 + x.square()).unsqueeze(-1) * u)


def beginning(p: Probe, order: int) -> Tensor:
    """A latent state (B, order · m) per context."""
    z, dz = p.operator.encode_jvp(p.x, p.v)
    return torch.cat([z, dz], dim=-1)[..., : order * p.projection.latent_dim]


def motion(dynamics: LatentDynamics, p: Probe, order: int, tolerance: float) -> None:
    """On an invariant manifold the latent trajectory is the known one, at contexts that stay and
    that move.
    """
    w0, paths = beginning(p, order), {"constant": Path.constant(p.operator)}
    if order == 1:
        paths["moving"] = Path(
            p.projection, lambda t: p.c + 0.3 * torch.sin(t) * (p.c.flip(0) - p.c), LATENT_TIMES
        )
    for name, path in paths.items():
        problem = manufactured(path, order)
        law = lambda t, w, problem=problem: problem.motion(w, latent_law(t, *problem.split(w)))  # noqa: E731
        exact = STEPS(law, w0, LATENT_TIMES).states
        solution = dynamics.solve(problem, w0, LATENT_TIMES)
        fact(f"status, {name} context", 0, int(solution.status.sum()))
        close(f"motion on an invariant manifold, {name} context", solution.states, exact, tolerance)


def start(dynamics: LatentDynamics, p: Probe, order: int) -> None:
    """A trajectory starts in the latent space, and on the manifold where it is."""
    problem, w = manufactured(Path.constant(p.operator), order), beginning(p, order)
    parts = tuple(x + 0.01 * p.v for x in problem.decode(p.operator, w))
    fact("shape of the start", w.shape, dynamics.start(problem, LATENT_TIMES[0], parts).shape)
    if p.projection.idempotent:
        on = dynamics.start(problem, LATENT_TIMES[0], problem.decode(p.operator, w))
        close("start of a state on the manifold = its latent state", on, w, 1e-7)


def fixed_steps(dynamics: LatentDynamics, problem: Problem, start: Tensor) -> Solution:
    """The solution by steps of one length, so that two ways to the same differ by rounding alone.

    Dynamics that step in time by themselves refuse a solver, and take their own steps.
    """
    try:
        return dynamics.solve(problem, start, LATENT_TIMES, solver=STEPS)
    except InputError as error:
        if error.argument != "solver":
            raise
    return dynamics.solve(problem, start, LATENT_TIMES)


def batch_of_dynamics(dynamics: LatentDynamics, p: Probe, order: int, tolerance: float) -> None:
    """A batch equals a loop, a lost member harms nobody, and a constant function is a constant."""
    w, constant = beginning(p, order), Path.constant(p.operator)

    def solve(path: Path, start: Tensor) -> Tensor:
        return fixed_steps(dynamics, manufactured(path, order), start).states

    together = solve(constant, w)
    members = zip(p.c, w, strict=True)
    loop = [solve(Path.constant(p.projection(c)), start) for c, start in members]
    close("batch = loop", together, torch.stack(loop), 1e-9)
    several = solve(constant, torch.stack([w, w.flip(0)], dim=1))
    close("latent states (C, S, m) at contexts (C, p) = loop", several[:, 0], together, 1e-9)
    lost = torch.cat([torch.full_like(w[:1], torch.nan), w[1:]])
    problem = manufactured(constant, order)
    default = dynamics.solve(problem, lost, LATENT_TIMES)
    for beside, error in ((fixed_steps(dynamics, problem, lost), 1e-9), (default, tolerance)):
        fact("status of a lost member", Status.DIVERGED, beside.status[0].item())
        close("neighbours of a lost member", beside.states[1:], together[1:], error)
    if order == 1:
        moving = solve(Path(p.projection, lambda t: p.c, LATENT_TIMES), w)
        close("a context that is a constant function = a constant", moving, together, 1e-9)


def stacks(dynamics: LatentDynamics, p: Probe, order: int) -> None:
    """A stack of seeds equals each of them."""
    models, w = [p.projection, perturbed(p.projection)], beginning(p, order)

    def solve(P: Operator, start: Tensor) -> Tensor:
        return fixed_steps(dynamics, manufactured(Path.constant(P), order), start).states

    together = solve(stack(models)(p.c.unsqueeze(0)), w.expand(2, *w.shape))
    close(
        "stack of seeds = each alone",
        together,
        torch.stack([solve(model(p.c), w) for model in models]),
        1e-9,
    )


@validated
def check_dynamics(
    dynamics: LatentDynamics,
    projection: Projection,
    *,
    consistent: bool = True,
    tolerance: Positive = 1e-6,
) -> None:
    """Raise AssertionError with law, error and tolerance if `dynamics` break a law of latent
    dynamics.

    A law that was fitted to data has an `order`, and looks at no full-order model: of it only what
    holds for any law is asked.

    Args:
        dynamics: with settings that solve smooth problems with steps of 0.05 to the tolerance.
        projection: a single model, with its parameters away from special values.
        consistent: whether motions on an invariant manifold are followed; False where dynamics
            change them on purpose.
        tolerance: largest relative error of such a motion, and of the default solver.

    Raises:
        InputError: consistent dynamics and a projection that is not idempotent, on which there is
            no such motion.

    Example:
        >>> import romkit
        >>> from romkit.integrators import PetrovGalerkin
        >>> romkit.testing.check_dynamics(PetrovGalerkin(), romkit.load("ncae-lorenz96"))  # silent
    """
    learned, p = dynamics.needs == "nothing", probe(projection, batch=2)
    if consistent and not learned and not projection.idempotent:
        fix = "give one that is, or consistent=False"
        raise InputError("projection", expected="an idempotent one", got=projection.name, fix=fix)
    for order in (dynamics.order,) if learned else dynamics.orders:
        with torch.no_grad(), laws_of(f"{dynamics}, order {order}"):
            start(dynamics, p, order)
            batch_of_dynamics(dynamics, p, order, tolerance)
            if not learned:
                stacks(dynamics, p, order)
                if consistent:
                    motion(dynamics, p, order, tolerance)


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


def context(system: System) -> None:
    """Entries of the context are `ContextParameter`s with low < high."""
    strangers = [entry for entry in system.context if not isinstance(entry, ContextParameter)]
    how = "write ContextParameter(name, units, low, high)"
    holds(not strangers, f"context: expected ContextParameter, got {strangers}; {how}")
    empty = [entry.name for entry in system.context if not entry.low < entry.high]
    fact("ranges of the context with low < high", [], empty)


def right_hand_side(system: System) -> None:
    """The right-hand side takes a state alone and states with leading axes, and gives tensors of
    their shape.
    """
    contexts, size = corners(system), system.state_size
    starts = system.initial_state(contexts, None)
    how = "give torch tensors, contexts.new_zeros(len(contexts), n), say"
    kind = type(starts).__name__
    holds(isinstance(starts, Tensor), f"initial_state: expected a tensor, got {kind}; {how}")
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


def names(system: System) -> None:
    """A name and a unit for each component, contexts of as many parameters, and a start."""
    fact("units, one per component", len(system.state_names), len(system.state_units))
    fact("names that are used once", system.state_size, len({*system.state_names}))
    drawn = {
        "training": system.train_contexts(np.random.default_rng(0)),
        "test": system.test_contexts(),
    }
    for kind, contexts in drawn.items():
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
    each = [
        [system.field(c[k])(t, *(x[k, i] for x in parts)) for i in range(4)] for k in range(len(c))
    ]
    close(
        "contexts (C, p) with states (C, T, n) = loop",
        rate,
        torch.stack([torch.stack(row) for row in each]),
    )
    single = system.field(c.float())(t.float(), *(x.float() for x in parts))
    fact("precision of the field at float32 states", torch.float32, single.dtype)
    close("field in float32 = float64", single.double(), rate, 1e-3)
    along, h = tuple(torch.cos(x) for x in parts), 1e-6
    tangent = torch.func.jvp(lambda *x: system.field(c)(t, *x), parts, along)[1]
    ahead, behind = (
        system.field(c)(t, *(x + s * v for x, v in zip(parts, along, strict=True))) for s in (h, -h)
    )
    close(
        "torch.func.jvp of the field = finite differences",
        tangent,
        (ahead - behind) / (2 * h),
        1e-5,
    )


def terms(system: System) -> None:
    """The terms, where a system gives them, add up to its right-hand side, and are linear in each
    argument.
    """
    c, parts = nearby(system)
    total = torch.zeros_like(parts[0])
    for term in system.terms():
        value = term.form(*parts * term.degree)
        total = total + (
            value if term.coefficient is None else align(term.coefficient(c), parts[0]) * value
        )
        for k in range(term.degree):
            shifted = (*parts * k, torch.cos(parts[0]), *parts * (term.degree - k - 1))
            both = tuple(2 * a - b for a, b in zip(parts * term.degree, shifted, strict=True))
            both = tuple(b if i == k else parts[0] for i, b in enumerate(both))
            close("B(2 x - y) = 2 B(x) - B(y)", term.form(*both), 2 * value - term.form(*shifted))
    if system.terms():
        close(
            "sum of the terms = rhs",
            total,
            system.field(c)(torch.zeros((), dtype=torch.float64), *parts),
        )


def rows(system: System) -> None:
    """Rows of the right-hand side, where a system gives them, are those of `rhs`, in any order, at
    every context.
    """
    if not gives_rows(system):
        return
    (c, (x,)), t = nearby(system), torch.zeros((), dtype=torch.float64)
    some = torch.randperm(system.state_size, generator=torch.Generator().manual_seed(0))[:ROWS]
    found = system.rhs_rows(t, some, x[..., system.stencil(some)], align(c, x))
    close("rhs_rows at the stencil = rows of rhs", found, system.field(c)(t, x)[..., some])


def symmetry(system: System) -> None:
    """The field commutes with the shifts that a system declares."""
    if system.symmetry is not None:
        c, (x,) = nearby(system)
        error = system.commutator(system.symmetry, x, c)
        holds(
            error <= TOLERANCE,
            f"f(g x) = g f(x): relative error {error:.1e}, tolerance {TOLERANCE:.0e}",
        )


def metric(system: System) -> None:
    """`weigh` is linear in u, symmetric and positive semidefinite, at every context and state."""
    c, (x, *_) = nearby(system)
    u, v = torch.randn(
        2, *x.shape, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
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
    data = check_dataset(
        system.dataset(**dict(zip(system.context_names, c.T.numpy(), strict=True)), **span)
    )
    x, *rates = (
        trajectories(data, name)
        for name in ("state", "velocity", "acceleration")[: system.order + 1]
    )
    times = torch.from_numpy(data["time"].values.copy())
    found = system.rates(c, times, *(x, *rates)[: system.order])
    close(
        f"recorded {('velocity', 'acceleration')[system.order - 1]} = field", rates[-1], found, 1e-9
    )
    for law, moved, rate in zip(("states", "velocities"), (x, *rates), rates, strict=False):
        simpson = (
            (rate[:, 0] + 4 * rate[:, 1] + 2 * rate[:, 2] + 4 * rate[:, 3] + rate[:, 4])
            * system.dt
            / 3
        )
        coarse = (rate[:, 0] + 4 * rate[:, 2] + rate[:, 4]) * 2 * system.dt / 3
        doubt = (
            (simpson - coarse).abs().max() / simpson.abs().max().clamp(min=1.0)
        ).item()  # where dt is long
        close(
            f"{law} = integral of their rates",
            moved[:, 4] - moved[:, 0],
            simpson,
            1e-3 * system.dt + doubt,
        )
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
        for law in (
            context,
            right_hand_side,
            names,
            field,
            terms,
            rows,
            metric,
            symmetry,
            datasets,
        ):
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
    """States at the requested times, and there alone, in the precision of the start; a record of
    the cost.
    """
    times, states, status, cost = solver(logistic, STARTS, TIMES)
    fact("output at the requested times alone", TIMES.tolist(), times.tolist())
    close("states = known solution", states, logistic_solution(TIMES, STARTS), tolerance)
    fact("status of what completes", [Status.COMPLETED] * 3, status.tolist())
    recorded = {"solver", "engine", "seconds_compiling", "seconds_computing"}
    fact("what the cost records", [], sorted(recorded - cost.keys()))
    single = solver(logistic, STARTS.float(), TIMES)
    fact("precision of float32 states", torch.float32, single.states.dtype)
    close("float32 = float64", single.states.double(), states, max(tolerance, 1e-5))


def batch_of_solver(solver: Solver, tolerance: float) -> None:
    """A batch equals a loop, and a member that is lost is NaN and leaves the others as they are."""
    together = solver(logistic, STARTS, TIMES).states
    alone = torch.stack([solver(logistic, y0, TIMES).states for y0 in STARTS])
    close("batch = loop", together, alone, tolerance)
    lost = torch.tensor(
        [[-1.0], [torch.nan]], dtype=torch.float64
    )  # the first one ends at t = log 2
    beside = solver(logistic, torch.cat([lost, STARTS]), TIMES)
    fact(
        "status of what diverges",
        [Status.DIVERGED] * 2 + [Status.COMPLETED] * 3,
        beside.status.tolist(),
    )
    fact(
        "finite before it diverges, NaN from then on",
        [True] * 2 + [False] * 3,
        _finite(beside.states[0]),
    )
    fact("NaN from the start stays", [False] * 5, _finite(beside.states[1]))
    close("neighbours of what diverges", beside.states[2:], together, tolerance)


def clock(solver: Solver, tolerance: float) -> None:
    """Times may start anywhere, and may be a single one; they must be sorted."""
    start, times = torch.ones(1, dtype=torch.float64), TIMES + 3
    states = solver(lambda t, y: torch.cos(t) * y, start, times).states
    exact = torch.exp(torch.sin(times) - torch.sin(times[0])).unsqueeze(-1)
    close("times that do not start at zero", states, exact, tolerance)
    close("a single time", solver(logistic, STARTS, TIMES[:1]).states, STARTS.unsqueeze(-2))
    for name, wrong in (
        ("falling times", TIMES.flip(0)),
        ("equal times", TIMES[[0, 1, 1]]),
        ("a table", TIMES[None]),
    ):
        refused(
            f"{name} are refused", InputError, lambda wrong=wrong: solver(logistic, STARTS, wrong)
        )
    refused(
        "an unknown engine is refused",
        InputError,
        lambda: solver(logistic, STARTS, TIMES, engine="abacus"),
    )


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
def check_solver(
    solver: Solver, *, order: Positive | None = None, tolerance: Positive = 1e-6
) -> None:
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
        for law in (accuracy, batch_of_solver, clock):
            law(solver, tolerance)
        if order is not None:
            convergence(solver, order)


def _finite(states: Tensor) -> list[bool]:
    return states.isfinite().all(-1).tolist()
