"""Steps of the latent state of a stack along trajectories, as functions of all its parameters."""

from collections.abc import Callable
from typing import Annotated, NamedTuple, cast

import torch
import xarray as xr
from torch import Tensor, nn

from romkit.core import checks
from romkit.core.errors import InputError
from romkit.core.types import Pair, TensorFunction
from romkit.data import even_step
from romkit.data.trajectories import whole_trajectories
from romkit.engine.inductor import compile_anew
from romkit.integrators import DYNAMICS, LatentField
from romkit.projections import Path, Projection
from romkit.solvers.fixed import step as rk4_step
from romkit.systems import System
from romkit.training.batches import FlatParameters

FIRST_LENGTH = 10
"""Steps of the shortest windows along trajectories."""

FIELDS = tuple(name for name, dynamics in DYNAMICS.items() if issubclass(dynamics, LatentField))
FieldName = Annotated[str, checks.choice(FIELDS)]
"""Dynamics that can be trained for: those that have a latent field, without a fit."""


class EvenTrajectories(NamedTuple):
    """States and velocities (C, T, n) of a dataset, contexts (C, p), and the RK4 step between them,
    physical units.
    """

    state: Tensor
    velocity: Tensor
    context: Tensor
    h: float

    @classmethod
    def from_dataset(cls, data: xr.Dataset, every: int, like: Tensor) -> "EvenTrajectories":
        """Every `every`-th sample, with dtype and device of `like`.

        Raises:
            InputError: too few are left, or times are not evenly spaced.
        """
        trajectories = whole_trajectories(data, every=every)
        state, velocity, context = (tensor.to(like) for tensor in trajectories)
        if state.shape[1] <= FIRST_LENGTH:
            raise InputError(
                "rollouts.every",
                expected=f"one that leaves more than {FIRST_LENGTH} samples",
                got=f"one that leaves {state.shape[1]}",
                fix="choose a smaller one, or simulate longer trajectories, dataset(duration=...)",
            )
        step = even_step(data["time"].values[::every])
        if step is None:
            raise InputError(
                "data",
                expected="evenly spaced times for rollouts",
                got="uneven steps",
                fix="train on snapshots alone (rollouts=None, phase=None), or resample the data",
            )
        at_start = context[:, :1].expand_as(context)
        if not torch.equal(context, at_start):
            raise InputError(
                "data",
                expected="constant contexts for rollouts",
                got="one that moves",
                fix="train on snapshots alone (rollouts=None, phase=None)",
            )
        return cls(state, velocity, context[:, 0], step)


class Advance(nn.Module):
    """One RK4 step of length h of the latent state, whose rates are of the order of `speed`."""

    def __init__(
        self, projection: Projection, system: System, dynamics: LatentField, h: float, speed: float
    ):
        super().__init__()
        self.projection = projection
        self.system = system
        self.dynamics = dynamics
        self.h = h
        self.speed = speed

    def forward(self, w: Tensor, c: Tensor) -> Pair:
        """Latent state (S, B, k) after a step, and its decoded state (S, B, n)."""
        P = self.projection.operator(c)
        problem = self.system.problem(Path.constant(P), c)
        field, t = self.dynamics.field(problem), w.new_zeros(())
        w = rk4_step(field, t, w, self.h)
        # clamped, not refused: a window that is lost still has a loss, and a gradient of zero
        z, *rates = problem.split(w)
        bound = 20.0  # latent coordinates are of order one
        z = z.clamp(-bound, bound)
        fastest = bound * self.speed
        rates = [rate.clamp(-fastest, fastest) for rate in rates]
        return problem.join(z, *rates), P.decode(z)


class Start(nn.Module):
    """The latent state that rollouts start at."""

    def __init__(self, projection: Projection, system: System, dynamics: LatentField):
        super().__init__()
        self.projection = projection
        self.system = system
        self.dynamics = dynamics

    def forward(self, x: Tensor, v: Tensor, c: Tensor) -> Tensor:
        problem = self.system.problem(Path.constant(self.projection.operator(c)), c)
        return self.dynamics.start(problem, x.new_zeros(()), (x, v)[: problem.order])


def latent_steps(
    flat: FlatParameters, system: System, dynamics: str, data: EvenTrajectories, *, compiled: bool
) -> tuple[TensorFunction, Callable[..., Pair]]:
    """`Start` and `Advance` of dynamics, by their name, as functions of all parameters (S, P) of a
    stack.
    """
    followed = DYNAMICS[dynamics]()
    assert isinstance(followed, LatentField)  # as those of rollouts in training
    scale = flat.stacked.frame.state_scale.to(data.velocity)
    speed = (data.velocity / scale).square().mean().sqrt().item()
    advance = flat.function(Advance(flat.stacked, system, followed, data.h, speed))
    start = flat.function(Start(flat.stacked, system, followed))
    if compiled:
        advance = compile_anew(advance, next(flat.stacked.parameters()).device)
    return start, cast("Callable[..., Pair]", advance)
