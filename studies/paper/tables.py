"""Results of a preset, and the published numbers beside ours: `summary` has one row for each of the
616.
"""

import csv
import functools
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from studies.paper.datasets import METHODS, NOISE_UNIT, VELOCITY_TERM
from studies.runner import read

REFERENCE = Path(__file__).parent / "reference.csv"
METHOD_OF = {
    "cAE": "cae",
    "Context-cAE": "context-cae",
    "AE": "ae",
    "Context-AE": "context-ae",
    "FiLM+AE": "film-ae",
    "SoftNcAE": "soft-ncae",
    "NcAE": "ncae",
    "NcAE bias-only": "ncae-bias",
    "NcAE slope-only": "ncae-slope",
}
"""romkit's name of a method by the paper's."""
NAME_OF = {own: name for name, own in METHOD_OF.items()}
COLUMNS = (
    *("table", "system", "method", "condition", "metric", "mean", "std"),
    *("measured_mean", "measured_std", "n_seeds", "n_diverged", "preset"),
)
EXCLUDING = "ablation_modulation"
"""The table from which the paper leaves out seeds that diverged."""
SYSTEMS = ("lorenz96", "pendulum")
UNCONSTRAINED = tuple(VELOCITY_TERM)
ERRORS = POSITION, VELOCITY = "position_rmse", "velocity_rmse"
VELOCITY_WEIGHT = {
    **dict.fromkeys(("ncae", "ncae-bias", "ncae-slope", "cae", "context-cae"), 1.0),
    **VELOCITY_TERM,
}
"""Weight of the velocity term in the tables, by method."""


@dataclass(
    frozen=True, eq=False
)  # what was measured from them is kept, and each is only equal to itself
class Results:
    """All results of a preset.

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

    def find(
        self, kind: str, system: str, method: str, condition: str = "clean", **facts: object
    ) -> xr.Dataset | None:
        """Return the one result of this kind, by default with the velocity term of the tables; None
        if it is missing.
        """
        if kind != "tuned":
            facts.setdefault("velocity_weight", VELOCITY_WEIGHT[method])
        found = self._index[kind, system, method, condition]
        return next(
            (
                data
                for data in found
                if all(data.attrs[key] == value for key, value in facts.items())
            ),
            None,
        )

    def clean(self, system: str) -> dict[str, xr.Dataset]:
        """Return results of the paper's methods on clean data, by method, of those that are there."""
        found = {method: self.find("clean", system, method) for method in METHODS}
        return {method: data for method, data in found.items() if data is not None}

    def select(self, **facts: object) -> Iterator[xr.Dataset]:
        """Return all training results with these attributes."""
        return (
            data
            for data in self.trained
            if all(data.attrs[key] == value for key, value in facts.items())
        )

    @functools.cached_property
    def of_task(self) -> dict[str, xr.Dataset]:
        """Training results by the names of their tasks."""
        return {data.attrs["task"]: data for data in self.trained}

    @functools.cached_property
    def _index(self) -> dict[tuple[str, ...], list[xr.Dataset]]:
        index = defaultdict(list)
        for data in self.trained:
            index[
                tuple(data.attrs[key] for key in ("kind", "system", "method", "condition"))
            ].append(data)
        return index

    def missing(self, names: Sequence[str]) -> list[str]:
        """Tasks without a result."""
        others = () if self.bifurcation is None else (self.bifurcation,)
        there = {data.attrs["task"] for data in (*self.trained, *others)}
        return [name for name in names if name not in there]


def load(folder: Path) -> Results:
    """Return results in the folder of a preset and in its archive."""
    data = read(folder)
    records = {d.attrs["task"]: json.loads(d.attrs["record"]) for d in data if "record" in d.attrs}
    bifurcation = [d for d in data if d.attrs["kind"] == "bifurcation"]
    trained = tuple(d for d in data if d.attrs["kind"] != "bifurcation")
    return Results(folder.name, trained, bifurcation[0] if bifurcation else None, records)


class Entry(NamedTuple):
    """One published number: where it stands, its mean and standard deviation over seeds (NaN where
    none is given).

    `precision` is one in the last digit that the mean is given with: a mean of 0.012 is anything
    that rounds to it.
    """

    table: str
    system: str
    method: str
    condition: str
    metric: str
    mean: float
    std: float
    precision: float


class Measured(NamedTuple):
    """Our values for an entry, one per seed, and which seeds diverged in training or have no finite
    value.
    """

    values: np.ndarray
    diverged: np.ndarray


@dataclass(frozen=True)
class Choices:
    """What the paper leaves open and the tables must choose; each alternative is measured too.

    Attributes:
        average: how errors are averaged over contexts (`evaluation.AVERAGES`).
        pooling: over which snapshots latent geometry is taken (`evaluation.POOLINGS`).
        side: where contexts leave the training range (`datasets.SIDES`).
        unit: what σ multiplies at evaluation (`evaluation.NOISE_UNITS`).
        training_unit: what it multiplies at training (`romkit.training.recipe.NOISE_UNITS`).
    """

    average: str = "contexts"
    pooling: str = "all contexts"
    side: str = "both"
    unit: str = NOISE_UNIT
    training_unit: str = NOISE_UNIT


@functools.cache
def reference() -> tuple[Entry, ...]:
    """Return published numbers."""
    with REFERENCE.open(newline="") as file:
        return tuple(_entry(row) for row in csv.DictReader(file))


def _entry(row: dict[str, str]) -> Entry:
    places = [row[name] for name in Entry._fields[:5]]
    mean, std = Decimal(row["mean"]), float(row["std"]) if row["std"] else np.nan
    precision = 10.0 ** mean.as_tuple().exponent if mean.is_finite() else 0.0
    return Entry(*places, float(mean), std, precision)


