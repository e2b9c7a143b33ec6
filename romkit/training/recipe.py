"""Recipe: all settings of a training run beside method, data and seed."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from romkit.core import checks
from romkit.core.boundary import Count, Limit, NotNegative, Positive, validated
from romkit.core.errors import InputError
from romkit.core.types import Entries, Names
from romkit.projections import Frame
from romkit.training.batches import Noise
from romkit.training.loss import Anchor, LatentVelocity, LossTerm, Penalty, Reconstruction
from romkit.training.optimizers import OPTIMIZERS, Optimizer, TorchOptimizer
from romkit.training.phase import PhaseFit
from romkit.training.rollouts import RolloutTraining
from romkit.training.schedules import SCHEDULES

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
        schedule: a name from `romkit.training.schedules.SCHEDULES`. Under noise take "cosine":
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
        """Return the optimizer with these settings."""
        if callable(self.optimizer):
            return TorchOptimizer(self.optimizer, self.learning_rate, self.clip)
        return OPTIMIZERS[self.optimizer](clip=self.clip, weight_decay=self.weight_decay)

    @validated
    def make_noise(self, frame: Frame) -> Noise | None:
        """Return the noise in normalised coordinates, None if there is none."""
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
            deviation, as `score(..., per_component=True)` does.
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
        >>> recipe.replace_settings({"epochs": 100}).snapshots.epochs
        100
    """

    snapshots: SnapshotTraining = SnapshotTraining()
    loss: Sequence[LossTerm] = (Reconstruction(), Penalty())
    component_weighting: NotNegative = 0.0
    rollouts: RolloutTraining | None = None
    phase: PhaseFit | None = None

    def __post_init__(self):
        if not self.loss:
            raise InputError(
                "loss",
                expected="a list of terms",
                got="none",
                fix="give loss=[romkit.training.Reconstruction(), ...]",
            )

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
        every = self.phase.every or rollouts.every
        dynamics = self.phase.dynamics or rollouts.dynamics
        return dataclasses.replace(self.phase, every=every, dynamics=dynamics)

    @validated
    def replace_settings(self, settings: Mapping[str, object]) -> "Recipe":
        """Return the recipe with other values: its parts, settings of snapshots, weights of terms,
        dotted names of parts.

        Parts come first, so that `rollouts=RolloutTraining(...)` and `rollouts.steps=30` may be
        given together.

        Raises:
            InputError: an unknown name, or a value that cannot be used.
        """
        recipe = self
        for name in sorted(settings, key=lambda name: name not in FIELDS):
            checks.one_of("settings", name, SETTINGS)
            recipe = recipe._replaced(name, settings[name])
        return recipe

    def _replaced(self, name: str, value: object) -> "Recipe":
        """Return the recipe with another value of a setting."""
        if name in FIELDS:
            return dataclasses.replace(self, **{name: value})
        if name in WEIGHTS:
            return dataclasses.replace(self, loss=_reweighted(self.loss, *WEIGHTS[name], value))
        stage, _, field = name.rpartition(".")
        stage = stage or "snapshots"
        settings = getattr(self, stage) or STAGES[stage]()
        return dataclasses.replace(self, **{stage: _changed(settings, name, field, value)})

    def to_json(self) -> Entries:
        """Plain values; terms by the names of their classes, an optimizer of the user's by its own."""
        plain = dataclasses.replace(self, loss=(Reconstruction(),), phase=self.timing)
        recipe = dataclasses.asdict(plain)
        optimizer = self.snapshots.optimizer
        if callable(optimizer):
            name = getattr(optimizer, "__qualname__", "a factory")
            recipe["snapshots"]["optimizer"] = name
        return recipe | {"loss": [_plain_term(term) for term in self.loss]}


def _plain_term(term: LossTerm) -> Entries:
    """Class and fields of a term, or the attributes of one that is no dataclass."""
    fields = dataclasses.asdict(term) if dataclasses.is_dataclass(term) else vars(term)
    return {"term": type(term).__name__} | json.loads(json.dumps(fields, default=_text))


def _changed(stage: object, name: str, field: str, value: object) -> object:
    """Return settings of a stage with another value of one; errors call it as the user did."""
    try:
        return dataclasses.replace(stage, **{field: value})
    except InputError as error:
        raise InputError(name, expected=error.expected, got=error.got, fix=error.fix) from error


def _reweighted(
    loss: Sequence[LossTerm], kind: type[LossTerm], name: str, value: object
) -> list[LossTerm]:
    """`loss` with that weight in its term of this kind, which is added if need be, and left out at
    weight 0.
    """
    if not any(isinstance(term, kind) for term in loss):
        loss = [*loss, kind()]
    changed = []
    for term in loss:
        if isinstance(term, kind):
            term = dataclasses.replace(term, **{name: value})
            if getattr(term, "weight", 1) == 0:
                continue
        changed.append(term)
    return changed


def _text(value: object) -> str:
    """Short representation of a value: its text, or the SHA-256 of a long one."""
    text = str(value.tolist()) if hasattr(value, "tolist") else repr(value)
    if len(text) <= 80:
        return text
    return f"{type(value).__name__} with SHA-256 {hashlib.sha256(text.encode()).hexdigest()}"


STAGES = {"snapshots": SnapshotTraining, "rollouts": RolloutTraining, "phase": PhaseFit}
FIELDS = tuple(field.name for field in dataclasses.fields(Recipe))
WEIGHTS = {
    "velocity_weight": (Reconstruction, "velocity_weight"),
    "penalty_weight": (Penalty, "weight"),
    "latent_weight": (LatentVelocity, "weight"),
    "anchor_weight": (Anchor, "weight"),
}
"""Weights of common terms by the names that `romkit.fit` takes."""


def _names() -> Names:
    names = [*FIELDS, *WEIGHTS]
    names += [field.name for field in dataclasses.fields(SnapshotTraining)]
    for stage, kind in STAGES.items():
        names += [f"{stage}.{field.name}" for field in dataclasses.fields(kind)]
    return tuple(names)


SETTINGS = _names()
"""Every name that `Recipe.replace_settings` takes."""
