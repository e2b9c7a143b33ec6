"""A recipe, all settings of a training run beside method, data and seed; and the run of its stages."""

import dataclasses
import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks
from romkit.core.boundary import Count, Limit, NotNegative, Positive, validated
from romkit.core.errors import InputError
from romkit.data import times_of
from romkit.engine.captured import accelerate
from romkit.engine.inductor import fast_or_eager
from romkit.engine.threads import one_thread
from romkit.projections import Frame, Projection, stack, unstack
from romkit.systems import System
from romkit.training.batches import (
    AnyBatch,
    Batch,
    FlatParameters,
    Noise,
    batches,
    batches_per_epoch,
)
from romkit.training.loop import Checkpoint, Reports, Snapshot, Watch, by_seed, train
from romkit.training.loss import (
    Anchor,
    LatentVelocity,
    LossTerm,
    Objective,
    Penalty,
    Reconstruction,
    attached,
    check_autonomous,
)
from romkit.training.optimizers import OPTIMIZERS, SCHEDULES, Optimizer, TorchOptimizer
from romkit.training.phase import PhaseFit, phase_fit
from romkit.training.rollouts import EvenTrajectories, RolloutTraining, refine

NOISE_UNITS = ("scale", "deviation", "physical")


OptimizerLike = Annotated[
    str | Callable[[Sequence[Tensor]], torch.optim.Optimizer],
    lambda argument, value: (
        value if callable(value) else checks.one_of(argument, value, OPTIMIZERS)
    ),
]
"""A name, or a function from parameters to an optimizer of torch or geoopt."""


@validated
@dataclass(frozen=True)
class SnapshotTraining:
    """Training on snapshots.

    Attributes:
        epochs: passes over the training set.
        batch_size: snapshots per step; the whole set where it is smaller.
        learning_rate: highest rate of the schedule.
        optimizer: a name from `romkit.training.optimizers.OPTIMIZERS`: "adam", "riemannian-adam",
            or "soap", which is Adam in coordinates where gradients are uncorrelated; or a function
            from parameters to an optimizer of torch or geoopt: `torch.optim.AdamW`, `lambda p:
            geoopt.optim.RiemannianAdam(p, lr=5e-2)`. The latter have their own learning rate and
            weight decay, and get the schedule and the clipping.
        schedule: a name from `romkit.training.optimizers.SCHEDULES`. Under noise take "cosine":
            noise hides from a plateau that the loss still falls, and the rate is lowered too soon.
        clip: largest norm of a seed's gradient; infinity for no clipping.
        weight_decay: L2 coefficient.
        every: take each `every`-th time of the dataset.
        state_noise, context_noise: standard deviation of Gaussian noise drawn anew for every batch.
        noise_unit: unit of these: "scale" (deviation of the states; half the training range of the
            context), "deviation" (also for the context, as if it were uniform over its range: half
            of that over √3), or "physical" (the units of states and contexts).

    Example:
        >>> from romkit.training import SnapshotTraining
        >>> SnapshotTraining(epochs=100, schedule="fast-plateau", state_noise=0.01).batch_size
        128
        >>> SnapshotTraining(schedule="none")
        Traceback (most recent call last):
            ...
        romkit.core.errors.InputError: schedule: expected one of constant, cosine, ..., got 'none'; did
        you mean 'cosine'?
    """

    epochs: Count = 400
    batch_size: Count = 128
    learning_rate: Positive = 1e-2
    optimizer: OptimizerLike = "adam"
    schedule: Annotated[str, checks.choice(SCHEDULES)] = "cosine"
    clip: Limit = 10.0
    weight_decay: NotNegative = 0.0
    every: Count = 1
    state_noise: NotNegative = 0.0
    context_noise: NotNegative = 0.0
    noise_unit: Annotated[str, checks.choice(NOISE_UNITS)] = "scale"

    def make_optimizer(self) -> Optimizer:
        """The optimizer with these settings."""
        if callable(self.optimizer):
            return TorchOptimizer(self.optimizer, self.learning_rate, self.clip)
        return OPTIMIZERS[self.optimizer](clip=self.clip, weight_decay=self.weight_decay)

    @validated
    def make_noise(self, frame: Frame) -> Noise | None:
        """The noise in normalised coordinates, None if there is none."""
        if self.state_noise == 0 and self.context_noise == 0:
            return None
        state, context = torch.ones_like(frame.state_scale), torch.ones_like(frame.context_scale)
        if self.noise_unit == "physical":
            state, context = 1 / frame.state_scale, 1 / frame.context_scale
        if self.noise_unit == "deviation":
            context = context / math.sqrt(3)
        return Noise(self.state_noise * state, self.context_noise * context)


