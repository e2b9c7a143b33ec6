"""Tasks of the study: trained stacks, each followed by one kind of latent dynamics."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
import xarray as xr
from torch import Tensor

from romkit import integrators, laws
from romkit.engine.threads import one_thread
from romkit.integrators import LatentDynamics
from romkit.laws.libraries import Functions, Library
from romkit.projections import Path, Projection, stack, unstack
from romkit.solvers import RK4
from romkit.systems import System
from romkit.systems.problem import Parts, Problem
from studies.rollout_drift import models, scores
from studies.rollout_drift.models import Model, OfModel, Truth, make_system, trained
from studies.runner import Settings, Study, frozen

METHODS = ("ncae", "cae", "context-cae", "soft-ncae", "film-ae", "context-ae", "ae", "pod")
"""Every projection; POD has no seeds and nothing to train."""
REFINED = ("cae", "context-cae", "soft-ncae", "film-ae")
"""Baselines that the preset `dynamics` is tried on: those whose manifold has the waves of the whole
range.
"""
START_NEAREST = ("galerkin", "lspg")
"""Dynamics that start at the nearest point of the manifold, so that re-encoding changes nothing for
any method.
"""
FIELDS = ("galerkin", "petrov-galerkin")
"""Dynamics that the variants of the training are judged by: the fields of the projection itself."""
SWITCH = 3.165
"""F at which the wave number changes, between two forcings of the training set."""
# The paper's has two units between the forcing and all slopes and biases; the wave number changes
# between two forcings of the training set, a sixtieth of the range apart.
HYPERNETWORK: Settings = (("embedding", (1, 8, 8, 8)), ("bandwidth", 10.0))
# 24 units in the middle in place of 18: 2732 parameters in all, where FiLM+AE has 2750.
MATCHED: Settings = (("layers", (2, 24, 36)), *HYPERNETWORK)


@dataclass(frozen=True)
class Plan:
    """A system of a preset; presets.toml says what each field is."""

    system: str
    data: Settings
    duration: float
    step: float
    restart: int
    snapshots: Settings
    refinement: Settings
    seeds: int
    dynamics: Settings
    test_every: int = 1
    parameters: Settings = ()
    variants: bool = False
    methods: tuple[str, ...] = METHODS

    def model(self, method: str, training: str, settings: Settings) -> Model:
        """Stack of this system; POD has one seed."""
        seeds = tuple(range(self.seeds if method != "pod" else 1))
        return Model(self.system, method, training, seeds, self.data, settings, self.parameters)

    def models(self) -> Iterator[Model]:
        """Yield the preset `dynamics` on NcAE, and every method with the paper's loss."""
        yield self.model("ncae", "dynamics", self.refined)
        for method in self.methods:
            yield self.model(method, "paper-loss", self.snapshots)

    def variations(self) -> Iterator[Model]:
        """Yield the preset on baselines, and its parts one by one on NcAE."""
        for method in REFINED:
            yield self.model(method, "dynamics", self.refined)
        plain, refined = self.snapshots, self.refined
        settings = {
            "timing-galerkin": (
                *plain,
                ("phase.steps", 12),
                ("phase.every", 1),
                ("phase.dynamics", "galerkin"),
            ),
            "rollouts": (*refined, ("latent_weight", 0.0)),
            "latent-velocity": (*plain, ("latent_weight", 10.0)),
            "hypernetwork": (*plain, *HYPERNETWORK),
            "matched": (*plain, *MATCHED),
            "dynamics-matched": (*refined, *MATCHED),
            "noise": (*plain, ("state_noise", 0.1)),
            "dynamics-galerkin": (*refined, ("rollouts.dynamics", "galerkin")),
        }
        for name, own in settings.items():
            yield self.model("ncae", name, own)

    @property
    def refined(self) -> Settings:
        return (("preset", "dynamics"), *self.snapshots, *self.refinement)


def plans(preset: str) -> dict[str, Plan]:
    """Plans of a preset, by system."""
    table = Study("rollout_drift").presets[preset]
    return {
        name: Plan(name, **{key: frozen(value) for key, value in own.items()})
        for name, own in table.items()
    }


def tasks(preset: str) -> list["Drift"]:
    """Tasks of a preset, the most valuable first."""
    found = []
    for plan in plans(preset).values():
        pairs = [(model, *own) for model in plan.models() for own in plan.dynamics]
        if plan.variants:
            pairs += [
                (model, *own)
                for model in plan.variations()
                for own in plan.dynamics
                if own[0] in FIELDS
            ]
        for model, dynamics, settings in pairs:
            restart = 0 if dynamics in START_NEAREST else plan.restart
            found.append(
                Drift(model, dynamics, settings, plan.duration, plan.step, restart, plan.test_every)
            )
    return found


