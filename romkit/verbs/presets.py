"""All that romkit knows about particular systems: layer sizes and training settings, in presets by
name.

What is not of the paper or its systems gets the rule of `romkit.projections.architecture` and the
defaults.
"""

import math
from collections.abc import Callable

from romkit.core import checks
from romkit.core.boundary import validated
from romkit.core.errors import InputError
from romkit.core.types import Entries
from romkit.projections import Frame, Projection, architecture
from romkit.projections.constrained import typical_layers
from romkit.projections.sizes import check_chain
from romkit.training import (
    Anchor,
    LatentVelocity,
    Penalty,
    PhaseFit,
    Recipe,
    Reconstruction,
    RolloutTraining,
    SnapshotTraining,
)

_LORENZ_AE = {"encoder": (36, 24, 12, 2), "decoder": (2, 12, 24, 36)}
_LORENZ_NCAE = {"layers": (2, 18, 36), "embedding": (1, 2, 2, 2)}
_PENDULUM_AE = {"encoder": (16, 16, 16, 8, 4), "decoder": (4, 8, 16, 16, 16)}
_LORENZ_FLOW = {"latent_dim": 2, "units": (21, 21, 21), "embedding": (1, 8, 4), "bandwidth": 10.0}
_PENDULUM_FLOW = {"latent_dim": 4, "units": ((32, 32),), "embedding": (4, 8, 4)}
_PENDULUM_NCAE = {"layers": (4, 8, 12, 14, 16), "embedding": (4, 4, 4)}

SIZES: dict[str, dict[str, Entries]] = {
    "lorenz96": {
        "pod": {"latent_dim": 2},
        "polynomial-manifold": {"latent_dim": 2},
        "ae": _LORENZ_AE,
        "context-ae": {"encoder": (36, 20, 2), "decoder": (2, 12, 24, 36)},
        "film-ae": _LORENZ_AE,
        "cae": {"layers": (2, 21, 36)},
        "context-cae": {"layers": (2, 20, 36)},
        **dict.fromkeys(("soft-ncae", "ncae", "ncae-bias", "ncae-slope"), _LORENZ_NCAE),
        "ncae-weights": {"layers": (2, 24, 36), "embedding": (1, 4, 4)},
        "flow": _LORENZ_FLOW,
    },
    "pendulum": {
        "pod": {"latent_dim": 4},
        "polynomial-manifold": {"latent_dim": 4},
        **dict.fromkeys(("ae", "context-ae", "film-ae"), _PENDULUM_AE),
        "cae": {"layers": (4, 8, 16, 16, 16)},
        "context-cae": {"layers": (4, 8, 12, 14, 16)},
        "soft-ncae": {"layers": (4, 8, 12, 14, 16), "embedding": (4, 4)},
        **dict.fromkeys(("ncae", "ncae-bias", "ncae-slope"), _PENDULUM_NCAE),
        "ncae-weights": _PENDULUM_NCAE,
        "flow": _PENDULUM_FLOW,
    },
}
"""Sizes by system and method, from the hyperparameter tables of Adriaens et al. (2026); POD to
match.

The flow has as many parameters as FiLM+AE, and sizes that were chosen on validation contexts
(studies/exactness).
"""

