"""Trained stacks: each is made once and kept in runs/, which git ignores, for the tasks that follow it."""

import hashlib
import json
import time
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import romkit
from romkit.core import runtime
from romkit.projections import Projection
from studies.recipes import resolved
from studies.rollout_drift.data import Settings, make_system, training_set

CACHE = Path(__file__).parents[2] / "runs" / "drift-models"


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
        """The recipe and the sizes that the settings stand for."""
        return resolved(self.method, make_system(self.system, self.parameters), dict(self.settings))


@lru_cache(maxsize=1)
def trained(model: Model) -> Projection:
    """The stack in float64; its `report` has `training_cpu_seconds`."""
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
