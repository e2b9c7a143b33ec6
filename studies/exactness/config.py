"""What races: methods, systems, sizes and trainings."""

import math

from studies.exactness.cost import Cost
from studies.exactness.floor import Alone, Waves
from studies.exactness.guarantees import Certificates, Energy
from studies.exactness.race import Race
from studies.exactness.robustness import Robustness
from studies.rollout_drift.config import LORENZ96, MATCHED, PENDULUM, SMOKE_LORENZ96, SMOKE_PENDULUM, Plan
from studies.rollout_drift.data import Settings
from studies.rollout_drift.drift import Drift
from studies.rollout_drift.models import Model
from studies.runner import Task

TITLES = {"lorenz96": "Lorenz96", "pendulum": "Pendulum"}
"""Systems by name."""

DATA = {plan.system: plan.data for plan in (LORENZ96, PENDULUM)}
"""What a system's models are trained and tested on, by its name."""

FRESH = tuple(range(20, 30))
"""Seeds of the results; sizes and settings were chosen with the seeds 100 and 101, on validation contexts."""

FRESHER = tuple(range(30, 40))
"""Seeds of the longer trainings, whose settings were chosen after the results of `FRESH` were known."""

FRESHEST = tuple(range(40, 50))
"""Seeds of the shortest and the longest trainings."""

LAST = tuple(range(110, 120))
"""Seeds of Adam against SOAP; rates and sizes were chosen with the seeds 100 to 102, on validation contexts."""

SNAPSHOTS: dict[str, Settings] = {
    "lorenz96": (("epochs", 150), ("batch_size", 256)),
    "pendulum": (("epochs", 400), ("every", 4), ("schedule", "cosine"), ("learning_rate", 1e-2)),
}
"""Training on snapshots, the same for all methods."""

STEADY: Settings = (("epochs", 400), ("batch_size", 256), ("clip", 0.1))
"""Of longer trainings on Lorenz96: gradients so short that no step throws a seed far back."""

QUICK: Settings = (("epochs", 650), ("every", 4), ("schedule", "cosine"), ("learning_rate", 3e-2))
"""Longer training on the pendulum: that of the paper study, romkit's preset with a cosine."""

NCAE = (("embedding", (4, 4, 4)), ("layers", (4, 8, 12, 15, 16, 16)))
SIZES: dict[str, dict[str, dict[str, Settings]]] = {
    "equal": {
        "lorenz96": {"flow": (), "film-ae": (), "ncae": MATCHED},
        "pendulum": {"flow": (), "film-ae": (), "ncae": NCAE},
    },
    "half": {
        "lorenz96": {
            "flow": (("latent_dim", 2), ("units", (10, 10, 10)), ("embedding", (1, 8, 4)), ("bandwidth", 10.0)),
            "film-ae": (("encoder", (36, 13, 8, 2)), ("decoder", (2, 8, 13, 36))),
            "ncae": (("layers", (2, 10, 36)), *MATCHED[1:]),
        },
        "pendulum": {
            "flow": (("latent_dim", 4), ("units", (16, 16, 16)), ("embedding", (4, 8, 4))),
            "film-ae": (("encoder", (16, 10, 9, 6, 4)), ("decoder", (4, 6, 9, 10, 16))),
            "ncae": (("embedding", (4, 4, 4)), ("layers", (4, 8, 11, 16))),
        },
    },
    "double": {
        "lorenz96": {
            "flow": (("latent_dim", 2), ("units", (43, 43, 43)), ("embedding", (1, 8, 4)), ("bandwidth", 10.0)),
            "film-ae": (("encoder", (36, 40, 23, 2)), ("decoder", (2, 23, 40, 36))),
            "ncae": (("layers", (2, 12, 28, 36)), *MATCHED[1:]),
        },
        "pendulum": {
            "flow": (("latent_dim", 4), ("units", (63, 63, 63)), ("embedding", (4, 8, 4))),
            "film-ae": (("encoder", (16, 24, 24, 15, 4)), ("decoder", (4, 15, 24, 24, 16))),
            "ncae": (("embedding", (4, 8, 8)), ("layers", (4, 8, 12, 16, 16, 16, 16, 16))),
        },
    },
}
"""Sizes by preset, system and method: those of FiLM+AE's preset for equal, then half and twice its parameters."""


SHALLOWER: Settings = (("encoder", (16, 20, 15, 4)), ("decoder", (4, 15, 20, 16)))
"""Of FiLM+AE on the pendulum: two hidden layers on each side, wider than the three of the paper."""

DEEPER: Settings = (("latent_dim", 4), ("units", (19, 18, 19, 18, 19)), ("embedding", (4, 8, 4)))
"""Of the flow on the pendulum: five couplings, narrower than the three of its preset."""

SLOWER: Settings = (*QUICK[:-1], ("learning_rate", 1e-2))
"""The rate that is better for the NcAE with Adam: with 0.03, two seeds of three stay far off."""

SOAP: Settings = (("optimizer", "soap"),)
SHORT: Settings = (("epochs", 60), ("batch_size", 256))
LONGER: Settings = (("epochs", 2000), *STEADY[1:])
REFINED: Settings = (("preset", "dynamics"), *STEADY, ("rollouts.every", 1))
TURNED, STEADILY_TURNED, QUICKLY_TURNED = ((*settings, *SOAP) for settings in (SNAPSHOTS["lorenz96"], STEADY, QUICK))

