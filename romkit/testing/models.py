"""The laws of projections and of latent dynamics."""

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.boundary import Positive, validated
from romkit.core.errors import InputError
from romkit.integrators import LatentDynamics
from romkit.projections import Operator, Path, Projection, stack
from romkit.solvers import RK4, Status
from romkit.systems.problem import PROBLEMS, Problem
from romkit.testing.systems import close, fact, laws_of


class Probe(NamedTuple):
    """Random points to test a projection at: its operator, states x and directions v (B, n), contexts c (B, p)."""

    projection: Projection
    operator: Operator
    x: Tensor
    v: Tensor
    c: Tensor


def probe(projection: Projection, *, batch: int = 16, spread: float = 1.0, seed: int = 0) -> Probe:
    """A float64 copy of `projection` with random states and contexts.

    Args:
        projection: a single model (unstack a stack first).
        batch: number of points.
        spread: contexts are uniform over `spread` times the training range, so 10 reaches far outside it.
        seed: of the random points.
    """
    double = copy.deepcopy(projection).cpu().double()
    frame = double.frame
    draw = torch.Generator().manual_seed(seed)

    def normal(size: int) -> Tensor:
        return torch.randn(batch, size, generator=draw, dtype=torch.float64)

    y, dy = normal(frame.size), normal(frame.size)
    x, v = frame.denormalise(y), frame.denormalise_tangent(dy)
    if frame.basis is not None:  # states beside its subspace too
        x, v = (u + frame.state_std * normal(frame.basis.size) for u in (x, v))
    relative = 2 * torch.rand(batch, len(frame.context_shift), generator=draw, dtype=torch.float64) - 1
    c = frame.context_shift + spread * relative * frame.context_scale
    return Probe(double, double(c), x, v, c)


def left_inverse(p: Probe) -> None:
    """ρ(φ(z)) = z at latents z of the data."""
    z = p.operator.encode(p.x)
    close("ρ(φ(z)) = z", p.operator.encode(p.operator.decode(z)), z)


def idempotency(p: Probe) -> None:
    """P(P(x)) = P(x)."""
    once = p.operator(p.x)
    close("P(P(x)) = P(x)", p.operator(once), once)


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
    loop = [torch.func.jacfwd(p.projection(c).decode)(point) for c, point in zip(p.c, z, strict=True)]
    close("decode_jacobian = torch.func.jacfwd", own, torch.stack(loop))


def curvature(p: Probe) -> None:
    """decode_curvature is the derivative of decode_jvp along its own direction."""
    z, w = p.operator.encode_jvp(p.x, p.v)
    oracle = torch.func.jvp(lambda point: p.operator.decode_jvp(point, w).tangent, (z,), (w,))[1]
    close("decode_curvature = torch.func.jvp of decode_jvp", p.operator.decode_curvature(z, w), oracle)


def batching(p: Probe) -> None:
    """A batch of contexts equals a loop over them, also where each context has several states."""
    loop = torch.stack([p.projection(c)(x) for c, x in zip(p.c, p.x, strict=True)])
    close("batch of contexts = loop", p.operator(p.x), loop)
    several = p.x.unsqueeze(1).expand(-1, 3, -1)
    close("states (C, T, n) = loop", p.operator(several)[:, 2], loop)


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
            parameter.data += 0.05 * (torch.rand(parameter.shape, generator=draw, dtype=torch.float64) - 0.5)
    return other


LAWS: tuple[Callable[[Probe], None], ...] = (tangents, jacobian, curvature, batching, stacking)
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
    for spread in spreads:
        points = probe(projection, spread=spread)
        with laws_of(f"{projection.name}, contexts over {spread:g} x the training range"):
            for law in laws:
                law(points)


TIMES = torch.linspace(1.0, 1.2, 5, dtype=torch.float64)


def latent_law(t: Tensor, *parts: Tensor) -> Tensor:
    """ż = g(t, z), or z̈ = g(t, z, ż): smooth, bounded, different in every coordinate."""
    z, rate = parts[0], parts[-1]
    return torch.sin(z.roll(1, -1)) - 0.5 * rate + 0.1 * torch.cos(t)


def manufactured(path: Path, order: int) -> Problem:
    """The problem whose trajectories are the decoded ones of `latent_law`, in a metric that depends on the state."""

    def field(t: Tensor, *parts: Tensor) -> Tensor:
        P = path.at(t)
        if order == 1:
            z = P.encode(*parts)
            return P.decode_jvp(z, latent_law(t, z)).tangent - path.relative(t, z, torch.zeros_like(*parts))
        z, dz = P.encode_jvp(*parts)
        return P.decode_jvp(z, latent_law(t, z, dz)).tangent + P.decode_curvature(z, dz)

    return PROBLEMS[order](path, field, lambda x, u: (1 + x.square()).unsqueeze(-1) * u)


