"""The contract of latent dynamics: motions on an invariant manifold, batches, stacks, lost members."""

from collections.abc import Callable

import torch
from torch import Tensor

from romkit.core.boundary import Positive, validated
from romkit.core.errors import InputError
from romkit.core.types import Field, TensorFunction
from romkit.integrators import LatentDynamics
from romkit.projections import Operator, Path, Projection, stack
from romkit.solvers import RK4, Solution, Status
from romkit.systems.problem import PROBLEMS, Problem
from romkit.testing.projections import Probe, perturbed, probe
from romkit.testing.rules import close, fact, list_rules

LatentLaw = Callable[..., Tensor]
"""(t, z) -> ż, or (t, z, ż) -> z̈."""

LATENT_TIMES = torch.linspace(1.0, 1.1, 3, dtype=torch.float64)

STEPS = RK4(0.05)
"""Solver where two ways to compute the same are compared: steps that a tolerance sets differ."""

FINE_STEPS = RK4(0.005)
"""Solver of the known motion, whose field costs nothing."""


def autonomous_law(t: Tensor, *parts: Tensor) -> Tensor:
    """ż = g(z), or z̈ = g(z, ż): smooth, bounded, different in every coordinate."""
    z, rate = parts[0], parts[-1]
    return torch.sin(z.roll(1, -1)) - 0.5 * rate


def latent_law(t: Tensor, *parts: Tensor) -> Tensor:
    """`autonomous_law`, and a force in time."""
    return autonomous_law(t, *parts) + 0.1 * torch.cos(t)


def manufactured(path: Path, order: int, law: LatentLaw = latent_law) -> Problem:
    """Return the problem whose trajectories are the decoded ones of `law`, in a metric that depends
    on the state.
    """

    def first_order(t: Tensor, x: Tensor) -> Tensor:
        P = path.at(t)
        z = P.encode(x)
        # a manifold that moves carries its states with it: relative to it, rest is -∂ₜφ
        carried = -path.relative(t, z, torch.zeros_like(x))
        return P.decode_jvp(z, law(t, z)).tangent + carried

    def second_order(t: Tensor, q: Tensor, v: Tensor) -> Tensor:
        P = path.at(t)
        z, dz = P.encode_jvp(q, v)
        return P.decode_jvp(z, law(t, z, dz)).tangent + P.decode_curvature(z, dz)

    def weighted(x: Tensor, u: Tensor) -> Tensor:
        return (1 + x.square()).unsqueeze(-1) * u

    field: TensorFunction = first_order if order == 1 else second_order
    return PROBLEMS[order](path, field, weighted)


def beginning(p: Probe, order: int) -> Tensor:
    """Return a latent state (B, order · m) per context."""
    z, dz = p.operator.encode_jvp(p.x, p.v)
    return torch.cat([z, dz], dim=-1)[..., : order * p.projection.latent_dim]


def motion(dynamics: LatentDynamics, p: Probe, order: int, tolerance: float) -> None:
    """On an invariant manifold the latent trajectory is the known one, at constant contexts and
    that move.
    """
    w0, constant = beginning(p, order), Path.constant(p.operator)
    # the default solver takes a hundred steps at least of a field that depends on time
    cases = [
        ("constant", constant, autonomous_law, _default_steps),
        ("constant", constant, latent_law, fixed_steps),
    ]
    if order == 1:
        other = p.c.flip(0)
        moving = lambda t: p.c + 0.3 * torch.sin(t) * (other - p.c)  # noqa: E731
        path = Path(p.projection, moving, LATENT_TIMES)
        cases.append(("moving", path, latent_law, fixed_steps))
    for name, path, law, solve in cases:
        problem = manufactured(path, order, law)
        exact = FINE_STEPS(_field(problem, law), w0, LATENT_TIMES).states
        solution = solve(dynamics, problem, w0)
        fact(f"status, {name} context", 0, int(solution.status.sum()))
        close(f"motion on an invariant manifold, {name} context", solution.states, exact, tolerance)