TRAININGS: dict[str, tuple[str, tuple[int, ...], dict[str, Settings]]] = {
    "short": ("lorenz96", FRESHEST, {"film-ae": SHORT, "flow": SHORT}),
    "long": ("lorenz96", FRESHER, {"film-ae": STEADY, "flow": STEADY}),
    "longer": ("lorenz96", FRESHEST, {"film-ae": LONGER, "flow": LONGER}),
    "dynamics": ("lorenz96", FRESHER, {"flow": REFINED, "film-ae": REFINED}),
    "soap-lorenz96": (
        "lorenz96",
        FRESH,
        {"flow": TURNED, "film-ae": TURNED, "ncae": (*SNAPSHOTS["lorenz96"], *MATCHED, *SOAP)},
    ),
    "soap-lorenz96-long": ("lorenz96", FRESHER, {"flow": STEADILY_TURNED, "film-ae": STEADILY_TURNED}),
    "quick": ("pendulum", FRESHER, {"flow": QUICK, "film-ae": QUICK}),
    "soap": ("pendulum", LAST, {"film-ae": QUICKLY_TURNED, "ncae": (*NCAE, *QUICKLY_TURNED)}),
    "chosen": (
        "pendulum",
        LAST,
        {"film-ae": (*SHALLOWER, *QUICKLY_TURNED), "flow": (*DEEPER, *QUICKLY_TURNED)},
    ),
    "adam": (
        "pendulum",
        LAST,
        {"film-ae": (*SHALLOWER, *QUICK), "flow": (*DEEPER, *QUICK), "ncae": (*NCAE, *SLOWER)},
    ),
}
"""Trainings of one system, of other lengths, optimizers or sizes than those of `SIZES`: their seeds and settings."""


GUARANTEES = (
    Certificates("ncae", "lorenz96", math.inf, contexts=10, pairs=100_000),
    Certificates("ncae", "lorenz96", 10.0, contexts=10, pairs=100_000, share=1e-3),
    Certificates("flow", "lorenz96", 0.1, contexts=10, pairs=100_000, share=1e-3),
    Certificates("ncae", "pendulum", 0.01, contexts=10, pairs=100_000, share=1e-3),
    Certificates("flow", "pendulum", 0.01, contexts=10, pairs=100_000, share=1e-3),
    *(Energy(True, dt, steps=100_000, every=100) for dt in (1e-3, 2e-3, 4e-3)),
    Energy(False, 4e-3, steps=100_000, every=100),
)
"""Bounds of the NcAE hold for all states of Lorenz96, and on the pendulum, where it is deep, within 0.01 rad of the
mean. Those of the context need a ball: one that holds all states of the data of Lorenz96. Those of the flow, whose
couplings multiply states, need a small one on both systems."""


TIMED = 12
"""Epochs by which costs are measured."""


FOLLOWED = {
    "lorenz96": ((LORENZ96, "galerkin", ()), (LORENZ96, "petrov-galerkin", ())),
    "pendulum": ((PENDULUM, "galerkin", (("dt", 0.0025),)),),
}
"""Latent dynamics by which models of the race are followed as far as those of the drift study."""

FOLLOWERS = ("flow", "film-ae")
"""Methods of the race that are followed."""


HARDEST = 3.133 + 0.06 * 4 / 9
"""The test forcing just below the change of wave number."""

ALONE: Settings = (("epochs", 3000), ("batch_size", 256))
ALONE_FLOW: Settings = (*ALONE, ("latent_dim", 2), ("units", (21, 21, 21)), ("embedding", (1, 8, 4)))
FLOORS = (
    Waves(),
    Alone("film-ae", HARDEST, FRESHER[:4], ALONE),
    Alone("flow", HARDEST, FRESHER[:4], ALONE_FLOW),
)
"""How accurate two latent coordinates can be at all."""


def tasks(preset: str) -> list[Task]:
    """What a preset computes."""
    if preset == "floor":
        return list(FLOORS)
    if preset == "dynamics":
        return [_followed(race.model, *way) for race in _trainings(preset) for way in FOLLOWED["lorenz96"]]
    if preset in TRAININGS:
        return _trainings(preset)
    if preset == "guarantees":
        return list(GUARANTEES)
    if preset == "cost":
        return [Cost(race.model, TIMED) for race in tasks("equal")]
    if preset == "robustness":
        return [Robustness(race.model) for race in tasks("double")]
    if preset == "rollouts":
        models = [race.model for race in tasks("equal") if race.model.method in FOLLOWERS]
        return [_followed(model, *way) for model in models for way in FOLLOWED[model.system]]
    if preset == "smoke":
        races = [_smoke(plan) for plan in (SMOKE_LORENZ96, SMOKE_PENDULUM)]
        noisy = Robustness(races[1].model)
        return [
            *races,
            noisy,
            Certificates("ncae", "pendulum", 0.01, contexts=1, pairs=1000),
            Energy(True, 2e-3, steps=20, every=2),
            Cost(races[1].model, epochs=1, engine="torch"),
        ]
    return [
        Race(Model(system, method, preset, FRESH, DATA[system], (*SNAPSHOTS[system], *sizes)))
        for system, methods in SIZES[preset].items()
        for method, sizes in methods.items()
    ]


def _trainings(preset: str) -> list[Race]:
    system, seeds, methods = TRAININGS[preset]
    return [Race(Model(system, method, preset, seeds, DATA[system], own)) for method, own in methods.items()]


def _followed(model: Model, plan: Plan, dynamics: str, settings: Settings) -> Drift:
    return Drift(model, dynamics, settings, plan.duration, plan.step)


def _smoke(plan: Plan) -> Race:
    return Race(Model(plan.system, "flow", "smoke", (0, 1), plan.data, (("epochs", 1),), plan.parameters))
