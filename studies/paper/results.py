"""The results of a preset, and how to find one."""

import functools
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from studies.paper.config import VELOCITY_TERM
from studies.runner import read

VELOCITY_WEIGHT = {**dict.fromkeys(("ncae", "ncae-bias", "ncae-slope", "cae", "context-cae"), 1.0), **VELOCITY_TERM}
"""Weight of the velocity term in the tables, by method."""


@dataclass(frozen=True, eq=False)  # what was measured from them is kept, and each is only equal to itself
class Results:
    """Everything that is there.

    Attributes:
        preset: by whose name the results were made.
        trained: the results of training tasks.
        bifurcation: that of the two regimes, None if it is missing.
        records: what happened on the way, by task: seconds, host, commit.
    """

    preset: str
    trained: tuple[xr.Dataset, ...]
    bifurcation: xr.Dataset | None
    records: dict[str, dict[str, object]]

    def find(self, kind: str, system: str, method: str, condition: str = "clean", **facts: object) -> xr.Dataset | None:
        """The one result of this kind, by default with the velocity term of the tables; None if it is missing."""
        if kind != "tuned":
            facts.setdefault("velocity_weight", VELOCITY_WEIGHT[method])
        found = self._index[kind, system, method, condition]
        return next((data for data in found if all(data.attrs[key] == value for key, value in facts.items())), None)

    def select(self, **facts: object) -> Iterator[xr.Dataset]:
        """All training results with these attributes."""
        return (data for data in self.trained if all(data.attrs[key] == value for key, value in facts.items()))

    @functools.cached_property
    def _index(self) -> dict[tuple[str, ...], list[xr.Dataset]]:
        index = defaultdict(list)
        for data in self.trained:
            index[tuple(data.attrs[key] for key in ("kind", "system", "method", "condition"))].append(data)
        return index

    def missing(self, names: Sequence[str]) -> list[str]:
        """Those of the tasks without a result."""
        there = {data.attrs["task"] for data in (*self.trained, *self._others())}
        return [name for name in names if name not in there]

    def _others(self) -> tuple[xr.Dataset, ...]:
        return () if self.bifurcation is None else (self.bifurcation,)


def load(folder: Path) -> Results:
    """What the folder of a preset and its archive have."""
    data = read(folder)
    records = {d.attrs["task"]: json.loads(d.attrs["record"]) for d in data if "record" in d.attrs}
    bifurcation = [d for d in data if d.attrs["kind"] == "bifurcation"]
    trained = tuple(d for d in data if d.attrs["kind"] != "bifurcation")
    return Results(folder.name, trained, bifurcation[0] if bifurcation else None, records)
