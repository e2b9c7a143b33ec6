"""Training sets, and the trajectories of the full model that rollouts are compared with."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.systems import SYSTEMS, System

Settings = tuple[tuple[str, object], ...]
"""Names and values, in a form that can be hashed."""


class Truth(NamedTuple):
    """Contexts (C, p), times (T,) and states (C, T, n) of the full model."""

    context: Tensor
    times: Tensor
    states: Tensor


def make_system(name: str, parameters: Settings) -> System:
    """The system with these parameters."""
    return SYSTEMS[name](**dict(parameters))


@lru_cache(maxsize=1)
def training_set(name: str, parameters: Settings, training: Settings) -> xr.Dataset:
    """`number` forcings from `first` on, `spacing` apart, over `duration` time units, sampled at each `every`."""
    system, plan = make_system(name, parameters), dict(training)
    forcings = plan["first"] + plan["spacing"] * np.arange(plan["number"])
    data = system.dataset(F=forcings, duration=plan["duration"])
    return data.isel(time=slice(None, None, round(plan["every"] / system.dt)))


@lru_cache(maxsize=1)
def truth(name: str, parameters: Settings, test_every: int, duration: float, step: float) -> Truth:
    """Trajectories from where datasets begin, at each `test_every`-th test context."""
    system = make_system(name, parameters)
    context = torch.from_numpy(system.test_contexts())[::test_every]
    times = torch.arange(round(duration / step) + 1, dtype=torch.float64) * step
    return Truth(context, times, system.simulate(system.settled_state(context), context, times).state)