_NCAE = ("riemannian-adam", 5e-2, (1e-6, 1e-5), (128, 4096))
# optimizer, learning rate, then weight decay and batch size for Lorenz96 and for the pendulum
_PAPER = {
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


ANCHORED = ("ncae", "ncae-weights", "ncae-bias", "ncae-slope")
"""Methods whose latents are anchored to the leading modes, of data that are not the paper's."""


def sized(
    method: type[Projection],
    frame: Frame,
    sizes: Entries,
    *,
    behind_basis: bool = False,
) -> Entries:
    """Return arguments that build `method`: with the paper's sizes where it has some for these
    data, and none are given; with layers (m, 24, 48, n) of an NcAE of coordinates in a basis.

    Example:
        >>> import romkit
        >>> from romkit.presets import sized
        >>> from romkit.projections import NcAE
        >>> sized(NcAE, romkit.load("ncae-lorenz96").frame, {})  # the paper's
        {'embedding': (1, 2, 2, 2), 'layers': (2, 18, 36)}
        >>> sized(NcAE, romkit.load("ncae-lorenz96").frame, {"latent_dim": 3})["layers"]
        (3, 19, 36)
    """
    n = frame.size
    published = SIZES.get(frame.system, {}).get(method.name, {})
    of_state = published.get("layers", published.get("decoder", (n,)))[-1]
    if of_state != n or {"layers", "latent_dim"} & sizes.keys():
        published = {}
    latent_dim = sizes.get("latent_dim")
    open_layers = latent_dim is not None and sizes.get("layers") is None
    if behind_basis and open_layers and method.name in ANCHORED:
        latent_dim = checks.check_minimum("latent_dim", latent_dim, 1)
        check_chain("latent_dim", (latent_dim, n), n)
        sizes = sizes | {"layers": typical_layers(latent_dim, n)}
    return architecture(method, frame, **published | sizes)


@validated
def quick(system: str, method: str) -> Recipe:
    """Return the default: reaches the accuracy of the paper soonest (benchmarks/optimizers), in
    minutes on a CPU core.

    Latents of an NcAE of other data than the paper's are anchored to the leading modes, so that they
    do not wander with the context.

    Example:
        >>> from romkit.presets import quick
        >>> quick("lorenz96", "ncae").snapshots.epochs, quick("pendulum", "ncae").snapshots.schedule
        (400, 'fast-plateau')
    """
    snapshots = SnapshotTraining()
    if system == "pendulum":
        snapshots = SnapshotTraining(
            epochs=650, batch_size=512, every=20, schedule="fast-plateau", learning_rate=3e-2
        )
    loss = [Reconstruction(), Penalty(1.0 if method == "soft-ncae" else 1e-3)]
    if method in ANCHORED and system not in SIZES:
        # on the wake the projection error of `ncae-weights` is 0.84 % with it, 0.81 % without
        loss.append(Anchor(0.1))
    return Recipe(snapshots, loss)


@validated
def dynamics(system: str, method: str) -> Recipe:
    """`quick`, then a refinement by rollouts, for reduced models that run for a long time.

    They follow the field that lasts once it is trained for: the encoder's on Lorenz96, the
    decoder's on the pendulum, which keeps the energy (studies/rollout_drift).

    Example:
        >>> from romkit.presets import dynamics
        >>> recipe = dynamics("lorenz96", "ncae")
        >>> recipe.rollouts.dynamics, recipe.phase.steps
        ('petrov-galerkin', 12)
    """
    recipe = quick(system, method)
    if system == "pendulum":  # second order, and its motions are no waves whose timing drifts
        rollouts = RolloutTraining(steps=300, every=5, length=60, weight=10.0, dynamics="galerkin")
        return recipe.replace_settings({"rollouts": rollouts})
    rollouts = RolloutTraining(steps=600, length=120, weight=10.0)
    loss = [*recipe.loss, LatentVelocity(1.0)]
    return recipe.replace_settings(
        {"loss": loss, "rollouts": rollouts, "phase": PhaseFit(steps=12)}
    )


@validated
def paper(system: str, method: str) -> Recipe:
    """Return the hyperparameters of the four tables of Adriaens et al. (2026), appendix
    "Experimental details".

    Raises:
        InputError: a system or a method that the paper does not have.

    Example:
        >>> from romkit.presets import paper
        >>> paper("lorenz96", "ncae").snapshots.epochs
        10000
        >>> paper("my-system", "ncae")
        Traceback (most recent call last):
            ...
        romkit.core.errors.InputError: preset: expected data of lorenz96 or pendulum for 'paper', got 'my-system'; use
        preset 'quick', and override what you want to be different
    """
    if system not in SIZES:
        raise InputError(
            "preset",
            expected=f"data of {' or '.join(SIZES)} for 'paper'",
            got=repr(system),
            fix="use preset 'quick', and override what you want to be different",
        )
    if method not in _PAPER:
        raise InputError(
            "preset", expected="a method of the paper", got=repr(method), fix="use preset 'quick'"
        )
    optimizer, rate, decays, batches = _PAPER[method]
    column = list(SIZES).index(system)
    snapshots = SnapshotTraining(
        epochs=10_000,
        batch_size=batches[column],
        learning_rate=rate,
        optimizer=optimizer,
        schedule="plateau",
        weight_decay=decays[column],
        clip=math.inf,
    )
    return Recipe(snapshots, [Reconstruction(), Penalty(1.0 if method == "soft-ncae" else 0.0)])


PRESETS: dict[str, Callable[[str, str], Recipe]] = {
    "quick": quick,
    "paper": paper,
    "dynamics": dynamics,
}
"""Presets by name: each gives the recipe for a system and a method."""
