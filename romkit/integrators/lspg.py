"""Least-squares Petrov-Galerkin: the time-discrete full model, with the smallest residual a latent state can reach."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from romkit.bases import Basis
from romkit.core.boundary import Count, Limit, Positive, validated
from romkit.core.errors import InputError
from romkit.core.runtime import track
from romkit.core.types import Field
from romkit.engine import Newton, compiled_if
from romkit.integrators.base import TRACING_PAYS, LatentDynamics, least_squares, traced
from romkit.integrators.galerkin import Galerkin
from romkit.integrators.region import TrustRegion
from romkit.projections import Path
from romkit.solvers import Solution, Solver
from romkit.solvers.base import Run, inside
from romkit.solvers.fixed import Grid
from romkit.systems.problem import Parts, Problem

CORRECTIONS = 3
"""Gauss-Newton steps that a time step takes, about."""

Settle = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(t, known, u) -> the u that Gauss-Newton ends at, see `_Rule`."""


@runtime_checkable
class Mesh(Protocol):
    """Rows of a full model that stand for all, see `romkit.reduced_mesh`."""

    basis: Basis
    region: TrustRegion

    def problem(self, path: Path) -> Problem:
        """The problem at these rows; the path is that of coordinates in the basis."""
        ...


@validated
@dataclass(frozen=True)
class LSPG(LatentDynamics):
    """The latent state of the next time that violates the time-discrete full model least.

    With the trapezoidal rule, a step of length h from z₀ goes to
        argmin ‖φ(z) - φ(z₀) - h/2 (f(t₀, φ(z₀)) + f(t₀ + h, φ(z)))‖,
    found by Gauss-Newton for the whole batch. Mechanical systems step by the average acceleration,
    z = z₀ + h ż₀ + h²/4 (z̈₀ + z̈), ż = ż₀ + h/2 (z̈₀ + z̈), to the z̈ that minimises J z̈ + D²φ(ż, ż) - f(t, q, q̇) in
    the metric of the inertia. Both rules are of order two and implicit, so stiff components of f do not limit h. The
    minimiser depends on h: as h goes to zero it becomes `Galerkin`, to first order, unless the manifold is invariant.

    Behind a basis, the rows of a `mesh` (`romkit.reduced_mesh`) take the place of all n, and latent states are held in
    the neighbourhood of the training data; `state_distance` of the run says where.

    On a CPU the Gauss-Newton steps of long runs are compiled (`romkit.engine`), as far as f and the projection consist
    of calls to torch.

    Args:
        dt: largest time step; the interval of the output by default.
        iterations: largest number of Gauss-Newton steps per time step.
        tolerance: length of a Gauss-Newton step, relative to 1 + |u|, at which they end, member by member.
        mesh: rows that the residual is taken at; all by default.

    Source: Carlberg, Barone, Antil (2017), "Galerkin v. least-squares Petrov-Galerkin projection in nonlinear model
    reduction", section 3; Lee & Carlberg (2020), section 3.3, on nonlinear manifolds.

    Example:
        >>> import romkit
        >>> from romkit.integrators import LSPG
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.1)
        >>> run = romkit.follow(romkit.load("ncae-lorenz96"), data, dynamics=LSPG(dt=0.05))
        >>> run.attrs["dynamics_settings"]
        'LSPG(dt=0.05, ...)'
    """

    tangential = False  # the residual has parts that no subspace sees

    dt: Limit = math.inf
    iterations: Count = 8
    tolerance: Positive = 1e-10
    mesh: Mesh | None = None

    @property
    def sees_field(self) -> bool:
        """Not with a mesh, which has rows of it."""
        return self.mesh is None

    @property
    def domain(self) -> TrustRegion | None:
        """Where latent states of a mesh are held."""
        return None if self.mesh is None else self.mesh.region

    def start(self, problem: Problem, t: Tensor, parts: Parts) -> Tensor:
        return Galerkin().start(problem, t, parts)

    def solve(
        self, problem: Problem, start: Tensor, times: Tensor, *, solver: Solver | None = None, engine: str = "auto"
    ) -> Solution:
        if solver is not None:
            fix = "set its step, LSPG(dt=...)"
            raise InputError("solver", expected="none: LSPG steps in time by itself", got=str(solver), fix=fix)
        problem = problem if self.mesh is None else self.mesh.problem(problem.path)
        rate, rule = Galerkin().latent_rate(problem)(times[0], start), _RULES[problem.order](problem)
        rule = rule if self.mesh is None else _Held(rule, self.mesh.region)
        return _Steps(self, rule, rate)(problem.field, start, times, engine=engine)


