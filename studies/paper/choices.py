"""What the paper leaves open, and which choice comes closest to its numbers."""

import dataclasses
import itertools
import json
from collections.abc import Callable

import numpy as np
import xarray as xr

from studies.markdown import table
from studies.paper.claims import POSITION, UNCONSTRAINED, VELOCITY
from studies.paper.config import NOISE_KINDS, SIGMAS
from studies.paper.datasets import SIDES
from studies.paper.evaluation import AVERAGES, NOISE_UNITS, POOLINGS
from studies.paper.fairness_claims import errors_of, velocity_mismatch
from studies.paper.judging import spread
from studies.paper.results import VELOCITY_WEIGHT, Results
from studies.paper.tables import NAME_OF, Choices, Entry, measure, mismatch, pattern_mismatch, reached, reference
from studies.report import TITLES

TRAINING_UNITS = ("deviation", "scale")
OPTIONS = {
    "average": AVERAGES,
    "side": SIDES,
    "unit": NOISE_UNITS,
    "training_unit": TRAINING_UNITS,
    "pooling": POOLINGS,
}
ERRORS = ("reconstruction", "ablation_modulation", "ood_context", "train_noise", "test_noise")
QUESTIONS = (
    ("error averaged over", "average", ERRORS),
    ("out of the training range", "side", ("ood_context",)),
    ("σ at evaluation multiplies", "unit", ("test_noise",)),
    ("σ at training multiplies", "training_unit", ("train_noise",)),
    ("latent geometry over", "pooling", ("latent_geometry",)),
)
"""What a field of `Choices` decides, and the tables that it is judged by."""
MISMATCHES = {mismatch: "level", pattern_mismatch: "pattern"}
DECAY_CONDITIONS = {
    "clean": "clean",
    f"ood +20% {Choices().side}": "+20 % out of the range",
    f"ood +50% {Choices().side}": "+50 % out of the range",
    f"state 0.50 {Choices().unit}": "state noise of 0.50",
    f"context 0.50 {Choices().unit}": "context noise of 0.50",
}
"""Conditions of evaluation that weight decays are compared by, and how the report calls them."""
GEOMETRY = ("latent_covariance_cn", "latent_velocity_cv")


def evaluation_choices(results: Results) -> str:
    """The mismatch of each option, the others as in the tables; then the best combination.

    Only NcAE is trained with every option; the others' mismatch is left out where they are not.
    """
    rows = []
    for question, name, tables in QUESTIONS:
        entries = [entry for entry in reference() if entry.table.startswith(tables)]
        ours = [entry for entry in entries if entry.method == "NcAE"]
        for option in OPTIONS[name]:
            choices = dataclasses.replace(Choices(), **{name: option})
            used = " (tables)" if option == getattr(Choices(), name) else ""
            cells = [_size(of, results, part, choices) for of in MISMATCHES for part in (entries, ours)]
            rows.append([question, option + used, *cells, _count_reached(results, choices)])
    kinds = [f"{kind}, {whose}" for kind in MISMATCHES.values() for whose in ("all methods", "NcAE")]
    head = ["choice", "option", *kinds, "NcAE's entries at or below the published mean"]
    return table(head, rows) + f"\n{_best(results, 'all methods')}\n{_best(results, 'NcAE')}\n"


def velocity_term(results: Results) -> str:
    """Clean errors of the unconstrained methods with and without the velocity term, beside the published ones."""
    rows = []
    for method in UNCONSTRAINED:
        for weight in (1.0, 0.0):
            cells = [_clean(results, system, method, weight) for system in ("lorenz96", "pendulum")]
            used = " (tables)" if VELOCITY_WEIGHT[method] == weight else ""
            number = velocity_mismatch(results, method, weight)
            rows.append([NAME_OF[method], ("with" if weight else "without") + used, *cells, f"{number:.2f}"])
        rows.append([NAME_OF[method], "published", *(_published(s, method) for s in ("lorenz96", "pendulum")), ""])
    return table(["method", "velocity term", "Lorenz96", "pendulum", "mismatch"], rows) + f"\n{_closer(results)}\n"


def training_choices(results: Results) -> str:
    """Clean errors on Lorenz96 under other training sets, transients and scalings of the context."""
    rows = []
    for kind, what in (("data", "training set"), ("transient", "transient"), ("scaling", "context scaling")):
        for data in results.select(kind=kind):
            attrs = data.attrs
            label = attrs["label"].split(" velocity")[0]
            rows.append(
                [what, label, NAME_OF[attrs["method"]], *(spread(errors_of(data, m)) for m in (POSITION, VELOCITY))]
            )
    for method in ("ncae", "cae", "ae"):
        data = results.find("clean", "lorenz96", method)
        if data is not None:
            label = f"set {data.attrs['data_seed']} (tables)"
            errors = (spread(errors_of(data, m)) for m in (POSITION, VELOCITY))
            rows.append(["training set", label, NAME_OF[method], *errors])
    return table(["choice", "option", "method", "position RMSE", "velocity RMSE"], sorted(rows))