@validated
@dataclass(frozen=True)
class Recipe:
    """Settings of the stages of a training: snapshots, then, where they are set, rollouts, and then
    their timing.

    Attributes:
        snapshots: training on snapshots.
        loss: its terms, of `romkit.training.loss` or the user's own.
        component_weighting: of the norm, here and in rollouts: 0 weighs components of one unit by
            their physical error, as the paper does; 1 by the error relative to their own standard
            deviation, as NRMSE does.
        rollouts: refinement by rollouts, which needs the system.
        phase: refinement of their timing, which needs it as well.

    Raises:
        InputError: a loss without terms.

    Example:
        >>> import romkit
        >>> from romkit.training import Recipe, SnapshotTraining
        >>> recipe = Recipe(SnapshotTraining(epochs=2, batch_size=64), component_weighting=1.0)
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> ncae = romkit.fit("ncae", data, latent_dim=2, preset=recipe, verbose=False)
        >>> len(ncae.report["losses"])
        2
        >>> recipe.with_settings({"epochs": 100}).snapshots.epochs
        100
    """

    snapshots: SnapshotTraining = SnapshotTraining()
    loss: Sequence[LossTerm] = (Reconstruction(), Penalty())
    component_weighting: NotNegative = 0.0
    rollouts: RolloutTraining | None = None
    phase: PhaseFit | None = None

    def __post_init__(self):
        if not self.loss:
            fix = "give loss=[romkit.training.Reconstruction(), ...]"
            raise InputError("loss", expected="a list of terms", got="none", fix=fix)

    @property
    def needs_system(self) -> bool:
        """Whether training evaluates the field of the full model."""
        return bool(self.rollouts or self.phase or any(term.needs_field for term in self.loss))

    @property
    def timing(self) -> PhaseFit | None:
        """`phase`, along the trajectories of `rollouts` where it names no others."""
        if self.phase is None:
            return None
        rollouts = self.rollouts or RolloutTraining()
        every, dynamics = (
            self.phase.every or rollouts.every,
            self.phase.dynamics or rollouts.dynamics,
        )
        return dataclasses.replace(self.phase, every=every, dynamics=dynamics)

    @validated
    def with_settings(self, settings: Mapping[str, object]) -> "Recipe":
        """The recipe with other values: its parts, settings of snapshots, weights of terms, dotted
        names of parts.

        Parts come first, so that `rollouts=RolloutTraining(...)` and `rollouts.steps=30` may be
        given together.

        Raises:
            InputError: an unknown name, or a value that cannot be used.
        """
        recipe = self
        for name in sorted(settings, key=lambda name: name not in FIELDS):
            checks.one_of("settings", name, SETTINGS)
            part, _, inner = name.rpartition(".")
            value, part = settings[name], part or "snapshots"
            if name in WEIGHTS:
                changed = {"loss": _reweighted(recipe.loss, *WEIGHTS[name], value)}
            elif name not in FIELDS:
                changed = {
                    part: _changed(getattr(recipe, part) or PARTS[part](), name, inner, value)
                }
            else:
                changed = {name: value}
            recipe = dataclasses.replace(recipe, **changed)
        return recipe

    def to_json(self) -> dict[str, object]:
        """Plain values; terms by the names of their classes, an optimizer of the user's by its own."""
        recipe = dataclasses.asdict(
            dataclasses.replace(self, loss=(Reconstruction(),), phase=self.timing)
        )
        if callable(self.snapshots.optimizer):
            recipe["snapshots"]["optimizer"] = getattr(
                self.snapshots.optimizer, "__qualname__", "a factory"
            )
        loss = []
        for term in self.loss:  # its fields, or the attributes of one that is no dataclass
            given = dataclasses.asdict(term) if dataclasses.is_dataclass(term) else vars(term)
            loss.append(
                {"term": type(term).__name__} | json.loads(json.dumps(given, default=_text))
            )
        return recipe | {"loss": loss}


def _changed(part: object, name: str, inner: str, value: object) -> object:
    """A part with another value of one of its settings; errors call it as the user did."""
    try:
        return dataclasses.replace(part, **{inner: value})
    except InputError as error:
        raise InputError(name, expected=error.expected, got=error.got, fix=error.fix) from error


