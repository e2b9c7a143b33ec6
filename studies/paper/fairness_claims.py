"""What the paper says or implies about the comparison itself: one loss for all, baselines that could do no better."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from studies.paper.claims import POSITION, SYSTEMS, UNCONSTRAINED, VELOCITY
from studies.paper.config import METHODS
from studies.paper.judging import Part, claim, entry, fact, lower, missing
from studies.paper.results import Results
from studies.paper.tables import Choices

METRICS = (POSITION, VELOCITY)


@claim("All methods were trained with the one stated loss, which has the velocity term.")
def one_loss(results: Results) -> Sequence[Part]:
    parts = []
    for method in UNCONSTRAINED:
        with_term, without = (velocity_mismatch(results, method, weight) for weight in (1.0, 0.0))
        if np.isnan(with_term) or np.isnan(without):
            parts.append(missing(method))
            continue
        label = f"{method}: mean |ln(ours / published)| {with_term:.2f} with the term, {without:.2f} without"
        parts.append(fact(label, with_term < without))
    return parts


@claim("NcAE's lead is not one of tuning: it stays when each method has the best of four settings and the same loss.")
def lead_after_tuning(results: Results) -> Sequence[Part]:
    parts = []
    for system in SYSTEMS:
        for metric in METRICS:
            errors = {method: tuned(results, system, method, metric) for method in METHODS}
            there = {method: e for method, e in errors.items() if method != "ncae" and e is not None}
            if not there:
                parts.append(missing(f"{system}, {metric}"))
                continue
            rival = min(there, key=lambda method: np.mean(there[method]))
            label = f"{system}, {metric}, tuned ncae below the best tuned baseline, {rival}"
            parts.append(lower(label, errors["ncae"], there[rival]))
    return parts


def tuned(results: Results, system: str, method: str, metric: str) -> np.ndarray | None:
    """Clean errors of the tuned variant, one per seed."""
    data = results.find("tuned", system, method)
    return None if data is None else errors_of(data, metric)


def errors_of(data: xr.Dataset, metric: str, condition: str = "clean") -> np.ndarray:
    """Errors (S,) of a result that is evaluated under a condition, averaged as in the tables."""
    return data[metric].sel(condition=condition, average=Choices().average).values.astype(np.float64)


def velocity_mismatch(results: Results, method: str, weight: float) -> float:
    """Mean of |ln(ours / published)| over the clean errors of a method trained with this weight; NaN if missing."""
    logs = []
    for system in SYSTEMS:
        data = results.find("clean", system, method, velocity_weight=weight)
        for metric in METRICS if data is not None else ():
            published = entry("reconstruction", system, method, "clean", metric).mean
            logs.append(abs(np.log(errors_of(data, metric).mean() / published)))
    return float(np.mean(logs)) if logs else np.nan
