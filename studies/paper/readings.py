"""Sections of the report on what the paper leaves open, and which choice comes closest to its numbers."""

import dataclasses
import itertools
import json
from collections.abc import Callable

import numpy as np
import xarray as xr

from studies.paper import tables
from studies.paper.claims import spread
from studies.paper.datasets import NOISE_KINDS, SIDES, SIGMAS
from studies.paper.evaluation import AVERAGES, NOISE_UNITS, POOLINGS
from studies.paper.tables import NAME_OF, SYSTEMS, VELOCITY_WEIGHT, Choices, Entry, Results, errors_of, measure
from studies.report import TITLES, table

DEFAULT = Choices()
OPTIONS = {
    "average": AVERAGES,
    "side": SIDES,
    "unit": NOISE_UNITS,
    "training_unit": ("deviation", "scale"),
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
"""Questions, the field of `Choices` that decides each, and the tables that it is judged by."""
MISMATCHES = {tables.mismatch: "level", tables.pattern_mismatch: "pattern"}
DECAY_CONDITIONS = {
    "clean": "clean",
    f"ood +20% {DEFAULT.side}": "+20 % out of the range",
    f"ood +50% {DEFAULT.side}": "+50 % out of the range",
    f"state 0.50 {DEFAULT.unit}": "state noise of 0.50",
    f"context 0.50 {DEFAULT.unit}": "context noise of 0.50",
}
"""Conditions of evaluation that weight decays are compared by, and their columns."""


def evaluation_choices(results: Results) -> str:
    """Mismatch of each option, the others as in the tables; then the best combination.

    Only NcAE is trained with every option; the others' mismatch is left out where they are not.
    """
    rows = []
    for question, name, judged_by in QUESTIONS:
        for option in OPTIONS[name]:
            choices = dataclasses.replace(DEFAULT, **{name: option})
            used = " (tables)" if option == getattr(DEFAULT, name) else ""
            parts = itertools.product(MISMATCHES, ("all methods", "NcAE"))
            cells = [_size(of, results, _entries(judged_by, whose), choices) for of, whose in parts]
            rows.append([question, option + used, *cells, _count_reached(results, choices)])
    kinds = [f"{kind}, {whose}" for kind in MISMATCHES.values() for whose in ("all methods", "NcAE")]
    text = table(rows, ["choice", "option", *kinds, "NcAE's entries at or below the published mean"])
    for whose in ("all methods", "NcAE"):
        best = closest(results, whose)
        sizes = [tables.pattern_mismatch(results, _entries(ERRORS, whose), choices) for choices in (best, DEFAULT)]
        count = f"NcAE at or below the published mean in {_count_reached(results, best)}"
        text += (
            f"\nClosest to the pattern of the published errors of {whose}: {described(best)} (mismatch {sizes[0]:.3f}, "
            f"that of the tables {sizes[1]:.3f}; {count})."
        )
    return text


def velocity_term(results: Results) -> str:
    """Clean errors of the unconstrained methods with and without the velocity term, beside the published ones."""
    rows, others = [], []
    for method in tables.UNCONSTRAINED:
        sizes = {weight: tables.velocity_mismatch(results, method, weight) for weight in (1.0, 0.0)}
        for weight, size in sizes.items():
            found = (results.find("clean", system, method, velocity_weight=weight) for system in SYSTEMS)
            used = " (tables)" if VELOCITY_WEIGHT[method] == weight else ""
            rows.append([NAME_OF[method], ("with" if weight else "without") + used, *map(_pair, found), f"{size:.2f}"])
        entries = [e for e in tables.reference() if (e.table, e.method) == ("reconstruction", NAME_OF[method])]
        published = [" / ".join(f"{e.mean:g} ± {e.std:g}" for e in entries if e.system == system) for system in SYSTEMS]
        rows.append([NAME_OF[method], "published", *published, ""])
        if not np.isnan(list(sizes.values())).any() and min(sizes, key=sizes.get) != VELOCITY_WEIGHT[method]:
            others.append(NAME_OF[method])
    verdict = "The tables use the closer variant of each method that has both."
    if others:
        verdict = f"The tables do not use the closer variant of {', '.join(others)}."
    return table(rows, ["method", "velocity term", "Lorenz96", "pendulum", "mismatch"]) + f"\n{verdict}"


def training_choices(results: Results) -> str:
    """Clean errors on Lorenz96 under other training sets, transients and scalings of the context."""
    found = []
    for kind, name in (("data", "training set"), ("transient", "transient"), ("scaling", "context scaling")):
        found += [(name, data.attrs["label"].split(" velocity")[0], data) for data in results.select(kind=kind)]
    for method in ("ncae", "cae", "ae"):
        data = results.find("clean", "lorenz96", method)
        if data is not None:
            found.append(("training set", f"set {data.attrs['data_seed']} (tables)", data))
    rows = [
        [name, label, NAME_OF[data.attrs["method"]], *(spread(errors_of(data, metric)) for metric in tables.ERRORS)]
        for name, label, data in found
    ]
    return table(sorted(rows), ["choice", "option", "method", "position RMSE", "velocity RMSE"])


def weight_decays(results: Results) -> str:
    """NcAE with other weight decays: errors on clean data, out of the range and under noise, and latent geometry."""
    rows = []
    for system in TITLES:
        clean = results.find("clean", system, "ncae")
        every = [*results.select(kind="decay", system=system), *([] if clean is None else [clean])]
        decays = {dict(json.loads(data.attrs["config"])["settings"]).get("weight_decay", 0.0): data for data in every}
        for decay, data in sorted(decays.items()):
            used = " (tables)" if data is clean else ""
            errors = [_pair(data, condition) for condition in DECAY_CONDITIONS]
            metrics = ("latent_covariance_cn", "latent_velocity_cv")
            geometry = [spread(data[name].sel(pooling=DEFAULT.pooling).values) for name in metrics]
            rows.append([TITLES[system], f"{decay:g}{used}", *errors, *geometry])
    return table(rows, ["system", "weight decay", *DECAY_CONDITIONS.values(), "CN", "CV"])


def noise_units(results: Results) -> str:
    """NcAE trained under noise, with σ in both units of the context; states have one."""
    rows = []
    for system, kind, sigma in itertools.product(TITLES, NOISE_KINDS, SIGMAS):
        condition, where = f"{kind} {sigma:.2f}", (f"train_noise_{kind}", system, "NcAE", f"sigma={sigma:.2f}")
        both = (results.find(part, system, "ncae", condition) for part in ("noise", "unit"))
        published = " / ".join(f"{e.mean:g}" for e in tables.reference() if e[:4] == where)
        rows.append([TITLES[system], condition, *map(_pair, both), published])
    return table(rows, ["system", "noise", "deviation (tables)", "half the range", "published"])


SECTIONS: dict[str, Callable[[Results], str]] = {
    make.__name__: make for make in (evaluation_choices, velocity_term, training_choices, noise_units, weight_decays)
}
"""Sections by their places in page.md."""


def closest(results: Results, whose: str = "NcAE") -> Choices:
    """Combination that fits the pattern of the published errors of a method, or of "all methods", best."""
    entries, scores = _entries(ERRORS, whose), {}
    for average, side, unit, training_unit in itertools.product(*(OPTIONS[k] for k in list(OPTIONS)[:4])):
        choices = Choices(average, DEFAULT.pooling, side, unit, training_unit)
        if _are_there(results, entries, choices):
            scores[choices] = tables.pattern_mismatch(results, entries, choices)
    known = {choices: score for choices, score in scores.items() if not np.isnan(score)}
    return min(known, key=known.get, default=DEFAULT)


def described(choices: Choices) -> str:
    """Choices of an error in words."""
    units = f"σ at evaluation in units of {choices.unit}, at training of {choices.training_unit}"
    return f"averaged over {choices.average}, out of the range on {choices.side}, {units}"


def _entries(judged_by: tuple[str, ...], whose: str) -> list[Entry]:
    found = (entry for entry in tables.reference() if entry.table.startswith(judged_by))
    return [entry for entry in found if whose in ("all methods", entry.method)]


def _size(of: Callable[..., float], results: Results, entries: list[Entry], choices: Choices) -> str:
    size = of(results, entries, choices) if _are_there(results, entries, choices) else np.nan
    return "" if np.isnan(size) else f"{size:.2f}"


def _are_there(results: Results, entries: list[Entry], choices: Choices) -> bool:
    """Whether all entries that the tables have are measured under these choices as well."""
    return all(measure(results, entry, choices) for entry in entries if measure(results, entry))


def _count_reached(results: Results, choices: Choices) -> str:
    """How many of NcAE's entries are at or below their published mean."""
    ours = [(entry, measure(results, entry, choices)) for entry in tables.reference() if entry.method == "NcAE"]
    measured = [tables.reached(*pair) for pair in ours if pair[1] is not None]
    return f"{sum(measured)} of {len(measured)}"


def _pair(data: xr.Dataset | None, condition: str = "clean") -> str:
    """Position and velocity error, empty where there is no result."""
    if data is None:
        return ""
    return " / ".join(spread(errors_of(data, metric, condition)) for metric in tables.ERRORS)
