"""Tasks of the study: races of methods, and what their models cost and stand."""

import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
import xarray as xr
from torch import Tensor

import romkit
from romkit.data import snapshots
from romkit.projections import METHODS, Operator, Projection, unstack
from romkit.systems import System
from romkit.tasks import Task
from romkit.testing.projections import probe
from romkit.training import Epoch
from romkit.training.batches import batches_per_epoch
from studies.exactness.guarantees import Certificates, Energy
from studies.report import TITLES
from studies.rollout_drift import models
from studies.rollout_drift.models import (
    Model,
    OfModel,
    errors,
    make_system,
    over_contexts,
    states,
    test_set,
    trained,
)
from studies.rollout_drift.tasks import Drift, Plan, plans
from studies.runner import Settings, Study, frozen

FOLLOWED = {
    "lorenz96": (("galerkin", ()), ("petrov-galerkin", ())),
    "pendulum": (("galerkin", (("dt", 0.0025),)),),
}
"""Latent dynamics by which models of the race are followed as far as those of the drift study."""
TIMED = 12
"""Epochs by which costs are measured."""
FAR = 10.0
"""Idempotency is measured at contexts up to so many times the training range."""
NOISE = (0.0, 0.01, 0.05)
"""Standard deviations of the noise of each component, as shares of that of the component."""
BEYOND = (0.1, 0.3)
"""How far contexts are out of the range, as shares of its width."""
CONTEXTS = 10
"""Sets of several parameters, at each distance; of one parameter, both ends."""


def tasks(preset: str) -> list[Task]:
    """Tasks of a preset."""
    table, full = Study("exactness").presets[preset], plans("full")
    if preset == "smoke":
        return _smoke()
    if preset == "guarantees":
        return [
            *(Certificates(**row) for row in table["certificates"]),
            *(Energy(**row) for row in table["energies"]),
        ]
    chosen = [
        model
        for model in _models(table.get("of", preset))
        if model.method in table.get("methods", METHODS)
    ]
    measures: dict[str, Callable[[Model], list[Task]]] = {
        "race": lambda model: [Race(model)],
        "cost": lambda model: [Cost(model, TIMED)],
        "robustness": lambda model: [Robustness(model)],
        "rollouts": lambda model: [
            Drift(model, *dynamics, full[model.system].duration, full[model.system].step)
            for dynamics in FOLLOWED[model.system]
        ],
    }
    return [task for model in chosen for task in measures[table.get("measure", "race")](model)]


def sizes(preset: str) -> dict[str, dict[str, Settings]]:
    """Return settings of the methods of a preset beyond those that trainings share, by system and
    method.
    """
    table = Study("exactness").presets[preset]
    before = sizes(table["sizes"]) if "sizes" in table else {}
    return {
        system: {
            method: (*before.get(system, {}).get(method, ()), *frozen(own))
            for method, own in table[system].items()
            if method != "base"
        }
        for system in TITLES
        if system in table
    }


def _models(preset: str) -> list[Model]:
    table, full, found = Study("exactness").presets[preset], plans("full"), []
    bases = tomllib.loads(Path(__file__).with_name("training.toml").read_text(encoding="utf-8"))
    for system, methods in sizes(preset).items():
        base = bases[table[system].get("base", "snapshots")][system]
        for method, own in methods.items():
            settings = (*frozen(base["settings"]), *frozen(base.get(method, {})), *own)
            found.append(
                Model(
                    system,
                    method,
                    preset,
                    tuple(range(*base["seeds"])),
                    full[system].data,
                    settings,
                )
            )
    return found


def _smoke() -> list[Task]:
    def race(plan: Plan) -> Race:
        return Race(
            Model(
                plan.system, "flow", "smoke", (0, 1), plan.data, (("epochs", 1),), plan.parameters
            )
        )

    races = [race(plan) for plan in plans("smoke").values()]
    return [
        *races,
        Robustness(races[1].model),
        Certificates("ncae", "lorenz96", 10.0, contexts=1, pairs=1000),
        Energy(True, 2e-3, steps=20, every=2),
        Cost(races[1].model, epochs=1, engine="torch"),
    ]


@dataclass(frozen=True)
class Race(OfModel):
    """All seeds of one model on the test set."""

    def run(self) -> xr.Dataset:
        plan, model = self.model, trained(self.model)
        system, test = (
            make_system(plan.system, plan.parameters),
            test_set(plan.system, plan.parameters),
        )
        found = dict(zip(("position_rmse", "velocity_rmse"), errors(model, test), strict=True))
        if system.order == 1:
            with torch.no_grad():
                P, (x, v) = model(test), states(model, test)
                found["latent_velocity_rmse"] = (
                    (carried(system, P, x) - v).square().mean((-2, -1)).sqrt()
                )
        columns = {name: (("seed", "context"), value.numpy()) for name, value in found.items()}
        columns["idempotency_error"] = ("seed", idempotency(model))
        columns["training_diverged"] = ("seed", models.lost(model))
        coords = {"seed": list(plan.seeds)}
        coords |= {name: ("context", test[name].values) for name in system.context_names}
        return xr.Dataset(columns, coords).assign_attrs(
            system=plan.system,
            method=plan.method,
            training=plan.training,
            parameters=sum(p[0].numel() for p in model.parameters() if p.requires_grad),
            training_cpu_seconds=model.report["training_cpu_seconds"],
            epochs=len(model.report["seeds"][0]["losses"]),
        )


