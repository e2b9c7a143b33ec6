"""Words of a learned model about its errors, its bars and its runs."""

import re

import numpy as np

from romkit.data import context_names
from romkit.data.context import contexts_of
from romkit.data.coordinates import PLAIN, coordinates_of
from romkit.laws import Equation
from romkit.learning.advice import WITHOUT_A_MODEL
from romkit.learning.bars import LEVEL, Bars
from romkit.learning.contexts import (
    describe_coordinates,
    further_contexts,
    number_of_contexts,
)
from romkit.learning.errors import AT_EQUAL_TIMES, VariableErrors
from romkit.learning.judged import Judged

HEADLINE = "error of forecasts at contexts it has not seen"
"""Name of the number by which a model is judged."""

WRITTEN = 300
"""Most coefficients of a law whose equations are written out: more of them take seconds."""

NO_UNIT = ("", "1")
"""Units of a variable of which nobody said one, or that has none."""

NUMBER = re.compile(r"\d+\.\d{4,}(?:e[-+]\d+)?")
"""Numbers of more digits than one reads."""


def facts(learned: Judged) -> dict[str, str]:
    """Return the model in a few facts: its kind, errors, bars, repeats and advice."""
    kind = law(learned)
    if learned.interpolated is not None:
        kind = f"{describe_interpolation(learned)}; of_law() has {kind}"
    entries = {"learned": kind, "error": error(learned)}
    if len(learned.errors_of_variables) > 1 or _has_unit(learned):
        entries["of each"] = list_errors(learned)
    entries |= {"runs": held_out(learned), "bars": bars(learned)}
    if _is_complete(learned) and equations(learned):
        entries["law"] = "\n".join(equations(learned))
    entries["choice"] = choice(learned)
    note = repeats(learned)
    if note:
        entries["repeats"] = note
    return entries | {"advice": learned.advice}


def _has_unit(learned: Judged) -> bool:
    """Tell whether errors in a unit say more than those in deviations."""
    return any(errors.units not in NO_UNIT for errors in learned.errors_of_variables.values())


def held_out(learned: Judged) -> str:
    """Return number of training runs and of runs that judge the model, as text."""
    judged_by = learned.test.sizes["trajectory"]
    number = learned.train.sizes["trajectory"]
    if learned.held_out:
        return f"{judged_by} of {number + judged_by} held out"
    return f"all {number}; {judged_by} were left out in turn to judge it"


def describe_interpolation(learned: Judged) -> str:
    """Return forecasts between runs, in words."""
    assert learned.interpolated is not None  # by which it forecasts
    names = describe_coordinates(learned.interpolated.coordinates)
    phases = "times" if learned.interpolated.clocks is None else "phases"
    return f"runs interpolated in {names} at equal {phases}"


def coordinates(learned: Judged) -> str:
    """Describe the coordinates of the law."""
    components = learned.train.sizes["component"]
    if _is_complete(learned):
        return f"all {components} components as they are"
    return f"{learned.projection.latent_dim} latents of {components} components"


def _is_complete(learned: Judged) -> bool:
    """Tell whether the law is one of the components themselves."""
    return learned.projection.name == "identity"


def equations(learned: Judged, *, readable: int = 8) -> list[str]:
    """Return equations with their largest terms, or a line that says where they are; none of a law
    that has none.

    `readable`: terms of an equation that are printed, the largest ones.
    """
    law = learned.law
    if not isinstance(law, Equation):
        return []
    if law.coefficient_count > WRITTEN:
        return [f"{law.coefficient_count} coefficients: model.law.formulas() has the equations"]
    # what is conserved, of an equation that was shortened by it
    _, _, note = law.source.partition(", of which ")
    about = [f"terms of which {note}"] if note else []
    return [*(shortened(line) for line in law.formulas(most=readable)), *about]


def law(learned: Judged) -> str:
    """Return the kind of the law, with its settings."""
    rows = learned.law.report
    if learned.interpolated is not None:
        rows = [row for row in rows if row["law"] != "interpolation"]
    text = shortened(next(row["settings"] for row in rows if row["chosen"] or row is rows[0]))
    names = context_names(learned.train)
    coordinates = dict(zip(names, coordinates_of(learned.train), strict=True))
    if {*coordinates.values()} - {PLAIN}:
        text = f"{text} in {describe_coordinates(coordinates)}"
    return text


def choice(learned: Judged) -> str:
    """Return number of candidates, with the next best one, as text."""
    rows = learned.law.report
    (taken,) = [row for row in rows if row["chosen"]]
    rivals = [row for row in rows if not row["chosen"] and row["folds"] == taken["folds"]]
    text = f"out of {len(rows)} candidates"
    if not rivals:
        return text
    best = min(rivals, key=lambda row: row["error"])
    settings = shortened(best["settings"])
    if settings == shortened(taken["settings"]):
        settings = "the same one, with other settings"
    return f"{text}; the next best one is {settings}"


