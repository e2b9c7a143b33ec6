"""Least-squares Petrov-Galerkin: the time-discrete full model, with the smallest residual a latent state can reach."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from romkit.integrators.base import LatentDynamics, solve, transposed_product
from romkit.integrators.galerkin import Galerkin
from romkit.progress import track
from romkit.solvers import Solution, Solver
from romkit.solvers.base import Run, inside
from romkit.types import Field, Mass, OperatorPath, ProjectionOperator, SecondOrderField, Value

Residual = Callable[[Tensor], tuple[Tensor, Tensor]]
"""u (..., m), the unknowns of a step, to the residual r(u) (..., n) of the full model and Dr(u) (..., n, m)."""


@dataclass(frozen=True)
class LSPG(LatentDynamics):
    """The latent state of the next time that violates the time-discrete full model least.

    With the trapezoidal rule, a step of length h from z₀ goes to
        argmin ‖φ(z) - φ(z₀) - h/2 (f(t₀, φ(z₀)) + f(t₀ + h, φ(z)))‖,
    found by Gauss-Newton for the whole batch. Mechanical systems step by the average acceleration,
    z = z₀ + h ż₀ + h²/4 (z̈₀ + z̈), ż = ż₀ + h/2 (z̈₀ + z̈), to the z̈ that minimises J z̈ + D²φ(ż, ż) - f(t, q, q̇) in
    the metric of the inertia. Both rules are of order two and implicit, so stiff components of f do not limit h. The
    minimiser depends on h: as h goes to zero it becomes `Galerkin`, to first order, unless the manifold is invariant.

    Args:
        dt: largest time step; the interval of the output by default.
        iterations: largest number of Gauss-Newton steps per time step.
        tolerance: length of a Gauss-Newton step, relative to 1 + |u|, at which they end.

    Source: Carlberg, Barone, Antil (2017), "Galerkin v. least-squares Petrov-Galerkin projection in nonlinear model
    reduction", section 3; Lee & Carlberg (2020), section 3.3, on nonlinear manifolds.
    """

    dt: float = math.inf
    iterations: int = 8
    tolerance: float = 1e-10

    def latent_state(self, P: ProjectionOperator, x: Tensor) -> Tensor:
        return Galerkin().latent_state(P, x)

    def latent_motion(self, P: ProjectionOperator, q: Tensor, v: Tensor, mass: Mass) -> Value:
        return Galerkin().latent_motion(P, q, v, mass)

    def solve(self, P: ProjectionOperator, f: Field, x0: Tensor, times: Tensor, solver: Solver) -> Solution:
        return self.solve_along(_Fixed(P), f, x0, times, solver)

    def solve_along(self, path: OperatorPath, f: Field, x0: Tensor, times: Tensor, solver: Solver) -> Solution:
        def step(t: Tensor, z: Tensor, rate: Tensor, h: float) -> tuple[Tensor, Tensor]:
            here, there = path.at(t), path.at(t + h)
            x = here.decode(z)
            fixed = x + h / 2 * f(t, x)

            def residual(u: Tensor) -> tuple[Tensor, Tensor]:
                y, J = there.decode_jacobian(u)
                rate, rate_along_J = _along_columns(lambda y: f(t + h, y), y, J)
                return y - h / 2 * rate - fixed, J - h / 2 * rate_along_J

            reached = self._minimise(residual, z + h * rate, None)
            return reached, (reached - z) / h

        z0 = self.latent_state(path.at(times[0]), x0)
        return _Steps(step, torch.zeros_like(z0), self.dt)(f, z0, times)

    def solve_motion(
        self, P: ProjectionOperator, f: SecondOrderField, mass: Mass, start: Value, times: Tensor, solver: Solver
    ) -> Solution:
        def acceleration_residual(t: Tensor, z: Tensor, dz: Tensor, ddz: Tensor) -> Tensor:
            q, v = P.decode_jvp(z, dz)
            return P.decode_jvp(z, ddz).tangent + P.decode_curvature(z, dz) - f(t, q, v)

        def step(t: Tensor, w: Tensor, ddz: Tensor, h: float) -> tuple[Tensor, Tensor]:
            z, dz = w.chunk(2, dim=-1)

            def advanced(u: Tensor) -> tuple[Tensor, Tensor]:
                mean = (_like(ddz, u) + u) / 2
                return _like(z, u) + h * _like(dz, u) + h * h / 2 * mean, _like(dz, u) + h * mean

            def residual(u: Tensor) -> tuple[Tensor, Tensor]:
                directions = torch.eye(u.shape[-1], dtype=u.dtype, device=u.device).repeat(*u.shape[:-1], 1, 1)
                return _along_columns(lambda u: acceleration_residual(t + h, *advanced(u), u), u, directions)

            reached = self._minimise(residual, ddz, mass(P.decode(z)))
            return torch.cat(advanced(reached), dim=-1), reached

        z0, dz0 = self.latent_motion(P, *start, mass)
        ddz0 = Galerkin().latent_acceleration(P, f, mass)(times[0], z0, dz0)
        return _Steps(step, ddz0, self.dt)(f, torch.cat([z0, dz0], dim=-1), times)

    def _minimise(self, residual: Residual, u: Tensor, weight: Tensor | None) -> Tensor:
        """The u (..., m) that minimises rᵀ W r, by Gauss-Newton; W (..., n, n), None for the identity."""
        for _ in range(self.iterations):
            r, A = residual(u)
            WA = A if weight is None else weight @ A
            step = solve(A.mT @ WA, transposed_product(WA, r))
            u = u - step
            # A member that is lost has NaN here; the others must not wait for it.
            if not bool((step.norm(dim=-1) > self.tolerance * (1 + u.norm(dim=-1))).any()):
                break
        return u


class _Fixed:
    """The path of a context that does not vary."""

    def __init__(self, P: ProjectionOperator):
        self.P = P

    def at(self, t: Tensor) -> ProjectionOperator:
        return self.P

    def drift(self, t: Tensor, z: Tensor) -> Tensor:
        return z.new_zeros(*z.shape[:-1], self.P.state_size)


@dataclass(frozen=True)
class _Steps(Solver):
    """Repeats step(t, y, memory, h) -> (y, memory); memory is what predicts the next step."""

    step: Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor]]
    memory: Tensor
    dt: float
    bound: float = 1e6

    def _prepare(self, field: Field, y0: Tensor, times: Tensor) -> tuple[Run, str]:
        return partial(self._integrate, field), "torch"

    def _integrate(self, field: Field, y0: Tensor, times: Tensor) -> Tensor:
        y, memory, states = y0, self.memory, [y0]
        grid = times.tolist()
        for k in track(range(1, len(grid)), "reduced model"):
            steps = max(1, math.ceil((grid[k] - grid[k - 1]) / self.dt - 1e-9))
            h = (grid[k] - grid[k - 1]) / steps
            for i in range(steps):
                y, memory = self.step(times[k - 1] + i * h, y, memory, h)
            states.append(y)
            healthy = inside(y, self.bound) & inside(memory, self.bound)
            y, memory = torch.where(healthy, y, 0.0), torch.where(healthy, memory, 0.0)
        return torch.stack(states)


def _along_columns(function: Callable[[Tensor], Tensor], x: Tensor, J: Tensor) -> tuple[Tensor, Tensor]:
    """function(x) (..., k) and its derivatives (..., k, m) along the m columns of J."""
    points = x.unsqueeze(-2).repeat_interleave(J.shape[-1], -2)
    values, columns = torch.func.jvp(function, (points,), (J.mT.contiguous(),))
    return values[..., 0, :], columns.mT


def _like(x: Tensor, u: Tensor) -> Tensor:
    """x (..., k) with an axis put in where u (..., directions, m) has one more."""
    return x if x.ndim == u.ndim else x.unsqueeze(-2)
