"""Refinement by rollouts: latent trajectories in the loss.

A reconstruction error of one per cent changes the speed along an attractor by about as much, and a
phase error grows with time. Only a trajectory shows it. So after training on snapshots, the
projection is refined on

    L_snapshots + w · mean over windows and times of ‖y(t) - φ(z(t))‖²,    ż = latent field,  z(0) = ρ(y(0)),

first over short windows, then over longer ones: over long ones alone, early phase errors exceed a
turn, and the loss says nothing. The trajectories are RK4's, differentiated step by step.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core.boundary import Count, Positive, Share, validated
from romkit.core.types import TensorTuple
from romkit.data import DIMS, times_of
from romkit.data.context import context_matrix
from romkit.engine.threads import one_thread
from romkit.integrators import Galerkin, LatentField, PetrovGalerkin
from romkit.integrators.contracted import contracted
from romkit.numerics import LOST
from romkit.projections import Operator, Path
from romkit.solvers import Adaptive
from romkit.systems import System
from romkit.training.batches import AnyBatch, FlatParameters, seed_generators
from romkit.training.latent import FIRST_LENGTH, EvenTrajectories, FieldName, latent_steps
from romkit.training.loop import Reports, seed_reports, train
from romkit.training.loss import Objective
from romkit.training.optimizers import Adam
from romkit.training.schedules import Cosine


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
        >>> recipe = quick("lorenz96", "ncae").replace_settings({"rollouts": RolloutTraining(steps=30, length=120)})
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
        grown = FIRST_LENGTH + int(self.length * progress / 0.5)
        return min(self.length, samples - 1, grown)


def refine(
    objective: Objective,
    rows: AnyBatch,
    data: xr.Dataset,
    plan: RolloutTraining,
    seeds: Sequence[int],
    batch_size: int,
    compiled: bool,
    *,
    clip: float = 1.0,
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
        clip: largest norm of a seed's gradient, which grows with the length of the windows.

    Raises:
        InputError: trajectories that are too short.
    """
    stacked = objective.projection
    trajectories = EvenTrajectories.from_dataset(data, plan.every, like=rows.y)
    flat = FlatParameters(stacked)
    assert objective.system is not None  # whose equations the rollouts solve
    start, advance = latent_steps(
        flat, objective.system, plan.dynamics, trajectories, compiled=compiled
    )
    component_weights = plan.weight * objective.component_weights / stacked.frame.state_scale**2
    snapshot_loss = flat.function(objective)
    samples = trajectories.state.shape[1]

    def loss(theta: Tensor, *tensors: Tensor) -> Tensor:
        *batch, (initial, *further), v, context = tensors
        z = start(theta, initial, v, context)
        errors = []
        for state in further:
            z, image = advance(theta, z, context)
            errors.append((state - image).square() @ component_weights)
        window_steps = torch.stack(errors, dim=-1).flatten(1)
        return snapshot_loss(theta, *batch) + window_steps.mean(1)

    def batches(index: int) -> Iterator[TensorTuple]:
        generators = seed_generators(seeds, index)
        # short at first: where a phase error exceeds a turn, the loss says nothing of it
        length = plan.window(index / plan.steps, samples)
        windows = _windows(trajectories, length, plan.batch, generators)
        numbers = [
            torch.randint(len(rows.y), (batch_size,), generator=generator)
            for generator in generators
        ]
        pick = torch.stack(numbers)  # (S, batch_size)
        yield *(tensor[pick.to(tensor.device)] for tensor in rows), *windows

    end, _ = train(
        loss,
        flat,
        Adam(clip=clip),
        Cosine(warmup=0.05),
        learning_rate=plan.learning_rate,
        epochs=plan.steps,
        seeds=seeds,
        batches=batches,
        per_epoch=1,
        label=f"refining {stacked.name}",
    )
    return seed_reports(rollout_diverged=~end.state.alive.squeeze(1), rollout_losses=end.losses.T)


