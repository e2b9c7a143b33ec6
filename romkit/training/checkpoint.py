"""Checkpoints of a training run: one sealed file, replaced as a whole, that resumes the run bit for bit."""

import hashlib
import json
import math
import os
import time
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit import sealed
from romkit.errors import FileError, warn
from romkit.files import expanded, make_folder, reason
from romkit.training.optimizers import State
from romkit.training.schedules import Plateaus
from romkit.training.watch import Best

SHARE = 0.05
"""Largest share of the run that is spent on writing checkpoints."""


class Snapshot(NamedTuple):
    """A run between two epochs: state of the optimizer and the schedule, losses (epochs so far, S), and the best."""

    state: State
    plateaus: Plateaus
    losses: Tensor
    best: Best


class Checkpoint:
    """The checkpoint file of one run.

    Args:
        path: the file; its folder is made if need be.
        identity: what the run is made of (method, recipe, seeds, data, ...); resuming another run is refused.
    """

    def __init__(self, path: str | os.PathLike, identity: dict[str, object]):
        self.path = expanded(path)
        make_folder(self.path.parent)
        self.identity = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        self._next = 0.0

    def load(self, like: Snapshot) -> Snapshot:
        """The run as it was when last saved, on the device of `like`; `like` itself if there is no file.

        Raises:
            FileError: the file is damaged or belongs to another run.
        """
        if not self.path.exists():
            return like
        fix = "choose another folder, or delete it to start again"
        try:
            header, tensors = sealed.read(self.path)
        except FileError as error:
            raise FileError(self.path, problem=error.problem, fix=fix) from error
        if header.get("checkpoint") != self.identity:
            raise FileError(self.path, problem="belongs to a run with other settings, data or seeds", fix=fix)
        try:
            return _unpacked(tensors, like)
        except (KeyError, ValueError, RuntimeError) as error:
            raise FileError(self.path, problem=f"does not fit this run ({reason(error)})", fix=fix) from error

    def save_if_due(self, snapshot: Snapshot) -> None:
        """Save unless that would make checkpoints cost more than `SHARE` of the run."""
        if time.perf_counter() >= self._next:
            self.save(snapshot)

    def save(self, snapshot: Snapshot) -> None:
        """Replace the file by one that holds `snapshot`.

        A disk that is full or gone must not cost what has been trained: from then on, the run goes on without.
        """
        started = time.perf_counter()
        try:
            sealed.write(self.path, "checkpoint", {"checkpoint": self.identity}, _packed(snapshot))
        except FileError as error:
            warn(f"training goes on without checkpoints: {error}", RuntimeWarning)
            self._next = math.inf
            return
        self._next = time.perf_counter() + (time.perf_counter() - started) / SHARE


def _packed(run: Snapshot) -> sealed.Tensors:
    """What computes, which is finite always, and the bytes of what may be infinite: losses."""
    state = {"theta": run.state.theta, "count": run.state.count, "alive": run.state.alive}
    state |= {f"moment.{k}": moment for k, moment in enumerate(run.state.moments)} | {"best.theta": run.best.theta}
    return state | {name: value.unsqueeze(-1).contiguous().view(torch.uint8) for name, value in _said(run).items()}


def _said(run: Snapshot) -> dict[str, Tensor]:
    """What is known of a run, beside its parameters."""
    best = {f"best.{name}": value for name, value in run.best._asdict().items() if name != "theta"}
    return {"losses": run.losses} | {f"plateau.{k}": value for k, value in run.plateaus._asdict().items()} | best


def _unpacked(tensors: sealed.Tensors, like: Snapshot) -> Snapshot:
    """The snapshot of a file, with shapes, dtypes and device of `like`, but for the number of epochs.

    Raises:
        KeyError, ValueError, RuntimeError: it has others.
    """
    wanted, said = _packed(like), _said(like)
    for name, value in wanted.items():
        got, least = tensors[name], int(name.endswith("losses"))  # whose first axis is that of the epochs
        if got.shape[least:] != value.shape[least:] or got.dtype != value.dtype:
            raise ValueError(f"{name} is {tuple(got.shape)}, not {tuple(value.shape)}")
    found = {name: tensors[name].to(value.device) for name, value in wanted.items()}
    found |= {name: found[name].view(value.dtype).squeeze(-1) for name, value in said.items()}
    moments = tuple(found[f"moment.{k}"] for k in range(len(like.state.moments)))
    best = Best(*(found[f"best.{name}"] for name in Best._fields))
    state = State(found["theta"], moments, found["count"], found["alive"])
    return Snapshot(state, Plateaus(*(found[f"plateau.{name}"] for name in Plateaus._fields)), found["losses"], best)


def digest(tensors: Sequence[Tensor]) -> str:
    """SHA-256 of tensors, by which a checkpoint knows its data."""
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return total.hexdigest()