@functools.cache  # the report asks for most of them some dozen times
def measure(results: Results, entry: Entry, choices: Choices = Choices()) -> Measured | None:
    """Our values for an entry, None where its task has no result."""
    data = _training_of(results, entry, choices)
    if data is None:
        return None
    return _at(results, data.attrs["task"], entry.metric, **_place(entry, choices))


def _place(entry: Entry, choices: Choices) -> dict[str, object]:
    """Return labels of an entry's values in the result of a training."""
    if entry.metric == "idempotency_error":
        return {"step": int(entry.condition.removeprefix("step "))}
    if entry.table == "latent_geometry":
        return {"pooling": choices.pooling}
    return {"condition": _evaluated(entry, choices), "average": choices.average}


@functools.cache  # most choices leave most entries where they are
def _at(results: Results, task: str, metric: str, **place: object) -> Measured:
    """Return values of a metric at these labels in the result of a task."""
    data = results.of_task[task]
    values = data[metric].sel(place).values.astype(np.float64)
    return Measured(values, (data["diverged"].values != 0) | ~np.isfinite(values))


def _training_of(results: Results, entry: Entry, choices: Choices) -> xr.Dataset | None:
    """Return the result of the training that an entry is about."""
    where = entry.system, METHOD_OF[entry.method]
    if not entry.table.startswith("train_noise"):
        return results.find("clean", *where)
    noise = entry.table.removeprefix("train_noise_")
    kind = "noise" if noise == "state" or choices.training_unit == NOISE_UNIT else "unit"
    return results.find(kind, *where, f"{noise} {_sigma(entry)}")


def _evaluated(entry: Entry, choices: Choices) -> str:
    """Return the condition under which a trained model is evaluated, as `evaluation.evaluate` calls
    it.
    """
    if entry.table == "ood_context":
        return f"{entry.condition} {choices.side}"
    if entry.table.startswith("test_noise"):
        return f"{entry.table.removeprefix('test_noise_')} {_sigma(entry)} {choices.unit}"
    return "clean"


def _sigma(entry: Entry) -> str:
    return entry.condition.removeprefix("sigma=")


def statistics(entry: Entry, measured: Measured | None) -> dict[str, float]:
    """Return mean and standard deviation over seeds, by the paper's rule for the table, how many
    they are, how many diverged.

    `ratio` is ln(ours / published), NaN where one of them is not positive and finite. `reached`
    says whether our mean is at or below the published one, in the digits that this is given with.
    """
    if measured is None:
        return {
            "ours": np.nan,
            "spread": np.nan,
            "n_seeds": 0,
            "n_diverged": 0,
            "ratio": np.nan,
            "reached": False,
        }
    values = measured.values[~measured.diverged] if entry.table == EXCLUDING else measured.values
    with np.errstate(invalid="ignore"):
        ours, spread = float(np.mean(values)), float(np.std(values))
    finite = np.isfinite(entry.mean) and np.isfinite(ours) and ours > 0
    return {
        "ours": ours,
        "spread": spread,
        "n_seeds": len(values),
        "n_diverged": int(measured.diverged.sum()),
        "ratio": float(np.log(ours / entry.mean)) if finite else np.nan,
        "reached": ours <= entry.mean + entry.precision / 2,
    }


@functools.cache
def compared(results: Results, choices: Choices = Choices()) -> pd.DataFrame:
    """Entries with their `statistics`, which nobody may change; `n_seeds` is 0 where nothing was
    measured.
    """
    pairs = ((entry, measure(results, entry, choices)) for entry in reference())
    return pd.DataFrame(
        [entry._asdict() | statistics(entry, measured) for entry, measured in pairs]
    )


def summary(results: Results) -> str:
    """Return the table of all entries as CSV; measured columns are empty where nothing was
    measured.
    """
    frame = compared(results).rename(columns={"ours": "measured_mean", "spread": "measured_std"})
    frame["preset"] = results.preset
    counts = ["n_seeds", "n_diverged", "preset"]
    frame[counts] = frame[counts].astype(object).where(frame["n_seeds"] > 0, "")
    return frame.to_csv(columns=COLUMNS, index=False, float_format="%.6g", lineterminator="\n")


def mismatch(frame: pd.DataFrame) -> float:
    """Return mean of |ln(ours / published)| over the entries that are measured and finite; NaN if
    there are none.
    """
    return float(frame["ratio"].abs().mean())


def pattern_mismatch(frame: pd.DataFrame) -> float:
    """Return the same after the median over all entries of one system, method and metric is taken
    off each of them.

    How well a method is trained moves all of its errors; what the paper leaves open decides how
    they differ between conditions.
    """
    groups = frame.groupby(["system", "method", "metric"])["ratio"]
    rest = frame["ratio"] - groups.transform("median")
    return float(rest[groups.transform("count") > 1].abs().mean())


def errors_of(data: xr.Dataset, metric: str, condition: str = "clean") -> np.ndarray:
    """Return errors (S,) of a result that is evaluated under a condition, averaged as in the
    tables.
    """
    return (
        data[metric].sel(condition=condition, average=Choices().average).values.astype(np.float64)
    )


def velocity_mismatch(results: Results, method: str, weight: float) -> float:
    """Return mean of |ln(ours / published)| over the clean errors of a method trained with this
    weight; NaN if missing.
    """
    logs = []
    for entry in reference():
        data = results.find("clean", entry.system, method, velocity_weight=weight)
        if (entry.table, entry.method) == ("reconstruction", NAME_OF[method]) and data is not None:
            logs.append(abs(np.log(errors_of(data, entry.metric).mean() / entry.mean)))
    return float(np.mean(logs)) if logs else np.nan
