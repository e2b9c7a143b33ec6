"""The training loop of a stack of seeds: held-out data, the best parameters, an early end, and
checkpoints.
"""

import hashlib
import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
import xarray as xr
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_structure, tree_unflatten

from romkit.core import files
from romkit.core.boundary import Count, Natural, Share, validated
from romkit.core.errors import DivergenceWarning, FileError, InputError, warn
from romkit.core.runtime import track
from romkit.data import check_dataset, context_names, split
from romkit.data.layout import component_names
from romkit.data.trajectories import matched
from romkit.data.units import Units
from romkit.data.velocity import needing_velocity
from romkit.training.batches import AnyBatch, FlatParameters
from romkit.training.optimizers import Loss, Optimizer, State, Step, TorchOptimizer
from romkit.training.schedules import Plateaus, Schedule

CHUNK = 1024
"""Held-out snapshots that are evaluated at a time."""

LINES = 20
"""Most lines of a training in the log."""

log = logging.getLogger("romkit.training")


@validated
class Epoch(NamedTuple):
    """Argument of a callback after an epoch: its number, the number of epochs, and the loss of each
    seed (S,).

    `validation` (S,) is the loss on held-out data, None where there are none.

    Example:
        >>> import romkit
        >>> losses = []
        >>> def follow_training(epoch):
        ...     losses.append(epoch.losses.item())
        ...     return epoch.number == 1  # ends training
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> ncae = romkit.fit("ncae", data, latent_dim=2, epochs=50, callback=follow_training, verbose=False)
        >>> len(losses)
        2
    """

    number: Natural
    epochs: Count
    losses: Tensor
    validation: Tensor | None


