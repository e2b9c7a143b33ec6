"""Training sets, and the trajectories of the full model that rollouts are compared with."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.systems import SYSTEMS, System
from romkit.systems.problem import Parts

Settings = tuple[tuple[str, object], ...]
"""Names and values, in a form that can be hashed."""


class Truth(NamedTuple):
    """Contexts (C, p), times (T,), and parts of the full state (C, T, n): x, or q and q̇ where it is mechanical."""

    context: Tensor
    times: Tensor
    parts: Parts

    @property
    def start(self) -> Parts:
        """The first of each part (C, n)."""
        return tuple(part[:, 0] for part in self.parts)


def make_system(name: str, parameters: Settings) -> System:
    """The system with these parameters."""
    return SYSTEMS[name](**dict(parameters))


@lru_cache(maxsize=1)
def training_set(name: str, parameters: Settings, training: Settings) -> xr.Dataset:
    """The training set of a system, sampled at each `every` time units."""
    system, plan = make_system(name, parameters), dict(training)
    data = _TRAINING_SETS[name](system, plan)
    return data.isel(time=slice(None, None, round(plan["every"] / system.dt)))


def _forcings(system: System, plan: dict[str, object]) -> xr.Dataset:
    """`number` forcings from `first` on, `spacing` apart, over `duration` time units."""
    forcings = plan["first"] + plan["spacing"] * np.arange(plan["number"])
    return system.dataset(F=forcings, duration=plan["duration"])


def _paper(system: System, plan: dict[str, object]) -> xr.Dataset:
    """The first `number` trajectories of the paper's training set."""
    return system.dataset("train", seed=plan["seed"]).isel(trajectory=slice(plan["number"]))


_TRAINING_SETS: dict[str, Callable[[System, dict[str, object]], xr.Dataset]] = {
    "lorenz96": _forcings,
    "pendulum": _paper,
}


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
