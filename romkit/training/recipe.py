"""A recipe: everything that a training run depends on beside method, data and seed."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch

from romkit.core import checks
from romkit.core.boundary import Count, Limit, NotNegative, Positive, validated
from romkit.core.errors import InputError
from romkit.projections import Frame
from romkit.training.batches import Noise
from romkit.training.loss import LatentVelocity, Penalty, Reconstruction, Term
from romkit.training.optimizers import OPTIMIZERS, Foreign, Optimizer
from romkit.training.phase_fit import PhaseFit
from romkit.training.rollouts import RolloutTraining
from romkit.training.schedules import SCHEDULES

NOISE_UNITS = ("scale", "deviation", "physical")


def _optimizer(argument: str, value: object) -> object:
    return value if callable(value) else checks.one_of(argument, value, OPTIMIZERS)


OptimizerLike = Annotated[str | Callable[[Sequence[torch.Tensor]], torch.optim.Optimizer], _optimizer]
"""A name, or what makes an optimizer of torch or geoopt from parameters."""


@validated
@dataclass(frozen=True)
class Snapshots:
    """Training on snapshots.

    Attributes:
        epochs: passes over the training set.
        batch_size: snapshots per step; the whole set where it is smaller.
        learning_rate: highest rate of the schedule.
        optimizer: a name from `romkit.training.optimizers.OPTIMIZERS`: "adam", "riemannian-adam", or "soap", which is
            Adam in coordinates where gradients are uncorrelated; or what makes an optimizer of torch or geoopt from
            parameters: `torch.optim.AdamW`, `lambda p: geoopt.optim.RiemannianAdam(p, lr=5e-2)`. The latter have their
            own learning rate and weight decay, and get the schedule and the clipping.
        schedule: a name from `romkit.training.schedules.SCHEDULES`. Under noise take "cosine": noise hides from a
            plateau that the loss still falls, and the rate is lowered too soon.
        clip: largest norm of a seed's gradient; infinity for no clipping.
        weight_decay: L2 coefficient.
        every: take each `every`-th time of the dataset.
        state_noise, context_noise: standard deviation of Gaussian noise drawn anew for every batch.
        noise_unit: what they multiply: "scale" (deviation of the states; half the training range of the context),
            "deviation" (also for the context, as if it were uniform over its range: half of that over √3), or
            "physical" (the units of states and contexts).

    Example:
        >>> from romkit.training import Snapshots
        >>> Snapshots(epochs=100, schedule="fast-plateau", state_noise=0.01).batch_size
        128
        >>> Snapshots(schedule="none")
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
            return Foreign(self.optimizer, self.learning_rate, self.clip)
        return OPTIMIZERS[self.optimizer](clip=self.clip, weight_decay=self.weight_decay)

    @validated
    def make_noise(self, frame: Frame) -> Noise | None:
        """The noise in normalised coordinates, None if there is none."""
        if self.state_noise == 0 and self.context_noise == 0:
            return None
        state, context = torch.ones_like(frame.state_scale), torch.ones_like(frame.context_scale)
        state, context = {
            "scale": (state, context),
            "deviation": (state, context / math.sqrt(3)),
            "physical": (1 / frame.state_scale, 1 / frame.context_scale),
        }[self.noise_unit]
        return Noise(self.state_noise * state, self.context_noise * context)