def carried(system: System, P: Operator, x: Tensor) -> Tensor:
    """DP(Px) f(Px): the velocity of the reduced model by the encoder's field, at the projected
    states.
    """
    on_manifold = P(x)
    f = system.field(P.context)(torch.zeros(()), on_manifold)
    return P.jvp(on_manifold, f).tangent


def idempotency(model: Projection) -> np.ndarray:
    """Return largest ‖P(P(x)) - P(x)‖ / ‖P(x)‖ of each seed over random states and contexts far
    outside the range.
    """
    errors = []
    for one in unstack(model):
        points = probe(one, batch=200, spread=FAR)
        with torch.no_grad():
            once = points.operator(points.x)
            twice = points.operator(once)
        errors.append(((twice - once).norm(dim=-1) / once.norm(dim=-1)).max().item())
    return np.array(errors)


@dataclass(frozen=True)
class Cost(OfModel):
    """Epochs of a training, one after the other, by the clock of the process.

    Attributes:
        epochs: how many are timed.
        engine: long trainings are compiled.
    """

    suffix: ClassVar[str] = "cost"
    epochs: int
    engine: str = "compiled"

    def run(self) -> xr.Dataset:
        plan, clock = self.model, []
        data = models.training_set(plan.system, plan.parameters, plan.data)
        settings = dict(plan.settings) | {
            "epochs": self.epochs + 1,
            "engine": self.engine,
            "verbose": False,
        }

        def tick(epoch: Epoch) -> None:
            clock.append(time.process_time())

        romkit.fit(plan.method, data, seeds=plan.seeds, callback=tick, **settings)
        recipe = self.resolved["recipe"]["snapshots"]
        steps = batches_per_epoch(
            len(snapshots(data, every=recipe["every"])[0]), recipe["batch_size"]
        )
        seconds = np.diff(clock) / (steps * len(plan.seeds))
        attrs = {
            "kind": "cost",
            "system": plan.system,
            "method": plan.method,
            "steps_per_epoch": steps,
        }
        return xr.Dataset({"seconds": ("epoch", seconds)}).assign_attrs(attrs)


@dataclass(frozen=True)
class Robustness(OfModel):
    """All seeds of one model on noisy states of the test set, and on trajectories at contexts out
    of the range.

    Errors are those of P(x + noise) against x, and of DP(x + noise) v against v.
    """

    suffix: ClassVar[str] = "robustness"

    def run(self) -> xr.Dataset:
        plan, model = self.model, trained(self.model)
        system, test = (
            make_system(plan.system, plan.parameters),
            test_set(plan.system, plan.parameters),
        )
        noisy = [_noisy(model, test, level) for level in NOISE]
        beyond = [over_contexts(errors(model, trajectories(system, share))) for share in BEYOND]
        found = {}
        for row, name in enumerate(("position_rmse", "velocity_rmse")):
            found[name] = (("noise", "seed"), np.stack([pair[row] for pair in noisy]))
            found[f"{name}_beyond"] = (("beyond", "seed"), np.stack([pair[row] for pair in beyond]))
        coords = {"noise": list(NOISE), "beyond": list(BEYOND), "seed": list(plan.seeds)}
        return xr.Dataset(found, coords).assign_attrs(
            kind="robustness",
            system=plan.system,
            method=plan.method,
            training=plan.training,
            epochs=len(model.report["seeds"][0]["losses"]),
            noise_rms=float(model.frame.state_std.square().mean().sqrt()),
        )


def trajectories(system: System, share: float) -> xr.Dataset:
    """Return each tenth snapshot of trajectories at contexts on the surface of the range, widened
    by a share on each side.
    """
    low, high = np.array([(p.low, p.high) for p in system.context]).T
    if len(low) == 1:
        places = np.array([[-1.0], [1.0]])
    else:
        places = np.random.default_rng(0).uniform(-1, 1, size=(CONTEXTS, len(low)))
        places /= np.abs(places).max(1, keepdims=True)
    contexts = (low + high) / 2 + (1 + 2 * share) * places * (high - low) / 2
    named = dict(zip(system.context_names, contexts.T, strict=True))
    return system.dataset(**named).isel(time=slice(None, None, 10))


def _noisy(model: Projection, data: xr.Dataset, level: float) -> tuple[np.ndarray, np.ndarray]:
    x, v = states(model, data)
    noise = torch.randn(
        x.shape[1:], generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    measured = x[:1] + level * model.frame.state_std * noise
    with torch.no_grad():
        found = model(data).jvp(measured, v)
    return over_contexts(
        (a - b).square().mean((-1, -2)).sqrt() for a, b in zip((x, v), found, strict=True)
    )
