"""The task: a trained stack, followed by one kind of latent dynamics."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.engine.threads import one_thread
from romkit.integrators import (
    LSPG,
    Galerkin,
    LatentDynamics,
    LatentField,
    NeuralODE,
    PetrovGalerkin,
    Reencoded,
    Scaling,
    SINDy,
    encoded_samples,
    galerkin_samples,
)
from romkit.integrators.laws.equations import Library, Terms
from romkit.metrics import reconstruction_rmse
from romkit.projections import Projection, stack, unstack
from romkit.solvers import RK4
from romkit.systems import System
from romkit.systems.problem import ConstantPath, Parts, Problem
from studies.rollout_drift.data import Settings, Truth, make_system, test_set, training_set, truth
from studies.rollout_drift.models import Model, trained
from studies.rollout_drift.scores import (
    QUANTILES,
    Members,
    curve_indices,
    energy_scores,
    scores,
    stability_scores,
    wave_scores,
)
from studies.runner import Task


@dataclass(frozen=True)
class Drift(Task):
    """All seeds of one model, followed at the test contexts.

    Attributes:
        model: how it is trained.
        dynamics: a name from `KINDS`.
        settings: of the dynamics; `dt` is the largest time step, where it is not that of the output.
        duration, step: of the rollouts, and of their output.
        restart: output times from one restart to the next in the mode that re-encodes; 0 leaves that mode out.
        test_every: each how many-th test context is followed.
    """

    code_version: ClassVar[int] = 2
    model: Model
    dynamics: str
    settings: Settings
    duration: float
    step: float
    restart: int = 0
    test_every: int = 1

    @property
    def name(self) -> str:
        return f"{self.model.name}-{self.dynamics}"

    @property
    def solver(self) -> RK4 | None:
        """RK4 with the step of the settings; LSPG steps by itself."""
        return None if self.dynamics == "lspg" else RK4(dict(self.settings).get("dt", self.step))

    @property
    def resolved(self) -> Mapping[str, object]:
        return self.model.resolved

    def run(self) -> xr.Dataset:
        plan, model = self.model, trained(self.model)
        data = training_set(plan.system, plan.parameters, plan.data)
        true = truth(plan.system, plan.parameters, self.test_every, self.duration, self.step)
        modes = {"latent": KINDS[self.dynamics](self, model, data)}
        if self.restart:
            modes["re-encoded"] = Reencoded(modes["latent"], self.restart)
        rollouts = [self._follow(model, *mode, true) for mode in modes.items()]
        found = xr.concat(rollouts, "mode", coords="minimal", compat="override", join="exact")
        return found.assign(self._training(model)).assign_attrs(
            method=plan.method,
            training=plan.training,
            dynamics=self.dynamics,
            training_cpu_seconds=model.report["training_cpu_seconds"],
        )

    def _follow(self, model: Projection, mode: str, dynamics: LatentDynamics, true: Truth) -> xr.Dataset:
        lead = (len(self.model.seeds), len(true.context))
        system = make_system(self.model.system, self.model.parameters)
        with torch.no_grad(), one_thread():
            P = model(true.context.expand(*lead, -1))
            problem = system.problem(ConstantPath(P), P.context)
            start = dynamics.start(problem, true.times[0], tuple(x.expand(*lead, -1) for x in true.start))
            latent = dynamics.solve(problem, start, true.times, solver=self.solver).states
            stability = _stability(dynamics, problem, latent)
            parts = [
                self._scored(
                    stack([one]), system, true, latent[k : k + 1], {n: v[k : k + 1] for n, v in stability.items()}
                )
                for k, one in enumerate(unstack(model))
            ]
        coords = {
            "seed": list(self.model.seeds),
            "quantile": list(QUANTILES),
            "curve_time": true.times[curve_indices(len(true.times))].numpy(),
            **{name: ("context", true.context[:, k].numpy()) for k, name in enumerate(system.context_names)},
        }
        return xr.concat(parts, "seed").assign_coords(coords).expand_dims(mode=[mode])

    def _scored(self, model: Projection, system: System, true: Truth, latent: Tensor, stability: Members) -> xr.Dataset:
        """Scores of one seed: decoded states of all seeds at once can be more than the memory holds."""
        P = model(true.context.expand(1, *true.context.shape))
        problem = system.problem(ConstantPath(P), P.context)
        rom = problem.decode(P, latent)
        more = OWN_SCORES[system.name](system, true, rom) | stability
        return xr.Dataset(scores(true.times, true.parts[0], rom[0], P, model.normalization.state_std, more))

    def _training(self, model: Projection) -> dict[str, tuple]:
        """Root mean square errors of each seed over the test set, and whether its training diverged."""
        test = test_set(self.model.system, self.model.parameters)
        seeds = len(self.model.seeds)
        x, v = (torch.from_numpy(test[k].values).expand(seeds, -1, -1, -1) for k in ("state", "velocity"))
        with torch.no_grad():
            errors = reconstruction_rmse(model(test), x, v)
        position, velocity = (e.square().mean(-1).sqrt().numpy() for e in errors)
        lost = [bool(r["diverged"] or r.get("rollout_diverged", False)) for r in model.report["seeds"]]
        return {
            "position_rmse": ("seed", position),
            "velocity_rmse": ("seed", velocity),
            "training_diverged": ("seed", np.array(lost, dtype=np.int8)),
        }


def _stability(dynamics: LatentDynamics, problem: Problem, latent: Tensor) -> Members:
    """Of the latent field of a first-order problem; dynamics that step in time by themselves have none."""
    between = dynamics.dynamics if isinstance(dynamics, Reencoded) else dynamics
    if problem.order == 1 and isinstance(between, LatentField):
        return stability_scores(between.field(problem), latent)
    return {}


OWN_SCORES: dict[str, Callable[[System, Truth, Parts], Members]] = {
    "lorenz96": lambda system, true, rom: wave_scores(true.times, true.parts[0], rom[0]),
    "pendulum": lambda system, true, rom: energy_scores(system, true.context, true.parts, rom),
}
"""What only the waves, or only the mechanics, of a system can be asked."""


def _sindy(task: Drift, model: Projection, data: xr.Dataset) -> LatentDynamics:
    """Fitted to the encoded data and, where a spread is given, to the Galerkin field around them."""
    system, settings = make_system(task.model.system, task.model.parameters), dict(task.settings)
    thinned = data.isel(time=slice(None, None, settings.pop("every")))
    samples = encoded_samples(model, thinned)
    if "spread" in settings:
        around = {name: settings.pop(name) for name in ("spread", "copies")}
        samples += galerkin_samples(model, thinned, system.problem, **around)
    if "switch" in settings:
        settings["context_library"] = _either_side(settings.pop("switch"), samples.parameters)
    return SINDy(**settings).fit_samples(samples.scaled())


def _either_side(switch: float, parameters: Scaling) -> Library:
    """Context terms that let an equation change where the one parameter passes a value; polynomials cannot jump."""
    shift, scale = parameters.shift.item(), parameters.scale.item()
    after = lambda c: (shift + scale * c[..., 0] > switch).to(c)  # noqa: E731
    return Terms({"1": lambda c: torch.ones_like(c[..., 0]), f"[{parameters.names[0]} > {switch:g}]": after})


KINDS: dict[str, Callable[[Drift, Projection, xr.Dataset], LatentDynamics]] = {
    "galerkin": lambda task, model, data: Galerkin(),
    "petrov-galerkin": lambda task, model, data: PetrovGalerkin(),
    "lspg": lambda task, model, data: LSPG(**dict(task.settings)),
    "sindy": _sindy,
    "neural-ode": lambda task, model, data: NeuralODE(**dict(task.settings)).fit(model, data),
}
"""Latent dynamics by name: from a trained stack and its training set to what moves the latent state."""