@validated
@dataclass(frozen=True)
class Recipe:
    """How to train: on snapshots, then, where they are set, by rollouts, and then their timing.

    Attributes:
        snapshots: training on snapshots.
        loss: its terms, of `romkit.training.loss` or the user's own.
        component_weighting: of the norm, here and in rollouts: 0 weighs components of one unit by their physical error,
            as the paper does; 1 by the error relative to their own standard deviation, as NRMSE does.
        rollouts: refinement by rollouts, which needs the system.
        phase: refinement of their timing, which needs it as well.

    Raises:
        InputError: a loss without terms.

    Example:
        >>> import romkit
        >>> from romkit.training import Recipe, Snapshots
        >>> recipe = Recipe(Snapshots(epochs=2, batch_size=64), component_weighting=1.0)
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> ncae = romkit.fit("ncae", data, latent_dim=2, preset=recipe, verbose=False)
        >>> len(ncae.report["losses"])
        2
        >>> recipe.with_settings({"epochs": 100}).snapshots.epochs
        100
    """

    snapshots: Snapshots = Snapshots()
    loss: Sequence[Term] = (Reconstruction(), Penalty())
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
        every, dynamics = self.phase.every or rollouts.every, self.phase.dynamics or rollouts.dynamics
        return dataclasses.replace(self.phase, every=every, dynamics=dynamics)

    @validated
    def with_settings(self, settings: Mapping[str, object]) -> "Recipe":
        """The recipe with other values: its parts, settings of snapshots, weights of terms, dotted names of parts.

        Parts come first, so that `rollouts=RolloutTraining(...)` and `rollouts.steps=30` may be given together.

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
                changed = {part: _changed(getattr(recipe, part) or PARTS[part](), name, inner, value)}
            else:
                changed = {name: value}
            recipe = dataclasses.replace(recipe, **changed)
        return recipe

    def to_json(self) -> dict[str, object]:
        """Plain values; terms by the names of their classes, an optimizer of the user's by its own."""
        recipe = dataclasses.asdict(dataclasses.replace(self, loss=(Reconstruction(),), phase=self.timing))
        if callable(self.snapshots.optimizer):
            recipe["snapshots"]["optimizer"] = getattr(self.snapshots.optimizer, "__qualname__", "a factory")
        return recipe | {"loss": [{"term": type(term).__name__, **_fields(term)} for term in self.loss]}


def _changed(part: object, name: str, inner: str, value: object) -> object:
    """A part with another value of one of its settings; errors call it as the user did."""
    try:
        return dataclasses.replace(part, **{inner: value})
    except InputError as error:
        raise InputError(name, expected=error.expected, got=error.got, fix=error.fix) from error


def _reweighted(loss: Sequence[Term], kind: type[Term], name: str, value: object) -> list[Term]:
    """`loss` with that weight in its term of this kind, which is added if need be, and left out at weight 0."""
    loss = loss if any(isinstance(term, kind) for term in loss) else [*loss, kind()]
    changed = [dataclasses.replace(t, **{name: value}) if isinstance(t, kind) else t for t in loss]
    return [term for term in changed if not (isinstance(term, kind) and getattr(term, "weight", 1) == 0)]


def _fields(term: Term) -> dict[str, object]:
    """Settings of a term as plain values: its fields, or the attributes of one that is no dataclass."""
    given = dataclasses.asdict(term) if dataclasses.is_dataclass(term) else vars(term)
    return json.loads(json.dumps(given, default=_text))


def _text(value: object) -> str:
    """What tells a value from others, in few words."""
    text = str(value.tolist()) if hasattr(value, "tolist") else repr(value)
    if len(text) <= 80:
        return text
    return f"{type(value).__name__} with SHA-256 {hashlib.sha256(text.encode()).hexdigest()}"


PARTS = {"snapshots": Snapshots, "rollouts": RolloutTraining, "phase": PhaseFit}
FIELDS = tuple(each.name for each in dataclasses.fields(Recipe))
WEIGHTS = {
    "velocity_weight": (Reconstruction, "velocity_weight"),
    "penalty_weight": (Penalty, "weight"),
    "latent_weight": (LatentVelocity, "weight"),
}
"""Weights of common terms by the names that `romkit.fit` takes."""

SETTINGS = (
    *FIELDS,
    *WEIGHTS,
    *(each.name for each in dataclasses.fields(Snapshots)),
    *(f"{part}.{each.name}" for part, kind in PARTS.items() for each in dataclasses.fields(kind)),
)
"""Every name that `Recipe.with_settings` takes."""
