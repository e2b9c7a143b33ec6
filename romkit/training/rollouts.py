"""Refinement by rollouts: latent trajectories in the loss.

A reconstruction error of one per cent changes the speed along an attractor by about as much, and a
phase error grows with time. Only a trajectory shows it. So after training on snapshots, the
projection is refined on

    L_snapshots + w · mean over windows and times of ‖y(t) - φ(z(t))‖²,    ż = latent field,  z(0) = ρ(y(0)),

first over short windows, then over longer ones: over long ones alone, early phase errors exceed a
turn, and the loss says nothing. The trajectories are RK4's, differentiated step by step.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
import xarray as xr
from torch import Tensor, nn

from romkit.core import checks
from romkit.core.boundary import Count, Positive, Share, validated
from romkit.core.errors import InputError
from romkit.data import even_step
from romkit.data.trajectories import whole_trajectories
from romkit.engine.inductor import compile_anew
from romkit.integrators import DYNAMICS, LatentField
from romkit.projections import Path, Projection
from romkit.solvers.fixed import step as rk4_step
from romkit.systems import System
from romkit.training.batches import AnyBatch, FlatParameters
from romkit.training.loop import Reports, by_seed, train
from romkit.training.loss import Objective
from romkit.training.optimizers import Adam, Cosine

CLIP = 1.0
"""Largest norm of a seed's gradient, which grows with the length of the windows."""

FIRST_LENGTH = 10
"""Steps of the windows at the beginning."""

GROWTH = 0.5
"""Share of the refinement after which windows have their full length."""

BOUND = 20.0
"""Latent coordinates, of order one, are kept within this, so that a bad trajectory gives a finite
loss; and rates of a mechanical system within so many times those of the data."""

FIELDS = tuple(name for name, dynamics in DYNAMICS.items() if issubclass(dynamics, LatentField))
FieldName = Annotated[str, checks.choice(FIELDS)]
"""Dynamics that can be trained for: those that have a latent field, without a fit."""


@validated
@dataclass(frozen=True)
class RolloutTraining:
    """Settings of a refinement by rollouts.

    Attributes:
        steps: optimizer steps.
        length: RK4 steps of the longest windows, as far as trajectories are as long.
        every: samples of the dataset per RK4 step.
        batch: windows per optimizer step.
        weight: w.
        learning_rate: of Adam at the start, with half a cosine down to zero.
        dynamics: a name from `romkit.integrators.DYNAMICS` whose latent field is followed.

    Example:
        >>> from romkit.presets import quick
        >>> from romkit.training import RolloutTraining
        >>> recipe = quick("lorenz96", "ncae").with_settings({"rollouts": RolloutTraining(steps=30, length=120)})
        >>> recipe.needs_system  # a preset for romkit.fit
        True
        >>> recipe.rollouts.window(0.0, samples=500), recipe.rollouts.window(0.9, samples=500)  # windows grow
        (10, 120)
    """

    steps: Count = 300
    length: Count = 300
    every: Count = 10
    batch: Count = 30
    weight: Positive = 1.0
    learning_rate: Positive = 1e-3
    dynamics: FieldName = "petrov-galerkin"

    @validated
    def window(self, progress: Share, samples: Count) -> int:
        """RK4 steps of the windows at `progress` in [0, 1) of the refinement, for trajectories of
        `samples`.
        """
        return min(self.length, samples - 1, FIRST_LENGTH + int(self.length * progress / GROWTH))


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
        state, velocity, context = (
            tensor.to(like) for tensor in whole_trajectories(data, every=every)
        )
        if state.shape[1] <= FIRST_LENGTH:
            expected, got = (
                f"one that leaves more than {FIRST_LENGTH} samples",
                f"one that leaves {state.shape[1]}",
            )
            fix = "choose a smaller one, or simulate longer trajectories, dataset(duration=...)"
            raise InputError("rollouts.every", expected=expected, got=got, fix=fix)
        step = even_step(data["time"].values[::every])
        if step is None:
            fix = "train on snapshots alone (rollouts=None, phase=None), or resample the data"
            raise InputError(
                "data", expected="evenly spaced times for rollouts", got="uneven steps", fix=fix
            )
        if not torch.equal(context, context[:, :1].expand_as(context)):
            fix = "train on snapshots alone (rollouts=None, phase=None)"
            raise InputError(
                "data", expected="contexts that stay for rollouts", got="one that moves", fix=fix
            )
        return cls(state, velocity, context[:, 0], step)


