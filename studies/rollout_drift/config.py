"""What is trained, and how far it is followed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from romkit.training import Penalty, Reconstruction
from studies.rollout_drift.data import Settings
from studies.rollout_drift.drift import Drift
from studies.rollout_drift.models import Model
from studies.rollout_drift.terms import Fibre, FutureGradient, Invariance

METHODS = ("ncae", "cae", "context-cae", "soft-ncae", "film-ae", "context-ae", "ae", "pod")
"""Every projection; POD has no seeds and nothing to train."""

REFINED = ("cae", "context-cae", "soft-ncae", "film-ae")
"""Baselines that the preset `dynamics` is tried on: those whose manifold has the waves of the whole range."""
TERMS = {"invariance": Invariance(10.0), "fibre": Fibre(10.0), "gradient": FutureGradient(10.0)}
"""Loss terms that are tried on NcAE."""
START_NEAREST = ("galerkin", "lspg")
"""Dynamics that start at the nearest point of the manifold, so that re-encoding changes nothing for any method."""
FIELDS = ("galerkin", "petrov-galerkin")
"""Dynamics that the variants of the training are judged by: the fields of the projection itself."""


@dataclass(frozen=True)
class Dynamics:
    """Latent dynamics that models are followed by.

    Attributes:
        name: from `studies.rollout_drift.drift.KINDS`.
        settings: of the dynamics; `dt` is the largest time step.
    """

    name: str
    settings: Settings = ()


@dataclass(frozen=True)
class Plan:
    """A system, the data that models are trained on, and the rollouts that they are judged by.

    Attributes:
        system: by name.
        data: settings of the training set, see `studies.rollout_drift.data`.
        duration: of the rollouts, in the system's time units.
        step: of RK4, where the settings of a dynamics have no `dt`, and interval of the output.
        restart: output times from one restart to the next where trajectories are re-encoded.
        snapshots: settings of `romkit.fit` for all trainings.
        refinement: of the preset `dynamics`, on top of it.
        seeds: of the models.
        dynamics: what they are followed by.
        test_every: each how many-th test context is followed.
        parameters: of the system, where they differ from its defaults.
        variants: whether the preset `dynamics` is studied on baselines, and its parts one by one.
        methods: those that are trained with the paper's loss.
    """

    system: str
    data: Settings
    duration: float
    step: float
    restart: int
    snapshots: Settings
    refinement: Settings
    seeds: tuple[int, ...]
    dynamics: tuple[Dynamics, ...]
    test_every: int = 1
    parameters: Settings = ()
    variants: bool = False
    methods: tuple[str, ...] = METHODS


SWITCH = 3.165
"""F at which the wave number changes, between two forcings of the training set."""

# A wave is an attractor: samples on it say nothing about the directions across, so some are taken around it. The two
# waves are different attractors, between which the equation may jump.
SINDY = (("degree", 9), ("threshold", 1e-3), ("spread", 0.03), ("copies", 1), ("every", 2), ("switch", SWITCH))
# Its rule is of order two: with steps of 0.1 its own error of phase hides that of the manifold.
LSPG = (("dt", 0.025), ("tolerance", 1e-6))
# The paper's has two units between the forcing and all slopes and biases; the wave number changes between two forcings
# of the training set, a sixtieth of the range apart.
HYPERNETWORK = (("embedding", (1, 8, 8, 8)), ("bandwidth", 10.0))
# 24 units in the middle in place of 18: 2732 parameters in all, where FiLM+AE has 2750.
MATCHED = (("layers", (2, 24, 36)), *HYPERNETWORK)
LORENZ96 = Plan(
    "lorenz96",
    # The whole range without the test forcings, so that gaps between them are not what is measured.
    data=(("first", 3.1335), ("spacing", 0.001), ("number", 60), ("duration", 60.0), ("every", 0.1)),
    duration=1000.0,
    step=0.1,
    restart=10,
    snapshots=(("epochs", 150), ("batch_size", 256)),
    refinement=(("rollouts.every", 1),),
    seeds=tuple(range(10)),
    dynamics=(
        Dynamics("galerkin"),
        Dynamics("petrov-galerkin"),
        Dynamics("sindy", SINDY),
        Dynamics("neural-ode"),
        Dynamics("lspg", LSPG),
    ),
    variants=True,
)
# Latent coordinates bend sharply: with steps of 0.01 s the solver's errors alone make Galerkin's rollouts fail.
PENDULUM = Plan(
    "pendulum",
    data=(("seed", 0), ("number", 100), ("every", 0.005)),
    duration=30.0,
    step=0.01,
    restart=10,
    snapshots=(("epochs", 400), ("every", 4)),
    refinement=(("rollouts.every", 1),),
    seeds=tuple(range(10)),
    dynamics=(
        Dynamics("galerkin", (("dt", 0.0025),)),
        Dynamics("petrov-galerkin"),
        Dynamics("sindy", (("degree", 3), ("threshold", 1e-3), ("every", 10))),
        Dynamics("neural-ode"),
        Dynamics("lspg", (("tolerance", 1e-6),)),
    ),
)


def _tiny(*sindy: tuple[str, object]) -> tuple[Dynamics, ...]:
    """All latent dynamics, with as little work as they can do."""
    settings: dict[str, Settings] = {
        "galerkin": (),
        "petrov-galerkin": (),
        "sindy": (("degree", 1), ("every", 1), *sindy),
        "neural-ode": (("regression_steps", 2), ("shooting_steps", 2)),
        "lspg": (("iterations", 2),),
    }
    return tuple(Dynamics(name, given) for name, given in settings.items())


SMOKE_LORENZ96 = replace(
    LORENZ96,
    data=(("first", 3.14), ("spacing", 0.02), ("number", 2), ("duration", 3.0), ("every", 0.1)),
    duration=1.0,
    restart=2,
    snapshots=(("epochs", 1),),
    refinement=(("rollouts.steps", 1), ("phase", None), ("rollouts.every", 1), ("engine", "torch")),
    seeds=(0, 1),
    dynamics=_tiny(("spread", 0.1), ("copies", 1), ("switch", 3.15)),
    test_every=5,
    parameters=(("transient", 2.0),),
    variants=False,
)
SMOKE_PENDULUM = replace(
    PENDULUM,
    data=(("seed", 0), ("number", 2), ("every", 0.02)),
    duration=0.1,
    restart=2,
    snapshots=(("epochs", 1),),
    refinement=(("rollouts.steps", 1), ("rollouts.every", 1), ("engine", "torch")),
    seeds=(0, 1),
    dynamics=_tiny(),
    test_every=128,
    methods=("ncae", "ae"),
)
CONFIGS = {"smoke": (SMOKE_LORENZ96, SMOKE_PENDULUM), "full": (LORENZ96, PENDULUM)}
"""Presets by name."""


def tasks(plans: Sequence[Plan]) -> list[Drift]:
    """What a preset computes, the most valuable first."""
    return [task for plan in plans for task in _tasks(plan)]


def _tasks(plan: Plan) -> list[Drift]:
    fields = tuple(dynamics for dynamics in plan.dynamics if dynamics.name in FIELDS)
    every = [(model, plan.dynamics) for model in _models(plan)]
    variants = [(model, fields) for model in _variants(plan)] if plan.variants else []
    return [_task(plan, model, dynamics) for model, group in every + variants for dynamics in group]


def _task(plan: Plan, model: Model, dynamics: Dynamics) -> Drift:
    restart = 0 if dynamics.name in START_NEAREST else plan.restart
    return Drift(model, dynamics.name, dynamics.settings, plan.duration, plan.step, restart, plan.test_every)


def _models(plan: Plan) -> Iterator[Model]:
    """The preset on NcAE, and every method with the paper's loss."""
    yield _model(plan, "ncae", "dynamics", _refined(plan))
    for method in plan.methods:
        yield _model(plan, method, "paper-loss", plan.snapshots)


