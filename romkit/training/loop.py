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
from romkit.training.optimizers import (
    Loss,
    Optimizer,
    Plateaus,
    Schedule,
    State,
    Step,
    TorchOptimizer,
)

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
            fix = "give 0.2, say"
            raise InputError(
                "validation", expected="a share below 1, or a dataset", got=repr(share), fix=fix
            )
        if self.patience is not None and not self.validates:
            fix = "give validation=0.2, say"
            raise InputError(
                "patience", expected="held-out data to be patient about", got="none", fix=fix
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
            return data, matched("validation", held_out, names, component_names(data), units)
        return split(data, self.validation) if self.validation > 0 else (data, None)

    @validated
    def ends(self, epoch: Epoch, best: "Best") -> bool:
        """Tell whoever wants to know of an epoch; whether training ends with it."""
        if epoch.number % max(1, epoch.epochs // LINES) == 0 or epoch.number == epoch.epochs - 1:
            held_out = (
                ""
                if epoch.validation is None
                else f", validation {epoch.validation.median().item():.4g}"
            )
            loss = epoch.losses.median().item()
            log.info("epoch %d of %d: loss %.4g%s", epoch.number + 1, epoch.epochs, loss, held_out)
        answer = None if self.callback is None else self.callback(epoch)
        # other true values do not count, since not every callback means to answer
        asked = answer is True or (
            str(getattr(answer, "dtype", "")).endswith("bool") and bool(answer.all())
        )
        tired = exhausted(self.patience, epoch.number, best)
        if tired:
            log.info("no better validation loss for %d epochs: training ends", self.patience)
        return asked or tired


NAMES = tuple(each.name for each in fields(Watch))


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
        kept = theta.clone() if watching else theta[:, :0]
        none = theta.new_full((len(theta),), torch.inf)
        return cls(kept, none, torch.zeros_like(none), theta.new_zeros(0, len(theta)))

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
    return patience is not None and bool((epoch - best.epoch >= patience).all())


def held_out_loss(loss: Callable[..., Tensor], theta: Tensor, rows: AnyBatch) -> Tensor:
    """(S,) mean loss over held-out rows (N, ...)."""
    total, N = torch.zeros(len(theta), dtype=theta.dtype, device=theta.device), len(rows.y)
    with torch.no_grad():
        for start in range(0, N, CHUNK):
            part = [tensor[start : start + CHUNK] for tensor in rows]
            batch = [tensor.unsqueeze(0).expand(len(theta), *tensor.shape) for tensor in part]
            total = total + loss(theta, *batch) * (len(part[0]) / N)
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
        self.identity = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        self.ended, self._next = False, 0.0

    def load(self, like: Snapshot) -> Snapshot:
        """The run as it was when last saved, on the device of `like`; `like` itself if there is no
        file.

        Raises:
            FileError: the file is damaged or belongs to another run.
        """
        if not self.path.exists():
            return like
        fix = "choose another folder, or delete it to start again"
        try:
            header, tensors = files.read(self.path)
        except FileError as error:
            raise FileError(self.path, problem=error.problem, fix=fix) from error
        if header.get("checkpoint") != self.identity:
            raise FileError(
                self.path, problem="belongs to a run with other settings, data or seeds", fix=fix
            )
        self.ended = bool(header.get("ended"))
        try:
            return _unpacked(tensors, like)
        except (KeyError, ValueError, RuntimeError) as error:
            raise FileError(
                self.path, problem=f"does not fit this run ({files.reason(error)})", fix=fix
            ) from error

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
        try:
            stored = {name: _stored(name, value) for name, value in _tensors(snapshot).items()}
            files.write(
                self.path, "checkpoint", {"checkpoint": self.identity, "ended": self.ended}, stored
            )
        except FileError as error:
            warn(f"training goes on without checkpoints: {error}", RuntimeWarning)
            self._next = math.inf
            return
        self._next = time.perf_counter() + (time.perf_counter() - started) / SHARE


FINITE = ("theta", "count", "alive", "moment", "best.theta")
"""Tensors that the next step is computed from; others, losses, may be infinite and are stored as
bytes.
"""


def _tensors(run: Snapshot) -> files.Tensors:
    """Tensors of a run, by the names that they have in a checkpoint and in the order of
    `tree_leaves`.
    """
    moments = (f"moment.{k}" for k in range(len(run.state.moments)))
    plateaus, best = (
        (f"plateau.{name}" for name in Plateaus._fields),
        (f"best.{name}" for name in Best._fields),
    )
    names = ("theta", *moments, "count", "alive", *plateaus, "losses", *best)
    return dict(zip(names, tree_leaves(run), strict=True))


def _stored(name: str, value: Tensor) -> Tensor:
    """A tensor as a checkpoint has it."""
    return value if name.startswith(FINITE) else value.unsqueeze(-1).contiguous().view(torch.uint8)


def _unpacked(tensors: files.Tensors, like: Snapshot) -> Snapshot:
    """The snapshot of a file, with shapes, dtypes and device of `like`, but for the number of
    epochs.

    Raises:
        KeyError, ValueError, RuntimeError: it has others.
    """
    found = []
    for name, value in _tensors(like).items():
        got, wanted = tensors[name], _stored(name, value)
        epochs = int(name.endswith("losses"))  # the first axis of these
        if got.shape[epochs:] != wanted.shape[epochs:] or got.dtype != wanted.dtype:
            raise ValueError(f"{name} is {tuple(got.shape)}, not {tuple(wanted.shape)}")
        found.append(
            (got if name.startswith(FINITE) else got.view(value.dtype).squeeze(-1)).to(value.device)
        )
    return tree_unflatten(found, tree_structure(like))


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
    theta = flat.read()
    best = Best.start(theta, held_out is not None)
    run = Snapshot(
        optimizer.start(theta, flat), Plateaus.start(theta), theta.new_zeros(0, len(seeds)), best
    )
    if checkpoint is not None:
        run = checkpoint.load(run)
    state, plateaus, losses, best = run
    ended = checkpoint is not None and checkpoint.ended
    ended |= watch is not None and exhausted(watch.patience, len(losses) - 1, best)
    progress = track(range(len(losses), len(losses) if ended else epochs), label)
    for epoch in progress:
        alive, total = state.alive, torch.zeros_like(plateaus.best)
        for index, batch in enumerate(batches(epoch)):
            rates = learning_rate * schedule.factors((epoch + index / per_epoch) / epochs, plateaus)
            state, values = step(optimizer.between(state, epoch * per_epoch + index), rates, *batch)
            total = total + values
        plateaus = schedule.observe(plateaus, total / per_epoch)
        losses = torch.cat([losses, total.unsqueeze(0) / per_epoch])
        lost = [
            str(seed)
            for seed, gone in zip(seeds, (alive & ~state.alive).squeeze(1).tolist(), strict=True)
            if gone
        ]
        if lost:
            message = f"seed {', '.join(lost)} diverged in epoch {epoch}; its last finite parameters are kept"
            warn(message, DivergenceWarning)
        progress.set_postfix(loss=f"{losses[-1].median().item():.3g}", refresh=False)
        if held_out is not None:
            best = best.after(epoch, state.theta, held_out_loss(loss, state.theta, held_out))
        if checkpoint is not None:
            checkpoint.save_if_due(Snapshot(state, plateaus, losses, best))
        validation = best.losses[-1] if len(best.losses) else None
        ended = watch is not None and watch.ends(Epoch(epoch, epochs, losses[-1], validation), best)
        if ended:
            break
    run = Snapshot(state, plateaus, losses, best)
    if checkpoint is not None:
        checkpoint.ended = ended
        checkpoint.save(run)
    flat.write(state.theta if held_out is None else best.theta)
    return run, time.perf_counter() - started


Reports = list[dict[str, object]]
"""Facts about each seed by name."""


def by_seed(**columns: Tensor) -> Reports:
    """Reports from tensors with a leading seed axis."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]