class Advance(nn.Module):
    """One RK4 step of length h of the latent state, whose rates are of the order of `speed`."""

    def __init__(
        self, projection: Projection, system: System, dynamics: LatentField, h: float, speed: float
    ):
        super().__init__()
        self.projection, self.system, self.dynamics, self.h, self.speed = (
            projection,
            system,
            dynamics,
            h,
            speed,
        )

    def forward(self, w: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Latent state (S, B, k) after a step, and its decoded state (S, B, n)."""
        P = self.projection.operator(c)
        problem = self.system.problem(Path.constant(P), c)
        w = rk4_step(self.dynamics.field(problem), w.new_zeros(()), w, self.h)
        bounds = (BOUND, BOUND * self.speed)
        z, *rates = (
            part.clamp(-most, most) for part, most in zip(problem.split(w), bounds, strict=False)
        )
        return problem.join(z, *rates), P.decode(z)


class Start(nn.Module):
    """The latent state that rollouts start at."""

    def __init__(self, projection: Projection, system: System, dynamics: LatentField):
        super().__init__()
        self.projection, self.system, self.dynamics = projection, system, dynamics

    def forward(self, x: Tensor, v: Tensor, c: Tensor) -> Tensor:
        problem = self.system.problem(Path.constant(self.projection.operator(c)), c)
        return self.dynamics.start(problem, x.new_zeros(()), (x, v)[: problem.order])


def latent_steps(
    flat: FlatParameters, system: System, dynamics: str, data: EvenTrajectories, *, compiled: bool
) -> tuple[Callable[..., Tensor], Callable[..., tuple[Tensor, Tensor]]]:
    """`Start` and `Advance` of dynamics, by their name, as functions of all parameters (S, P) of a
    stack.
    """
    followed, scale = DYNAMICS[dynamics](), flat.stacked.frame.state_scale
    speed = (data.velocity / scale.to(data.velocity)).square().mean().sqrt().item()
    advance = flat.function(Advance(flat.stacked, system, followed, data.h, speed))
    start = flat.function(Start(flat.stacked, system, followed))
    return start, compile_anew(
        advance, next(flat.stacked.parameters()).device
    ) if compiled else advance


def refine(
    objective: Objective,
    rows: AnyBatch,
    data: xr.Dataset,
    plan: RolloutTraining,
    seeds: Sequence[int],
    batch_size: int,
    compiled: bool,
) -> Reports:
    """Refines all seeds of a stack in place and returns what happened to each.

    Args:
        objective: the loss on snapshots, whose projection has a leading seed axis of len(seeds) and
            whose system gives the field at every context, in torch.
        rows: all snapshots.
        data: the dataset they come from.
        plan: settings.
        seeds: seed s determines its windows and batches, whatever its neighbours are.
        batch_size: snapshots per step.
        compiled: compile the latent step, which takes some ten seconds to start.

    Raises:
        InputError: trajectories that are too short.
    """
    stacked = objective.projection
    trajectories = EvenTrajectories.from_dataset(data, plan.every, like=rows.y)
    flat = FlatParameters(stacked)
    start, advance = latent_steps(
        flat, objective.system, plan.dynamics, trajectories, compiled=compiled
    )
    component_weights = plan.weight * objective.component_weights / stacked.frame.state_scale**2
    snapshot_loss, samples = flat.function(objective), trajectories.state.shape[1]

    def loss(theta: Tensor, *tensors: Tensor) -> Tensor:
        *batch, (first, *others), v, context = tensors
        z, errors = start(theta, first, v, context), []
        for state in others:
            z, image = advance(theta, z, context)
            errors.append((state - image).square() @ component_weights)
        return snapshot_loss(theta, *batch) + torch.stack(errors, dim=-1).flatten(1).mean(1)

    def batches(index: int) -> Iterator[tuple[Tensor, ...]]:
        generators = [
            torch.Generator().manual_seed((seed * 1_000_003 + index) % 2**63) for seed in seeds
        ]
        windows = _windows(
            trajectories, plan.window(index / plan.steps, samples), plan.batch, generators
        )
        pick = torch.stack(
            [torch.randint(len(rows.y), (batch_size,), generator=g) for g in generators]
        )
        yield *(tensor[pick.to(tensor.device)] for tensor in rows), *windows

    common = {
        "learning_rate": plan.learning_rate,
        "epochs": plan.steps,
        "seeds": seeds,
        "batches": batches,
    }
    label = f"refining {stacked.name}"
    end, _ = train(
        loss, flat, Adam(clip=CLIP), Cosine(warmup=0.05), **common, per_epoch=1, label=label
    )
    return by_seed(rollout_diverged=~end.state.alive.squeeze(1), rollout_losses=end.losses.T)


def _windows(
    data: EvenTrajectories, length: int, batch: int, generators: Sequence[torch.Generator]
) -> tuple[Tensor, ...]:
    """Draw `batch` windows for each seed, at random times.

    Returns:
        States (L + 1, S, B, n), first velocities (S, B, n) and contexts (S, B, p). Time comes
        first, so that the states of one time have the same strides whatever L is: compiled code
        depends on them.
    """
    count, times = data.state.shape[:2]
    picks, starts = [], []
    for generator in generators:
        order = torch.cat(
            [torch.randperm(count, generator=generator) for _ in range(-(-batch // count))]
        )
        picks.append(order[:batch])
        starts.append(torch.randint(times - length, (batch,), generator=generator))
    pick, start = (torch.stack(t).to(data.state.device) for t in (picks, starts))
    along = start + torch.arange(length + 1, device=start.device)[:, None, None]
    return data.state[pick, along], data.velocity[pick, start], data.context[pick]
