"""The training loop of one stack of seeds, its checkpoints, and the stages of a run."""

import copy
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
import xarray as xr
from torch import Tensor

from romkit.core import files
from romkit.core.errors import DivergenceWarning, FileError, warn
from romkit.core.files import expanded, make_folder, reason
from romkit.core.runtime import track
from romkit.data import times_of
from romkit.engine.captured import accelerate
from romkit.engine.inductor import fast_or_eager
from romkit.engine.threads import one_thread
from romkit.projections import Projection, stack, unstack
from romkit.systems import System
from romkit.training.batches import AnyBatch, Batch, FlatParameters, batches, batches_per_epoch
from romkit.training.loss import Objective, attached, check_autonomous
from romkit.training.optimizers import State, Step
from romkit.training.phase_fit import phase_fit
from romkit.training.recipe import Recipe, Snapshots
from romkit.training.rollouts import Trajectories, refine
from romkit.training.schedules import SCHEDULES, Plateaus
from romkit.training.watch import Best, Epoch, Watch, exhausted, held_out_loss

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
            header, tensors = files.read(self.path)
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
            files.write(self.path, "checkpoint", {"checkpoint": self.identity}, _packed(snapshot))
        except FileError as error:
            warn(f"training goes on without checkpoints: {error}", RuntimeWarning)
            self._next = math.inf
            return
        self._next = time.perf_counter() + (time.perf_counter() - started) / SHARE


def _packed(run: Snapshot) -> files.Tensors:
    """What computes, which is finite always, and the bytes of what may be infinite: losses."""
    state = {"theta": run.state.theta, "count": run.state.count, "alive": run.state.alive}
    state |= {f"moment.{k}": moment for k, moment in enumerate(run.state.moments)} | {"best.theta": run.best.theta}
    return state | {name: value.unsqueeze(-1).contiguous().view(torch.uint8) for name, value in _said(run).items()}


def _said(run: Snapshot) -> dict[str, Tensor]:
    """What is known of a run, beside its parameters."""
    best = {f"best.{name}": value for name, value in run.best._asdict().items() if name != "theta"}
    return {"losses": run.losses} | {f"plateau.{k}": value for k, value in run.plateaus._asdict().items()} | best


def _unpacked(tensors: files.Tensors, like: Snapshot) -> Snapshot:
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
        accelerated: what makes an optimizer step faster, of `romkit.engine.captured`.
        checkpoint: where the run is saved, and resumed from if it was interrupted.
        watch: who is told, and when training ends early.
        held_out: snapshots for validation.
    """
    started = time.perf_counter()
    stacked = objective.projection
    flat = FlatParameters(stacked)
    optimizer, schedule, noise = plan.make_optimizer(), SCHEDULES[plan.schedule], plan.make_noise(stacked.frame)
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


CACHE_ROWS = 10_000
"""Rows (seeds x batch size) of a step that still fit the cache of a CPU core."""

LONG_RUN = 10_000_000
"""Rows (steps x seeds x batch size) from which compiling the step pays for the ten seconds that it takes with Adam.