def _windows(
    data: EvenTrajectories, length: int, batch: int, generators: Sequence[torch.Generator]
) -> TensorTuple:
    """Draw `batch` windows for each seed, at random times.

    Returns:
        States (L + 1, S, B, n), first velocities (S, B, n) and contexts (S, B, p). Time comes
        first, so that the states of one time have the same strides whatever L is: compiled code
        depends on them.
    """
    count, times = data.state.shape[:2]
    picks, starts = [], []
    for generator in generators:
        # as many of every trajectory as of any other, but for one
        rounds = math.ceil(batch / count)
        orders = [torch.randperm(count, generator=generator) for _ in range(rounds)]
        picks.append(torch.cat(orders)[:batch])
        starts.append(torch.randint(times - length, (batch,), generator=generator))
    pick = torch.stack(picks).to(data.state.device)  # (S, B)
    start = torch.stack(starts).to(data.state.device)
    steps = torch.arange(length + 1, device=start.device)
    along = start + steps[:, None, None]  # (L + 1, S, B)
    return data.state[pick, along], data.velocity[pick, start], data.context[pick]


class LeftOutRollouts:
    """Rollouts by the equations from the first states of runs at contexts that a fit has left out.

    Args:
        data: runs at constant contexts, in the coordinates that the maps see.
        system: of order one, in these coordinates.
    """

    def __init__(self, data: xr.Dataset, system: System):
        self.system = system
        state = data["state"].transpose(*DIMS).values.astype(np.float64)
        self.states = torch.from_numpy(state)  # (C, T, n)
        self.deviation = float(np.nanstd(state, axis=(0, 1)).mean())
        self.contexts = torch.from_numpy(context_matrix(data)).double()
        self.times = torch.as_tensor(times_of(data), dtype=torch.float64)

    def runs_at(self, contexts: Tensor) -> Tensor:
        """Return number (C,) of a run at each context (C, p) whose first state is complete; -1
        where there is none, where contexts move, and for a system of order two.
        """
        if self.system.order != 1 or self.contexts.ndim > 2:
            return torch.full((len(contexts),), -1)
        difference = self.contexts.unsqueeze(0) - contexts.unsqueeze(1)  # (C, runs, p)
        apart = difference.abs().amax(-1)
        lacking = self.states[:, 0].isnan().any(-1)
        distance, number = torch.where(lacking, torch.inf, apart).min(1)
        is_there = distance <= 1e-6 * contexts.abs().amax().clamp(min=1.0)
        return torch.where(is_there, number, -1)

    def errors(self, operator: Operator, runs: Tensor) -> Tensor:
        """(C,) mean errors over Galerkin's and Petrov-Galerkin's rollouts, each relative to the
        deviation of its run.

        Args:
            operator: P at the contexts (C, p) of the runs.
            runs: (C,) numbers.
        """
        galerkin = self._errors(operator, runs, Galerkin())
        petrov = self._errors(operator, runs, PetrovGalerkin())
        return torch.stack([galerkin, petrov]).mean(0)

    def _errors(self, operator: Operator, runs: Tensor, dynamics: LatentField) -> Tensor:
        c = operator.context
        truth = self.states[runs]  # (C, T, n)
        with torch.no_grad(), one_thread():
            problem = self.system.problem(Path.constant(operator), c)
            # settings are compared by many rollouts, so each is in its cheapest form
            small = contracted(problem, dynamics, self.system.quadratic(c))
            start = dynamics.start(problem, self.times[0], (truth[:, 0],))
            # far below the error of a manifold
            solution = dynamics.solve(small, start, self.times, solver=Adaptive(rtol=1e-5))
            image = operator.decode(solution.states)
        square = (image - truth).square().sum(-1).nanmean(1)  # (C,)
        spread = (truth - truth.nanmean(1, keepdim=True)).square().sum(-1).nanmean(1)
        # a run at rest has no deviation that an error could be relative to
        least = truth.shape[-1] * (1e-3 * self.deviation) ** 2
        error = (square / spread.clamp(min=least)).sqrt()
        lost = (solution.status != 0) | ~error.isfinite()
        return torch.where(lost, LOST, error.clamp(max=LOST))