@validated
@dataclass(frozen=True)
class Watch:
    """Held-out data, early end and messages of the training on snapshots. `romkit.fit` takes these
    names as keywords.

    Attributes:
        validation: share of the trajectories that is held out, by context (`romkit.data.split`), or
            a dataset of them. The report has the loss there after every epoch, and the parameters
            that are kept are the best ones.
        patience: epochs without a better loss on held-out data after which training ends; None for
            never.
        callback: called with an `Epoch` after every epoch; training ends when it returns True, of
            Python, NumPy or torch: `lambda epoch: epoch.losses < 1e-3` ends it when all seeds are
            below.
        verbose: whether there are bars. What happens is logged in any case, as "romkit.training" at
            level INFO.

    Raises:
        InputError: patience without held-out data, or a share that leaves nothing to train on.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.15, 3.16, 3.17, 3.18])
        >>> ncae = romkit.fit("ncae", data, latent_dim=2, epochs=3, validation=0.2, patience=2, verbose=False)
        >>> len(ncae.report["validation_losses"])
        3
    """

    validation: Share | xr.Dataset = 0.0
    patience: Count | None = None
    callback: Callable[[Epoch], object] | None = None
    verbose: bool = True

    def __post_init__(self):
        share = self.validation
        if not isinstance(share, xr.Dataset) and share == 1:
            raise InputError(
                "validation",
                expected="a share below 1, or a dataset",
                got=repr(share),
                fix="give 0.2, say",
            )
        if self.patience is not None and not self.validates:
            raise InputError(
                "patience",
                expected="held-out data to be patient about",
                got="none",
                fix="give validation=0.2, say",
            )

    @property
    def validates(self) -> bool:
        """Whether data are held out."""
        return isinstance(self.validation, xr.Dataset) or self.validation > 0

    @validated
    def divided(self, data: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset | None]:
        """The part of a dataset for training, and the held-out data."""
        if isinstance(self.validation, xr.Dataset):
            held_out = check_dataset(needing_velocity(self.validation))
            names = context_names(data)
            units = Units.of(data, names)
            components = component_names(data)
            return data, matched("validation", held_out, names, components, units)
        if self.validation > 0:
            return split(data, self.validation)
        return data, None

    @validated
    def ends(self, epoch: Epoch, best: "Best") -> bool:
        """Tell whoever wants to know of an epoch; whether training ends with it."""
        is_last = epoch.number == epoch.epochs - 1
        between_lines = max(1, epoch.epochs // LINES)
        if is_last or epoch.number % between_lines == 0:
            self._log(epoch)
        answer = None
        if self.callback is not None:
            answer = self.callback(epoch)
        tired = exhausted(self.patience, epoch.number, best)
        if tired:
            log.info("no better validation loss for %d epochs: training ends", self.patience)
        return _is_yes(answer) or tired

    @staticmethod
    def _log(epoch: Epoch) -> None:
        held_out = ""
        if epoch.validation is not None:
            held_out = f", validation {epoch.validation.median().item():.4g}"
        loss = epoch.losses.median().item()
        log.info("epoch %d of %d: loss %.4g%s", epoch.number + 1, epoch.epochs, loss, held_out)


def _is_yes(answer: object) -> bool:
    """Whether a callback asks to end: True, or an array or tensor of booleans that are all true.

    Other true values do not count, since not every callback means to answer.
    """
    if answer is True:
        return True
    is_boolean = str(getattr(answer, "dtype", "")).endswith("bool")
    return is_boolean and bool(answer.all())


NAMES = tuple(field.name for field in fields(Watch))


class Best(NamedTuple):
    """The parameters (S, P) with the lowest loss (S,) on held-out data, their epoch (S,), and all
    losses (epochs, S).

    P = 0 where nothing is held out.
    """

    theta: Tensor
    loss: Tensor
    epoch: Tensor
    losses: Tensor

    @classmethod
    def start(cls, theta: Tensor, watching: bool) -> "Best":
        kept = theta[:, :0]
        if watching:
            kept = theta.clone()
        seeds = len(theta)
        no_loss = theta.new_full((seeds,), torch.inf)
        return cls(kept, no_loss, torch.zeros_like(no_loss), theta.new_zeros(0, seeds))

    def after(self, epoch: int, theta: Tensor, losses: Tensor) -> "Best":
        """Take over the parameters of an epoch where they are better."""
        better = losses < self.loss
        return Best(
            torch.where(better.unsqueeze(1), theta, self.theta),
            torch.where(better, losses, self.loss),
            torch.where(better, float(epoch), self.epoch),
            torch.cat([self.losses, losses.unsqueeze(0)]),
        )


def exhausted(patience: int | None, epoch: int, best: Best) -> bool:
    """Whether no seed has had a better loss on held-out data for this many epochs."""
    if patience is None:
        return False
    without_gain = epoch - best.epoch
    return bool((without_gain >= patience).all())


def held_out_loss(loss: Callable[..., Tensor], theta: Tensor, rows: AnyBatch) -> Tensor:
    """(S,) mean loss over held-out rows (N, ...)."""
    number, seeds = len(rows.y), len(theta)
    total = torch.zeros(seeds, dtype=theta.dtype, device=theta.device)
    with torch.no_grad():
        for start in range(0, number, CHUNK):
            chunk = [tensor[start : start + CHUNK] for tensor in rows]
            # all seeds see the same rows, as views of one copy
            batch = [tensor.unsqueeze(0).expand(seeds, *tensor.shape) for tensor in chunk]
            share = len(chunk[0]) / number
            total = total + loss(theta, *batch) * share
    return total


SHARE = 0.05
"""Largest share of the run that is spent on writing checkpoints."""


class Snapshot(NamedTuple):
    """A run between two epochs: state of the optimizer and the schedule, losses (epochs so far, S),
    and the best.
    """

    state: State
    plateaus: Plateaus
    losses: Tensor
    best: Best


class Checkpoint:
    """The checkpoint file of one run.

    Args:
        path: the file; its folder is made if need be.
        identity: method, recipe, seeds, data, ... of the run; resuming another run is refused.

    Attributes:
        ended: whether the run that was saved last had been ended by its watch.
    """

    def __init__(self, path: str | os.PathLike, identity: dict[str, object]):
        self.path = files.expanded(path)
        files.make_folder(self.path.parent)
        text = json.dumps(identity, sort_keys=True)
        self.identity = hashlib.sha256(text.encode()).hexdigest()
        self.ended = False
        self._next = 0.0

    def load(self, like: Snapshot) -> Snapshot:
        """The run as it was when last saved, on the device of `like`; `like` itself if there is no
        file.

        Raises:
            FileError: the file is damaged or belongs to another run.
        """
        if not self.path.exists():
            return like
        try:
            header, tensors = files.read(self.path)
        except FileError as error:
            raise self._refused(error.problem) from error
        if header.get("checkpoint") != self.identity:
            raise self._refused("belongs to a run with other settings, data or seeds")
        self.ended = bool(header.get("ended"))
        try:
            return _unpacked(tensors, like)
        except (KeyError, ValueError, RuntimeError) as error:
            raise self._refused(f"does not fit this run ({files.reason(error)})") from error

    def _refused(self, problem: str) -> FileError:
        return FileError(
            self.path, problem=problem, fix="choose another folder, or delete it to start again"
        )

    def save_if_due(self, snapshot: Snapshot) -> None:
        """Save unless that would make checkpoints cost more than `SHARE` of the run."""
        if time.perf_counter() >= self._next:
            self.save(snapshot)

    def save(self, snapshot: Snapshot) -> None:
        """Replace the file by one that holds `snapshot`.

        A disk that is full or gone must not cost what has been trained: from then on, the run goes
        on without.
        """
        started = time.perf_counter()
        stored = {}
        for name, value in _tensors(snapshot).items():
            stored[name] = _stored(name, value)
        header = {"checkpoint": self.identity, "ended": self.ended}
        try:
            files.write(self.path, "checkpoint", header, stored)
        except FileError as error:
            warn(f"training goes on without checkpoints: {error}", RuntimeWarning)
            self._next = math.inf
            return
        ended = time.perf_counter()
        self._next = ended + (ended - started) / SHARE


FINITE = ("theta", "count", "alive", "moment", "best.theta")
"""Tensors that the next step is computed from; others, losses, may be infinite and are stored as
bytes.
"""


def _tensors(run: Snapshot) -> files.Tensors:
    """Tensors of a run, by the names that they have in a checkpoint and in the order of
    `tree_leaves`.
    """
    moments = [f"moment.{k}" for k in range(len(run.state.moments))]
    plateaus = [f"plateau.{name}" for name in Plateaus._fields]
    best = [f"best.{name}" for name in Best._fields]
    names = ["theta", *moments, "count", "alive", *plateaus, "losses", *best]
    return dict(zip(names, tree_leaves(run), strict=True))


def _stored(name: str, value: Tensor) -> Tensor:
    """A tensor as a checkpoint has it."""
    if name.startswith(FINITE):
        return value
    return value.unsqueeze(-1).contiguous().view(torch.uint8)


def _unpacked(tensors: files.Tensors, like: Snapshot) -> Snapshot:
    """The snapshot of a file, with shapes, dtypes and device of `like`, but for the number of
    epochs.

    Raises:
        KeyError, ValueError, RuntimeError: it has others.
    """
    leaves = []
    for name, value in _tensors(like).items():
        stored = tensors[name]
        expected = _stored(name, value)
        epochs = int(name.endswith("losses"))  # the first axis of these
        same_shape = stored.shape[epochs:] == expected.shape[epochs:]
        if not same_shape or stored.dtype != expected.dtype:
            raise ValueError(f"{name} is {tuple(stored.shape)}, not {tuple(expected.shape)}")
        if not name.startswith(FINITE):
            stored = stored.view(value.dtype).squeeze(-1)
        leaves.append(stored.to(value.device))
    return tree_unflatten(leaves, tree_structure(like))


def train(
    loss: Loss,
    flat: FlatParameters,
    optimizer: Optimizer | TorchOptimizer,
    schedule: Schedule,
    *,
    learning_rate: float,
    epochs: int,
    batches: Callable[[int], Iterable[tuple[Tensor, ...]]],
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
    run = _start(optimizer, flat, held_out is not None)
    if checkpoint is not None:
        run = checkpoint.load(run)
    ended = _has_ended(run, checkpoint, watch)
    resumed = len(run.losses)
    remaining = range(0) if ended else range(resumed, epochs)
    progress = track(remaining, label)
    for epoch in progress:
        alive = run.state.alive
        run = epoch_of.after(run, epoch, batches(epoch))
        _warn_of_lost(alive & ~run.state.alive, seeds, epoch)
        progress.set_postfix(loss=f"{run.losses[-1].median().item():.3g}", refresh=False)
        if held_out is not None:
            validation = held_out_loss(loss, run.state.theta, held_out)
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


def _start(optimizer: Optimizer | TorchOptimizer, flat: FlatParameters, watching: bool) -> Snapshot:
    """The run before its first epoch."""
    theta = flat.read()
    losses = theta.new_zeros(0, len(theta))
    state = optimizer.start(theta, flat)
    return Snapshot(state, Plateaus.start(theta), losses, Best.start(theta, watching))


def _has_ended(run: Snapshot, checkpoint: Checkpoint | None, watch: Watch | None) -> bool:
    """Whether a run that is resumed had been ended by its watch, or would be by this one."""
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

    def after(self, run: Snapshot, epoch: int, batches: Iterable[tuple[Tensor, ...]]) -> Snapshot:
        """The run after an epoch over these batches."""
        state, plateaus = run.state, run.plateaus
        total = torch.zeros_like(plateaus.best)
        for index, batch in enumerate(batches):
            progress = (epoch + index / self.per_epoch) / self.epochs
            rates = self.learning_rate * self.schedule.factors(progress, plateaus)
            taken = epoch * self.per_epoch + index
            state = self.optimizer.between(state, taken)
            state, values = self.step(state, rates, *batch)
            total = total + values
        mean = total / self.per_epoch
        plateaus = self.schedule.observe(plateaus, mean)
        losses = torch.cat([run.losses, mean.unsqueeze(0)])
        return Snapshot(state, plateaus, losses, run.best)


def _warn_of_lost(lost: Tensor, seeds: Sequence[int], epoch: int) -> None:
    """Warn of the seeds (S, 1) whose parameters ceased to be finite in an epoch."""
    numbers = []
    for seed, is_lost in zip(seeds, lost.squeeze(1).tolist(), strict=True):
        if is_lost:
            numbers.append(str(seed))
    if numbers:
        text = f"seed {', '.join(numbers)} diverged in epoch {epoch}"
        warn(f"{text}; its last finite parameters are kept", DivergenceWarning)


def _report(run: Snapshot, epoch: int, epochs: int) -> Epoch:
    """Argument of the watch after an epoch."""
    validation = None
    if len(run.best.losses):
        validation = run.best.losses[-1]
    return Epoch(epoch, epochs, run.losses[-1], validation)


Reports = list[dict[str, object]]
"""Facts about each seed by name."""


def by_seed(**columns: Tensor) -> Reports:
    """Reports from tensors with a leading seed axis."""
    values = [column.tolist() for column in columns.values()]
    reports = []
    for row in zip(*values, strict=True):
        reports.append(dict(zip(columns, row, strict=True)))
    return reports
