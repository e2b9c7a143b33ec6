"""Checkpoints of a training run: one safetensors file, replaced as a whole, that resumes the run bit for bit."""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from romkit.errors import FileError
from romkit.files import atomic
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
        self.path = Path(path).expanduser()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.identity = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        self._next = 0.0

    def load(self, like: Snapshot) -> Snapshot:
        """The run as it was when last saved, on the device of `like`; `like` itself if there is no file.

        Raises:
            FileError: the file is damaged or belongs to another run.
        """
        if not self.path.exists():
            return like
        try:
            with safetensors.safe_open(self.path, framework="pt") as file:
                identity = (file.metadata() or {}).get("identity")
                tensors = {name: file.get_tensor(name).to(like.state.theta.device) for name in file.keys()}  # noqa: SIM118
        except Exception as error:  # safetensors raises many kinds on a damaged file
            raise FileError(self.path, problem=f"is damaged ({error})", fix="delete it to start again") from error
        if identity != self.identity:
            fix = "choose another folder, or delete it to start again"
            raise FileError(self.path, problem="belongs to a run with other settings, data or seeds", fix=fix)
        return _unflatten(tensors, len(like.state.moments))

    def save_if_due(self, snapshot: Snapshot) -> None:
        """Save unless that would make checkpoints cost more than `SHARE` of the run."""
        if time.perf_counter() >= self._next:
            self.save(snapshot)

    def save(self, snapshot: Snapshot) -> None:
        """Replace the file by one that holds `snapshot`."""
        started = time.perf_counter()
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in _flatten(snapshot).items()}
        with atomic(self.path) as temporary:
            temporary.write_bytes(safetensors.torch.save(tensors, {"identity": self.identity}))
        self._next = time.perf_counter() + (time.perf_counter() - started) / SHARE


def _flatten(snapshot: Snapshot) -> dict[str, Tensor]:
    state, plateaus, losses, best = snapshot
    named = {"theta": state.theta, "count": state.count, "alive": state.alive, "losses": losses}
    named |= {f"moment.{k}": moment for k, moment in enumerate(state.moments)}
    named |= {f"plateaus.{name}": value for name, value in plateaus._asdict().items()}
    return named | {f"best.{name}": value for name, value in best._asdict().items()}


def _unflatten(named: dict[str, Tensor], moments: int) -> Snapshot:
    state = State(named["theta"], tuple(named[f"moment.{k}"] for k in range(moments)), named["count"], named["alive"])
    plateaus = Plateaus(*(named[f"plateaus.{name}"] for name in Plateaus._fields))
    return Snapshot(state, plateaus, named["losses"], Best(*(named[f"best.{name}"] for name in Best._fields)))


def digest(tensors: Sequence[Tensor]) -> str:
    """SHA-256 of tensors, by which a checkpoint knows its data."""
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return total.hexdigest()
