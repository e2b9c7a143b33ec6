"""Reduced mechanics in canonical coordinates: the cotangent lift of a projection of configurations."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from romkit.core import checks
from romkit.core.broadcast import linear_solve, matvec
from romkit.core.errors import InputError
from romkit.core.types import Dual, Field, Pair, Shape
from romkit.integrators.base import LatentDynamics, traced, tracing_pays
from romkit.integrators.galerkin import Galerkin
from romkit.projections import Operator
from romkit.solvers import ImplicitMidpoint, Solution, Solver, checked_step
from romkit.systems.problem import Parts, Problem


@dataclass(frozen=True)
class Hamiltonian(LatentDynamics):
    """The motion of `Galerkin` in the inertia, but in latent coordinates and momenta (z, r), r =
    JᵀMJ ż.

        H(z, r) = ½ rᵀ (JᵀMJ)⁻¹ r + V(φ(z)),   ż = ∂H/∂r,   ṙ = -∂H/∂z = Jᵀ (M q̈ + Ṁ q̇) + J̇ᵀ M q̇,

    with q = φ(z), q̇ = J ż, M the metric and q̈ the field of the full model, so M q̈ + Ṁ q̇ =
    ∂L/∂q. The lift (z, r) -> (q, p) = (φ(z), M J ż) is symplectic on any manifold and at any
    context, since Jᵀ p = r. A symplectic solver then keeps the energy for as long as one follows.
    Trajectories start as those of `Galerkin`.

    For mechanical systems; the solver is `ImplicitMidpoint` with the step of the system by default.

    Source: Lall, Krysl, Marsden (2003), Structure-preserving model reduction for mechanical
    systems, whose reduced Lagrangian this is in canonical coordinates.

    Example:
        >>> import romkit
        >>> from romkit.integrators import Hamiltonian
        >>> data = romkit.systems.Pendulum().dataset(l1=0.4, l2=0.5, l3=0.5, l4=0.6, duration=0.005)
        >>> run = romkit.follow(romkit.load("ncae-pendulum"), data, dynamics=Hamiltonian())
        >>> dict(run.latent.sizes)
        {'trajectory': 1, 'time': 5, 'latent_component': 4}
        >>> run.attrs["solver"].split("(")[0]
        'ImplicitMidpoint'
    """

    orders: ClassVar[Shape] = (2,)

    def start(self, problem: Problem, t: Tensor, parts: Parts) -> Tensor:
        return Galerkin().start(problem, t, parts)

    def solve(
        self,
        problem: Problem,
        start: Tensor,
        times: Tensor,
        *,
        solver: Solver | None = None,
        engine: str = "auto",
    ) -> Solution:
        if problem.order not in self.orders:
            raise InputError(
                "dynamics",
                expected="dynamics of first order",
                got="Hamiltonian()",
                fix="use Galerkin(), or a system with velocities of its own",
            )
        field = self.field(problem)
        y0 = self.momentum(problem, times[0], start)
        seeks_step = solver is None and not problem.step
        # forward differentiation is slow, call by call
        if seeks_step or tracing_pays(len(times), engine):
            field = traced(field, times[0], y0)
        if solver is None:
            step = problem.step or midpoint_step(field, y0, times)
            solver = ImplicitMidpoint(step)
        solution = solver(field, y0, times, engine=engine, label="reduced model")
        return solution._replace(states=self.velocity(problem, times[0], solution.states))

    def field(self, problem: Problem) -> Field:
        """(t, (z, r)) -> (ż, ṙ), each (..., 2m)."""

        def canonical(t: Tensor, y: Tensor) -> Tensor:
            z, dz = self.velocity(problem, t, y).chunk(2, dim=-1)
            P = problem.path.at(t)
            q, J = P.decode_jacobian(z)
            v = matvec(J, dz)
            acceleration = problem.field(t, q, v)
            # one evaluation of the inertia for both
            columns = torch.stack([v, acceleration], dim=-1)
            momentum, force = problem.metric(q, columns).unbind(-1)
            column = columns[..., :1]
            _, changing = Dual(  # Ṁ q̇
                *torch.func.jvp(lambda q: problem.metric(q, column), (q,), (v,))
            )
            along_manifold = matvec(J.mT, force + changing.squeeze(-1))
            dr = along_manifold + _curvature_force(P, z, dz, momentum)
            return torch.cat([dz, dr], dim=-1)

        return canonical

    def momentum(self, problem: Problem, t: Tensor, w: Tensor) -> Tensor:
        """(z, ż) -> (z, r)."""
        z, dz = _halves("w", w, problem, t)
        return torch.cat([z, matvec(_inertia(problem, t, z), dz)], dim=-1)

    def velocity(self, problem: Problem, t: Tensor, y: Tensor) -> Tensor:
        """(z, r) -> (z, ż)."""
        z, r = _halves("y", y, problem, t)
        return torch.cat([z, linear_solve(_inertia(problem, t, z), r)], dim=-1)

    def lift(self, problem: Problem, t: Tensor, y: Tensor) -> Tensor:
        """(z, r) (..., 2m) -> (q, p) (..., 2n), the cotangent lift of φ."""
        z, dz = self.velocity(problem, t, y).chunk(2, dim=-1)
        q, J = problem.path.at(t).decode_jacobian(z)
        p = problem.metric(q, matvec(J, dz).unsqueeze(-1)).squeeze(-1)
        return torch.cat([q, p], dim=-1)


def midpoint_step(field: Field, y0: Tensor, times: Tensor, rtol: float = 1e-5) -> float:
    """Find a step of the midpoint rule for systems that have none of their own: its order is two,
    and its energy does not drift, so that the tolerance may be larger than of other rules.
    """
    if len(times) == 1:
        return 1.0  # none is taken
    return checked_step(field, y0, times, rtol=rtol, make=ImplicitMidpoint, order=2)


def _halves(name: str, w: Tensor, problem: Problem, t: Tensor) -> Pair:
    """Return the coordinates in a latent state, and what is behind them, each (..., m)."""
    m = problem.path.at(t).latent_dim
    checks.last_axis(name, w.shape, 2 * m, "latent coordinates, then their momenta or velocities")
    coordinates, behind = w.chunk(2, dim=-1)
    return coordinates, behind


def _inertia(problem: Problem, t: Tensor, z: Tensor) -> Tensor:
    """JᵀMJ (..., m, m)."""
    q, J = problem.path.at(t).decode_jacobian(z)
    return J.mT @ problem.metric(q, J)


def _curvature_force(P: Operator, z: Tensor, dz: Tensor, momentum: Tensor) -> Tensor:
    """J̇ᵀ p (..., m): D²φ(ż, eᵢ) from D²φ(ż + eᵢ, ż + eᵢ) and D²φ(ż - eᵢ, ż - eᵢ)."""
    unit = torch.eye(z.shape[-1], dtype=z.dtype, device=z.device)
    z = z.unsqueeze(-2)
    dz = dz.unsqueeze(-2)
    # the curvature is quadratic, so that mixed directions are differences of squares
    rows = (P.decode_curvature(z, dz + unit) - P.decode_curvature(z, dz - unit)) / 4
    return matvec(rows, momentum)