def _variants(plan: Plan) -> Iterator[Model]:
    """The preset on baselines, and its parts one by one on NcAE."""
    refined = _refined(plan)
    for method in REFINED:
        yield _model(plan, method, "dynamics", refined)
    timing = (("phase.steps", 12), ("phase.every", 1), ("phase.dynamics", "galerkin"))
    yield _model(plan, "ncae", "timing-galerkin", (*plan.snapshots, *timing))
    yield _model(plan, "ncae", "rollouts", (*refined, ("latent_weight", 0.0)))
    yield _model(plan, "ncae", "latent-velocity", (*plan.snapshots, ("latent_weight", 10.0)))
    yield _model(plan, "ncae", "hypernetwork", (*plan.snapshots, *HYPERNETWORK))
    yield _model(plan, "ncae", "matched", (*plan.snapshots, *MATCHED))
    yield _model(plan, "ncae", "dynamics-matched", (*refined, *MATCHED))
    yield _model(plan, "ncae", "noise", (*plan.snapshots, ("state_noise", 0.1)))
    for name, term in TERMS.items():
        yield _model(plan, "ncae", name, (*plan.snapshots, ("loss", (Reconstruction(), Penalty(), term))))
    yield _model(plan, "ncae", "dynamics-galerkin", (*refined, ("rollouts.dynamics", "galerkin")))


def _refined(plan: Plan) -> Settings:
    return (("preset", "dynamics"), *plan.snapshots, *plan.refinement)


def _model(plan: Plan, method: str, training: str, settings: Settings) -> Model:
    seeds = plan.seeds if method != "pod" else plan.seeds[:1]
    return Model(plan.system, method, training, seeds, plan.data, settings, plan.parameters)
