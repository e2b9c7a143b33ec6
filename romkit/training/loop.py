"""The training loop: one stack of seeds, one functional step, top to bottom."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.errors import DivergenceWarning, warn
from romkit.progress import track
from romkit.training.checkpoint import Checkpoint, Snapshot
from romkit.training.flat import FlatParameters
from romkit.training.loss import Objective
from romkit.training.optimizers.base import Step
from romkit.training.pipeline import AnyBatch, batches, batches_per_epoch
from romkit.training.recipe import Snapshots
from romkit.training.schedules import SCHEDULES, Plateaus
from romkit.training.watch import Best, Epoch, Watch, exhausted, held_out_loss


class History(NamedTuple):
    """What a run leaves: mean loss per epoch (epochs, S), whether each seed is alive (S,), and the wall time in s.

    `best` has the losses on held-out data.
    """

    losses: Tensor
    alive: Tensor
    seconds: float
    best: Best


def train(
    objective: Objective,
    rows: AnyBatch,
    plan: Snapshots,
    seeds: Sequence[int],
    *,
    accelerated: Callable[[Step], Step] | None,
    checkpoint: Checkpoint | None,
    watch: Watch,
    held_out: AnyBatch | None,
) -> History:
    """Trains all seeds of a stack in place, and leaves them at their best on held-out data, where there are some.

    Args:
        objective: the loss, whose projection has a leading seed axis of len(seeds).
        rows: all snapshots; each seed draws its own batches from them.
        plan: settings.
        seeds: seed s determines the order of its data, whatever its neighbours are.
        accelerated: what makes an optimizer step faster, of `romkit.engine.fast_path`.
        checkpoint: where the run is saved, and resumed from if it was interrupted.
        watch: who is told, and when training ends early.
        held_out: snapshots for validation.
    """
    started = time.perf_counter()
    stacked = objective.projection
    flat = FlatParameters(stacked)
    optimizer, schedule, noise = plan.make_optimizer(), SCHEDULES[plan.schedule], plan.make_noise(stacked.normalization)
    loss_of = flat.function(objective)
    step = optimizer.make_step(loss_of, flat)
    if accelerated is not None:
        step = accelerated(step)
    theta = flat.read()
    best = Best.start(theta, held_out is not None)
    run = Snapshot(optimizer.start(theta, flat), Plateaus.start(theta), theta.new_zeros(0, len(seeds)), best)
    if checkpoint is not None:
        run = checkpoint.load(run)
    state, plateaus, losses, best = run
    per_epoch = batches_per_epoch(len(rows.y), plan.batch_size)
    over = exhausted(watch.patience, len(losses) - 1, best)  # a run that had ended
    progress = track(range(len(losses), len(losses) if over else plan.epochs), f"training {stacked.name}")
    for epoch in progress:
        alive, total = state.alive, torch.zeros_like(plateaus.best)
        for index, batch in enumerate(batches(rows, seeds, epoch, plan.batch_size, noise)):
            rates = plan.learning_rate * schedule.factors((epoch + index / per_epoch) / plan.epochs, plateaus)
            state, loss = step(optimizer.between(state, epoch * per_epoch + index), rates, *batch)
            total = total + loss
        plateaus = schedule.observe(plateaus, total / per_epoch)
        losses = torch.cat([losses, total.unsqueeze(0) / per_epoch])
        _report_divergence(alive & ~state.alive, seeds, epoch)
        progress.set_postfix(loss=f"{losses[-1].median().item():.3g}", refresh=False)
        if held_out is not None:
            best = best.after(epoch, state.theta, held_out_loss(loss_of, state.theta, held_out))
        if checkpoint is not None:
            checkpoint.save_if_due(Snapshot(state, plateaus, losses, best))
        if watch.ends(Epoch(epoch, plan.epochs, losses[-1], best.losses[-1] if len(best.losses) else None), best):
            break
    if checkpoint is not None:
        checkpoint.save(Snapshot(state, plateaus, losses, best))
    flat.write(state.theta if held_out is None else best.theta)
    return History(losses.cpu(), state.alive.squeeze(1).cpu(), time.perf_counter() - started, best)


def _report_divergence(newly: Tensor, seeds: Sequence[int], epoch: int) -> None:
    lost = [str(seed) for seed, gone in zip(seeds, newly.squeeze(1).tolist(), strict=True) if gone]
    if lost:
        message = f"seed {', '.join(lost)} diverged in epoch {epoch}; its last finite parameters are kept"
        warn(message, DivergenceWarning)
