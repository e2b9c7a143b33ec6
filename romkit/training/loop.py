"""The training loop of a stack of seeds."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.errors import DivergenceWarning, warn
from romkit.core.runtime import track
from romkit.core.types import TensorFunction, TensorTuple
from romkit.training.batches import AnyBatch, FlatParameters
from romkit.training.checkpoint import Checkpoint, Snapshot
from romkit.training.optimizers import Loss, Optimizer, Step, TorchOptimizer
from romkit.training.schedules import Plateaus, Schedule
from romkit.training.watch import Best, Epoch, Watch, exhausted


def validation_loss(
    loss: TensorFunction, theta: Tensor, rows: AnyBatch, *, at_once: int = 1024
) -> Tensor:
    """(S,) mean loss over held-out rows (N, ...)."""
    number, seeds = len(rows.y), len(theta)
    total = torch.zeros(seeds, dtype=theta.dtype, device=theta.device)
    with torch.no_grad():
        for chunk in zip(*(tensor.split(at_once) for tensor in rows), strict=True):
            # all seeds see the same rows, as views of one copy
            batch = [tensor.unsqueeze(0).expand(seeds, *tensor.shape) for tensor in chunk]
            total = total + loss(theta, *batch) * (len(chunk[0]) / number)
    return total


def train(
    loss: Loss,
    flat: FlatParameters,
    optimizer: Optimizer | TorchOptimizer,
    schedule: Schedule,
    *,
    learning_rate: float,
    epochs: int,
    batches: Callable[[int], Iterable[TensorTuple]],
    per_epoch: int,
    seeds: Sequence[int],
    label: str,
    accelerated: Callable[[Step], Step] | None = None,
    checkpoint: Checkpoint | None = None,
    watch: Watch | None = None,
    held_out: AnyBatch | None = None,
) -> tuple[Snapshot, float]:
    """Train all seeds of a stack in place, and leave them at their best on held-out data, where
    there are some.

    Args:
        loss: of theta (S, P) and a batch, (S,).
        flat: parameters of the stack.
        optimizer: makes the steps.
        schedule: of the learning rate.
        learning_rate: highest rate of the schedule.
        epochs: number of epochs.
        batches: batches of an epoch, `per_epoch` of them.
        per_epoch: number of batches in an epoch.
        seeds: numbers of the seeds, for messages.
        label: of the progress bar.
        accelerated: makes an optimizer step faster, of `romkit.engine.captured`.
        checkpoint: file where the run is saved, and resumed from if it was interrupted.
        watch: callback, log and early end.
        held_out: snapshots for validation.

    Returns:
        The end of the run, and the seconds that it took.
    """
    started = time.perf_counter()
    step = optimizer.make_step(loss, flat)
    if accelerated is not None:
        step = accelerated(step)
    epoch_of = EpochOfSteps(step, optimizer, schedule, learning_rate, epochs, per_epoch)
    # the run before its first epoch
    theta = flat.read()
    losses = theta.new_zeros(0, len(theta))
    state = optimizer.start(theta, flat)
    run = Snapshot(state, Plateaus.start(theta), losses, Best.start(theta, (held_out is not None)))
    if checkpoint is not None:
        run = checkpoint.load(run)
    ended = _has_ended(run, checkpoint, watch)
    resumed = len(run.losses)
    remaining = range(0) if ended else range(resumed, epochs)
    progress = track(remaining, label)
    for epoch in progress:
        alive = run.state.alive
        run = epoch_of.after(run, epoch, batches(epoch))
        _warn_lost(alive & ~run.state.alive, seeds, epoch)
        progress.set_postfix(loss=f"{run.losses[-1].median().item():.3g}", refresh=False)
        if held_out is not None:
            validation = validation_loss(loss, run.state.theta, held_out)
            run = run._replace(best=run.best.after(epoch, run.state.theta, validation))
        if checkpoint is not None:
            checkpoint.save_if_due(run)
        ended = watch is not None and watch.ends(_report(run, epoch, epochs), run.best)
        if ended:
            break
    # also when none was due: the end of a run is what a later call goes on from
    if checkpoint is not None:
        checkpoint.ended = ended
        checkpoint.save(run)
    if held_out is None:
        flat.write(run.state.theta)
    else:
        flat.write(run.best.theta)
    return run, time.perf_counter() - started


def _has_ended(run: Snapshot, checkpoint: Checkpoint | None, watch: Watch | None) -> bool:
    """Tell whether a run that is resumed had been ended by its watch, or would be by this one."""
    if checkpoint is not None and checkpoint.ended:
        return True
    if watch is None:
        return False
    return exhausted(watch.patience, len(run.losses) - 1, run.best)


class EpochOfSteps(NamedTuple):
    """The steps of an epoch.

    Attributes:
        step: of the optimizer.
        optimizer: of which the state changes between steps, too.
        schedule: of the learning rate.
        learning_rate: highest rate of the schedule.
        epochs: number of epochs of the run.
        per_epoch: number of steps in an epoch.
    """

    step: Step
    optimizer: Optimizer | TorchOptimizer
    schedule: Schedule
    learning_rate: float
    epochs: int
    per_epoch: int

    def after(self, run: Snapshot, epoch: int, batches: Iterable[TensorTuple]) -> Snapshot:
        """Return the run after an epoch over these batches."""
        state, plateaus = run.state, run.plateaus
        total = torch.zeros_like(plateaus.best)
        for index, batch in enumerate(batches):
            progress = (epoch + index / self.per_epoch) / self.epochs
            rates = self.learning_rate * self.schedule.factors(progress, plateaus)
            state = self.optimizer.between(state, epoch * self.per_epoch + index)
            state, values = self.step(state, rates, *batch)
            total = total + values
        mean = total / self.per_epoch
        plateaus = self.schedule.observe(plateaus, mean)
        losses = torch.cat([run.losses, mean.unsqueeze(0)])
        return Snapshot(state, plateaus, losses, run.best)


def _warn_lost(lost: Tensor, seeds: Sequence[int], epoch: int) -> None:
    """Warn of the seeds (S, 1) whose parameters ceased to be finite in an epoch."""
    numbers = [
        str(seed) for seed, is_lost in zip(seeds, lost.squeeze(1).tolist(), strict=True) if is_lost
    ]
    if numbers:
        text = f"seed {', '.join(numbers)} diverged in epoch {epoch}"
        warn(f"{text}; its last finite parameters are kept", DivergenceWarning)


def _report(run: Snapshot, epoch: int, epochs: int) -> Epoch:
    """Return argument of the watch after an epoch."""
    validation = None
    if len(run.best.losses):
        validation = run.best.losses[-1]
    return Epoch(epoch, epochs, run.losses[-1], validation)


Reports = list[dict[str, object]]
"""Facts about each seed by name."""


def seed_reports(**columns: Tensor) -> Reports:
    """Return reports from tensors with a leading seed axis."""
    values = [column.tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
