"""Mechanical systems: second order, a state of positions q with velocities q̇ beside it."""

import abc

import numpy as np
import torch
from torch import Tensor

from romkit import checks
from romkit.broadcast import align
from romkit.engine.threads import one_thread
from romkit.solvers import RK4
from romkit.systems.base import Motion, System
from romkit.types import Mass, SecondOrderField


class MechanicalSystem(System):
    """A system q̈ = f(t, q, q̇; c). Its state is q alone; datasets record velocity and acceleration beside it.

    A subclass writes `acceleration` in place of `rhs`, and `mass` where the inertia is not the identity.
    """

    @abc.abstractmethod
    def acceleration(self, t: Tensor, q: Tensor, v: Tensor, c: Tensor) -> Tensor:
        """q̈ (..., n) at q, q̇ (..., n), with c (..., p) broadcastable against their leading axes."""

    def mass(self, q: Tensor, c: Tensor) -> Tensor:
        """(..., n, n) inertia M(q; c): T = ½ q̇ᵀ M q̇. The metric in which constraint forces do no work."""
        return torch.eye(self.state_size, dtype=q.dtype, device=q.device).expand(*q.shape, self.state_size)

    def initial_velocity(self, contexts: Tensor, rng: np.random.Generator | None) -> Tensor:
        """(C, n) velocities before the transient: at rest by default."""
        return torch.zeros(*contexts.shape[:-1], self.state_size, dtype=contexts.dtype)

    def rhs(self, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
        """The first-order form on y = (q, q̇), (..., 2n)."""
        q, v = x.chunk(2, dim=-1)
        return torch.cat([v, self.acceleration(t, q, v, c)], dim=-1)

    def field(self, context: Tensor | float | None = None, **named: object) -> SecondOrderField:
        """The right-hand side f(t, q, q̇) with the context bound, by name or as a tensor (..., p)."""
        c = self._context_tensor(context, named)

        def f(t: Tensor, q: Tensor, v: Tensor) -> Tensor:
            return self.acceleration(t, q, v, align(c.to(q), q))

        return f

    def mass_matrix(self, context: Tensor | float | None = None, **named: object) -> Mass:
        """q -> M(q) with the context bound."""
        c = self._context_tensor(context, named)
        return lambda q: self.mass(q, align(c.to(q), q))

    def simulate(
        self,
        initial_state: Tensor,
        context: Tensor,
        times: Tensor,
        *,
        initial_velocity: Tensor | None = None,
        label: str = "full model",
    ) -> Motion:
        """Integrate from positions (..., n) and velocities (..., n), at rest by default. See `System.simulate`."""
        v0 = torch.zeros_like(initial_state) if initial_velocity is None else initial_velocity
        for name, value in (("initial_state", initial_state), ("initial_velocity", v0)):
            checks.last_axis(name, value.shape, self.state_size, f"the state of {self.name}")
        with torch.inference_mode():
            return self._simulate(initial_state, v0, context, times, label)

    def trajectories(self, contexts: Tensor, rng: np.random.Generator | None, times: Tensor) -> Motion:
        """The motion from the system's own initial states and velocities at contexts (C, p)."""
        velocity = self.initial_velocity(contexts, rng)
        return self.simulate(self.settled_state(contexts, rng), contexts, times, initial_velocity=velocity)

    def _simulate(self, q0: Tensor, v0: Tensor, context: Tensor, times: Tensor, label: str) -> Motion:
        first_order = super().field(context)
        with one_thread():
            _, states, status, _ = RK4(self.dt, label=label, compile=False)(
                first_order, torch.cat([q0, v0], dim=-1), times
            )
        q, v = states.chunk(2, dim=-1)
        return Motion(q, v, self.field(context)(times, q, v), status)
