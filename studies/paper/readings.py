"""Sections of the report on what the paper leaves open, and which choice comes closest to its
numbers.
"""

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable

import numpy as np
import pandas as pd
import xarray as xr

from studies.paper import tables
from studies.paper.claims import spread
from studies.paper.datasets import NOISE_KINDS, SIDES, SIGMAS
from studies.paper.evaluation import AVERAGES, NOISE_UNITS, POOLINGS
from studies.paper.tables import (
    NAME_OF,
    SYSTEMS,
    VELOCITY_WEIGHT,
    Choices,
    Results,
    compared,
    errors_of,
)
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
QUESTIONS = {
    "average": ("error averaged over", ERRORS),
    "side": ("out of the training range", ("ood_context",)),
    "unit": ("σ at evaluation multiplies", ("test_noise",)),
    "training_unit": ("σ at training multiplies", ("train_noise",)),
    "pooling": ("latent geometry over", ("latent_geometry",)),
}
"""What each field of `Choices` decides, and the tables that it is judged by."""
MISMATCHES = {"level": tables.mismatch, "pattern": tables.pattern_mismatch}
WHOSE = ("all methods", "NcAE")
DECAY_CONDITIONS = {
    "clean": "clean",
    f"ood +20% {DEFAULT.side}": "+20 % out of the range",
    f"ood +50% {DEFAULT.side}": "+50 % out of the range",
    f"state 0.50 {DEFAULT.unit}": "state noise of 0.50",
    f"context 0.50 {DEFAULT.unit}": "context noise of 0.50",
}
"""Conditions of evaluation that weight decays are compared by, and their columns."""


def evaluation_choices(results: Results) -> str:
    """Mismatch of each option, the others as in the tables.

    Only NcAE is trained with every option; the others' mismatch is left out where they are not.
    """
    rows = []
    for name, (question, judged_by) in QUESTIONS.items():
        for option in OPTIONS[name]:
            choices = dataclasses.replace(DEFAULT, **{name: option})
            row = {
                "choice": question,
                "option": option + _of_tables(option == getattr(DEFAULT, name)),
            }
            for (kind, of), whose in itertools.product(MISMATCHES.items(), WHOSE):
                row[f"{kind}, {whose}"] = _number(_size(of, results, judged_by, whose, choices))
            rows.append(
                row
                | {"NcAE's entries at or below the published mean": count_reached(results, choices)}
            )
    return table(rows)


def velocity_term(results: Results) -> str:
    """Clean errors of the unconstrained methods with and without the velocity term, beside the
    published ones.
    """
    rows, others = [], []
    for method in tables.UNCONSTRAINED:
        sizes = {weight: tables.velocity_mismatch(results, method, weight) for weight in (1.0, 0.0)}
        for weight, size in sizes.items():
            found = (
                results.find("clean", system, method, velocity_weight=weight) for system in SYSTEMS
            )
            variant = ("with" if weight else "without") + _of_tables(
                VELOCITY_WEIGHT[method] == weight
            )
            rows.append([NAME_OF[method], variant, *map(_pair, found), f"{size:.2f}"])
        entries = [
            e
            for e in tables.reference()
            if (e.table, e.method) == ("reconstruction", NAME_OF[method])
        ]
        published = [
            " / ".join(f"{e.mean:g} ± {e.std:g}" for e in entries if e.system == system)
            for system in SYSTEMS
        ]
        rows.append([NAME_OF[method], "published", *published, ""])
        if (
            not np.isnan(list(sizes.values())).any()
            and min(sizes, key=sizes.get) != VELOCITY_WEIGHT[method]
        ):
            others.append(NAME_OF[method])
    verdict = "The tables use the closer variant of each method that has both."
    if others:
        verdict = f"The tables do not use the closer variant of {', '.join(others)}."
    return (
        table(rows, ["method", "velocity term", "Lorenz96", "pendulum", "mismatch"])
        + f"\n{verdict}"
    )


def training_choices(results: Results) -> str:
    """Clean errors on Lorenz96 under other training sets, transients and scalings of the context."""
    found = []
    for kind, name in (
        ("data", "training set"),
        ("transient", "transient"),
        ("scaling", "context scaling"),
    ):
        found += [
            (name, data.attrs["label"].split(" velocity")[0], data)
            for data in results.select(kind=kind)
        ]
    for method in ("ncae", "cae", "ae"):
        data = results.find("clean", "lorenz96", method)
        if data is not None:
            found.append(("training set", f"set {data.attrs['data_seed']} (tables)", data))
    rows = [
        [
            name,
            label,
            NAME_OF[data.attrs["method"]],
            *(spread(errors_of(data, metric)) for metric in tables.ERRORS),
        ]
        for name, label, data in found
    ]
    return table(sorted(rows), ["choice", "option", "method", "position RMSE", "velocity RMSE"])


