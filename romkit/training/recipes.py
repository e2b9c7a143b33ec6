"""Presets: the settings of a training run, per system where they differ. Any value can be overridden in `fit`."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from romkit import checks
from romkit.errors import InputError
from romkit.projections import Normalization, Projection
from romkit.systems import System
from romkit.training.field_terms import FieldObjective
from romkit.training.loss import Objective
from romkit.training.optimizers import OPTIMIZERS, Optimizer
from romkit.training.phase_fit import PhaseFit
from romkit.training.pipeline import Noise
from romkit.training.rollouts import RolloutTraining
from romkit.training.schedules import SCHEDULES

NOISE_UNITS = ("scale", "deviation", "physical")


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Attributes:
        epochs: passes over the training set.
        batch_size: snapshots per step; the whole set where it is smaller.
        learning_rate: highest rate of the schedule.
        optimizer: a name from `romkit.training.optimizers.OPTIMIZERS`.
        schedule: a name from `romkit.training.schedules.SCHEDULES`. Under noise take "cosine": noise hides from a
            plateau that the loss still falls, and the rate is lowered too soon.
        velocity_weight: w of the velocity term; 0 trains on positions alone.
        penalty_weight: weight of the method's own penalty (‖Φ - Ψ‖² for exact pairs, ‖Ψᵀ Φ - I‖² for SoftNcAE).
        component_weighting: 0 weighs components of one unit by their physical error, as the paper does; 1 by the error
            relative to their own standard deviation, as NRMSE does.
        clip: largest norm of a seed's gradient; infinity for no clipping.
        weight_decay: L2 coefficient.
        every: take each `every`-th time of the dataset.
        state_noise, context_noise: standard deviation of Gaussian noise drawn anew for every batch.
        noise_unit: what they multiply: "scale" (deviation of the states; half the training range of the context),
            "deviation" (also for the context, as if it were uniform over its range: half of that over √3), or
            "physical" (the units of states and contexts).
        latent_weight, invariance_weight: of the terms ‖ẏ - DP(Py) f(Py)‖² and ‖f(Py) - DP(Py) f(Py)‖² of
            `romkit.training.field_terms`; they need the system, of first order.
        fibre_weight: of the term ‖Dφ(z) (Dρ(y) - Dρ(Py)) ẏ‖², z = ρ(y); it needs no system.
        gradient_weight: of the term |gᵀ (y - Py)|², g = DF_τ(y)ᵀ η the gradient of a random future value
            (`romkit.training.gradients`); it needs the system, of first order.
        gradient_horizon: longest time τ of that future, in the time unit of the system.
        rollout_steps: optimizer steps of the refinement by rollouts that follows (`romkit.training.rollouts`), which
            needs the system; 0 for none. The other rollout settings are explained there.
        clock_steps: Gauss-Newton steps on the timing of rollouts after that (`romkit.training.phase_fit`); 0 for none.
        clock_weight: weight of the squared timing error there, per squared time unit.
    """

    epochs: int = 400
    batch_size: int = 128
    learning_rate: float = 1e-2
    optimizer: str = "adam"
    schedule: str = "cosine"
    velocity_weight: float = 1.0
    penalty_weight: float = 1e-3
    component_weighting: float = 0.0
    clip: float = 10.0
    weight_decay: float = 0.0
    every: int = 1
    state_noise: float = 0.0
    context_noise: float = 0.0
    noise_unit: str = "scale"
    latent_weight: float = 0.0
    invariance_weight: float = 0.0
    fibre_weight: float = 0.0
    gradient_weight: float = 0.0
    gradient_horizon: float = 1.0
    rollout_steps: int = 0
    rollout_length: int = 300
    rollout_every: int = 10
    rollout_batch: int = 30
    rollout_weight: float = 1.0
    rollout_learning_rate: float = 1e-3
    rollout_dynamics: str = "petrov-galerkin"
    clock_steps: int = 0
    clock_weight: float = 100.0

    def __post_init__(self):
        for name in ("epochs", "batch_size", "every"):
            checks.at_least(name, getattr(self, name), 1)
        checks.positive("learning_rate", self.learning_rate)
        checks.positive("gradient_horizon", self.gradient_horizon)
        if self.clip != math.inf:
            checks.positive("clip", self.clip)
        for name in _NOT_NEGATIVE:
            checks.not_negative(name, getattr(self, name))
        checks.one_of("optimizer", self.optimizer, OPTIMIZERS)
        checks.one_of("schedule", self.schedule, SCHEDULES)
        checks.one_of("noise_unit", self.noise_unit, NOISE_UNITS)
        self.make_refinement()
        self.make_phase_fit()

    @property
    def needs_system(self) -> bool:
        """Whether the loss evaluates the field of the full model."""
        field_terms = self.latent_weight or self.invariance_weight or self.gradient_weight
        return bool(field_terms or self.rollout_steps or self.clock_steps)

    def make_objective(self, stacked: Projection, system: System | None) -> Objective:
        """The loss on snapshots with this recipe's weights."""
        shared = (stacked, self.velocity_weight, self.penalty_weight, self.component_weighting)
        weights = {name: getattr(self, name) for name in _FIELD_TERMS}
        return FieldObjective(*shared, system=system, **weights) if any(weights.values()) else Objective(*shared)

    def make_refinement(self) -> RolloutTraining:
        """The settings of the refinement by rollouts."""
        names = [field.name for field in dataclasses.fields(RolloutTraining)]
        return RolloutTraining(**{name: getattr(self, f"rollout_{name}") for name in names})

    def make_phase_fit(self) -> PhaseFit:
        """The settings of the refinement of their timing."""
        return PhaseFit(self.clock_steps, self.clock_weight)

    def make_optimizer(self) -> Optimizer:
        """The optimizer with this recipe's settings."""
        return OPTIMIZERS[self.optimizer](clip=self.clip, weight_decay=self.weight_decay)

    def make_noise(self, normalization: Normalization) -> Noise | None:
        """The noise in normalised coordinates, None if there is none."""
        if self.state_noise == 0 and self.context_noise == 0:
            return None
        state, context = torch.ones_like(normalization.state_scale), torch.ones_like(normalization.context_scale)
        state, context = {
            "scale": (state, context),
            "deviation": (state, context / math.sqrt(3)),
            "physical": (1 / normalization.state_scale, 1 / normalization.context_scale),
        }[self.noise_unit]
        return Noise(self.state_noise * state, self.context_noise * context)