def weight_decays(results: Results) -> str:
    """NcAE with other weight decays: errors on clean data, out of the range and under noise, and latent geometry."""
    rows = []
    for system in TITLES:
        clean = results.find("clean", system, "ncae")
        found = {_decay(data): data for data in results.select(kind="decay", system=system)}
        if clean is not None:
            found[_decay(clean)] = clean
        for decay, data in sorted(found.items()):
            used = " (tables)" if data is clean else ""
            errors = [_pair(data, condition) for condition in DECAY_CONDITIONS]
            geometry = [spread(data[name].sel(pooling=Choices().pooling).values) for name in GEOMETRY]
            rows.append([TITLES[system], f"{decay:g}{used}", *errors, *geometry])
    return table(["system", "weight decay", *DECAY_CONDITIONS.values(), "CN", "CV"], rows)


def noise_units(results: Results) -> str:
    """NcAE trained under noise, with σ in both units of the context; states have one."""
    rows = []
    for system, kind, sigma in itertools.product(TITLES, NOISE_KINDS, SIGMAS):
        condition = f"{kind} {sigma:.2f}"
        both = (results.find(part, system, "ncae", condition) for part in ("noise", "unit"))
        published = [e for e in reference() if e[:4] == (f"train_noise_{kind}", system, "NcAE", f"sigma={sigma:.2f}")]
        rows.append([TITLES[system], condition, *map(_pair, both), " / ".join(f"{e.mean:g}" for e in published)])
    return table(["system", "noise", "deviation (tables)", "half the range", "published"], rows)


def _size(of: Callable[..., float], results: Results, entries: list[Entry], choices: Choices) -> str:
    size = of(results, entries, choices) if _are_there(results, entries, choices) else np.nan
    return "" if np.isnan(size) else f"{size:.2f}"


def _are_there(results: Results, entries: list[Entry], choices: Choices) -> bool:
    """Whether all entries that the tables have are measured under these choices as well."""
    return all(measure(results, entry, choices) for entry in entries if measure(results, entry))


def _count_reached(results: Results, choices: Choices) -> str:
    """How many of NcAE's entries are at or below their published mean."""
    ours = [(e, measure(results, e, choices)) for e in reference() if e.method == "NcAE"]
    measured = [reached(e, m) for e, m in ours if m is not None]
    return f"{sum(measured)} of {len(measured)}"


def closest(results: Results, whose: str = "NcAE") -> Choices:
    """The combination that fits the pattern of the published errors of a method, or of "all methods", best."""
    entries = [e for e in reference() if e.table.startswith(ERRORS) and whose in ("all methods", e.method)]
    there = (choices for choices in _combinations() if _are_there(results, entries, choices))
    scores = {choices: pattern_mismatch(results, entries, choices) for choices in there}
    known = {choices: score for choices, score in scores.items() if not np.isnan(score)}
    return min(known, key=known.get, default=Choices())


def _combinations() -> list[Choices]:
    """Of what decides an error."""
    options = itertools.product(AVERAGES, SIDES, NOISE_UNITS, TRAINING_UNITS)
    return [Choices(average, Choices().pooling, *rest) for average, *rest in options]


def described(choices: Choices) -> str:
    """The choices of an error in words."""
    units = f"σ at evaluation in units of {choices.unit}, at training of {choices.training_unit}"
    return f"averaged over {choices.average}, out of the range on {choices.side}, {units}"


def _best(results: Results, whose: str) -> str:
    entries = [e for e in reference() if e.table.startswith(ERRORS) and whose in ("all methods", e.method)]
    best = closest(results, whose)
    sizes = [pattern_mismatch(results, entries, choices) for choices in (best, Choices())]
    count = f"NcAE at or below the published mean in {_count_reached(results, best)}"
    return (
        f"Closest to the pattern of the published errors of {whose}: {described(best)} (mismatch {sizes[0]:.3f}, that "
        f"of the tables {sizes[1]:.3f}; {count})."
    )


def _closer(results: Results) -> str:
    """Whether the tables use the variant that comes closer to the published values, method by method."""
    scores = {m: [velocity_mismatch(results, m, weight) for weight in (0.0, 1.0)] for m in UNCONSTRAINED}
    other = [
        NAME_OF[m] for m, both in scores.items() if not np.isnan(both).any() and np.argmin(both) != VELOCITY_WEIGHT[m]
    ]
    if other:
        return f"The tables do not use the closer variant of {', '.join(other)}."
    return "The tables use the closer variant of each method that has both."


def _clean(results: Results, system: str, method: str, weight: float) -> str:
    return _pair(results.find("clean", system, method, velocity_weight=weight))


def _pair(data: xr.Dataset | None, condition: str = "clean") -> str:
    """Position and velocity error, empty where there is no result."""
    if data is None:
        return ""
    return " / ".join(spread(errors_of(data, metric, condition)) for metric in (POSITION, VELOCITY))


def _decay(data: xr.Dataset) -> float:
    return dict(json.loads(data.attrs["config"])["settings"]).get("weight_decay", 0.0)


def _published(system: str, method: str) -> str:
    found = [
        e for e in reference() if e.table == "reconstruction" and (e.system, e.method) == (system, NAME_OF[method])
    ]
    return " / ".join(f"{e.mean:g} ± {e.std:g}" for e in found)