@dataclass(frozen=True)
class Drift(OfModel):
    """All seeds of one model, followed at the test contexts.

    Attributes:
        dynamics: a name from `KINDS`.
        settings: of the dynamics; `dt` is the largest time step, where it is not that of the
            output.
        duration, step: of the rollouts, and of their output.
        restart: output times from one restart to the next in the mode that re-encodes; 0 leaves
            that mode out.
        test_every: each how many-th test context is followed.
    """

    code_version: ClassVar[int] = 2
    dynamics: str
    settings: Settings
    duration: float
    step: float
    restart: int = 0
    test_every: int = 1

    @property
    def suffix(self) -> str:
        return self.dynamics

    def run(self) -> xr.Dataset:
        plan, model = self.model, trained(self.model)
        data = models.training_set(plan.system, plan.parameters, plan.data)
        true = models.truth(plan.system, plan.parameters, self.test_every, self.duration, self.step)
        modes = {"latent": KINDS[self.dynamics](self, model, data)}
        if self.restart:
            modes["re-encoded"] = integrators.Reencoded(modes["latent"], self.restart)
        rollouts = [self._follow(model, *mode, true) for mode in modes.items()]
        found = xr.concat(rollouts, "mode", coords="minimal", compat="override", join="exact")
        position, velocity = models.over_contexts(
            models.errors(model, models.test_set(plan.system, plan.parameters))
        )
        trained_to = {
            "position_rmse": position,
            "velocity_rmse": velocity,
            "training_diverged": models.lost(model),
        }
        return found.assign(
            {name: ("seed", value) for name, value in trained_to.items()}
        ).assign_attrs(
            method=plan.method,
            training=plan.training,
            dynamics=self.dynamics,
            training_cpu_seconds=model.report["training_cpu_seconds"],
        )

    def _follow(
        self, model: Projection, mode: str, dynamics: LatentDynamics, true: Truth
    ) -> xr.Dataset:
        lead = (len(self.model.seeds), len(true.context))
        system = make_system(self.model.system, self.model.parameters)
        # LSPG steps by itself.
        solver = None if self.dynamics == "lspg" else RK4(dict(self.settings).get("dt", self.step))
        with torch.no_grad(), one_thread():
            P = model(true.context.expand(*lead, -1))
            problem = system.problem(Path.constant(P), P.context)
            first = tuple(x[:, 0].expand(*lead, -1) for x in true.parts)
            start = dynamics.start(problem, true.times[0], first)
            latent = dynamics.solve(problem, start, true.times, solver=solver).states
            stability = _stability(dynamics, problem, latent)
            parts = [
                self._scored(
                    stack([one]),
                    system,
                    true,
                    latent[k : k + 1],
                    {n: v[k : k + 1] for n, v in stability.items()},
                )
                for k, one in enumerate(unstack(model))
            ]
        coords = {
            "seed": list(self.model.seeds),
            "quantile": list(scores.QUANTILES),
            "curve_time": true.times[scores.curve_indices(len(true.times))].numpy(),
            **{
                name: ("context", true.context[:, k].numpy())
                for k, name in enumerate(system.context_names)
            },
        }
        return xr.concat(parts, "seed").assign_coords(coords).expand_dims(mode=[mode])

    def _scored(
        self,
        model: Projection,
        system: System,
        true: Truth,
        latent: Tensor,
        stability: scores.Members,
    ) -> xr.Dataset:
        """Scores of one seed: decoded states of all seeds at once can be more than the memory
        holds.
        """
        P = model(true.context.expand(1, *true.context.shape))
        problem = system.problem(Path.constant(P), P.context)
        rom = problem.decode(P, latent)
        more = OWN_SCORES[system.name](system, true, rom) | stability
        std = model.frame.state_std
        return xr.Dataset(scores.scores(true.times, true.parts[0], rom[0], P, std, more))


def _stability(dynamics: LatentDynamics, problem: Problem, latent: Tensor) -> scores.Members:
    """Scores of the latent field of a first-order problem; dynamics that step in time by themselves
    have none.
    """
    between = dynamics.dynamics if isinstance(dynamics, integrators.Reencoded) else dynamics
    if problem.order == 1 and isinstance(between, integrators.LatentField):
        return scores.stability_scores(between.field(problem), latent)
    return {}


OWN_SCORES: dict[str, Callable[[System, Truth, Parts], scores.Members]] = {
    "lorenz96": lambda system, true, rom: scores.wave_scores(true.times, true.parts[0], rom[0]),
    "pendulum": lambda system, true, rom: scores.energy_scores(
        system, true.context, true.parts, rom
    ),
}
"""Scores that only the waves, or only the mechanics, of a system have."""


def _sindy(task: Drift, model: Projection, data: xr.Dataset) -> LatentDynamics:
    """SINDy on the encoded data and, where a spread is given, on the Galerkin field around them."""
    system, settings = make_system(task.model.system, task.model.parameters), dict(task.settings)
    thinned = data.isel(time=slice(None, None, settings.pop("every")))
    samples = laws.encoded_samples(model, thinned)
    if "spread" in settings:
        around = {name: settings.pop(name) for name in ("spread", "copies")}
        samples += laws.galerkin_samples(model, thinned, system.problem, **around)
    if "switch" in settings:
        settings["context_library"] = _either_side(settings.pop("switch"), samples.parameters)
    return laws.SINDy(**settings).fit_samples(samples.scaled())


def _either_side(switch: float, parameters: laws.Scaling) -> Library:
    """Context terms that let an equation change where the one parameter passes a value; polynomials
    cannot jump.
    """
    shift, scale = parameters.shift.item(), parameters.scale.item()
    after = lambda c: (shift + scale * c[..., 0] > switch).to(c)  # noqa: E731
    return Functions(
        {"1": lambda c: torch.ones_like(c[..., 0]), f"[{parameters.names[0]} > {switch:g}]": after}
    )


KINDS: dict[str, Callable[[Drift, Projection, xr.Dataset], LatentDynamics]] = {
    "galerkin": lambda task, model, data: integrators.Galerkin(),
    "petrov-galerkin": lambda task, model, data: integrators.PetrovGalerkin(),
    "lspg": lambda task, model, data: integrators.LSPG(**dict(task.settings)),
    "sindy": _sindy,
    "neural-ode": lambda task, model, data: laws.NeuralODE(**dict(task.settings)).fit(model, data),
}
"""Latent dynamics by name: from a trained stack and its training set to what moves the latent
state.
"""
