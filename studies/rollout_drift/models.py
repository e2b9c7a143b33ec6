"""Data of the study, and trained stacks: each is made once and kept in runs/, which git ignores."""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

import romkit
from romkit.core import runtime
from romkit.metrics import reconstruction_rmse
from romkit.projections import Projection
from romkit.systems.problem import Parts
from romkit.tasks import Task
from studies.recipes import make_system, resolved
from studies.runner import Settings

CACHE = Path(__file__).parents[2] / "runs" / "drift-models"


class Truth(NamedTuple):
    """Contexts (C, p), times (T,), and parts of the full state (C, T, n): x, or q and q̇ where it
    is mechanical.
    """

    context: Tensor
    times: Tensor
    parts: Parts


@dataclass(frozen=True)
class Model:
    """A method, and how it is trained.

    Attributes:
        system, method: by name.
        training: name of the training.
        seeds: of the stack.
        data: settings of the training set.
        settings: of `romkit.fit`.
        parameters: of the system, where they differ from its defaults.
    """

    system: str
    method: str
    training: str
    seeds: tuple[int, ...]
    data: Settings
    settings: Settings
    parameters: Settings = ()

    @property
    def name(self) -> str:
        return f"{self.system}-{self.method}-{self.training}"

    @property
    def resolved(self) -> dict[str, object]:
        """Recipe and sizes that the settings stand for."""
        return resolved(self.method, make_system(self.system, self.parameters), dict(self.settings))


@dataclass(frozen=True)
class OfModel(Task):
    """Task on all seeds of a trained model.

    Attributes:
        suffix: what the name of the task has behind that of the model.
        model: how it is trained.
    """

    suffix: ClassVar[str] = ""
    model: Model

    @property
    def name(self) -> str:
        return "-".join(filter(None, (self.model.name, self.suffix)))

    @property
    def resolved(self) -> Mapping[str, object]:
        return self.model.resolved


@lru_cache(maxsize=1)
def training_set(name: str, parameters: Settings, training: Settings) -> xr.Dataset:
    """Training set of a system, sampled at each `every` time units.

    Lorenz96: `number` forcings from `first` on, `spacing` apart, over `duration` time units.
    Pendulum: the first `number` trajectories of the paper's training set with this `seed`.
    """
    system, plan = make_system(name, parameters), dict(training)
    if name == "lorenz96":
        forcings = plan["first"] + plan["spacing"] * np.arange(plan["number"])
        data = system.dataset(F=forcings, duration=plan["duration"])
    else:
        data = system.dataset("train", seed=plan["seed"]).isel(trajectory=slice(plan["number"]))
    return data.isel(time=slice(None, None, round(plan["every"] / system.dt)))


@lru_cache(maxsize=1)
def test_set(name: str, parameters: Settings) -> xr.Dataset:
    """Each tenth snapshot of the paper's test set."""
    return make_system(name, parameters).dataset("test").isel(time=slice(None, None, 10))


@lru_cache(maxsize=1)
def truth(name: str, parameters: Settings, test_every: int, duration: float, step: float) -> Truth:
    """Return trajectories from where datasets begin, at each `test_every`-th test context."""
    system = make_system(name, parameters)
    context = torch.from_numpy(system.test_contexts())[::test_every]
    times = torch.arange(round(duration / step) + 1, dtype=torch.float64) * step
    motion = system.simulate(system.start(context), context, times)
    return Truth(context, times, (motion.state, motion.velocity)[: system.order])


@lru_cache(maxsize=1)
def trained(model: Model) -> Projection:
    """Stack in float64; its `report` has `training_cpu_seconds`."""
    facts = [asdict(model), model.resolved, runtime.versions()["romkit"]]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    path = CACHE / f"{model.name}-{digest}.safetensors"
    if not path.exists():
        started = time.process_time()
        data = training_set(model.system, model.parameters, model.data)
        stacked = romkit.fit(model.method, data, seeds=model.seeds, **dict(model.settings))
        stacked.report["training_cpu_seconds"] = time.process_time() - started
        CACHE.mkdir(parents=True, exist_ok=True)
        romkit.save(stacked, path)
    return romkit.load(path).double()


def states(model: Projection, data: xr.Dataset) -> tuple[Tensor, Tensor]:
    """Return states and velocities (S, C, T, n) of a dataset, the same for all seeds of a stack."""
    x, v = (
        torch.from_numpy(data[name].values).expand(model.seeds, -1, -1, -1)
        for name in ("state", "velocity")
    )
    return x, v


def errors(model: Projection, data: xr.Dataset) -> tuple[Tensor, Tensor]:
    """Root mean square errors of positions and velocities (S, C) of each trajectory."""
    with torch.no_grad():
        return reconstruction_rmse(model(data), *states(model, data))


def over_contexts(errors: Iterable[Tensor]) -> tuple[np.ndarray, ...]:
    """Root mean squares (S,) of errors (S, C) over contexts."""
    return tuple(error.square().mean(-1).sqrt().numpy() for error in errors)


def lost(model: Projection) -> np.ndarray:
    """1 for each seed whose training diverged, also by rollouts in the loss, else 0."""
    reports = model.report["seeds"]
    return np.array(
        [report["diverged"] or report.get("rollout_diverged", False) for report in reports],
        dtype=np.int8,
    )
