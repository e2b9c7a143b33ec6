"""Training models from start to end, in stacks of seeds: on snapshots, by rollouts, and their timing."""

import copy
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import xarray as xr

from romkit.data import times_of
from romkit.engine.fast_path import accelerate, fast_or_eager
from romkit.engine.threads import one_thread
from romkit.projections import Projection, stack, unstack
from romkit.systems import System
from romkit.training.checkpoint import Checkpoint, digest
from romkit.training.loop import train
from romkit.training.loss import Objective, attached, check_autonomous
from romkit.training.phase_fit import phase_fit
from romkit.training.pipeline import AnyBatch, Batch, batches_per_epoch
from romkit.training.recipe import Recipe
from romkit.training.rollouts import Trajectories, refine
from romkit.training.watch import Watch

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
        rows = Batch.from_dataset(self.data, models[0].normalization, self.plan.snapshots.every)
        for stage in filter(None, (self.plan.rollouts, self.plan.timing)):  # refused now, not hours later
            Trajectories.from_dataset(self.data, stage.every, like=rows.y)
        if self.system is not None:
            check_autonomous(self.system, rows, models[0].normalization, times_of(self.data))
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
            rows = attached(rows, plan.loss, model.normalization, plan.component_weighting, self.system)
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
        normalization = copy.deepcopy(model.normalization).cpu()
        return self._ready(Batch.from_dataset(self.held_out, normalization, self.plan.snapshots.every), model)

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
