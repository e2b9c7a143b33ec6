"""RESULTS.md of the ablation: what each special candidate gains on ten new sets and thirty older ones."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from romkit.core.types import Array
from romkit.select import Policy
from studies.ablation.sets import TEN
from studies.ablation.tasks import MARKS, Found
from studies.first_afternoon.tasks import EVERY
from studies.report import dots, filled, save_png, table, write_text

PLACE = Path(__file__).parent
RESULTS = PLACE / "results.json"
SETS = ("set", "error", "nearest run", "by", "CPU s", "without", "error without", "ratio")
SUMS = (
    "candidate",
    "taken on",
    "needed on",
    "ratio where it was taken",
    "share of the trials' CPU",
)


def page(found: Mapping[str, Found]) -> str:
    """Return text of RESULTS.md."""
    made_by = [each["sources"] for each in found.values()]
    return filled(
        PLACE / "RESULTS.template",
        candidates=table([_sum(name, found) for name in MARKS], SUMS),
        ten=table([row for name in TEN for row in _rows(name, found)], SETS),
        thirty=table([row for name in EVERY for row in _rows(name, found)], SETS),
        commits=", ".join(sorted({each["commit"][:8] for each in made_by})),
        versions=", ".join(sorted({each["versions"] for each in made_by})),
    )


def write(found: Mapping[str, Found]) -> Path:
    """Write the page and its picture."""
    save_png(picture(found), PLACE / "errors.png")
    return write_text(PLACE / "RESULTS.md", page(found))


def picture(found: Mapping[str, Found]) -> Figure:
    """Draw errors with and without each candidate that was taken."""
    values = {}
    for title, without in found.items():
        name, is_without, candidate = title.partition(", without ")
        if is_without and "failed" not in without:
            errors = {"with it": found[name]["errors"], "without": without["errors"]}
            means = {label: float(np.mean(values)) for label, values in errors.items()}
            values[f"{name}: {candidate}"] = means
    finding = "Clocks of runs gain where one motion passes at several speeds"
    return dots(values, "error of forecasts at other contexts [deviations]", finding)


def _rows(name: str, found: Mapping[str, Found]) -> list[list[str]]:
    """Return a row for a set, or for each candidate that was left out of it; none if it was not run."""
    if name not in found:
        return []
    whole = found[name]
    head = [name, *_facts(whole)]
    rows = []
    for candidate in whole.get("taken", ()):
        without = found.get(f"{name}, without {candidate}")
        if without is not None:
            error = _facts(without)[0]
            rows.append([*head, candidate, error, _in_words(*_ratio(whole, without))])
    return rows or [[*head, "", "", ""]]


def _facts(found: Found) -> list[str]:
    """Return error, that of the nearest run, the model, and its seconds."""
    if "failed" in found:
        return ["refused", "", "", ""]
    errors = [f"{np.mean(found[key]):.2g}" for key in ("errors", "nearest")]
    return [*errors, found["model"], f"{found['seconds']:.0f}"]


def _sum(candidate: str, found: Mapping[str, Found]) -> list[str]:
    """Return what a candidate gains on all sets where it was taken."""
    sets = [each for name, each in found.items() if name in TEN or name in EVERY]
    made = [each for each in sets if "failed" not in each]
    trials = sum(each["seconds"] for each in made)
    share = sum(each["cost"][candidate] for each in made) / trials
    ratios, needed = [], 0
    for name, each in found.items():
        without = found.get(f"{name}, without {candidate}")
        if without is not None:
            ratio, error = _ratio(each, without)
            ratios.append(ratio)
            needed += ratio > max(error, Policy().tie)
    mean = "-"
    if ratios:
        spread = np.std(ratios, ddof=1) / np.sqrt(len(ratios)) if len(ratios) > 1 else np.nan
        mean = _in_words(np.mean(ratios), spread)
    cells = [f"{len(ratios)} of {len(made)}", f"{needed}", mean, f"{share:.1%}"]
    return [candidate, *cells]


def _ratio(whole: Found, without: Found) -> tuple[float, float]:
    """Return mean logarithm of the errors without a candidate over those with it, and its standard
    error over the runs.
    """
    if "failed" in without:
        return np.inf, 0.0
    gains: Array = Policy().logarithms(np.array(without["errors"]))
    gains = gains - Policy().logarithms(np.array(whole["errors"]))
    return float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))


def _in_words(ratio: float, error: float) -> str:
    """Return a ratio from its logarithm, with the factor of a standard error."""
    if not np.isfinite(ratio):
        return "refused"
    factor = "" if np.isnan(error) else f" (x/ {np.exp(error):.2f})"
    return f"{np.exp(ratio):.2f}{factor}"