def _reweighted(
    loss: Sequence[LossTerm], kind: type[LossTerm], name: str, value: object
) -> list[LossTerm]:
    """`loss` with that weight in its term of this kind, which is added if need be, and left out at
    weight 0.
    """
    loss = loss if any(isinstance(term, kind) for term in loss) else [*loss, kind()]
    changed = [dataclasses.replace(t, **{name: value}) if isinstance(t, kind) else t for t in loss]
    return [
        term for term in changed if not (isinstance(term, kind) and getattr(term, "weight", 1) == 0)
    ]


def _text(value: object) -> str:
    """Short representation of a value: its text, or the SHA-256 of a long one."""
    text = str(value.tolist()) if hasattr(value, "tolist") else repr(value)
    if len(text) <= 80:
        return text
    return f"{type(value).__name__} with SHA-256 {hashlib.sha256(text.encode()).hexdigest()}"


PARTS = {"snapshots": SnapshotTraining, "rollouts": RolloutTraining, "phase": PhaseFit}
FIELDS = tuple(each.name for each in dataclasses.fields(Recipe))
WEIGHTS = {
    "velocity_weight": (Reconstruction, "velocity_weight"),
    "penalty_weight": (Penalty, "weight"),
    "latent_weight": (LatentVelocity, "weight"),
    "anchor_weight": (Anchor, "weight"),
}
"""Weights of common terms by the names that `romkit.fit` takes."""

SETTINGS = (
    *FIELDS,
    *WEIGHTS,
    *(each.name for each in dataclasses.fields(SnapshotTraining)),
    *(f"{part}.{each.name}" for part, kind in PARTS.items() for each in dataclasses.fields(kind)),
)
"""Every name that `Recipe.with_settings` takes."""


CACHE_ROWS = 10_000
"""Rows (seeds x batch size) of a step that still fit the cache of a CPU core."""

LONG_RUN = 10_000_000
"""Rows (steps x seeds x batch size) from which compiling the step pays for the ten seconds that it
takes with Adam.

By benchmarks/training/RESULTS.md a row takes an NcAE 3 us less on Lorenz96 and 4 us less on the
pendulum, so ten seconds are back after two to four million rows; with slower compilers, too, this
many are sure to pay. The number decides alone, never a clock: compiled and eager training differ by
rounding, and a seed must mean the same everywhere.
"""

LONG_RUN_ON_GPU = 3000
"""Steps of a run on a GPU from which compiling a step pays; shorter runs capture it as it is."""