def error(learned: Judged) -> str:
    """Return the headline, and below it a line for each error that it is to be compared with: that
    of left-out runs, those of forecasts that need no model, and that of the projection.
    """
    means = learned.mean_errors
    shifted = "the nearest run, shifted in time"
    if is_not_shifted(learned):
        shifted = f"{shifted} (by none)"
    rows = {}
    if _is_expected(learned):
        rows["forecast"] = f"at {judges(learned)}, which leave gaps twice as wide"
    if learned.interpolated is not None:
        rows["law"] = "of these by the law, model.of_law()"
    rows |= {
        "nearest run": "without a model: the nearest run",
        "nearest run, shifted": shifted,
        AT_EQUAL_TIMES: AT_EQUAL_TIMES,
        "rest": "rest at the mean",
        "projection": "the manifold alone, which is no forecast",
    }
    lines = [expected(learned)]
    for name, meaning in rows.items():
        # a forecast that needs no model is to be worse than one by a model
        is_better = name in WITHOUT_A_MODEL and means[name] < means["forecast"]
        remark = " (LESS than the model)" if is_better else ""
        lines.append(f"{means[name]:<8.2g}{meaning}{remark}")
    return "\n".join(lines)


def expected(learned: Judged) -> str:
    """Return the headline, and of which runs it is."""
    where = "expected between the runs" if _is_expected(learned) else f"at {judges(learned)}"
    return f"{headline(learned)} {where} [standard deviations]"


def judges(learned: Judged) -> str:
    """Return runs that judge the model, in words."""
    return "held-out runs" if learned.held_out else "left-out runs"


def _is_expected(learned: Judged) -> bool:
    """Tell whether the headline is of narrower gaps than those of the runs that judge the model."""
    return learned.error != learned.mean_errors["forecast"]


def is_not_shifted(learned: Judged) -> bool:
    """Tell whether the nearest run is nowhere better when it is shifted to the first state."""
    errors = learned.errors
    return bool(np.array_equal(errors["nearest run"], errors["nearest run, shifted"]))


def title(learned: Judged) -> str:
    """Return title of a picture of left-out runs."""
    nearest = learned.mean_errors["nearest run"]
    return f"{HEADLINE}: {headline(learned)} (nearest run {nearest:.2g})"


def headline(learned: Judged) -> str:
    """Return error that is expected between the runs, and how many of the left-out runs are lost."""
    errors = learned.errors["forecast"]
    runs = len(errors)
    lost = int((~np.isfinite(errors)).sum())
    if lost == runs:
        return f"lost at all {runs} left-out runs"
    if lost:
        return f"lost at {lost} of {runs} left-out runs, else {learned.error:.2g}"
    return f"{learned.error:.2g}"


def list_errors(learned: Judged, *, most_variables: int = 6) -> str:
    """Return the headline of each variable, in its unit and in its deviation.

    `most_variables`: variables whose errors are printed; a report has those of all.
    """
    entries = []
    for name, errors in learned.errors_of_variables.items():
        entries.append(f"{name} {unit_headline(errors)} ({errors.in_deviations:.2g} of its own)")
    shown = f"at {judges(learned)}: {', '.join(entries[:most_variables])}"
    if len(entries) > most_variables:
        shown = f"{shown} and {len(entries) - most_variables} more, in the report"
    return shown


def unit_headline(errors: VariableErrors) -> str:
    """Return the headline of a variable in its unit."""
    if errors.units in NO_UNIT:
        return f"{errors.in_unit:.2g}"
    return f"{errors.in_unit:.2g} {errors.units}"


def bars(learned: Judged, *, few_runs: int = 4) -> str:
    """Return the width of the intervals, and the runs that they rest on.

    `few_runs`: runs below which intervals that rest on them are called uncertain.
    """
    intervals = learned.bars
    if intervals is None:
        return explain_missing_bars(learned)
    few = ": too few for a width to rely on" if intervals.runs < few_runs else ""
    return (
        f"of level {LEVEL:.0%}, {_width(learned)}; they rest on "
        f"{intervals.runs} forecasts of runs that were left out{few}{_lost(intervals)}{_individuals(learned)}"
    )


def _width(learned: Judged, *, clearly: float = 2.0) -> str:
    """Return half of the width where one forecasts, and in the widest gap where it differs.

    `clearly`: ratio of the widest to the mean from which on both are told.
    """
    assert learned.bars is not None  # of which the sentence is
    mean, widest = learned.bars.width, learned.bars.widest
    where = "at the held-out runs" if learned.held_out else "halfway between runs"
    further = f", ±{widest:.2g} in the widest gap" if widest > clearly * mean else ""
    return f"±{mean:.2g} standard deviations {where}{further}"


def _lost(bars: Bars) -> str:
    """Return number of forecasts that bars leave out."""
    if bars.lost == 0:
        return ""
    further = "one further forecast is" if bars.lost == 1 else f"{bars.lost} further forecasts are"
    return f"; {further} lost, and left out: bars are those of forecasts that are not lost"


def _individuals(learned: Judged) -> str:
    """Return the reason of wide intervals, where runs differ by more than the context explains."""
    spread = learned.evidence.individual_spread
    if not spread > 0:
        return ""
    return f". They hold the differences between individuals, {spread:.2g} deviations"


def explain_missing_bars(learned: Judged) -> str:
    """Say why there are no intervals, and what would give some."""
    contexts = contexts_of(learned.train)
    names = context_names(learned.train)
    return (
        "none: fewer than two forecasts of left-out runs are finite. Runs at "
        f"{further_contexts(names, contexts, 2)} would help most"
    )


def repeats(learned: Judged) -> str:
    """Note that several runs share a context; empty where none do."""
    runs = learned.train.sizes["trajectory"]
    number = number_of_contexts(learned.train)
    if number == runs:
        return ""
    return f"{runs} runs at {number} contexts: those that share one are left out together"


def shortened(text: str) -> str:
    """Return text whose numbers have as many digits as one reads."""
    return NUMBER.sub(_short, text)


def _short(number: re.Match[str]) -> str:
    return f"{float(number[0]):.3g}"
