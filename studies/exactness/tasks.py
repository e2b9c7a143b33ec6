"""What races: methods, systems, sizes and trainings."""

import math

from romkit.tasks import Task
from studies.exactness.cost import Cost
from studies.exactness.floor import Alone, Waves
from studies.exactness.guarantees import Certificates, Energy
from studies.exactness.race import Race
from studies.exactness.robustness import Robustness
from studies.rollout_drift.models import Model
from studies.rollout_drift.tasks import MATCHED, Drift, Plan, plans
from studies.runner import Settings

(LORENZ96, PENDULUM), (SMOKE_LORENZ96, SMOKE_PENDULUM) = (plans(preset).values() for preset in ("full", "smoke"))
TITLES = {"lorenz96": "Lorenz96", "pendulum": "Pendulum"}
"""Systems by name."""

DATA = {plan.system: plan.data for plan in (LORENZ96, PENDULUM)}
"""What a system's models are trained and tested on, by its name."""

FRESH = tuple(range(20, 30))
"""Seeds of the results on Lorenz96; sizes and settings were chosen with seeds from 100 on, on validation contexts."""

FRESHER = tuple(range(30, 40))
"""Seeds of the longer trainings, whose settings were chosen after results of `FRESH` were known."""

UNSEEN = tuple(range(120, 130))
"""Seeds of the results on the pendulum, of which no choice has seen anything."""

SEEDS = {"lorenz96": FRESH, "pendulum": UNSEEN}

FOLLOWERS = ("flow", "film-ae")
"""Methods that are followed, and trained by Adam too."""

SOAP: Settings = (("optimizer", "soap"),)
STEADY: Settings = (("epochs", 400), ("batch_size", 256), ("clip", 0.1))
"""Of longer trainings on Lorenz96: gradients so short that no step throws a seed far back."""

SNAPSHOTS: dict[str, Settings] = {
    "lorenz96": (("epochs", 150), ("batch_size", 256)),
    "pendulum": (("epochs", 650), ("every", 4), ("schedule", "cosine"), ("learning_rate", 1e-2)),
}
"""Training on snapshots, the same for all methods but for `RATES`."""

RATES: dict[tuple[str, str], Settings] = dict.fromkeys(
    [("pendulum", "ncae"), ("pendulum", "film-ae")], (("learning_rate", 3e-2),)
)
"""Where SOAP is better at another rate."""

GRAPH: Settings = (("latent_dim", 4), ("embedding", (4, 8, 4)))
WAVES: Settings = (("latent_dim", 2), ("embedding", (1, 8, 4)), ("bandwidth", 10.0))
NCAE = (("embedding", (4, 4, 4)), ("layers", (4, 8, 12, 15, 16, 16)))
STRAIGHT: Settings = (("encoder", (16, 4)), ("decoder", (4, 30, 30, 16)))
"""Of FiLM+AE on the pendulum: an encoder without hidden layers."""

SLENDER: Settings = (("encoder", (36, 13, 2)), ("decoder", (2, 24, 30, 36)))
"""Of FiLM+AE on Lorenz96: an encoder with one small hidden layer."""

SIZES: dict[str, dict[str, dict[str, Settings]]] = {
    "equal": {
        "lorenz96": {"flow": (), "film-ae": SLENDER, "ncae": MATCHED},
        "pendulum": {"flow": (), "film-ae": STRAIGHT, "ncae": NCAE},
    },
    "half": {
        "lorenz96": {
            "flow": (*WAVES, ("units", (10, 10, 10))),
            "film-ae": (("encoder", (36, 7, 2)), ("decoder", (2, 12, 18, 36))),
            "ncae": (("layers", (2, 10, 36)), *MATCHED[1:]),
        },
        "pendulum": {
            "flow": (*GRAPH, ("units", ((19, 19),))),
            "film-ae": (("encoder", (16, 4)), ("decoder", (4, 18, 18, 16))),
            "ncae": (("embedding", (4, 4, 4)), ("layers", (4, 8, 11, 16))),
        },
    },
    "double": {
        "lorenz96": {
            "flow": (*WAVES, ("units", (43, 43, 43))),
            "film-ae": (("encoder", (36, 27, 2)), ("decoder", (2, 38, 51, 36))),
            "ncae": (("layers", (2, 12, 28, 36)), *MATCHED[1:]),
        },
        "pendulum": {
            "flow": (*GRAPH, ("units", ((51, 51),))),
            "film-ae": (("encoder", (16, 4)), ("decoder", (4, 48, 48, 16))),
            "ncae": (("embedding", (4, 8, 8)), ("layers", (4, 8, 12, 16, 16, 16, 16, 16))),
        },
    },
}
"""Sizes by preset, system and method: as many parameters as FiLM+AE has in the paper, then half and twice that."""

