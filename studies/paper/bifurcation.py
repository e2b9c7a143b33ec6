"""The two regimes of Lorenz96: the waves at both ends of the range of F, and where the wave number changes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import xarray as xr

from romkit.tasks import Task
from studies.paper.config import Settings
from studies.paper.datasets import system


@dataclass(frozen=True)
class Bifurcation(Task):
    """Dominant wave numbers over a grid of F, and the state over time at the first and the last."""

    code_version: ClassVar[int] = 1
    parameters: Settings = ()
    members: int = 61
    every: int = 5

    @property
    def name(self) -> str:
        return "lorenz96-bifurcation"

    def run(self) -> xr.Dataset:
        model = system("lorenz96", self.parameters)
        F = model.context[0]
        data = model.dataset(F=np.linspace(F.low, F.high, self.members))
        ends = data["state"].values[[0, -1], :: self.every].astype(np.float32)
        return xr.Dataset(
            {
                "wave_number": ("forcing", data["wave_number"].values.astype(np.int8)),
                "state": (("end", "time", "component"), ends),
            },
            coords={"forcing": data["F"].values, "time": data["time"].values[:: self.every]},
            attrs={"kind": "bifurcation", "transient": model.transient},
        )
