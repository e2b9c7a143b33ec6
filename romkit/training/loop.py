"""The training loop: one stack of seeds, one functional step, top to bottom."""

import math
import time
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.errors import DivergenceWarning
from romkit.progress import track
from romkit.projections import Projection
from romkit.training.flat import FlatParameters
from romkit.training.loss import Objective
from romkit.training.optimizers import Adam, State
from romkit.training.order import batches
from romkit.training.recipes import Recipe

WARMUP = 0.01
"""Share of the steps over which the learning rate rises to its peak."""


class Batchable(NamedTuple):
    """Snapshots in network coordinates on the training device: states y and velocities dy (N, n), contexts c (N, p)."""

    y: Tensor
    dy: Tensor
    c: Tensor


class History(NamedTuple):
    """What a run leaves: mean loss per epoch (epochs, S), whether each seed is alive (S,), and the wall time in s."""

    losses: Tensor
    alive: Tensor
    seconds: float


def train(stacked: Projection, data: Batchable, recipe: Recipe, seeds: Sequence[int], *, compiled: bool) -> History:
    """Trains all seeds of `stacked` in place.

    Args:
        stacked: projection with a leading seed axis of len(seeds).
        data: all snapshots; each seed draws its own batches from them.
        recipe: settings.
        seeds: seed s determines the order of its data, whatever its neighbours are.
        compiled: run the step through torch.compile, which takes about half a minute to start.
    """
    started = time.perf_counter()
    flat = FlatParameters(stacked)
    objective = Objective(
        stacked,
        velocity_weight=recipe.velocity_weight,
        penalty_weight=recipe.penalty_weight,
        balance=recipe.balance,
    )
    optimizer = Adam(clip=recipe.clip, weight_decay=recipe.weight_decay)
    step = optimizer.make_step(flat.bind(objective), flat)
    if compiled:
        step = torch.compile(step, dynamic=False)
    state = optimizer.start(flat.read(), flat)
    per_epoch = max(1, len(data.y) // recipe.batch_size)
    losses = []
    progress = track(range(recipe.epochs), f"training {stacked.name}")
    for epoch in progress:
        total = 0.0
        for index, batch in enumerate(batches(seeds, epoch, len(data.y), recipe.batch_size)):
            batch = batch.to(data.y.device)
            lr = _learning_rate(recipe, epoch * per_epoch + index, recipe.epochs * per_epoch)
            state, loss = step(state, data.y.new_tensor(lr), *(tensor[batch] for tensor in data))
            total = total + loss
        losses.append(total / per_epoch)
        _report_divergence(state, seeds, epoch, losses)
        progress.set_postfix(loss=f"{losses[-1].median().item():.3g}", refresh=False)
    flat.write(state.theta)
    return History(torch.stack(losses).cpu(), state.alive.squeeze(1).cpu(), time.perf_counter() - started)


def _learning_rate(recipe: Recipe, step: int, steps: int) -> float:
    rise = max(1, round(WARMUP * steps))
    if step < rise:
        return recipe.learning_rate * (step + 1) / rise
    return recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))


def _report_divergence(state: State, seeds: Sequence[int], epoch: int, losses: list[Tensor]) -> None:
    now = ~losses[-1].isfinite()
    new = now if len(losses) == 1 else now & losses[-2].isfinite()
    if bool(new.any()):
        lost = ", ".join(str(seed) for seed, gone in zip(seeds, new.tolist(), strict=True) if gone)
        warnings.warn(
            f"seed {lost} diverged in epoch {epoch}; its last finite parameters are kept",
            DivergenceWarning,
            stacklevel=3,
        )
