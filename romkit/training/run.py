"""Run of a training: the stages of a recipe, on stacks of seeds."""

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import xarray as xr
from torch import Tensor

from romkit.core.types import PathLike
from romkit.data import times_of
from romkit.engine.captured import accelerate
from romkit.engine.inductor import fast_or_eager
from romkit.engine.threads import one_thread
from romkit.projections import Frame, Projection, stack, unstack
from romkit.projections.constrained import Modulated
from romkit.systems import System
from romkit.training.batches import AnyBatch, Batch, FlatParameters, batches, batches_per_epoch
from romkit.training.checkpoint import Checkpoint, Snapshot
from romkit.training.latent import EvenTrajectories
from romkit.training.loop import Reports, seed_reports, train
from romkit.training.loss import LossTerm, Objective, attached, check_autonomous
from romkit.training.phase import phase_fit
from romkit.training.recipe import Recipe
from romkit.training.rollouts import LeftOutRollouts, refine
from romkit.training.schedules import SCHEDULES
from romkit.training.watch import Watch

CACHE_ROWS = 10_000
"""Rows (seeds x batch size) of a step that still fit the cache of a CPU core."""


def digest(tensors: Sequence[Tensor]) -> str:
    """SHA-256 of tensors, by which a checkpoint knows its data."""
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return total.hexdigest()


def _joined(reports: Reports, further: Sequence[Mapping[str, object]]) -> Reports:
    """Return reports with further facts about each seed."""
    return [report | facts for report, facts in zip(reports, further, strict=True)]


