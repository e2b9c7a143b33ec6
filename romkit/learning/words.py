"""Words of a learned model about its errors, its bars and its runs."""

import re

import numpy as np

from romkit.core import display
from romkit.data import context_names
from romkit.data.coordinates import PLAIN, coordinates_of
from romkit.data.units import time_units, without_origin
from romkit.laws import Equation
from romkit.laws.sindy import Sparse
from romkit.learning.bars import ALL_LOST, LEVEL, NOT_ASKED, Bars
from romkit.learning.contexts import contexts_of, further_contexts, number_of_contexts
from romkit.learning.coordinates import coordinates_in_words
from romkit.learning.errors import AT_EQUAL_TIMES, VariableErrors
from romkit.learning.judged import Judged
from romkit.learning.preference import NEGLIGIBLE, Compared

HEADLINE = "error of forecasts at contexts it has not seen"
"""Name of the number by which a model is judged."""

FEW_RUNS = 4
"""Runs below which intervals that rest on them are called uncertain."""

WRITTEN = 300
"""Most coefficients of a law whose equations are written out: more of them take seconds."""

READABLE = 8
"""Terms of an equation that are printed, the largest ones."""

MOST_VARIABLES = 6
"""Variables whose errors are printed; a report has those of all."""

CHANGED = 1.5
"""Ratio of widths from which on a fit to all runs says that it changed them."""

NO_UNIT = ("", "1")
"""Units of a variable of which nobody said one, or that has none."""

NUMBER = re.compile(r"\d+\.\d{4,}(?:e[-+]\d+)?")
"""Numbers of more digits than one reads."""


def printed(learned: Judged) -> str:
    """The model in a few lines: its kind, errors, bars, repeats and advice."""
    kind = f"{coordinates(learned)}, {law(learned)}"
    if learned.interpolated is not None:
        kind = f"{way_between(learned)}; of_law() has {kind}"
    lines = [
        f"Learned: {kind}",
        f"error    {error(learned)}",
    ]
    if len(learned.errors_of_variables) > 1 or _has_unit(learned):
        lines.append(f"of each  {error_of_each(learned)}")
    lines.append(f"runs     {held_out(learned)}")
    lines.append(f"bars     {bars(learned)}")
    if _is_complete(learned):
        lines += [f"law      {equation}" for equation in equations(learned)]
    lines += [f"choice   {reason}" for reason in choices(learned)]
    same = repeats(learned)
    if same:
        lines.append(f"repeats  {same}")
    lines.append(f"advice   {learned.advice}")
    return "\n".join(lines)


def _has_unit(learned: Judged) -> bool:
    """Whether errors in a unit say more than those in deviations."""
    return any(errors.units not in NO_UNIT for errors in learned.errors_of_variables.values())


def held_out(learned: Judged) -> str:
    """Number of runs that it has learned from, and of those that judged it."""
    judged_by = learned.test.sizes["trajectory"]
    number = learned.train.sizes["trajectory"]
    if learned.fitted_to_all:
        return f"all {number}; errors are those of {judged_by} that were held out before"
    return f"{judged_by} of {number + judged_by} held out; model.refitted() learns from all"


def way_between(learned: Judged) -> str:
    """Forecasts between runs, in words."""
    names = coordinates_in_words(learned.interpolated.coordinates)
    ridge = learned.interpolated.ridge
    if ridge is None and learned.interpolated.clocks is not None:
        return f"runs interpolated in {names} at equal phases"
    if ridge is None:
        return f"runs interpolated in {names} at equal times"
    if np.isinf(ridge):
        return "mean of the runs of individuals"
    return f"regression of the runs of individuals in {names}"


def coordinates(learned: Judged) -> str:
    """Coordinates that the law moves, in words."""
    components = learned.train.sizes["component"]
    if _is_complete(learned):
        return f"all {components} components as they are"
    return f"{learned.projection.latent_dim} latents of {components} components"


def _is_complete(learned: Judged) -> bool:
    """Whether the law is one of the components themselves."""
    return learned.projection.name == "identity"


def equations(learned: Judged) -> list[str]:
    """Equations with their largest terms, or a line that says where they are; none of a law that has
    none.
    """
    law = learned.law
    if not isinstance(law, Equation):
        return []
    if law.coefficient_count > WRITTEN:
        return [f"{law.coefficient_count} coefficients: model.law.formulas() has the equations"]
    return [shortened(line) for line in law.formulas(most=READABLE)]