def _field(problem: Problem, law: LatentLaw) -> Field:
    """Return the first-order form of a latent law."""
    return lambda t, w: problem.motion(w, law(t, *problem.split(w)))


def start(dynamics: LatentDynamics, p: Probe, order: int) -> None:
    """A trajectory starts in the latent space, and on the manifold where it is."""
    problem, w = manufactured(Path.constant(p.operator), order), beginning(p, order)
    parts = tuple(x + 0.01 * p.v for x in problem.decode(p.operator, w))
    fact("shape of the start", w.shape, dynamics.start(problem, LATENT_TIMES[0], parts).shape)
    if p.projection.idempotent:
        on = dynamics.start(problem, LATENT_TIMES[0], problem.decode(p.operator, w))
        close("start of a state on the manifold = its latent state", on, w, 1e-7)


def fixed_steps(dynamics: LatentDynamics, problem: Problem, start: Tensor) -> Solution:
    """Return the solution by steps of one length, so that two ways to the same differ by rounding
    alone.

    Dynamics that step in time by themselves refuse a solver, and take their own steps.
    """
    try:
        return dynamics.solve(problem, start, LATENT_TIMES, solver=STEPS, engine="torch")
    except InputError as error:
        if error.argument != "solver":
            raise
    return _default_steps(dynamics, problem, start)


def _default_steps(dynamics: LatentDynamics, problem: Problem, start: Tensor) -> Solution:
    # a compiler would take longer than all the steps
    return dynamics.solve(problem, start, LATENT_TIMES, engine="torch")


def dynamics_batch(dynamics: LatentDynamics, p: Probe, order: int, tolerance: float) -> None:
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
    neighbours(fixed_steps(dynamics, manufactured(constant, order), lost), together, 1e-9)
    problem = manufactured(constant, order, autonomous_law)
    alone = _default_steps(dynamics, problem, w).states
    neighbours(_default_steps(dynamics, problem, lost), alone, tolerance)
    if order == 1:
        moving = solve(Path(p.projection, lambda t: p.c, LATENT_TIMES), w)
        close("a context that is a constant function = a constant", moving, together, 1e-9)


def neighbours(beside: Solution, alone: Tensor, tolerance: float) -> None:
    """The first member is lost, and the others are what they are without it."""
    fact("status of a lost member", Status.DIVERGED, beside.status[0].item())
    close("neighbours of a lost member", beside.states[1:], alone[1:], tolerance)


def stacks(dynamics: LatentDynamics, p: Probe, order: int) -> None:
    """A stack of seeds equals each of them."""
    models, w = [p.projection, perturbed(p.projection)], beginning(p, order)

    def solve(P: Operator, start: Tensor) -> Tensor:
        return fixed_steps(dynamics, manufactured(Path.constant(P), order), start).states

    together = solve(stack(models)(p.c.unsqueeze(0)), w.expand(2, *w.shape))
    alone = torch.stack([solve(model(p.c), w) for model in models])
    close("stack of seeds = each alone", together, alone, 1e-9)


@validated
def check_dynamics(
    dynamics: LatentDynamics,
    projection: Projection,
    *,
    consistent: bool = True,
    tolerance: Positive = 1e-6,
) -> None:
    """Raise AssertionError with rule, error and tolerance if `dynamics` break a rule of latent
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
    is_learned = dynamics.needs == "nothing"
    follows_motions = consistent and not is_learned
    if follows_motions and not projection.idempotent:
        raise InputError(
            "projection",
            expected="an idempotent one",
            got=projection.name,
            fix="give one that is, or consistent=False",
        )
    p = probe(projection, batch=2)
    orders = dynamics.orders
    if is_learned:
        orders = (dynamics.order,)
    for order in orders:
        with torch.no_grad(), list_rules(f"{dynamics}, order {order}"):
            start(dynamics, p, order)
            if follows_motions:
                motion(dynamics, p, order, tolerance)
            dynamics_batch(dynamics, p, order, tolerance)
            if not is_learned:
                stacks(dynamics, p, order)
