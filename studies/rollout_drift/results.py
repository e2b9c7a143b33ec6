"""The results of a preset, by model and latent dynamics."""

import json
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from studies.runner.archive import read


@dataclass(frozen=True)
class Results:
    """What was measured on a system.

    Attributes:
        system: by name.
        runs: results by (method/training, dynamics), the models with the longest valid times first.
    """

    system: str
    runs: dict[tuple[str, str], xr.Dataset]

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(model for model, _ in self.runs))

    @property
    def dynamics(self) -> list[str]:
        return list(dict.fromkeys(name for _, name in self.runs))

    @property
    def any(self) -> xr.Dataset:
        return next(iter(self.runs.values()))

    @property
    def duration(self) -> float:
        """Of the rollouts, in the system's time units."""
        return json.loads(self.any.attrs["config"])["duration"]

    @property
    def restart(self) -> int:
        """Steps from one re-encoding to the next."""
        return max(json.loads(run.attrs["config"])["restart"] for run in self.runs.values())

    def first(self, model: str) -> xr.Dataset:
        """Some result of this model."""
        return next(run for (name, _), run in self.runs.items() if name == model)

    @property
    def provenance(self) -> str:
        devices = sorted({run.attrs["device"] for run in self.runs.values()})
        versions = json.loads(self.any.attrs["versions"])
        names = ", ".join(f"{name} {versions[name]}" for name in ("romkit", "torch", "torchdiffeq"))
        return f"{', '.join(devices)}; {names}."


def load(folder: Path) -> dict[str, Results]:
    """All results of a folder and its archive, by system."""
    found: dict[str, list[xr.Dataset]] = {}
    for run in read(folder):
        found.setdefault(json.loads(run.attrs["config"])["model"]["system"], []).append(run)
    return {system: Results(system, _sorted(runs)) for system, runs in found.items()}


def _sorted(runs: list[xr.Dataset]) -> dict[tuple[str, str], xr.Dataset]:
    named = {(f"{run.attrs['method']}/{run.attrs['training']}", run.attrs["dynamics"]): run for run in runs}
    best: dict[str, float] = {}
    for (model, _), run in named.items():
        best[model] = max(best.get(model, 0.0), float(run.valid_time.sel(mode="latent").median()))
    return dict(sorted(named.items(), key=lambda item: (-best[item[0][0]], item[0])))