def law(learned: Judged) -> str:
    """Kind of the law, with its settings."""
    (settings,) = [row["settings"] for row in learned.law.report if row["chosen"]]
    text = shortened(str(settings))
    names = context_names(learned.train)
    coordinates = dict(zip(names, coordinates_of(learned.train), strict=True))
    if {*coordinates.values()} - {PLAIN}:
        text = f"{text} in {coordinates_in_words(coordinates)}"
    if isinstance(learned.settings, Sparse) and learned.settings.share == 0:
        return f"{text}, which leaves out no term"
    return text


def choices(learned: Judged) -> list[str]:
    """Errors of the choice of inputs, of coordinates, and between law and interpolation."""
    lines = [*_of_inputs(learned)]
    tried = learned.coordinates
    if tried is not None:
        taken = "taken" if tried.is_taken else "not taken"
        lines.append(
            f"laws in {coordinates_in_words(tried.names)} {taken}: on left-out training runs the best "
            f"errs by {tried.error:.2g}, in {', '.join(tried.names)} by {tried.plain:.2g}"
        )
    if learned.compared is not None:
        lines.append(_of_interpolation(learned, learned.compared))
    return lines


def _of_interpolation(learned: Judged, compared: Compared) -> str:
    """Whether runs are interpolated, and why."""
    taken = "not taken"
    why = (
        f"{_limit(compared)}; kinds=['interpolation'] takes them, for starts and times of the runs"
    )
    if learned.interpolated is not None:
        taken = "taken"
        why = _limit(compared) if compared.is_better else "they alone were asked for"
    return (
        f"interpolated runs {taken}: on left-out training runs they err by "
        f"{compared.interpolation:.2g}, the law by {compared.law:.2g}; {why}"
    )


def _of_inputs(learned: Judged) -> list[str]:
    """Errors of the choice of a rule for inputs between samples, and of a period."""
    lines = []
    between = learned.between
    if between is not None:
        rule, other = between.rule, between.assumed
        error, error_of_other = between.error, between.error_assumed
        if not between.is_taken:
            rule, other = other, rule
            error, error_of_other = error_of_other, error
        lines.append(
            f"inputs {rule} between samples: on left-out training runs the law errs by {error:.2g}, "
            f"with inputs {other} by {error_of_other:.2g}; the attribute between of the inputs states "
            "one"
        )
    seen = learned.rhythm
    if seen is not None:
        unit = display.with_unit(without_origin(time_units(learned.train)))
        taken, start = "not taken", ""
        if seen.is_taken:
            taken = "taken"
            start = "; forecast(..., start=) is the time of a first state since that of the runs"
        lines.append(
            f"period {seen.period:.4g}{unit}, with which all runs swing in step, {taken}: on left-out "
            f"training runs the best law errs by {seen.error:.2g}, without it by {seen.without:.2g}"
            f"{start}"
        )
    return lines


def _limit(compared: Compared) -> str:
    """Rule by which the interpolation is taken, as far as it matters."""
    if compared.law <= NEGLIGIBLE:
        return f"a law that errs by at most {NEGLIGIBLE:g} stays"
    return (
        f"typically {compared.ratio:.2g} times as much, and below {compared.limit:g} they are taken"
    )


def error(learned: Judged) -> str:
    """The headline, beside the errors of forecasts that need no model and of the projection."""
    values = {name: f"{value:.2g}" for name, value in learned.mean_errors.items()}
    before = ", before the fit to all runs" if learned.fitted_to_all else ""
    shifted = values["nearest run, shifted"]
    if is_not_shifted(learned):
        shifted = "the same, since its start is nearest"
    between = f"{AT_EQUAL_TIMES} {values[AT_EQUAL_TIMES]}"
    if learned.interpolated is not None:
        between = f"law {values['law']}, {between}"
    return (
        f"{headline(learned)}, in deviations of the data, of forecasts at contexts it has not "
        f"seen{before}; nearest run {values['nearest run']}, shifted in time "
        f"{shifted}, {between}, rest {values['rest']}; projection "
        f"{values['projection']}"
    )


def is_not_shifted(learned: Judged) -> bool:
    """Whether the nearest run is nowhere better when it is shifted to the first state."""
    errors = learned.errors
    return bool(np.array_equal(errors["nearest run"], errors["nearest run, shifted"]))


def title(learned: Judged) -> str:
    """Title of a picture of held-out runs."""
    nearest = learned.mean_errors["nearest run"]
    return f"{HEADLINE}: {headline(learned)} (nearest run {nearest:.2g})"