def beginning(p: Probe, order: int) -> Tensor:
    """A latent state (B, order · m) per context."""
    z, dz = p.operator.encode_jvp(p.x, p.v)
    return torch.cat([z, dz], dim=-1)[..., : order * p.projection.latent_dim]


def motion(dynamics: LatentDynamics, p: Probe, order: int, tolerance: float) -> None:
    """On an invariant manifold the latent trajectory is the known one, at contexts that stay and that move."""
    w0, paths = beginning(p, order), {"constant": Path.constant(p.operator)}
    if order == 1:
        paths["moving"] = Path(p.projection, lambda t: p.c + 0.3 * torch.sin(t) * (p.c.flip(0) - p.c), TIMES)
    for name, path in paths.items():
        problem = manufactured(path, order)
        law = lambda t, w, problem=problem: problem.motion(w, latent_law(t, *problem.split(w)))  # noqa: E731
        exact = RK4(0.01)(law, w0, TIMES).states
        solution = dynamics.solve(problem, w0, TIMES)
        fact(f"status, {name} context", 0, int(solution.status.sum()))
        close(f"motion on an invariant manifold, {name} context", solution.states, exact, tolerance)


def start(dynamics: LatentDynamics, p: Probe, order: int) -> None:
    """A trajectory starts in the latent space, and on the manifold where it is."""
    problem, w = manufactured(Path.constant(p.operator), order), beginning(p, order)
    parts = tuple(x + 0.01 * p.v for x in problem.decode(p.operator, w))
    fact("shape of the start", w.shape, dynamics.start(problem, TIMES[0], parts).shape)
    if p.projection.idempotent:
        on = dynamics.start(problem, TIMES[0], problem.decode(p.operator, w))
        close("start of a state on the manifold = its latent state", on, w, 1e-7)


def members(dynamics: LatentDynamics, p: Probe, order: int) -> None:
    """A batch equals a loop, a lost member harms nobody, and a constant function is a constant."""
    w = beginning(p, order)
    solve = lambda path, start: dynamics.solve(manufactured(path, order), start, TIMES)  # noqa: E731
    together = solve(Path.constant(p.operator), w).states
    loop = [solve(Path.constant(p.projection(c)), start).states for c, start in zip(p.c, w, strict=True)]
    close("batch = loop", together, torch.stack(loop), 1e-9)
    lost = torch.cat([torch.full_like(w[:1], torch.nan), w[1:]])
    beside = solve(Path.constant(p.operator), lost)
    fact("status of a lost member", Status.DIVERGED, beside.status[0].item())
    close("neighbours of a lost member", beside.states[1:], together[1:], 1e-9)
    if order == 1:
        moving = solve(Path(p.projection, lambda t: p.c, TIMES), w).states
        close("a context that is a constant function = a constant", moving, together, 1e-9)


def stacks(dynamics: LatentDynamics, p: Probe, order: int) -> None:
    """A stack of seeds equals each of them."""
    models, w = [p.projection, perturbed(p.projection)], beginning(p, order)
    solve = lambda P, start: dynamics.solve(manufactured(Path.constant(P), order), start, TIMES).states  # noqa: E731
    together = solve(stack(models)(p.c.unsqueeze(0)), w.expand(2, *w.shape))
    close("stack of seeds = each alone", together, torch.stack([solve(model(p.c), w) for model in models]), 1e-9)


@validated
def check_dynamics(
    dynamics: LatentDynamics, projection: Projection, *, consistent: bool = True, tolerance: Positive = 1e-6
) -> None:
    """Raise AssertionError with law, error and tolerance if `dynamics` break a law of latent dynamics.

    A law that was fitted to data has an `order`, and looks at no full-order model: of it only what holds for any law
    is asked.

    Args:
        dynamics: with settings that solve smooth problems with steps of 0.05 to the tolerance.
        projection: a single model, with its parameters away from special values.
        consistent: whether motions on an invariant manifold are followed; False where dynamics change them on purpose.
        tolerance: largest relative error of such a motion.

    Raises:
        InputError: consistent dynamics and a projection that is not idempotent, on which there is no such motion.

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
            members(dynamics, p, order)
            if not learned:
                stacks(dynamics, p, order)
                if consistent:
                    motion(dynamics, p, order, tolerance)