By benchmarks/training/RESULTS.md a row takes an NcAE 3 us less on Lorenz96 and 4 us less on the pendulum, so ten
seconds are back after two to four million rows; with slower compilers, too, this many are sure to pay. The number
decides alone, never a clock: compiled and eager training differ by rounding, and a seed must mean the same everywhere.
"""

LONG_RUN_ON_GPU = 3000
"""Steps of a run on a GPU from which compiling a step pays; shorter runs capture it as it is."""

Reports = list[dict[str, object]]


@dataclass(frozen=True)
class Run:
    """What a training depends on beside models and seeds.

    Attributes:
        plan: settings.
        data: what is trained on.
        system: the full model, where the plan needs it.
        device: where.
        engine: one of `romkit.engine.ENGINES`.
        checkpoint: folder for the run.
        watch: how it is watched.
        held_out: data for validation, None where there are none.
    """

    plan: Recipe
    data: xr.Dataset
    system: System | None
    device: torch.device
    engine: str
    checkpoint: str | os.PathLike | None
    watch: Watch
    held_out: xr.Dataset | None

    def train(self, models: Sequence[Projection], seeds: Sequence[int]) -> list[Projection]:
        """The trained models, on the CPU, each with a report of how it went.

        Args:
            models: one per seed, alike but for their parameters.
            seeds: seed s determines the order of its data, whatever its neighbours are.
        """
        rows = Batch.from_dataset(self.data, models[0].frame, self.plan.snapshots.every)
        for stage in filter(None, (self.plan.rollouts, self.plan.timing)):  # refused now, not hours later
            Trajectories.from_dataset(self.data, stage.every, like=rows.y)
        if self.system is not None:
            check_autonomous(self.system, rows, models[0].frame, times_of(self.data))
        for model in models:
            model.initialise(rows.y)
        rows, trained = self._ready(rows, models[0]), []
        for chunk in self._chunks(len(seeds)):
            stacked, numbers = stack(models[chunk]).to(self.device), seeds[chunk]
            reports = [{"seed": seed} for seed in numbers]
            if any(parameter.requires_grad for parameter in stacked.parameters()):  # POD and its like have none
                objective = Objective(stacked, self.plan.loss, self.plan.component_weighting, self.system)
                objective = objective.to(self.device)
                for stage in (self._on_snapshots, self._by_rollouts, self._timing):
                    reports = [a | b for a, b in zip(reports, stage(objective, rows, numbers), strict=True)]
            stacked.report = {"seeds": [{"diverged": False} | report for report in reports]}
            trained += unstack(stacked.cpu())
        return trained

    def _ready(self, rows: Batch, model: Projection) -> AnyBatch:
        """Snapshots with what the loss attaches to them, on the device."""
        with one_thread():
            plan = self.plan
            rows = attached(rows, plan.loss, model.frame, plan.component_weighting, self.system)
        return rows._make(tensor.to(self.device) for tensor in rows)

    def _chunks(self, count: int) -> Iterator[slice]:
        """Stacks that fit the cache of a CPU; one stack of all seeds on a GPU."""
        size = count if self.device.type == "cuda" else max(1, CACHE_ROWS // self.plan.snapshots.batch_size)
        return (slice(start, start + size) for start in range(0, count, size))

    def _on_snapshots(self, objective: Objective, rows: AnyBatch, seeds: Sequence[int]) -> Reports:
        plan, checkpoint = self.plan.snapshots, None
        if self.checkpoint is not None:
            checkpoint = self._checkpoint(Path(self.checkpoint), objective.projection, rows, seeds)
        on_gpu, long = self.device.type == "cuda", plan.epochs * len(rows.y) * len(seeds) >= LONG_RUN
        if on_gpu:
            long = plan.epochs * batches_per_epoch(len(rows.y), plan.batch_size) >= LONG_RUN_ON_GPU
        one_function = not callable(plan.optimizer)  # others may look at values
        compiled = self._compiled(long and one_function)
        accelerated = partial(accelerate, device=self.device, compiled=compiled)
        watching = {"checkpoint": checkpoint, "watch": self.watch, "held_out": self._held_out(objective.projection)}
        with one_thread():
            history, fast = fast_or_eager(
                lambda fast: train(objective, rows, plan, seeds, accelerated=accelerated if fast else None, **watching),
                compiled or (on_gpu and one_function and self.engine == "auto"),
            )
        shared = {"seconds": history.seconds, "seeds_in_stack": len(seeds)}
        shared |= {"compiled": compiled and fast, "captured": on_gpu and fast}
        columns = zip(history.alive.tolist(), history.losses.T.tolist(), strict=True)
        reports = [{"diverged": not alive, "losses": losses, **shared} for alive, losses in columns]
        if self.held_out is not None:
            watched = zip(history.best.losses.T.tolist(), history.best.epoch.int().tolist(), strict=True)
            for report, (losses, epoch) in zip(reports, watched, strict=True):
                report |= {"validation_losses": losses, "best_epoch": epoch}
        return reports

    def _held_out(self, model: Projection) -> AnyBatch | None:
        if self.held_out is None:
            return None
        frame = copy.deepcopy(model.frame).cpu()
        return self._ready(Batch.from_dataset(self.held_out, frame, self.plan.snapshots.every), model)

    def _by_rollouts(self, objective: Objective, rows: AnyBatch, seeds: Sequence[int]) -> Reports:
        if self.plan.rollouts is None:
            return [{}] * len(seeds)
        common = (objective, rows, self.data, self.system, self.plan.rollouts, seeds, self.plan.snapshots.batch_size)
        with one_thread():
            return fast_or_eager(lambda fast: refine(*common, compiled=fast), self._compiled(True))[0]

    def _timing(self, objective: Objective, rows: AnyBatch, seeds: Sequence[int]) -> Reports:
        if self.plan.phase is None:
            return [{}] * len(seeds)
        common = (objective, rows, self.data, self.system, self.plan.timing, seeds)
        with one_thread():
            return fast_or_eager(lambda fast: phase_fit(*common, compiled=fast), self._compiled(True))[0]

    def _compiled(self, pays: bool) -> bool:
        return self.engine == "compiled" or (self.engine == "auto" and pays and shutil.which("c++") is not None)

    def _checkpoint(self, folder: Path, stacked: Projection, rows: AnyBatch, seeds: Sequence[int]) -> Checkpoint:
        identity = {
            "method": stacked.name,
            "config": stacked.config,
            "recipe": self.plan.to_json(),
            "seeds": list(seeds),
            "data": digest(rows),
        }
        if any(term.needs_field for term in self.plan.loss):
            identity["system"] = str({k: v for k, v in self.system.provenance().items() if k != "versions"})
        if (held_out := self._held_out(stacked)) is not None:
            identity["held_out"] = digest(held_out)
        return Checkpoint(folder / f"{stacked.name}-seeds-{seeds[0]}-{seeds[-1]}.safetensors", identity)
