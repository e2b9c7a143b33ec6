"""One contestant of the race: a stack of seeds, trained, and its errors on the test set."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.metrics import reconstruction_rmse
from romkit.projections import Operator, Projection, unstack
from romkit.systems import System
from romkit.tasks import Task
from romkit.testing.models import probe
from studies.rollout_drift.models import Model, make_system, test_set, trained

FAR = 10.0
"""Idempotency is measured at contexts up to so many times the training range."""


@dataclass(frozen=True)
class Race(Task):
    """All seeds of one model on the test set.

    Attributes:
        model: how it is trained.
    """

    code_version: ClassVar[int] = 1
    model: Model

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def resolved(self) -> Mapping[str, object]:
        return self.model.resolved

    def run(self) -> xr.Dataset:
        plan, model = self.model, trained(self.model)
        system, test = make_system(plan.system, plan.parameters), test_set(plan.system, plan.parameters)
        seeds = len(plan.seeds)
        x, v = (torch.from_numpy(test[name].values).expand(seeds, -1, -1, -1) for name in ("state", "velocity"))
        with torch.no_grad():
            P = model(test)
            position, velocity = reconstruction_rmse(P, x, v)
            found = {"position_rmse": position, "velocity_rmse": velocity}
            if system.order == 1:
                found["latent_velocity_rmse"] = (carried(system, P, x) - v).square().mean((-2, -1)).sqrt()
        columns = {name: (("seed", "context"), value.numpy()) for name, value in found.items()}
        columns["idempotency_error"] = ("seed", idempotency(model))
        reports = model.report["seeds"]
        columns["training_diverged"] = ("seed", np.array([report["diverged"] for report in reports], dtype=np.int8))
        coords = {"seed": list(plan.seeds)}
        coords |= {name: ("context", test[name].values) for name in system.context_names}
        return xr.Dataset(columns, coords).assign_attrs(
            system=plan.system,
            method=plan.method,
            training=plan.training,
            parameters=sum(p[0].numel() for p in model.parameters() if p.requires_grad),
            training_cpu_seconds=model.report["training_cpu_seconds"],
            epochs=len(reports[0]["losses"]),
        )


def carried(system: System, P: Operator, x: Tensor) -> Tensor:
    """DP(Px) f(Px): the velocity of the reduced model by the encoder's field, at the projected states."""
    on_manifold = P(x)
    f = system.field(P.context)(torch.zeros(()), on_manifold)
    return P.jvp(on_manifold, f).tangent


def idempotency(model: Projection) -> np.ndarray:
    """Largest ‖P(P(x)) - P(x)‖ / ‖P(x)‖ of each seed over random states and contexts far outside the range."""
    errors = []
    for one in unstack(model):
        points = probe(one, batch=200, spread=FAR)
        with torch.no_grad():
            once = points.operator(points.x)
            twice = points.operator(once)
        errors.append(((twice - once).norm(dim=-1) / once.norm(dim=-1)).max().item())
    return np.array(errors)
