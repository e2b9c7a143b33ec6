"""Mechanical systems: accelerations in place of rates, and the inertia as the metric."""

import abc

import torch
from numpy.random import Generator
from torch import Tensor

from romkit.core import tensors
from romkit.core.broadcast import align
from romkit.core.types import SecondOrderField
from romkit.data.contexts import bound_context
from romkit.projections import Path
from romkit.systems.base import System
from romkit.systems.derivatives import differentiable
from romkit.systems.problem import Parts, Problem, SecondOrder


class MechanicalSystem(System):
    """A system q̈ = f(t, q, q̇; c). Its state is q alone; datasets record velocity and acceleration
    beside it.

    A subclass writes `acceleration` in place of `rhs`, and `weigh`, M(q; c) u, where the inertia is
    not the identity: T = ½ q̇ᵀ M q̇ is the metric in which constraint forces do no work. A context
    that moves would need the forces that move it, so it may not.

    Example:
        >>> from dataclasses import dataclass
        >>> import romkit
        >>> @dataclass(frozen=True)
        ... class Oscillator(romkit.systems.MechanicalSystem):
        ...     dt: float = 0.01
        ...     duration: float = 1.0
        ...     horizon: float = 1.0
        ...     name = "oscillator"
        ...     state_names, state_units = ("q",), ("m",)
        ...     context = (romkit.data.ContextParameter("k", "s-2", 0.5, 2.0, "stiffness"),)
        ...     def acceleration(self, t, q, v, c):
        ...         return -c * q
        ...     def initial_state(self, contexts, rng):
        ...         return contexts * 0 + 1.0
        >>> list(Oscillator().dataset(k=1.0).data_vars)
        ['state', 'velocity', 'acceleration']
    """

    order = 2
    context_may_move = False

    @abc.abstractmethod
    def acceleration(self, t: Tensor, q: Tensor, v: Tensor, c: Tensor) -> Tensor:
        """q̈ (..., n) at q, q̇ (..., n), with c (..., p) broadcastable against their leading axes."""

    def initial_velocity(self, contexts: Tensor, rng: Generator | None) -> Tensor:
        """(C, n) velocities before the transient: at rest by default."""
        return torch.zeros(*contexts.shape[:-1], self.state_size, dtype=contexts.dtype)

    def rhs(self, t: Tensor, x: Tensor, c: Tensor) -> Tensor:
        """Return the first-order form on y = (q, q̇), (..., 2n)."""
        q, v = x.chunk(2, dim=-1)
        a = self.acceleration(t, q, v, c)
        return torch.cat([v.expand_as(a), a], dim=-1)  # (..., 2n)

    def field(self, context: Tensor | float | None = None, **named: object) -> SecondOrderField:
        """Return the right-hand side f(t, q, q̇) at a fixed context, by name or as a tensor (...,
        p).
        """
        c = bound_context(self.context_names, context, named)
        acceleration = differentiable(self.acceleration)

        def f(t: Tensor, q: Tensor, v: Tensor) -> Tensor:
            return acceleration(t, q, v, align(c.to(q), q))

        return f

    def problem(self, path: Path, context: Tensor) -> Problem:
        return SecondOrder(path, self.field(context), self.metric(context))

    def _initial_parts(self, contexts: Tensor, rng: Generator | None) -> Parts:
        (state,) = super()._initial_parts(contexts, rng)
        velocity = self.initial_velocity(contexts, rng)
        return state, tensors.tensor("initial_velocity", velocity)