_FIELD_TERMS = ("latent_weight", "invariance_weight", "fibre_weight", "gradient_weight")
_NOT_NEGATIVE = (
    "velocity_weight",
    "penalty_weight",
    "component_weighting",
    "weight_decay",
    "state_noise",
    "context_noise",
    *_FIELD_TERMS,
)


def quick(system: str, method: str) -> Recipe:
    """The default: reaches the accuracy of the paper soonest (benchmarks/optimizers), in minutes on a CPU core."""
    penalty = 1.0 if method == "soft-ncae" else 1e-3
    if system == "pendulum":
        rate = {"schedule": "fast-plateau", "learning_rate": 3e-2}
        return Recipe(epochs=650, batch_size=512, every=20, penalty_weight=penalty, **rate)
    return Recipe(penalty_weight=penalty)


def dynamics(system: str, method: str) -> Recipe:
    """`quick`, then a refinement by rollouts, for reduced models that run for a long time.

    They follow the field that lasts once it is trained for: the encoder's on Lorenz96, the decoder's on the pendulum,
    which keeps the energy (studies/rollout_drift).
    """
    if system == "pendulum":  # second order, and its motions are no waves whose timing drifts
        more = {"rollout_steps": 300, "rollout_every": 5, "rollout_length": 60, "rollout_dynamics": "galerkin"}
    else:
        more = {"rollout_steps": 600, "rollout_length": 120, "latent_weight": 1.0, "clock_steps": 12}
    return dataclasses.replace(quick(system, method), rollout_weight=10.0, **more)


def paper(system: str, method: str) -> Recipe:
    """The hyperparameters of the four tables of Adriaens et al. (2026), appendix "Experimental details"."""
    if system not in ("lorenz96", "pendulum"):
        fix = "use preset 'quick', and override what you want to be different"
        raise InputError("preset", expected="data of lorenz96 or pendulum for 'paper'", got=repr(system), fix=fix)
    optimizer, rate, decays, batches = _PAPER[method]
    column = ("lorenz96", "pendulum").index(system)
    return Recipe(
        epochs=10_000,
        batch_size=batches[column],
        learning_rate=rate,
        optimizer=optimizer,
        schedule="plateau",
        weight_decay=decays[column],
        penalty_weight=1.0 if method == "soft-ncae" else 0.0,
        clip=math.inf,
    )


_NCAE = ("riemannian-adam", 5e-2, (1e-6, 1e-5), (128, 4096))
_PAPER = {  # optimizer, learning rate, then weight decay and batch size for Lorenz96 and for the pendulum
    "pod": ("adam", 1e-3, (0.0, 0.0), (128, 128)),  # nothing is trained
    "ae": ("adam", 1e-2, (1e-6, 1e-6), (256, 2048)),
    "context-ae": ("adam", 1e-3, (1e-6, 1e-6), (128, 2048)),
    "film-ae": ("adam", 1e-3, (1e-6, 1e-6), (128, 2048)),
    "cae": ("riemannian-adam", 5e-2, (1e-6, 1e-5), (512, 2048)),
    "context-cae": ("riemannian-adam", 5e-2, (1e-6, 1e-5), (256, 4096)),
    "soft-ncae": ("adam", 5e-2, (1e-6, 1e-5), (128, 4096)),
    "ncae": _NCAE,
    "ncae-bias": _NCAE,
    "ncae-slope": _NCAE,
}

PRESETS: dict[str, Callable[[str, str], Recipe]] = {"quick": quick, "paper": paper, "dynamics": dynamics}
"""Presets by name: each gives the recipe for a system and a method."""

SETTINGS = tuple(field.name for field in dataclasses.fields(Recipe))


def recipe(preset: str, system: str, method: str, overrides: dict[str, object]) -> Recipe:
    """The recipe of a preset for this system and method, with `overrides` applied.

    Raises:
        InputError: unknown preset, or a value that cannot be used.
    """
    checks.one_of("preset", preset, PRESETS)
    return dataclasses.replace(PRESETS[preset](system, method), **overrides)
