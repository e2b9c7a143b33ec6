"""The twelve coupled angles of the pendulum, q₅ ... q₁₆ from q₁ ... q₄, with exact velocities and
accelerations.

Source: Adriaens et al. (2026), appendix "16-DoF pendulum", table "Context-dependent coupling"; at l
= 0.5 m it is the coupling of Friedl et al. (2025). The power q^(2·2l) is not real for q < 0 and is
read as |q|^(4l).
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from romkit.core.boundary import Positive, validated
from romkit.core.broadcast import align
from romkit.core.errors import InputError
from romkit.core.types import Array, ArrayPair, ContextFunction, Jet
from romkit.data import ContextParameter
from romkit.data.contexts import bound_context, ends_of
from romkit.solvers import Solver
from romkit.systems.mechanical import MechanicalSystem
from romkit.systems.mujoco import chain
from romkit.systems.mujoco.engine import Simulator, compile_chain

Angles = tuple[Tensor, ...]
"""Angles, velocities and accelerations (..., 16)."""

DRIVING = 4
"""Number of angles that drive the others."""


def couple(q: Tensor, v: Tensor, a: Tensor, lengths: Tensor) -> Angles:
    """Return all sixteen angles, velocities and accelerations from the first four.

    Args:
        q: (..., 4) driving angles in rad.
        v: (..., 4) their velocities in rad/s.
        a: (..., 4) their accelerations in rad/s².
        lengths: (..., 4) link lengths in m, broadcastable against the angles.

    Returns:
        q, q̇ and q̈, each (..., 16): the given ones, then h(q), Dh q̇ and Dh q̈ + D²h(q̇, q̇).
    """
    driving = (q, v, a)
    if a.shape != q.shape:
        driving = torch.broadcast_tensors(q, v, a)
    by_angle = zip(*(derivative.unbind(-1) for derivative in driving), strict=True)
    angles = [Jet(*angle) for angle in by_angle]
    q1, q2, q3, q4 = angles
    coupled = _table(q1, q2, q3, q4, *lengths.unbind(-1))
    by_derivative = zip(*coupled, strict=True)
    quantities = []
    for of_driving, of_coupled in zip(driving, by_derivative, strict=True):
        following = torch.stack(of_coupled, dim=-1)
        quantities.append(torch.cat([of_driving, following], dim=-1))
    return tuple(quantities)


def _table(
    q1: Jet, q2: Jet, q3: Jet, q4: Jet, l1: Tensor, l2: Tensor, l3: Tensor, l4: Tensor
) -> tuple[Jet, ...]:
    """Return the twelve coupled angles, q5 to q16."""
    wave = 2 * l2 * q2
    q1_power = _power(q1, 4 * l1)
    q3_power = _power(q3, 4 * l3)
    q4_power = _power(q4, 4 * l4)
    return (
        q3 - _cos(wave),
        q1 + 0.2 * l1 * _sin(wave),
        q4 * _cos(2 * l4 * q2),
        q1 + q3_power,
        3 * l2 * _sin(q2),
        -(l4 + l1) * (q4 * q1),
        _sin(2 * l1 * q1),
        0.8 * l3 * (q3 * q4),
        -1.8 * l1 * q1 - q2 + q3 - 2 * q4_power,
        -6 * l3 * _sin(q3),
        -2 * q3_power,
        -0.9 * q1_power,
    )


def _sin(q: Jet) -> Jet:
    """Sine along a curve."""
    sine = q.value.sin()
    return q.through(sine, q.value.cos(), -sine)


def _cos(q: Jet) -> Jet:
    """Cosine along a curve."""
    sine = q.value.sin()
    cosine = q.value.cos()
    return q.through(cosine, -sine, -cosine)


def _power(q: Jet, p: Tensor) -> Jet:
    """|q|ᵖ.

    For p < 2 (l < 0.5 m) the second derivative p(p-1)|q|ᵖ⁻² is unbounded at q = 0, so accelerations
    peak where an angle changes sign; at exactly 0 it is set to 0, and so is the first derivative
    for p < 1.
    """
    x = q.value
    zero = x == 0
    # not 0, so that gradients through the branch not taken are finite
    size = torch.where(zero, 1.0, x.abs())
    value = torch.where(zero, 0.0, size**p)
    slope = p * size ** (p - 1) * x.sign()
    curvature = p * (p - 1) * size ** (p - 2)
    unbounded = zero & (p != 2)
    return q.through(value, slope, torch.where(unbounded, 0.0, curvature))


STATE_SIZE = 16


@validated
@dataclass(frozen=True)
class Pendulum(MechanicalSystem):
    """Four capsule links (radius 0.05 m, mass 1 kg) of lengths l₁ ... l₄, and twelve angles that
    follow theirs.

        M(q; l) q̈ + C(q, q̇; l) q̇ + g(q; l) = 0                          for q₁ ... q₄, relative joint angles
        q₅  = q₃ - cos(2l₂ q₂)           q₁₁ = sin(2l₁ q₁)
        q₆  = q₁ + 2l₁ 0.1 sin(2l₂ q₂)   q₁₂ = 2l₃ 0.4 q₃ q₄
        q₇  = q₄ cos(2l₄ q₂)             q₁₃ = -2l₁ 0.9 q₁ - q₂ + q₃ - 2|q₄|^(4l₄)
        q₈  = q₁ + |q₃|^(4l₃)            q₁₄ = -2l₃ 3 sin(q₃)
        q₉  = 2l₂ 1.5 sin(q₂)            q₁₅ = -2|q₃|^(4l₃)
        q₁₀ = -(l₄ + l₁) q₄ q₁           q₁₆ = -0.9|q₁|^(4l₁)

    All links hang straight down at q = 0 and swing in one plane, without friction or contacts, from
    rest. Training lengths are random and so are the initial angles, 0° to 30°; in the test set and
    at contexts given by the user all four start at 15°. `simulate` runs MuJoCo with RK4;
    `acceleration` is the same physics in closed form. Only the first four components of an initial
    state or velocity are free, the others follow from them.

    Args:
        dt: step of the RK4 integration, and sampling interval, in s.
        duration: length of the recorded trajectories, in s.
        horizon: default length of a rollout, in s.

    What you should see: root mean square angle 0.39 rad (train) and 0.35 rad (test), velocity 2.1
    and 1.4 rad/s; accelerations with a sharp peak wherever q₁, q₃ or q₄ changes sign and its link
    is shorter than 0.5 m.
    Source: Adriaens et al. (2026), appendix "16-DoF pendulum"; coupling of Friedl et al. (2025) at
    l = 0.5 m.

    Example:
        >>> import torch
        >>> import romkit
        >>> pendulum = romkit.systems.Pendulum()
        >>> q = torch.zeros(16, dtype=torch.float64)
        >>> pendulum.energy(l1=0.5, l2=0.5, l3=0.5, l4=0.5)(q, q)  # at rest, hanging down
        tensor(0., dtype=torch.float64)
    """

    dt: Positive = 1e-3
    duration: Positive = 3.0
    horizon: Positive = 3.0

    name = "pendulum"
    only_solver = "MuJoCo RK4"
    time_units = "s"
    state_names = tuple(f"q{k}" for k in range(1, STATE_SIZE + 1))
    state_units = ("rad",) * STATE_SIZE
    context = tuple(
        ContextParameter(f"l{k}", "m", 0.35, 0.65, f"length of link {k}")
        for k in range(1, DRIVING + 1)
    )

    def acceleration(self, t: Tensor, q: Tensor, v: Tensor, c: Tensor) -> Tensor:
        """q̈ (..., 16) from the first four components of q and q̇.

        Integrating all sixteen is inaccurate where l < 0.5 m: a step across the unbounded
        acceleration at qᵢ = 0 kicks the coupled angles. `simulate` integrates four and derives the
        others from them.
        """
        # coupled angles drift off their manifold, so that they are computed anew
        q = q[..., :DRIVING]
        v = v[..., :DRIVING]
        a = chain.acceleration(q, v, c)
        _, _, accelerations = couple(q, v, a, c)
        return accelerations

    def weigh(self, q: Tensor, u: Tensor, c: Tensor) -> Tensor:
        """M(q) u with the inertia of the four links in kg m²; the coupled angles carry none."""
        mass = chain.mass_matrix(q[..., :DRIVING], c)
        weighed = mass @ u[..., :DRIVING, :]
        return torch.nn.functional.pad(weighed, (0, 0, 0, STATE_SIZE - DRIVING))

    def energy(
        self, context: Tensor | float | None = None, **named: object
    ) -> Callable[[Tensor, Tensor], Tensor]:
        """(q, q̇) -> energy (...) of the four links in J, with the context bound. Zero at rest
        hanging down.
        """
        c = bound_context(self.context_names, context, named)

        def energy(q: Tensor, v: Tensor) -> Tensor:
            lengths = align(c.to(q), q)
            return chain.energy(q[..., :DRIVING], v[..., :DRIVING], lengths)

        return energy

    def initial_state(self, contexts: Tensor, rng: Generator | None) -> Tensor:
        shape = (*contexts.shape[:-1], DRIVING)
        degrees = np.full(shape, 15.0)
        if rng is not None:
            degrees = rng.uniform(0.0, 30.0, size=shape)
        q = torch.from_numpy(np.deg2rad(degrees)).to(contexts)
        still = torch.zeros_like(q)
        angles, _, _ = couple(q, still, still, contexts)
        return angles

    def train_contexts(self, rng: Generator) -> Array:
        """100 sets of lengths, uniform over the range."""
        return rng.uniform(*ends_of(self.context), size=(100, DRIVING))

    def test_contexts(self) -> Array:
        """All 256 combinations of four lengths per link."""
        lengths = [0.35, 0.45, 0.55, 0.65]
        return np.array(list(itertools.product(lengths, repeat=DRIVING)))

    def default_solver(self, context: Tensor | ContextFunction) -> Solver:
        assert isinstance(context, Tensor)  # that stays
        if not bool((context > 0).all()):
            raise InputError(
                "context",
                expected="positive link lengths in m",
                got=f"{context.min().item():g}",
                fix="check the lengths",
            )
        lengths = context.reshape(-1, DRIVING)

        def models(step: float) -> list[Any]:
            return [compile_chain(row, step) for row in lengths.tolist()]

        def driving(y: Array) -> ArrayPair:
            q, v = np.split(y, 2, axis=-1)
            return q[:, :DRIVING], v[:, :DRIVING]

        def states(q: Array, v: Array) -> Array:
            angles, velocities = torch.from_numpy(q), torch.from_numpy(v)
            rest = torch.zeros_like(velocities)
            angles, velocities, _ = couple(angles, velocities, rest, align(lengths, angles))
            return torch.cat([angles, velocities], dim=-1).numpy()

        return Simulator("MuJoCo RK4", self.dt, models, driving, states)
