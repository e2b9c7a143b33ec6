"""Data of the study, and trained stacks: each is made once and kept in runs/, which git ignores."""

import hashlib
import json
import time
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

import romkit
from romkit.core import runtime
from romkit.projections import Projection
from romkit.systems import SYSTEMS, System
from romkit.systems.problem import Parts
from studies.recipes import resolved
from studies.runner import Settings

CACHE = Path(__file__).parents[2] / "runs" / "drift-models"


class Truth(NamedTuple):
    """Contexts (C, p), times (T,), and parts of the full state (C, T, n): x, or q and q̇ where it is mechanical."""

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


def make_system(name: str, parameters: Settings) -> System:
    """System with these parameters."""
    return SYSTEMS[name](**dict(parameters))


@lru_cache(maxsize=1)
def training_set(name: str, parameters: Settings, training: Settings) -> xr.Dataset:
    """Training set of a system, sampled at each `every` time units.

    Lorenz96: `number` forcings from `first` on, `spacing` apart, over `duration` time units. Pendulum: the first
    `number` trajectories of the paper's training set with this `seed`.
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
    """Trajectories from where datasets begin, at each `test_every`-th test context."""
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
