"""All tasks of a preset, the most valuable first."""

import itertools
from collections.abc import Iterator

from romkit.tasks import Task
from studies.paper.bifurcation import Bifurcation
from studies.paper.config import (
    ABLATIONS,
    CONFIGS,
    CONTEXT_FREE,
    METHODS,
    NOISE_KINDS,
    NOISE_UNIT,
    VELOCITY_TERM,
    Config,
    SystemPlan,
)
from studies.paper.training import Training
from studies.paper.tuning import Tuned

DATA_SEED_METHODS = ("ncae", "cae", "ae")
"""Methods of which the effect of the training set is measured."""


def tasks(preset: str) -> list[Task]:
    """What the preset computes, in its order."""
    config = CONFIGS[preset]
    lorenz96, pendulum = config.systems
    return [
        Bifurcation(parameters=lorenz96.parameters),
        *_clean(config, lorenz96),
        *_clean(config, pendulum),
        *_noisy(config, lorenz96),
        *_choices(config, lorenz96),
        *_units(config, lorenz96),
        *_noisy(config, pendulum),
        *_units(config, pendulum),
        *(task for plan in config.systems for task in _decays(config, plan)),
        *(_tuned(config, plan, method) for plan in config.systems for method in config.tuned),
    ]


def _clean(config: Config, plan: SystemPlan) -> Iterator[Task]:
    """Clean training of every method; the unconstrained ones with and without the velocity term."""
    for method in METHODS + ABLATIONS:
        yield _training(config, plan, "clean", method)
    for method, weight in VELOCITY_TERM.items():
        yield _training(config, plan, "clean", method, velocity_weight=1.0 - weight)


def _noisy(config: Config, plan: SystemPlan) -> Iterator[Task]:
    """Training under noise; context noise does not reach methods without a context."""
    for kind in NOISE_KINDS:
        for method in METHODS:
            if kind == "state" or method not in CONTEXT_FREE:
                for sigma in config.sigmas:
                    yield _training(config, plan, "noise", method, f"{kind} {sigma:.2f}", **_noise(kind, sigma))


def _choices(config: Config, plan: SystemPlan) -> Iterator[Task]:
    """The effect of what the paper leaves open: training set, transient, context scaling."""
    for seed in plan.data_seeds:
        for method in DATA_SEED_METHODS:
            yield _training(config, plan, "data", method, data_seed=seed, label=f"set {seed}")
    for transient in config.transients:
        parameters = (*((k, v) for k, v in plan.parameters if k != "transient"), ("transient", transient))
        yield _training(config, plan, "transient", "ncae", parameters=parameters, label=f"{transient:g}")
    yield _training(config, plan, "scaling", "ncae", context_scaling="none", label="none")


def _units(config: Config, plan: SystemPlan) -> Iterator[Task]:
    """The effect of what σ multiplies at training, half the range of the context here; for states both are the same.

    Physical units are not among them: at evaluation, where they cost nothing, they miss the published values by far.
    """
    for kind, sigma in itertools.product(("both", "context"), config.sigmas):
        noise = _noise(kind, sigma, unit="scale")
        yield _training(config, plan, "unit", "ncae", f"{kind} {sigma:.2f}", label="scale", **noise)


def _decays(config: Config, plan: SystemPlan) -> Iterator[Task]:
    """The effect of the weight decay on NcAE."""
    for decay in plan.decays:
        yield _training(config, plan, "decay", "ncae", label=f"{decay:g}", weight_decay=decay)


def _tuned(config: Config, plan: SystemPlan, method: str) -> Tuned:
    return Tuned(
        "tuned",
        plan.name,
        method,
        config.recipe,
        config.seeds,
        plan.data_seed,
        settings=config.settings,
        parameters=plan.parameters,
        test_every=plan.test_every,
        trial_seeds=config.trial_seeds,
    )


def _training(
    config: Config,
    plan: SystemPlan,
    kind: str,
    method: str,
    condition: str = "clean",
    *,
    data_seed: int | None = None,
    parameters: tuple | None = None,
    context_scaling: str = "range",
    label: str = "",
    **settings: object,
) -> Training:
    weight = settings.setdefault("velocity_weight", VELOCITY_TERM.get(method, 1.0))
    names = [label] if method not in VELOCITY_TERM else [label, f"velocity {weight:g}"]
    return Training(
        kind,
        plan.name,
        method,
        config.recipe,
        config.seeds,
        plan.data_seed if data_seed is None else data_seed,
        condition,
        (*config.settings, *plan.settings, *settings.items()),
        plan.parameters if parameters is None else parameters,
        plan.test_every,
        context_scaling,
        " ".join(name for name in names if name),
    )


def _noise(kind: str, sigma: float, unit: str = NOISE_UNIT) -> dict[str, object]:
    """Settings of `romkit.fit` for noise of this kind and level."""
    levels = {f"{part}_noise": sigma for part in ("state", "context") if kind in (part, "both")}
    return levels if kind == "state" else {**levels, "noise_unit": unit}
