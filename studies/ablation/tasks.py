"""What each special candidate of `romkit.learn` gains: it is left out wherever it was taken."""

import contextlib
import io
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import threadpoolctl
import torch
import xarray as xr

import romkit
from romkit.core.errors import InputError
from romkit.core.files import atomic
from romkit.core.runtime import versions
from romkit.core.sources import provenance
from romkit.core.types import Array
from romkit.learning import VARIANTS
from romkit.metrics import deviations
from romkit.numerics import forecast_error
from studies.ablation.sets import TEN, measured
from studies.first_afternoon.tasks import EVERY, divided, forecasts, unseen

MARKS = {
    "interpolation": ("runs interpolated at equal times",),
    "clocks": ("phases of clocks",),
    "coordinates": ("log ", "1/"),
    "regressions": (" of the runs,", "mean of the runs"),
    "inputs": ("between samples",),
    "period": ("period ",),
}
"""What the name of a model has in it, by special candidate; the last three have left romkit by these
results, which are of the commit before.
"""

LAWS = ("polynomial", "limit-cycle")
"""Kinds without interpolated runs; of small states sparse equations, too."""

Found = dict[str, object]


def run(file: Path, names: Sequence[str] = ()) -> dict[str, Found]:
    """Learn all sets, with all candidates and without each that was taken, and write each result as it
    comes; what the file has stays.

    Args:
        file: JSON of the results, by "set" and by "set, without candidate".
        names: titles of sets, or parts of them; all by default.
    """
    for name in (*TEN, *EVERY):
        if names and not any(part in name for part in names):
            continue
        found = _known_or_learned(file, name, None)
        for candidate in found.get("taken", ()):
            _known_or_learned(file, name, candidate)
    return read(file)


def read(file: Path) -> dict[str, Found]:
    """Return results of a file by title; none where there is no file."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _known_or_learned(file: Path, name: str, without: str | None) -> Found:
    """Return a result of the file, or compute and write it."""
    title = name if without is None else f"{name}, without {without}"
    known = read(file)
    if title not in known:
        sources = provenance() | {"versions": ", ".join(map(" ".join, versions().items()))}
        found = learned(name, without) | {"sources": sources}
        known = read(file) | {title: found}  # another process may have written meanwhile
        with atomic(file) as temporary:
            temporary.write_text(json.dumps(known, indent=1, default=float) + "\n")
        shown = found.get("failed") or f"{np.mean(found['errors']):.2g} by {found['model']}"
        print(f"{title}: {shown}", flush=True)
    return known[title]


def learned(name: str, without: str | None = None) -> Found:
    """Learn the training runs of a set, without a candidate, and forecast its test.

    Returns:
        errors: of each run of the test [deviations of the data], `nearest` those of the training run
            at the nearest context, `model` the name of what forecasts, `taken` the special
            candidates in it, `seconds` of the processor, and `cost` those of each special candidate.
    """
    train, test, exact = data_of(name)
    try:
        with warnings.catch_warnings(), threadpoolctl.threadpool_limits(1):
            warnings.simplefilter("ignore")
            model = romkit.learn(train, seed=0, **settings(train, without))
            states = forecasts(model, test)["state"]
    except InputError as error:
        return {"failed": str(error)}
    rows = model.law.report
    (chosen,) = (row for row in rows if row["chosen"])
    scale, truth = deviations(train), exact["state"].values
    return {
        "errors": forecast_error(states, truth, scale).tolist(),
        "nearest": forecast_error(_nearest(train, test), truth, scale).tolist(),
        "model": chosen["settings"],
        "taken": taken(chosen["settings"]),
        "claimed": model.error,
        "seconds": model.seconds,
        "cost": costs(rows),
    }


def data_of(name: str) -> tuple[xr.Dataset, xr.Dataset, xr.Dataset]:
    """Return training, test, and the test without noise, in romkit's schema.

    Of the thirty sets the test are the further contexts by which their claims are judged, as they were
    measured.
    """
    if name in EVERY:
        test = unseen(name)
        return divided(name, 10)[0], test, test
    bench = TEN[name]
    with contextlib.redirect_stdout(io.StringIO()):
        several = [
            romkit.data.describe(each, context=[*bench.parameters], control=bench.inputs)
            for each in measured(bench)
        ]
    return tuple(several)


def settings(train: xr.Dataset, without: str | None) -> Mapping[str, object]:
    """Return settings of `romkit.learn` that leave a candidate out."""
    if without == "interpolation":
        is_small = train.sizes["component"] <= 6
        return {"kinds": (*LAWS, "sindy") if is_small else LAWS}
    return {"variants": [each for each in VARIANTS if each != without]}


def taken(model: str) -> list[str]:
    """List the special candidates in the name of a model."""
    return [name for name, marks in MARKS.items() if any(mark in model for mark in marks)]


def costs(rows: Sequence[Mapping[str, object]]) -> dict[str, float]:
    """Sum the seconds of the trials of each special candidate."""
    seconds = dict.fromkeys(MARKS, 0.0)
    for row in rows:
        for candidate in taken(row["settings"]):
            seconds[candidate] += row["seconds"]
    return seconds


def _nearest(train: xr.Dataset, test: xr.Dataset) -> Array:
    """Return states (K, T, n) of the training runs at the nearest contexts."""
    known, wanted = (torch.from_numpy(romkit.data.context_matrix(d)) for d in (train, test))
    width = known.amax(0) - known.amin(0)
    nearest = torch.cdist(wanted / width, known / width).argmin(1).numpy()
    return train["state"].values[nearest]
