"""Presets: the settings of a training run, per system where they differ. Any value can be overridden in `fit`."""

import dataclasses
from dataclasses import dataclass

from romkit import checks
from romkit.errors import InputError


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Attributes:
        epochs: passes over the training set.
        batch_size: snapshots per step; the whole set where it is smaller.
        learning_rate: peak of the schedule (linear warm-up over 1 % of the steps, then a cosine to zero).
        velocity_weight: w of the velocity term; 0 trains on positions alone.
        penalty_weight: weight of the method's own penalty (‖Φ - Ψ‖² for exact pairs, ‖Ψᵀ Φ - I‖² for SoftNcAE).
        balance: 0 weighs all components of one unit by their physical error, as the paper does; 1 by the error
            relative to their own standard deviation, as NRMSE does.
        clip: largest norm of a seed's gradient.
        weight_decay: L2 coefficient.
        every: take each `every`-th time of the dataset.
    """

    epochs: int = 400
    batch_size: int = 128
    learning_rate: float = 1e-2
    velocity_weight: float = 1.0
    penalty_weight: float = 1e-3
    balance: float = 0.0
    clip: float = 10.0
    weight_decay: float = 0.0
    every: int = 1

    def __post_init__(self):
        for name in ("epochs", "batch_size", "every"):
            checks.at_least(name, getattr(self, name), 1)
        for name in ("learning_rate", "clip"):
            checks.positive(name, getattr(self, name))


PRESETS: dict[str, dict[str, Recipe]] = {
    "quick": {
        "": Recipe(),
        "lorenz96": Recipe(),
        "pendulum": Recipe(epochs=1300, batch_size=512, every=20),
    },
}
"""Preset -> system -> recipe; the entry "" is for every other system."""

SETTINGS = tuple(field.name for field in dataclasses.fields(Recipe))


def recipe(preset: str, system: str, method: str, overrides: dict[str, object]) -> Recipe:
    """The recipe of a preset for this system, with `overrides` applied.

    Raises:
        InputError: unknown preset, or a value that cannot be used.
    """
    checks.one_of("preset", preset, PRESETS)
    base = PRESETS[preset].get(system, PRESETS[preset][""])
    if method == "soft-ncae":
        base = dataclasses.replace(base, penalty_weight=1.0)  # the paper's coefficient
    try:
        return dataclasses.replace(base, **overrides)
    except TypeError as error:
        raise InputError(
            ", ".join(overrides),
            expected="settings of a preset",
            got=str(error),
            fix=f"choose from {', '.join(SETTINGS)}",
        ) from error
