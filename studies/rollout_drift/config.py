"""What is trained, and how far it is followed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from studies.rollout_drift.data import Settings
from studies.rollout_drift.drift import Drift
from studies.rollout_drift.models import Model

METHODS = ("ncae", "cae", "context-cae", "soft-ncae", "film-ae", "context-ae", "ae", "pod")
"""Every projection; POD has no seeds and nothing to train."""

START_NEAREST = ("galerkin", "lspg")
"""Dynamics that start at the nearest point of the manifold, so that re-encoding changes nothing for any method."""


@dataclass(frozen=True)
class Config:
    """A system, the data that models are trained on, and the rollouts that they are judged by.

    Attributes:
        system: by name.
        data: settings of the training set, see `studies.rollout_drift.data`.
        duration: of the rollouts, in the system's time units.
        step: of RK4, and interval of the output.
        restart: output times from one restart to the next where trajectories are re-encoded.
        snapshots: settings of `romkit.fit` for all trainings.
        refinement: of the preset `dynamics`, on top of it.
        seeds: of the models.
        dynamics: latent dynamics and their settings.
        parameters: of the system, where they differ from its defaults.
        test_every: each how many-th test context is followed.
    """

    system: str
    data: Settings
    duration: float
    step: float
    restart: int
    snapshots: Settings
    refinement: Settings
    seeds: tuple[int, ...]
    dynamics: tuple[tuple[str, Settings], ...]
    parameters: Settings = ()
    test_every: int = 1


SINDY = (("degree", 5), ("threshold", 1e-3), ("spread", 0.1), ("copies", 4), ("every", 10))
FULL = Config(
    "lorenz96",
    # The whole range without the test forcings, so that gaps between them are not what is measured.
    data=(("first", 3.1335), ("spacing", 0.001), ("number", 60), ("duration", 60.0), ("every", 0.1)),
    duration=1000.0,
    step=0.1,
    restart=10,
    snapshots=(("epochs", 150), ("batch_size", 256)),
    refinement=(("rollout_every", 1),),
    seeds=tuple(range(10)),
    dynamics=(("galerkin", ()), ("petrov-galerkin", ()), ("sindy", SINDY), ("neural-ode", ()), ("lspg", ())),
)
SMOKE = replace(
    FULL,
    data=(("first", 3.14), ("spacing", 0.02), ("number", 2), ("duration", 3.0), ("every", 0.1)),
    duration=1.0,
    restart=2,
    snapshots=(("epochs", 1),),
    refinement=(("rollout_steps", 1), ("clock_steps", 0), ("rollout_every", 1), ("compile", False)),
    seeds=(0, 1),
    dynamics=(
        ("galerkin", ()),
        ("petrov-galerkin", ()),
        ("sindy", (("degree", 1), *SINDY[1:])),
        ("neural-ode", (("regression_steps", 2), ("shooting_steps", 2))),
        ("lspg", ()),
    ),
    parameters=(("transient", 2.0),),
    test_every=5,
)
CONFIGS = {"smoke": SMOKE, "full": FULL}


def tasks(config: Config) -> list[Drift]:
    """What a preset computes, the most valuable first."""
    return [
        Drift(
            model,
            dynamics,
            settings,
            config.duration,
            config.step,
            0 if dynamics in START_NEAREST else config.restart,
            config.test_every,
        )
        for model in _models(config)
        for dynamics, settings in config.dynamics
    ]


def _models(config: Config) -> Iterator[Model]:
    refined = (("preset", "dynamics"), *config.snapshots, *config.refinement)
    yield _model(config, "ncae", "dynamics", refined)
    for method in METHODS:
        yield _model(config, method, "paper-loss", config.snapshots)
    yield _model(config, "ncae", "rollouts", (*refined, ("latent_weight", 0.0)))
    yield _model(config, "ncae", "latent-velocity", (*config.snapshots, ("latent_weight", 10.0)))
    yield _model(config, "ncae", "dynamics-galerkin", (*refined, ("rollout_dynamics", "galerkin")))
    for method in METHODS[1:-1]:
        yield _model(config, method, "dynamics", refined)


def _model(config: Config, method: str, training: str, settings: Settings) -> Model:
    seeds = config.seeds if method != "pod" else config.seeds[:1]
    return Model(config.system, method, training, seeds, config.data, settings, config.parameters)
