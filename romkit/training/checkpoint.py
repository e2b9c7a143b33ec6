"""The file from which an interrupted training goes on."""

import hashlib
import json
import math
import time
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_structure, tree_unflatten

from romkit.core import files
from romkit.core.errors import FileError, warn
from romkit.core.types import Entries, PathLike, Tensors
from romkit.training.optimizers import State
from romkit.training.schedules import Plateaus
from romkit.training.watch import Best

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

    def __init__(self, path: PathLike, identity: Entries):
        self.path = files.expanded(path)
        files.make_folder(self.path.parent)
        text = json.dumps(identity, sort_keys=True)
        self.identity = hashlib.sha256(text.encode()).hexdigest()
        self.ended = False
        self._next = 0.0

    def load(self, like: Snapshot) -> Snapshot:
        """Return the run as it was when last saved, on the device of `like`; `like` itself if there
        is no file.

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
        stored = {name: _stored(name, value) for name, value in _tensors(snapshot).items()}
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


def _tensors(run: Snapshot) -> Tensors:
    """Return tensors of a run, by the names that they have in a checkpoint and in the order of
    `tree_leaves`.
    """
    moments = [f"moment.{k}" for k in range(len(run.state.moments))]
    plateaus = [f"plateau.{name}" for name in Plateaus._fields]
    best = [f"best.{name}" for name in Best._fields]
    names = ["theta", *moments, "count", "alive", *plateaus, "losses", *best]
    return dict(zip(names, tree_leaves(run), strict=True))


def _stored(name: str, value: Tensor) -> Tensor:
    """Return a tensor as a checkpoint has it."""
    if name.startswith(FINITE):
        return value
    return value.unsqueeze(-1).contiguous().view(torch.uint8)


def _unpacked(tensors: Tensors, like: Snapshot) -> Snapshot:
    """Return the snapshot of a file, with shapes, dtypes and device of `like`, but for the number
    of epochs.

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
