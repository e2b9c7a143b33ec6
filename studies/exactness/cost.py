"""What training costs: CPU seconds of each method for a seed and a step."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import xarray as xr

import romkit
from romkit.data import snapshots
from romkit.tasks import Task
from romkit.training.batches import batches_per_epoch
from romkit.training.watch import Epoch
from studies.rollout_drift.models import Model, training_set


@dataclass(frozen=True)
class Cost(Task):
    """Epochs of a training, one after the other, by the clock of the process.

    Attributes:
        model: how it is trained, and with which seeds at once.
        epochs: how many are timed.
        engine: long trainings are compiled.
    """

    code_version: ClassVar[int] = 1
    model: Model
    epochs: int
    engine: str = "compiled"

    @property
    def name(self) -> str:
        return f"{self.model.name}-cost"

    @property
    def resolved(self) -> Mapping[str, object]:
        return self.model.resolved

    def run(self) -> xr.Dataset:
        plan, clock = self.model, []
        data = training_set(plan.system, plan.parameters, plan.data)
        settings = dict(plan.settings) | {"epochs": self.epochs + 1, "engine": self.engine, "verbose": False}

        def tick(epoch: Epoch) -> None:
            clock.append(time.process_time())

        romkit.fit(plan.method, data, seeds=plan.seeds, callback=tick, **settings)
        recipe = self.resolved["recipe"]["snapshots"]
        steps = batches_per_epoch(len(snapshots(data, every=recipe["every"])[0]), recipe["batch_size"])
        seconds = np.diff(clock) / (steps * len(plan.seeds))
        attrs = {"kind": "cost", "system": plan.system, "method": plan.method, "steps_per_epoch": steps}
        return xr.Dataset({"seconds": ("epoch", seconds)}).assign_attrs(attrs)
