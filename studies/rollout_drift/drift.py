"""The task: one method, trained in one way, followed by every latent dynamics."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.integrators import (
    LSPG,
    Galerkin,
    LatentDynamics,
    NeuralODE,
    PetrovGalerkin,
    Reencoded,
    SINDy,
    galerkin_samples,
)
from romkit.metrics import reconstruction_rmse
from romkit.projections import Projection
from romkit.solvers import RK4
from studies.rollout_drift.data import Settings, Truth, make_system, training_set, truth
from studies.rollout_drift.scores import QUANTILES, curve_indices, scores
from studies.runner import Task

RESTARTING = " restarting"
"""Ends the name of dynamics that re-encode."""


@dataclass(frozen=True)
class Drift(Task):
    """All seeds of one method, trained and followed to `duration` at the test contexts.

    Attributes:
        system, method: by name.
        training: name of the training.
        seeds: of the models.
        training_data: settings of the training set.
        duration, step, restart: of the rollouts.
        settings: of `romkit.fit`.
        neural_ode: updates of its two stages.
        parameters: of the system.
        test_every: each how many-th test context is followed.
    """

    code_version: ClassVar[int] = 1
    system: str
    method: str
    training: str
    seeds: tuple[int, ...]
    training_data: Settings
    duration: float
    step: float
    restart: int
    settings: Settings
    neural_ode: tuple[int, int]
    parameters: Settings = ()
    test_every: int = 1

    @property
    def name(self) -> str:
        return f"{self.system}-{self.method}-{self.training}"

    def run(self) -> xr.Dataset:
        data = training_set(self.system, self.parameters, self.training_data)
        model = romkit.fit(self.method, data, seeds=self.seeds, **dict(self.settings)).double()
        true = truth(self.system, self.parameters, self.test_every, self.duration, self.step)
        rollouts = [self._follow(model, *named, true) for named in self._dynamics(model, data)]
        reports = model.report["seeds"]
        lost = [bool(r["diverged"] or r.get("rollout_diverged", False)) for r in reports]
        return xr.concat(rollouts, "dynamics", coords="minimal", compat="override", join="exact").assign(
            training_diverged=("seed", np.array(lost, dtype=np.int8)), **self._reconstruction(model)
        )

    def _dynamics(self, model: Projection, data: xr.Dataset) -> Iterator[tuple[str, LatentDynamics]]:
        """Latent dynamics by name; those that start at the encoded state also with restarts."""
        system = make_system(self.system, self.parameters)
        regression, shooting = self.neural_ode
        # Samples around the attractor: those on it say nothing about the directions across.
        samples = galerkin_samples(model, data.isel(time=slice(None, None, 10)), system.field, copies=4)
        yield "galerkin", Galerkin()
        yield "lspg", LSPG()
        encoded = {
            "petrov-galerkin": PetrovGalerkin(),
            "sindy": SINDy(degree=3, threshold=0.01).fit_samples(samples),
            "neural-ode": NeuralODE(regression_steps=regression, shooting_steps=shooting).fit(model, data),
        }
        yield from encoded.items()
        for name, dynamics in encoded.items():
            yield name + RESTARTING, Reencoded(dynamics, self.restart)

    def _follow(self, model: Projection, name: str, dynamics: LatentDynamics, true: Truth) -> xr.Dataset:
        system = make_system(self.system, self.parameters)
        lead = (len(self.seeds), len(true.context))
        c = true.context.expand(*lead, -1)
        with torch.no_grad():
            P = model(c)
            x0 = true.states[:, 0].expand(*lead, -1)
            solution = dynamics.solve(P, system.field(c), x0, true.times, RK4(self.step, label=name))
            found = scores(true.times, true.states, P.decode(solution.states), P, model.frame.state_std)
        coords = {
            "seed": list(self.seeds),
            "quantile": list(QUANTILES),
            "curve_time": true.times[curve_indices(len(true.times))].numpy(),
            "F": ("context", true.context[:, 0].numpy()),
        }
        return xr.Dataset(found, coords).expand_dims(dynamics=[name])

    def _reconstruction(self, model: Projection) -> dict[str, tuple]:
        """Root mean square errors of each seed over the test set."""
        test = make_system(self.system, self.parameters).dataset("test").isel(time=slice(None, None, 10))
        x, v = (torch.from_numpy(test[k].values).expand(len(self.seeds), -1, -1, -1) for k in ("state", "velocity"))
        with torch.no_grad():
            errors = reconstruction_rmse(model(test), x, v)
        position, velocity = (e.square().mean(-1).sqrt().numpy() for e in errors)
        return {"position_rmse": ("seed", position), "velocity_rmse": ("seed", velocity)}