def digest(tensors: Sequence[Tensor]) -> str:
    """SHA-256 of tensors, by which a checkpoint knows its data."""
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return total.hexdigest()


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
    """

    plan: Recipe
    data: xr.Dataset
    system: System | None
    device: torch.device
    engine: str
    checkpoint: str | os.PathLike | None
    watch: Watch
    held_out: xr.Dataset | None
    started: bool = False
    unit: float = 1.0

    def train(self, models: Sequence[Projection], seeds: Sequence[int]) -> list[Projection]:
        """The trained models, on the CPU, each with a report of how it went.

        Args:
            models: one per seed, alike but for their parameters.
            seeds: seed s determines the order of its data, whatever its neighbours are.
        """
        frame = models[0].frame
        rows = self._snapshots(self.data, frame)
        held_out = None if self.held_out is None else self._snapshots(self.held_out, frame)
        self._check(rows, frame)
        facts = self._initialised(models, rows)
        loss = [term.prepared(rows) for term in self.plan.loss]
        size = len(seeds)
        if self.device.type != "cuda":
            size = max(1, CACHE_ROWS // self.plan.snapshots.batch_size)
        trained = []
        with one_thread():
            rows = self._ready(rows, loss, frame)
            held_out = held_out and self._ready(held_out, loss, frame)
            for first in range(0, len(seeds), size):
                part = slice(first, first + size)
                stacked = stack(models[part]).to(self.device)
                reports = self._train_stack(stacked, loss, rows, held_out, seeds[part])
                pairs = zip(reports, facts[part], strict=True)
                stacked.report = {"seeds": [report | more for report, more in pairs]}
                trained += unstack(stacked.cpu())
        return trained

    def _snapshots(self, data: xr.Dataset, frame: Frame, dtype: torch.dtype | None = None) -> Batch:
        every = self.plan.snapshots.every
        return Batch.from_dataset(data, frame, every, self.unit, dtype)

    def _refinements(self) -> list[tuple[Callable[..., Reports], object]]:
        """Functions and settings of the stages after that on snapshots."""
        stages = ((refine, self.plan.rollouts), (phase_fit, self.plan.timing))
        return [(function, settings) for function, settings in stages if settings]

    def _check(self, rows: Batch, frame: Frame) -> None:
        """Raise for data or a system that a later stage would refuse after hours."""
        for _, settings in self._refinements():
            EvenTrajectories.from_dataset(self.data, settings.every, like=rows.y)
        if self.system is not None:
            check_autonomous(self.system, rows, frame, times_of(self.data))

    def _initialised(self, models: Sequence[Projection], rows: Batch) -> list[Mapping[str, object]]:
        """Facts about the models' parameters from data, which they take over."""
        if self.started:
            return [{} for _ in models]
        if not models[0].trained:
            # what is least squares alone gets all digits of the data
            rows = self._snapshots(self.data, models[0].frame, torch.float64)
        if models[0].takes_gaps:
            rows = Batch.with_gaps(self.data, models[0].frame, self.plan.snapshots.every)
        return [model.initialise(rows.y, rows.c) or {} for model in models]

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
        ends = [self._on_snapshots(objective, rows, held_out, seeds)]
        batch_size = self.plan.snapshots.batch_size
        for function, settings in self._refinements():
            call = partial(function, objective, rows, self.data, settings, seeds, batch_size)
            ends.append(fast_or_eager(call, self._compiled(True))[0])
        for end in ends:
            reports = [report | more for report, more in zip(reports, end, strict=True)]
        return reports

    def _ready(self, rows: Batch, loss: Sequence[LossTerm], frame: Frame) -> AnyBatch:
        """Snapshots with what the loss attaches to them, on the device."""
        rows = attached(rows, loss, frame, self.plan.component_weighting, self.system)
        return rows._make(tensor.to(self.device) for tensor in rows)

    def _on_snapshots(
        self, objective: Objective, rows: AnyBatch, held_out: AnyBatch | None, seeds: Sequence[int]
    ) -> Reports:
        plan, stacked, on_gpu = (
            self.plan.snapshots,
            objective.projection,
            self.device.type == "cuda",
        )
        per_epoch = batches_per_epoch(len(rows.y), plan.batch_size)
        passed = plan.epochs * len(rows.y) * len(seeds)
        long = plan.epochs * per_epoch >= LONG_RUN_ON_GPU if on_gpu else passed >= LONG_RUN
        one_function = not callable(plan.optimizer)  # others may look at values
        compiled = self._compiled(long and one_function)
        checkpoint = (
            None if self.checkpoint is None else self._checkpoint(stacked, rows, held_out, seeds)
        )
        flat, noise = FlatParameters(stacked), plan.make_noise(stacked.frame)

        def run(fast: bool) -> tuple[Snapshot, float]:
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
                accelerated=partial(accelerate, device=self.device, compiled=compiled)
                if fast
                else None,
                checkpoint=checkpoint,
                watch=self.watch,
                held_out=held_out,
            )

        (end, seconds), fast = fast_or_eager(
            run, compiled or (on_gpu and one_function and self.engine == "auto")
        )
        shared = {"seconds": seconds, "seeds_in_stack": len(seeds)}
        shared |= {"compiled": compiled and fast, "captured": on_gpu and fast}
        columns = {"diverged": ~end.state.alive.squeeze(1), "losses": end.losses.T}
        if held_out is not None:
            columns |= {"validation_losses": end.best.losses.T, "best_epoch": end.best.epoch.int()}
        return [report | shared for report in by_seed(**columns)]

    def _compiled(self, pays: bool) -> bool:
        return self.engine == "compiled" or (
            self.engine == "auto" and pays and shutil.which("c++") is not None
        )

    def _checkpoint(
        self, stacked: Projection, rows: AnyBatch, held_out: AnyBatch | None, seeds: Sequence[int]
    ) -> Checkpoint:
        identity = {"method": stacked.name, "config": stacked.config, "recipe": self.plan.to_json()}
        identity |= {"seeds": list(seeds), "data": digest(rows)}
        if any(term.needs_field for term in self.plan.loss):
            identity["system"] = str(
                {k: v for k, v in self.system.provenance().items() if k != "versions"}
            )
        if held_out is not None:
            identity["held_out"] = digest(held_out)
        if self.started:
            identity["start"] = digest(tuple(stacked.parameters()))
        name = f"{stacked.name}-seeds-{seeds[0]}-{seeds[-1]}.safetensors"
        return Checkpoint(Path(self.checkpoint) / name, identity)