@dataclass(frozen=True)
class Run:
    """All that a training depends on beside models and seeds.

    Attributes:
        plan: settings.
        data: what is trained on.
        system: the full model, where the plan needs it.
        device: where.
        engine: one of `romkit.engine.ENGINES`.
        checkpoint: folder for the run.
        watch: how it is watched.
        held_out: data for validation, None where there are none.
        started: whether the models have parameters to begin with.
        unit: of time, in which losses count velocities, in that of the data.
        behind_basis: whether the data are coordinates in a basis, from whose leading ones a network
            starts.
    """

    plan: Recipe
    data: xr.Dataset
    system: System | None
    device: torch.device
    engine: str
    checkpoint: PathLike | None
    watch: Watch
    held_out: xr.Dataset | None
    started: bool = False
    unit: float = 1.0
    behind_basis: bool = False

    def train(self, models: Sequence[Projection], seeds: Sequence[int]) -> list[Projection]:
        """Return the trained models, on the CPU, each with a report of how it went.

        Args:
            models: one per seed, alike but for their parameters.
            seeds: seed s determines the order of its data, whatever its neighbours are.
        """
        frame = models[0].frame
        rows = self._snapshots(self.data, frame)
        held_out = None
        if self.held_out is not None:
            held_out = self._snapshots(self.held_out, frame)
        # refuse data or a system that a later stage would refuse after hours
        for _, settings in self._refinements():
            EvenTrajectories.from_dataset(self.data, settings.every, like=rows.y)
        if self.system is not None:
            check_autonomous(self.system, rows, frame, times_of(self.data))
        facts = self._initialised(models, rows)
        loss = [term.prepared(rows) for term in self.plan.loss]
        # on a CPU, stacks of what its cache holds; a GPU is best filled by all seeds
        size = len(seeds)
        if self.device.type != "cuda":
            size = max(1, CACHE_ROWS // self.plan.snapshots.batch_size)
        trained = []
        with one_thread():
            rows = self._ready(rows, loss, frame)
            if held_out is not None:
                held_out = self._ready(held_out, loss, frame)
            for first in range(0, len(seeds), size):
                chosen = slice(first, first + size)
                stacked = stack(models[chosen]).to(self.device)
                reports = self._train_stack(stacked, loss, rows, held_out, seeds[chosen])
                stacked.report = {"seeds": _joined(reports, facts[chosen])}
                trained += unstack(stacked.cpu())
        return trained

    def _snapshots(self, data: xr.Dataset, frame: Frame) -> Batch:
        return Batch.from_dataset(data, frame, self.plan.snapshots.every, self.unit)

    def _refinements(self) -> list[tuple[Callable[..., Reports], object]]:
        """Functions and settings of the stages after that on snapshots."""
        stages = []
        if self.plan.rollouts is not None:
            stages.append((refine, self.plan.rollouts))
        if self.plan.timing is not None:
            stages.append((phase_fit, self.plan.timing))
        return stages

    def _initialised(self, models: Sequence[Projection], rows: Batch) -> list[Mapping[str, object]]:
        """Return facts about the models' parameters from data, which they take over."""
        if self.started:
            return [{} for _ in models]
        model = models[0]
        if model.takes_gaps:
            every = self.plan.snapshots.every
            rows = Batch.select_incomplete(self.data, model.frame, every)
        # random directions among coordinates that are sorted by energy would see the least of them
        if self.behind_basis and isinstance(model, Modulated):
            for network in models:
                network.initialise_modes(rows.y)
        further = ()
        if self.system is not None and model.chosen_by_rollouts:
            further = (LeftOutRollouts(self.data, self.system),)
        facts = []
        for of_seed in models:
            of_start = of_seed.initialise(rows.y, rows.c, *further)
            facts.append({} if of_start is None else of_start)
        return facts

    def _train_stack(
        self,
        stacked: Projection,
        loss: Sequence[LossTerm],
        rows: AnyBatch,
        held_out: AnyBatch | None,
        seeds: Sequence[int],
    ) -> Reports:
        """Train a stack in place, stage by stage."""
        reports = [{"diverged": False, "seed": seed} for seed in seeds]
        if not any(parameter.requires_grad for parameter in stacked.parameters()):
            return reports  # POD and its like have nothing to train
        weighting = self.plan.component_weighting
        objective = Objective(stacked, loss, weighting, self.system, self.unit).to(self.device)
        reports = _joined(reports, self._snapshot_loss(objective, rows, held_out, seeds))
        batch_size = self.plan.snapshots.batch_size
        for function, settings in self._refinements():
            call = partial(function, objective, rows, self.data, settings, seeds, batch_size)
            refined, _ = fast_or_eager(call, self._compiled(True))
            reports = _joined(reports, refined)
        return reports

    def _ready(self, rows: Batch, loss: Sequence[LossTerm], frame: Frame) -> AnyBatch:
        """Return snapshots with what the loss attaches to them, on the device."""
        rows = attached(rows, loss, frame, self.plan.component_weighting, self.system)
        return rows._make(tensor.to(self.device) for tensor in rows)

    def _snapshot_loss(
        self, objective: Objective, rows: AnyBatch, held_out: AnyBatch | None, seeds: Sequence[int]
    ) -> Reports:
        plan, stacked = self.plan.snapshots, objective.projection
        per_epoch = batches_per_epoch(len(rows.y), plan.batch_size)
        compiled, accelerates = self._speed(len(rows.y), per_epoch, len(seeds))
        checkpoint = None
        if self.checkpoint is not None:
            checkpoint = self._checkpoint(stacked, rows, held_out, seeds)
        flat, noise = FlatParameters(stacked), plan.make_noise(stacked.frame)

        def run(fast: bool) -> tuple[Snapshot, float]:
            accelerated = None
            if fast:
                accelerated = partial(accelerate, device=self.device, compiled=compiled)
            return train(
                flat.function(objective),
                flat,
                plan.make_optimizer(),
                SCHEDULES[plan.schedule],
                learning_rate=plan.learning_rate,
                epochs=plan.epochs,
                batches=lambda epoch: batches(rows, seeds, epoch, plan.batch_size, noise),
                per_epoch=per_epoch,
                seeds=seeds,
                label=f"training {stacked.name}",
                accelerated=accelerated,
                checkpoint=checkpoint,
                watch=self.watch,
                held_out=held_out,
            )

        (end, seconds), fast = fast_or_eager(run, accelerates)
        on_gpu = self.device.type == "cuda"
        shared = {
            "seconds": seconds,
            "seeds_in_stack": len(seeds),
            "compiled": compiled and fast,
            "captured": on_gpu and fast,
        }
        columns = {"diverged": ~end.state.alive.squeeze(1), "losses": end.losses.T}
        if held_out is not None:
            columns["validation_losses"] = end.best.losses.T
            columns["best_epoch"] = end.best.epoch.int()
        return _joined(seed_reports(**columns), [shared] * len(seeds))

    def _speed(
        self,
        rows: int,
        per_epoch: int,
        seeds: int,
        *,
        long_run: int = 10_000_000,
        long_run_on_gpu: int = 3000,
    ) -> tuple[bool, bool]:
        """Tell whether the step on snapshots is compiled, and whether it is compiled or captured.

        `long_run`: rows (steps x seeds x batch size) from which compiling the step pays for
        the ten seconds that it takes with Adam. By benchmarks/training/RESULTS.md a row
        takes an NcAE 3 us less on Lorenz96 and 4 us less on the pendulum, so ten seconds
        are back after two to four million rows; with slower compilers, too, this many are
        sure to pay. The number decides alone, never a clock: compiled and eager training
        differ by rounding, and a seed must mean the same everywhere.

        `long_run_on_gpu`: steps of a run on a GPU from which compiling a step pays; shorter
        runs capture it as it is.
        """
        plan = self.plan.snapshots
        on_gpu = self.device.type == "cuda"
        if on_gpu:
            pays = plan.epochs * per_epoch >= long_run_on_gpu
        else:
            pays = plan.epochs * rows * seeds >= long_run
        # an optimizer of torch or geoopt may look at values
        if callable(plan.optimizer):
            compiled = self._compiled(False)
            return compiled, compiled
        compiled = self._compiled(pays)
        captured = on_gpu and self.engine == "auto"
        return compiled, compiled or captured

    def _compiled(self, pays: bool) -> bool:
        """Tell whether a step is compiled, which has to pay where that is left open."""
        if self.engine != "auto":
            return self.engine == "compiled"
        if not pays:
            return False
        return shutil.which("c++") is not None

    def _checkpoint(
        self, stacked: Projection, rows: AnyBatch, held_out: AnyBatch | None, seeds: Sequence[int]
    ) -> Checkpoint:
        identity = {
            "method": stacked.name,
            "config": stacked.config,
            "recipe": self.plan.to_json(),
            "seeds": list(seeds),
            "data": digest(rows),
        }
        if any(term.needs_field for term in self.plan.loss):
            # of the equations alone: another version of a package is no other run
            provenance = dict(self.system.provenance())
            provenance.pop("versions", None)
            identity["system"] = str(provenance)
        if held_out is not None:
            identity["held_out"] = digest(held_out)
        if self.started:
            identity["start"] = digest(tuple(stacked.parameters()))
        name = f"{stacked.name}-seeds-{seeds[0]}-{seeds[-1]}.safetensors"
        return Checkpoint(Path(self.checkpoint) / name, identity)
