"""What is trained, and how far it is followed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from studies.rollout_drift.drift import Drift, Settings

METHODS = ("ncae", "cae", "context-cae", "soft-ncae", "film-ae", "context-ae", "ae", "pod")
"""Every projection; POD has no seeds and nothing to train."""


@dataclass(frozen=True)
class SystemPlan:
    """A system, the data that models are trained on, and the rollouts that they are judged by.

    Attributes:
        name: of the system.
        training: settings of its training set, see `studies.rollout_drift.data`.
        duration: of the rollouts, in the system's time units.
        step: of RK4, and interval of the output.
        restart: output times from one restart to the next where trajectories are re-encoded.
        snapshots: settings of `romkit.fit` for all trainings.
        dynamics: those of the preset `dynamics`, on top.
        parameters: of the system, where they differ from its defaults.
        test_every: each how many-th test context is followed.
    """

    name: str
    training: Settings
    duration: float
    step: float
    restart: int
    snapshots: Settings
    dynamics: Settings = ()
    parameters: Settings = ()
    test_every: int = 1


@dataclass(frozen=True)
class Config:
    """One preset of the study: systems, seeds of the models, and updates of the neural ODE (regression, shooting)."""

    systems: tuple[SystemPlan, ...]
    seeds: tuple[int, ...]
    neural_ode: tuple[int, int]


LORENZ96 = SystemPlan(
    "lorenz96",
    # The whole range without the test forcings, so that gaps between them are not what is measured.
    training=(("first", 3.1335), ("spacing", 0.001), ("number", 60), ("duration", 60.0), ("every", 0.1)),
    duration=1000.0,
    step=0.1,
    restart=10,
    snapshots=(("epochs", 150), ("batch_size", 256)),
    dynamics=(("rollout_every", 1),),
)

CONFIGS = {
    "smoke": Config(
        (
            replace(
                LORENZ96,
                training=(("first", 3.14), ("spacing", 0.02), ("number", 2), ("duration", 3.0), ("every", 0.1)),
                duration=1.0,
                restart=2,
                snapshots=(("epochs", 1), ("rollout_steps", 0), ("clock_steps", 0)),
                parameters=(("transient", 2.0),),
                test_every=5,
            ),
        ),
        seeds=(0, 1),
        neural_ode=(2, 2),
    ),
    "full": Config((LORENZ96,), tuple(range(10)), (8000, 2000)),
}


def tasks(config: Config) -> list[Drift]:
    """What a preset computes, the most valuable first."""
    return [task for plan in config.systems for task in _tasks(config, plan)]


def _tasks(config: Config, plan: SystemPlan) -> Iterator[Drift]:
    refined = (("preset", "dynamics"), *plan.dynamics, *plan.snapshots)
    yield _task(config, plan, "ncae", "dynamics", refined)
    for method in METHODS:
        yield _task(config, plan, method, "paper-loss", plan.snapshots)
    yield _task(config, plan, "ncae", "rollouts", (*refined, ("latent_weight", 0.0)))
    yield _task(config, plan, "ncae", "latent-velocity", (*plan.snapshots, ("latent_weight", 10.0)))
    yield _task(config, plan, "ncae", "dynamics-galerkin", (*refined, ("rollout_dynamics", "galerkin")))
    for method in METHODS[1:-1]:
        yield _task(config, plan, method, "dynamics", refined)


def _task(config: Config, plan: SystemPlan, method: str, training: str, settings: Settings) -> Drift:
    return Drift(
        plan.name,
        method,
        training,
        config.seeds if method != "pod" else config.seeds[:1],
        plan.training,
        plan.duration,
        plan.step,
        plan.restart,
        settings,
        config.neural_ode,
        plan.parameters,
        plan.test_every,
    )
