"""The 16-DoF pendulum: four swinging links simulated in MuJoCo, and twelve angles coupled to theirs."""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from romkit.boundary import Positive, checked
from romkit.broadcast import align
from romkit.data import ContextParameter
from romkit.problem import Parts
from romkit.solvers import Status
from romkit.solvers.base import cost_of
from romkit.systems import chain
from romkit.systems.base import Motion
from romkit.systems.coupling import DRIVING, couple
from romkit.systems.mechanical import MechanicalSystem
from romkit.systems.mujoco_engine import simulate_chains

STATE_SIZE = 16


@checked
@dataclass(frozen=True)
class Pendulum(MechanicalSystem):
    """Four capsule links (radius 0.05 m, mass 1 kg) of lengths l₁ ... l₄, and twelve angles that follow theirs.

        M(q; l) q̈ + C(q, q̇; l) q̇ + g(q; l) = 0                          for q₁ ... q₄, relative joint angles
        q₅  = q₃ - cos(2l₂ q₂)           q₁₁ = sin(2l₁ q₁)
        q₆  = q₁ + 2l₁ 0.1 sin(2l₂ q₂)   q₁₂ = 2l₃ 0.4 q₃ q₄
        q₇  = q₄ cos(2l₄ q₂)             q₁₃ = -2l₁ 0.9 q₁ - q₂ + q₃ - 2|q₄|^(4l₄)
        q₈  = q₁ + |q₃|^(4l₃)            q₁₄ = -2l₃ 3 sin(q₃)
        q₉  = 2l₂ 1.5 sin(q₂)            q₁₅ = -2|q₃|^(4l₃)
        q₁₀ = -(l₄ + l₁) q₄ q₁           q₁₆ = -0.9|q₁|^(4l₁)

    All links hang straight down at q = 0 and swing in one plane, without friction or contacts, from rest. Training
    lengths are random and so are the initial angles, 0° to 30°; in the test set and at contexts given by the user
    all four start at 15°. `simulate` runs MuJoCo with RK4; `acceleration` is the same physics in closed form.
    Only the first four components of an initial state or velocity are free, the others follow from them.

    Args:
        dt: step of the RK4 integration, and sampling interval, in s.
        duration: length of the recorded trajectories, in s.
        horizon: default length of a rollout, in s.

    What you should see: root mean square angle 0.39 rad (train) and 0.35 rad (test), velocity 2.1 and 1.4 rad/s;
    accelerations with a sharp peak wherever q₁, q₃ or q₄ changes sign and its link is shorter than 0.5 m.
    Source: Adriaens et al. (2026), appendix "16-DoF pendulum"; coupling of Friedl et al. (2025) at l = 0.5 m.

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
    simulator = "MuJoCo RK4"
    time_units = "s"
    state_names = tuple(f"q{k}" for k in range(1, STATE_SIZE + 1))
    state_units = ("rad",) * STATE_SIZE
    context = tuple(ContextParameter(f"l{k}", "m", 0.35, 0.65, f"length of link {k}") for k in range(1, DRIVING + 1))

    def acceleration(self, t: Tensor, q: Tensor, v: Tensor, c: Tensor) -> Tensor:
        """q̈ (..., 16) from the first four components of q and q̇.

        Integrating all sixteen is inaccurate where l < 0.5 m: a step across the unbounded acceleration at qᵢ = 0
        kicks the coupled angles. `simulate` integrates four and derives the others from them.
        """
        q, v = q[..., :DRIVING], v[..., :DRIVING]
        return couple(q, v, chain.acceleration(q, v, c), c)[2]

    def weigh(self, q: Tensor, u: Tensor, c: Tensor) -> Tensor:
        """M(q) u with the inertia of the four links in kg m²; the coupled angles carry none."""
        weighed = chain.mass_matrix(q[..., :DRIVING], c) @ u[..., :DRIVING, :]
        return torch.nn.functional.pad(weighed, (0, 0, 0, STATE_SIZE - DRIVING))

    def energy(self, context: Tensor | float | None = None, **named: object) -> Callable[[Tensor, Tensor], Tensor]:
        """(q, q̇) -> energy (...) of the four links in J, with the context bound. Zero at rest hanging down."""
        c = self._context_tensor(context, named)

        def total(q: Tensor, v: Tensor) -> Tensor:
            return chain.energy(q[..., :DRIVING], v[..., :DRIVING], align(c.to(q), q))

        return total

    def initial_state(self, contexts: Tensor, rng: np.random.Generator | None) -> Tensor:
        shape = (*contexts.shape[:-1], DRIVING)
        degrees = np.full(shape, 15.0) if rng is None else rng.uniform(0.0, 30.0, size=shape)
        q = torch.from_numpy(np.deg2rad(degrees)).to(contexts)
        return couple(q, torch.zeros_like(q), torch.zeros_like(q), contexts)[0]

    def train_contexts(self, rng: np.random.Generator) -> np.ndarray:
        """100 sets of lengths, uniform over the range."""
        return rng.uniform(*self._ranges(), size=(100, DRIVING))

    def test_contexts(self) -> np.ndarray:
        """All 256 combinations of four lengths per link."""
        return np.array(list(itertools.product([0.35, 0.45, 0.55, 0.65], repeat=DRIVING)))

    def _simulate(self, parts: Parts, context: Tensor, times: Tensor, engine: str, label: str) -> Motion:
        q0, v0 = parts
        inputs = [x[..., :DRIVING].double().cpu() for x in (q0, v0, align(context, q0))]
        lead = torch.broadcast_shapes(*(x.shape[:-1] for x in inputs))
        rows = [x.expand(*lead, DRIVING).reshape(-1, DRIVING) for x in inputs]
        started = time.perf_counter()
        q, v, alive = map(
            torch.from_numpy,
            simulate_chains(
                *(x.numpy() for x in rows),
                times.double().cpu().numpy(),
                self.dt,
                threads=torch.get_num_threads(),
                label=label,
            ),
        )
        cost = cost_of(f"MuJoCo RK4(dt={self.dt:g})", "MuJoCo", 0.0, time.perf_counter() - started)
        lengths = align(rows[-1], q)
        motion = couple(q, v, chain.acceleration(q, v, lengths), lengths)
        status = torch.where(alive[:, -1], Status.COMPLETED, Status.DIVERGED).to(torch.int8)
        recorded = [torch.where(alive.unsqueeze(-1), x, torch.nan).reshape(*lead, *x.shape[1:]).to(q0) for x in motion]
        return Motion(*recorded, status.reshape(lead).to(q0.device), cost)
