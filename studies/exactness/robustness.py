"""What noise of the state, and contexts out of the range, cost the trained models of the race."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.metrics import reconstruction_rmse
from romkit.projections import Projection
from romkit.systems import System
from romkit.tasks import Task
from studies.rollout_drift.models import Model, make_system, test_set, trained

NOISE = (0.0, 0.01, 0.05)
"""Standard deviations of the noise of each component, as shares of that of the component."""

BEYOND = (0.1, 0.3)
"""How far contexts are out of the range, as shares of its width."""

CONTEXTS = 10
"""Sets of several parameters, at each distance; of one parameter, both ends."""


@dataclass(frozen=True)
class Robustness(Task):
    """All seeds of one model on noisy states of the test set, and on trajectories at contexts out of the range.

    Errors are those of P(x + noise) against x, and of DP(x + noise) v against v.

    Attributes:
        model: how it is trained.
    """

    code_version: ClassVar[int] = 1
    model: Model

    @property
    def name(self) -> str:
        return f"{self.model.name}-robustness"

    @property
    def resolved(self) -> Mapping[str, object]:
        return self.model.resolved

    def run(self) -> xr.Dataset:
        plan, model = self.model, trained(self.model)
        system, test = make_system(plan.system, plan.parameters), test_set(plan.system, plan.parameters)
        noisy = [_noisy(model, test, level) for level in NOISE]
        beyond = [_errors(model, trajectories(system, share)) for share in BEYOND]
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
            noise_rms=float(model.normalization.state_std.square().mean().sqrt()),
        )


def trajectories(system: System, share: float) -> xr.Dataset:
    """Each tenth snapshot of trajectories at contexts on the surface of the range, widened by a share on each side."""
    low, high = np.array([(p.low, p.high) for p in system.context]).T
    if len(low) == 1:
        places = np.array([[-1.0], [1.0]])
    else:
        places = np.random.default_rng(0).uniform(-1, 1, size=(CONTEXTS, len(low)))
        places /= np.abs(places).max(1, keepdims=True)
    contexts = (low + high) / 2 + (1 + 2 * share) * places * (high - low) / 2
    named = dict(zip(system.context_names, contexts.T, strict=True))
    return system.dataset(**named).isel(time=slice(None, None, 10))


def _errors(model: Projection, data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Root mean squares over trajectories, times and components, of each seed."""
    x, v = (torch.from_numpy(data[name].values).expand(model.seeds, -1, -1, -1) for name in ("state", "velocity"))
    with torch.no_grad():
        return _over_contexts(reconstruction_rmse(model(data), x, v))


def _noisy(model: Projection, data: xr.Dataset, level: float) -> tuple[np.ndarray, np.ndarray]:
    x, v = (torch.from_numpy(data[name].values) for name in ("state", "velocity"))
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    measured = x + level * model.normalization.state_std * noise
    with torch.no_grad():
        found = model(data).jvp(measured.unsqueeze(0), v.expand(model.seeds, -1, -1, -1))
    errors = ((a - b).square().mean((-1, -2)).sqrt() for a, b in zip((x, v), found, strict=True))
    return _over_contexts(errors)


def _over_contexts(errors: tuple[Tensor, Tensor]) -> tuple[np.ndarray, np.ndarray]:
    position, velocity = (error.square().mean(-1).sqrt().numpy() for error in errors)
    return position, velocity