def headline(learned: Judged) -> str:
    """Error at contexts that were not seen, and how many of the held-out runs are lost."""
    errors = learned.errors["forecast"]
    runs = len(errors)
    lost = int((~np.isfinite(errors)).sum())
    if lost == runs:
        return f"lost at all {runs} held-out runs"
    if lost:
        return f"lost at {lost} of {runs} held-out runs, the others {learned.error:.2g}"
    return f"{learned.error:.2g}"


def error_of_each(learned: Judged) -> str:
    """Headline of each variable, in its unit and in its deviation."""
    several = []
    for name, errors in learned.errors_of_variables.items():
        several.append(f"{name} {in_unit(errors)} ({errors.in_deviations:.2g})")
    shown = ", ".join(several[:MOST_VARIABLES])
    if len(several) > MOST_VARIABLES:
        shown = f"{shown} and {len(several) - MOST_VARIABLES} more, in the report"
    return shown


def in_unit(errors: VariableErrors) -> str:
    """Headline of a variable in its unit."""
    if errors.units in NO_UNIT:
        return f"{errors.in_unit:.2g}"
    return f"{errors.in_unit:.2g} {errors.units}"


def bars(learned: Judged) -> str:
    """Width of the intervals, the runs that they rest on, and what changed it."""
    if learned.bars is None:
        return without_bars(learned)
    now = learned.bars
    few = ": too few for a width to rely on" if now.runs < FEW_RUNS else ""
    unseen = "their law had not seen"
    if learned.interpolated is not None:
        unseen = "were left out"
    return (
        f"of level {LEVEL:.0%}, {_width(learned)}; they rest on "
        f"{now.runs} forecasts of runs that {unseen}{few}{_lost(now)}"
        f"{_change(learned)}"
        f"{_individuals(learned)}"
    )


def _width(learned: Judged) -> str:
    """Half of the width, beside the headline, where both are of the same model."""
    width = learned.bars.width
    if learned.fitted_to_all or not np.isfinite(learned.error):
        return f"±{width:.2g} deviations"
    return f"±{width:.2g} deviations, {width / learned.error:.1f} times the error"


def _lost(bars: Bars) -> str:
    """Number of forecasts that bars leave out."""
    if bars.lost == 0:
        return ""
    further = "one further forecast is" if bars.lost == 1 else f"{bars.lost} further forecasts are"
    return f"; {further} lost, and left out: bars are those of forecasts that are not lost"


def _change(learned: Judged) -> str:
    """Width before a fit to all runs, where it was another one."""
    before = learned.bars_before
    if before is None or max(before.width, learned.bars.width) < CHANGED * min(
        before.width, learned.bars.width
    ):
        return ""
    forecasts = "laws" if learned.interpolated is None else "interpolations"
    return (
        f". Before the fit to all runs they were ±{before.width:.2g}: {forecasts} that missed a run "
        "then had fewer others"
    )


def _individuals(learned: Judged) -> str:
    """Reason of wide intervals, where runs differ by more than the context explains."""
    spread = learned.evidence.spread_of_individuals
    if not spread > 0:
        return ""
    return f". They hold the differences between individuals, {spread:.2g} deviations"


def without_bars(learned: Judged) -> str:
    """Why there are no intervals, and what would give some."""
    if learned.without_bars == NOT_ASKED:
        return "none asked for: members=2 or more give some"
    if learned.without_bars == ALL_LOST:
        return "none: forecasts of runs that their laws had not seen are lost"
    return f"none. {few_contexts(learned)}"


def few_contexts(learned: Judged) -> str:
    """Sentence that says how many contexts there are, and what more of them would give."""
    contexts = contexts_of(learned.train)
    number = number_of_contexts(learned.train)
    if not learned.fitted_to_all:
        contexts = np.concatenate([contexts, contexts_of(learned.test)])
        number = number_of_contexts(learned.train, learned.test)
    names = context_names(learned.train)
    return (
        f"Of {number} contexts one lies between others and judges the forecast, and none is left "
        f"that could set a width. One more gives bars, two give better ones: "
        f"{further_contexts(names, contexts, 2)}"
    )


def repeats(learned: Judged) -> str:
    """Note that several runs share a context; empty where none do."""
    runs = learned.train.sizes["trajectory"]
    number = number_of_contexts(learned.train)
    if not learned.fitted_to_all:
        runs += learned.test.sizes["trajectory"]
        number = number_of_contexts(learned.train, learned.test)
    if number == runs:
        return ""
    return f"{runs} runs at {number} contexts: those that share one are held out together"


def shortened(text: str) -> str:
    """Text whose numbers have as many digits as one reads."""
    return NUMBER.sub(_short, text)


def _short(number: re.Match[str]) -> str:
    return f"{float(number[0]):.3g}"