def weight_decays(results: Results) -> str:
    """NcAE with other weight decays: errors on clean data, out of the range and under noise, and
    latent geometry.
    """
    rows = []
    for system in TITLES:
        clean = results.find("clean", system, "ncae")
        every = [*results.select(kind="decay", system=system), *([] if clean is None else [clean])]
        decays = {
            dict(json.loads(data.attrs["config"])["settings"]).get("weight_decay", 0.0): data
            for data in every
        }
        for decay, data in sorted(decays.items()):
            row = {
                "system": TITLES[system],
                "weight decay": f"{decay:g}{_of_tables(data is clean)}",
            }
            row |= {title: _pair(data, condition) for condition, title in DECAY_CONDITIONS.items()}
            for title, metric in (("CN", "latent_covariance_cn"), ("CV", "latent_velocity_cv")):
                row[title] = spread(data[metric].sel(pooling=DEFAULT.pooling).values)
            rows.append(row)
    return table(rows)


def noise_units(results: Results) -> str:
    """NcAE trained under noise, with σ in both units of the context; states have one."""
    rows = []
    for system, kind, sigma in itertools.product(TITLES, NOISE_KINDS, SIGMAS):
        condition, where = (
            f"{kind} {sigma:.2f}",
            (f"train_noise_{kind}", system, "NcAE", f"sigma={sigma:.2f}"),
        )
        both = (results.find(part, system, "ncae", condition) for part in ("noise", "unit"))
        published = " / ".join(f"{e.mean:g}" for e in tables.reference() if e[:4] == where)
        rows.append([TITLES[system], condition, *map(_pair, both), published])
    return table(rows, ["system", "noise", "deviation (tables)", "half the range", "published"])


SECTIONS: dict[str, Callable[[Results], str]] = {
    make.__name__: make
    for make in (evaluation_choices, velocity_term, training_choices, noise_units, weight_decays)
}
"""Sections by their places in page.md."""


@functools.cache
def closest(results: Results, whose: str) -> Choices:
    """Return combination that fits the pattern of the published errors of a method, or of "all
    methods", best.
    """
    options = itertools.product(
        *(OPTIONS[name] for name in ("average", "side", "unit", "training_unit"))
    )
    combinations = [Choices(average, DEFAULT.pooling, *others) for average, *others in options]
    scores = {
        each: _size(tables.pattern_mismatch, results, ERRORS, whose, each) for each in combinations
    }
    known = {choices: score for choices, score in scores.items() if not np.isnan(score)}
    return min(known, key=known.get, default=DEFAULT)


def described(results: Results, whose: str) -> dict[str, object]:
    """Return combination that is closest in words, its mismatch in pattern, and how many of NcAE's
    entries are reached.
    """
    best = closest(results, whose)
    units = f"σ at evaluation in units of {best.unit}, at training of {best.training_unit}"
    return {
        "words": f"averaged over {best.average}, out of the range on {best.side}, {units}",
        "mismatch": tables.pattern_mismatch(_entries(results, ERRORS, whose, best)),
        "of_tables": tables.pattern_mismatch(_entries(results, ERRORS, whose, DEFAULT)),
        "reached": count_reached(results, best),
    }


def count_reached(results: Results, choices: Choices = DEFAULT) -> str:
    """Return how many of NcAE's measured entries are at or below their published mean."""
    ours = _entries(results, ("",), "NcAE", choices)
    return f"{ours['reached'].sum()} of {(ours['n_seeds'] > 0).sum()}"


def _entries(
    results: Results, judged_by: tuple[str, ...], whose: str, choices: Choices
) -> pd.DataFrame:
    """Entries of some tables, of one method or "all methods"."""
    frame = compared(results, choices)
    return frame[
        frame["table"].str.startswith(judged_by)
        & ((frame["method"] == whose) | (whose == "all methods"))
    ]


def _size(
    of: Callable[[pd.DataFrame], float],
    results: Results,
    judged_by: tuple[str, ...],
    whose: str,
    choices: Choices,
) -> float:
    """Mismatch; NaN unless all entries that the tables have are measured under these choices as
    well.
    """
    frame, own = (_entries(results, judged_by, whose, each) for each in (choices, DEFAULT))
    return of(frame) if (frame["n_seeds"] > 0)[own["n_seeds"] > 0].all() else np.nan


def _number(size: float) -> str:
    return "" if np.isnan(size) else f"{size:.2f}"


def _of_tables(used: bool) -> str:
    return " (tables)" if used else ""


def _pair(data: xr.Dataset | None, condition: str = "clean") -> str:
    """Return position and velocity error, empty where there is no result."""
    if data is None:
        return ""
    return " / ".join(spread(errors_of(data, metric, condition)) for metric in tables.ERRORS)