class _Rule(Protocol):
    """How a time step leaves y: by the unknown u (..., m) at which a residual is smallest. t and h are scalars."""

    def begin(self, t: Tensor, y: Tensor, rate: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """What the residual of a step of length h from y at t is made of (..., k), and u to begin with.

        `rate` (..., m) is that of the step before.
        """
        ...

    def correction(self, t: Tensor, known: Tensor, u: Tensor) -> Tensor:
        """The Gauss-Newton step from u (..., m), in a time step that ends at t."""
        ...

    def end(self, y: Tensor, h: Tensor, known: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """The next state, and the rate that the next step's u is guessed from."""
        ...


@dataclass(frozen=True)
class Trapezoidal:
    """First order: u is the next latent state, the rate is ż. Known are φ(z₀) + h/2 f(t₀, φ(z₀)) and h."""

    problem: Problem

    def begin(self, t: Tensor, y: Tensor, rate: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        x = self.problem.path.at(t).decode(y)
        return _with_step(x + h / 2 * self.problem.field(t, x), h), y + h * rate

    def correction(self, t: Tensor, known: Tensor, u: Tensor) -> Tensor:
        x, slopes, residual = self.linearised(t, known, u)
        return -least_squares(self.problem.metric, x, slopes, residual)

    def linearised(self, t: Tensor, known: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The state x (..., n) at u, and the residual (..., n) there with its slopes (..., n, m) by u."""
        half_way, h = known[..., :-1], known[..., -1:]
        x, J = self.problem.path.at(t).decode_jacobian(u)
        rate, rate_along_J = _along_columns(lambda x: self.problem.field(t, x), x, J)
        return x, J - h.unsqueeze(-1) / 2 * rate_along_J, x - h / 2 * rate - half_way

    def end(self, y: Tensor, h: Tensor, known: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        return u, (u - y) / h


@dataclass(frozen=True)
class _AverageAcceleration:
    """Second order: u and the rate are z̈, a state is (z, ż). Known are z₀, what z and ż would be at z̈ = 0, and h."""

    problem: Problem

    def begin(self, t: Tensor, y: Tensor, rate: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        z, dz = y.chunk(2, dim=-1)
        return _with_step(torch.cat([z, z + h * dz + h * h / 4 * rate, dz + h / 2 * rate], dim=-1), h), rate

    def correction(self, t: Tensor, known: Tensor, u: Tensor) -> Tensor:
        (start, z, dz), h, P = known[..., :-1].chunk(3, dim=-1), known[..., -1:], self.problem.path.at(t)

        def residual(state: Tensor) -> Tensor:
            w, ddz = state.tensor_split([2 * u.shape[-1]], dim=-1)
            return P.decode_jvp(w.chunk(2, dim=-1)[0], ddz).tangent - self.problem.decoded(t, w).target

        unit = torch.eye(u.shape[-1], dtype=u.dtype, device=u.device).expand(*u.shape, -1)
        reached = torch.cat([z + h * h / 4 * u, dz + h / 2 * u, u], dim=-1)
        along = torch.cat([(h * h / 4).unsqueeze(-1) * unit, h.unsqueeze(-1) / 2 * unit, unit], dim=-2)
        value, slopes = _along_columns(residual, reached, along)
        return -least_squares(self.problem.metric, P.decode(start), slopes, value)

    def end(self, y: Tensor, h: Tensor, known: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        _, z, dz = known[..., :-1].chunk(3, dim=-1)
        return torch.cat([z + h * h / 4 * u, dz + h / 2 * u], dim=-1), u


@dataclass(frozen=True)
class _Held:
    """A rule whose u is a latent state and stays in a trust region."""

    rule: _Rule
    region: TrustRegion

    def begin(self, t: Tensor, y: Tensor, rate: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        known, u = self.rule.begin(t, y, rate, h)
        return known, self.region.held(u)

    def correction(self, t: Tensor, known: Tensor, u: Tensor) -> Tensor:
        return self.region.held(u + self.rule.correction(t, known, u)) - u

    def end(self, y: Tensor, h: Tensor, known: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        return self.rule.end(y, h, known, u)


_RULES: dict[int, Callable[[Problem], _Rule]] = {1: Trapezoidal, 2: _AverageAcceleration}
"""By the order of the problem."""


def _with_step(known: Tensor, h: Tensor) -> Tensor:
    """`known` (..., k) with h beside it, member by member."""
    return torch.cat([known, h.expand(*known.shape[:-1], 1)], dim=-1)


def _along_columns(function: Callable[[Tensor], Tensor], x: Tensor, J: Tensor) -> tuple[Tensor, Tensor]:
    """function(x) (..., k) and its derivatives (..., k, m) along the m columns of J."""
    points = x.unsqueeze(-2).repeat_interleave(J.shape[-1], -2)
    values, columns = torch.func.jvp(function, (points,), (J.mT.contiguous(),))
    return values[..., 0, :], columns.mT


@dataclass(frozen=True)
class _Steps(Solver):
    """Time steps by a rule, each solved by Gauss-Newton; `rate` is that before the first."""

    settings: LSPG
    rule: _Rule
    rate: Tensor

    def __str__(self) -> str:
        return str(self.settings)

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> tuple[Run, str]:
        grid = Grid.between(times, self.settings.dt)
        correction, count = self.rule.correction, grid.count
        if not grid.count:  # a single time
            return lambda y, times: y.unsqueeze(0), "torch"
        example = self.rule.begin(times[0], y0, self.rate, grid.h[0].to(times))
        if count >= TRACING_PAYS or engine == "compiled":  # forward differentiation is slow, call by call
            correction = traced(correction, times[0], *example)
        sizes = [part.shape[-1] for part in example]

        def step(t: Tensor, y: Tensor) -> Tensor:
            known, u = y.split(sizes, dim=-1)
            return torch.cat([torch.zeros_like(known), correction(t, known, u)], dim=-1)

        start = torch.cat(example, dim=-1)
        kernel, name = compiled_if(engine, Newton, step, times, start, CORRECTIONS * count)
        settle = partial(self._settle, correction) if kernel is None else partial(self._settle_compiled, kernel)
        return partial(self._integrate, settle), name

    def _integrate(self, settle: Settle, y0: Tensor, times: Tensor) -> Tensor:
        y, rate, states = y0, self.rate, [y0]
        intervals = Grid.between(times, self.settings.dt).intervals()
        for k in track(range(len(intervals)), "reduced model"):
            h = times.new_tensor(intervals[k][0])
            for i in range(intervals[k][1]):
                t = times[k] + i * h
                known, u = self.rule.begin(t, y, rate, h)
                y, rate = self.rule.end(y, h, known, settle(t + h, known, u))
            states.append(y)
            healthy = inside(y, self.divergence_threshold) & inside(rate, self.divergence_threshold)
            y, rate = torch.where(healthy, y, 0.0), torch.where(healthy, rate, 0.0)
        return torch.stack(states)

    def _settle(self, correction: Callable[..., Tensor], t: Tensor, known: Tensor, u: Tensor) -> Tensor:
        moving = torch.ones_like(u[..., :1], dtype=torch.bool)
        for _ in range(self.settings.iterations):
            step = correction(t, known, u)
            u = torch.where(moving, u + step, u)
            # A member that is lost has NaN here; the others must not wait for it.
            moving = moving & (_norm(step) > self.settings.tolerance * (1 + _norm(u)))
            if not bool(moving.any()):
                break
        return u

    def _settle_compiled(self, kernel: Newton, t: Tensor, known: Tensor, u: Tensor) -> Tensor:
        y, start = torch.cat([known, u], dim=-1), known.shape[-1]
        limits = {"iterations": self.settings.iterations, "tolerance": self.settings.tolerance}
        kernel.settle(t.item(), y, start=start, **limits)
        return y[..., start:]


def _norm(x: Tensor) -> Tensor:
    return x.norm(dim=-1, keepdim=True)
