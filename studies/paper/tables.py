"""The published numbers beside ours: `summary` has one row for each of the 616."""

import csv
import functools
import io
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr

from studies.paper.config import NOISE_UNIT
from studies.paper.results import Results

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


class Entry(NamedTuple):
    """One published number: where it stands, its mean and standard deviation over seeds (NaN where none is given).

    `precision` is one in the last digit that the mean is given with: a mean of 0.012 is anything that rounds to it.
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
    """Our values for an entry, one per seed, and which seeds diverged in training or have no finite value."""

    values: np.ndarray
    diverged: np.ndarray

    @property
    def kept(self) -> np.ndarray:
        """Values without those of seeds that diverged."""
        return self.values[~self.diverged]


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


def reference() -> list[Entry]:
    """The published numbers."""
    with REFERENCE.open(newline="") as file:
        return [_entry(row) for row in csv.DictReader(file)]


def measure(results: Results, entry: Entry, choices: Choices | None = None) -> Measured | None:
    """Our values for an entry, None where its task has no result."""
    return _measure(results, entry, choices or Choices())


@functools.cache  # the report asks for most of them some dozen times
def _measure(results: Results, entry: Entry, choices: Choices) -> Measured | None:
    condition, data = entry.condition, _training_of(results, entry, choices)
    if data is None:
        return None
    if entry.metric == "idempotency_error":
        values = data[entry.metric].sel(step=int(condition.removeprefix("step ")))
    elif entry.table == "latent_geometry":
        values = data[entry.metric].sel(pooling=choices.pooling)
    else:
        values = data[entry.metric].sel(condition=_evaluated(entry, choices), average=choices.average)
    values = values.values.astype(np.float64)
    return Measured(values, (data["diverged"].values != 0) | ~np.isfinite(values))


def _training_of(results: Results, entry: Entry, choices: Choices) -> xr.Dataset | None:
    """The result of the training that an entry is about."""
    where = entry.system, METHOD_OF[entry.method]
    if not entry.table.startswith("train_noise"):
        return results.find("clean", *where)
    noise = entry.table.removeprefix("train_noise_")
    kind = "noise" if noise == "state" or choices.training_unit == NOISE_UNIT else "unit"
    return results.find(kind, *where, f"{noise} {_sigma(entry)}")


def statistics(entry: Entry, measured: Measured) -> tuple[float, float, int]:
    """Mean and standard deviation over seeds, and how many seeds they are over, by the paper's rule for the table."""
    values = measured.kept if entry.table == EXCLUDING else measured.values
    with np.errstate(invalid="ignore"):
        return float(np.mean(values)), float(np.std(values)), len(values)


def reached(entry: Entry, measured: Measured) -> bool:
    """Whether our mean is at or below the published one, in the digits that this is given with."""
    return statistics(entry, measured)[0] <= entry.mean + entry.precision / 2


def summary(results: Results) -> str:
    """The table of all entries as CSV; measured columns are empty where nothing was measured."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for entry in reference():
        measured = measure(results, entry)
        published = [*entry[:5], _number(entry.mean), _number(entry.std)]
        writer.writerow([*published, *_measured_columns(entry, measured), results.preset if measured else ""])
    return text.getvalue()


def mismatch(results: Results, entries: list[Entry], choices: Choices | None = None) -> float:
    """Mean of |ln(ours / published)| over the entries that are measured and finite; NaN if there are none."""
    ratios = _log_ratios(results, entries, choices)
    return float(np.mean(np.abs(list(ratios.values())))) if ratios else np.nan


def pattern_mismatch(results: Results, entries: list[Entry], choices: Choices | None = None) -> float:
    """The same after the median over all entries of one system, method and metric is taken off each of them.

    How well a method is trained moves all of its errors; what the paper leaves open decides how they differ between
    conditions.
    """
    groups = defaultdict(list)
    for entry, ratio in _log_ratios(results, entries, choices).items():
        groups[entry.system, entry.method, entry.metric].append(ratio)
    rest = [np.abs(np.array(ratios) - np.median(ratios)) for ratios in groups.values() if len(ratios) > 1]
    return float(np.mean(np.concatenate(rest))) if rest else np.nan


def _log_ratios(results: Results, entries: list[Entry], choices: Choices | None) -> dict[Entry, float]:
    """ln(ours / published) of the entries where both are positive and finite."""
    found = {}
    for entry in entries:
        measured = measure(results, entry, choices)
        if measured is not None and np.isfinite(entry.mean):
            mean = statistics(entry, measured)[0]
            if np.isfinite(mean) and mean > 0:
                found[entry] = float(np.log(mean / entry.mean))
    return found


def _measured_columns(entry: Entry, measured: Measured | None) -> list[object]:
    if measured is None:
        return ["", "", "", ""]
    mean, std, count = statistics(entry, measured)
    return [_number(mean), _number(std), count, int(measured.diverged.sum())]


def _evaluated(entry: Entry, choices: Choices) -> str:
    """The condition under which a trained model is evaluated, as `evaluation.evaluate` calls it."""
    if entry.table == "ood_context":
        return f"{entry.condition} {choices.side}"
    if entry.table.startswith("test_noise"):
        return f"{entry.table.removeprefix('test_noise_')} {_sigma(entry)} {choices.unit}"
    return "clean"


def _sigma(entry: Entry) -> str:
    return entry.condition.removeprefix("sigma=")


def _entry(row: dict[str, str]) -> Entry:
    places = [row[name] for name in Entry._fields[:5]]
    mean, std = Decimal(row["mean"]), float(row["std"]) if row["std"] else np.nan
    precision = 10.0 ** mean.as_tuple().exponent if mean.is_finite() else 0.0
    return Entry(*places, float(mean), std, precision)


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.6g}"