BENT: dict[str, Settings] = {
    "film-ae": (("encoder", (16, 20, 15, 4)), ("decoder", (4, 15, 20, 16))),
    "flow": (*GRAPH, ("units", (19, 18, 19, 18, 19)), ("learning_rate", 3e-2)),
}
"""The best on the pendulum, at their best rate, of those with encoders that are networks."""


def _trained(system: str, method: str, *settings: Settings) -> Settings:
    """Training on snapshots by SOAP, and then what is different."""
    return (*SNAPSHOTS[system], *SOAP, *RATES.get((system, method), ()), *sum(settings, ()))


REFINED: Settings = (("preset", "dynamics"), *STEADY, ("rollouts.every", 1))
BY_ADAM: Settings = (("optimizer", "adam"),)

SAME_TIME: dict[str, dict[str, Settings]] = {
    "lorenz96": {"film-ae": (("epochs", 256),), "ncae": (("epochs", 232),)},
    "pendulum": {"film-ae": (("epochs", 750),), "ncae": (("epochs", 479),)},
}
"""Epochs that take the time which those of the flow in `SNAPSHOTS` take, by the preset `cost`."""

OTHERS: dict[str, list[tuple[str, tuple[int, ...], dict[str, Settings]]]] = {
    "paper": [
        ("lorenz96", FRESHER, dict.fromkeys(FOLLOWERS, (*STEADY, *SOAP))),
        ("pendulum", UNSEEN, {method: _trained("pendulum", method) for method in FOLLOWERS}),
    ],
    "bent": [("pendulum", UNSEEN, {method: _trained("pendulum", method, own) for method, own in BENT.items()})],
    "long": [("lorenz96", FRESHER, {"flow": (*STEADY, *SOAP), "film-ae": (*STEADY, *SOAP, *SLENDER)})],
    "adam": [
        (system, SEEDS[system], {m: (*_trained(system, m, SIZES["equal"][system][m]), *BY_ADAM) for m in FOLLOWERS})
        for system in TITLES
    ],
    "time": [
        (system, SEEDS[system], {m: _trained(system, m, SIZES["equal"][system][m], epochs) for m, epochs in of.items()})
        for system, of in SAME_TIME.items()
    ],
    "dynamics": [("lorenz96", FRESHER, {"flow": REFINED, "film-ae": (*REFINED, *SLENDER)})],
}
"""Races of other sizes, lengths of training or optimizers than those of `SIZES`: systems, seeds, settings."""


GUARANTEES = (
    Certificates("ncae", "lorenz96", math.inf, contexts=10, pairs=100_000),
    Certificates("ncae", "lorenz96", 10.0, contexts=10, pairs=100_000, share=1e-3),
    Certificates("flow", "lorenz96", 0.1, contexts=10, pairs=100_000, share=1e-3),
    Certificates("ncae", "pendulum", 0.01, contexts=10, pairs=100_000, share=1e-3),
    Certificates("flow", "pendulum", math.inf, contexts=10, pairs=100_000),
    Certificates("flow", "pendulum", 0.01, contexts=10, pairs=100_000, share=1e-3),
    *(Energy(True, dt, steps=100_000, every=100) for dt in (1e-3, 2e-3, 4e-3)),
    Energy(False, 4e-3, steps=100_000, every=100),
)
"""Bounds of the NcAE hold for all states of Lorenz96, and on the pendulum, where it is deep, within 0.01 rad of the
mean. Those of the flow hold for all states of the pendulum, where it is a graph; on Lorenz96 its couplings multiply
states, and it needs a small ball. Those of the context need a ball: one that holds all data of Lorenz96."""


TIMED = 12
"""Epochs by which costs are measured."""


FOLLOWED = {
    "lorenz96": ((LORENZ96, "galerkin", ()), (LORENZ96, "petrov-galerkin", ())),
    "pendulum": ((PENDULUM, "galerkin", (("dt", 0.0025),)),),
}
"""Latent dynamics by which models of the race are followed as far as those of the drift study."""


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
        return [_followed(race.model, *way) for race in _others(preset) for way in FOLLOWED["lorenz96"]]
    if preset in OTHERS:
        return _others(preset)
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
        _race(preset, system, method, SEEDS[system], _trained(system, method, sizes))
        for system, methods in SIZES[preset].items()
        for method, sizes in methods.items()
    ]


def _others(preset: str) -> list[Race]:
    return [
        _race(preset, system, method, seeds, settings)
        for system, seeds, methods in OTHERS[preset]
        for method, settings in methods.items()
    ]


def _race(preset: str, system: str, method: str, seeds: tuple[int, ...], settings: Settings) -> Race:
    return Race(Model(system, method, preset, seeds, DATA[system], settings))


def _followed(model: Model, plan: Plan, dynamics: str, settings: Settings) -> Drift:
    return Drift(model, dynamics, settings, plan.duration, plan.step)


def _smoke(plan: Plan) -> Race:
    return Race(Model(plan.system, "flow", "smoke", (0, 1), plan.data, (("epochs", 1),), plan.parameters))
