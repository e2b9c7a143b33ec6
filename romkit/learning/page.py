"""The page about a learned model: REPORT.md with pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from romkit.core import files
from romkit.core.files import LEARNED
from romkit.core.runtime import versions
from romkit.data import context_names
from romkit.learning import words
from romkit.learning.bars import LEVEL
from romkit.learning.contexts import describe_context
from romkit.learning.errors import mean_kept
from romkit.learning.judged import Judged
from romkit.learning.rollouts import quiet

EXACT = 1e-9
"""Relative rounding of a span that has four digits."""

MEASURE = (
    "Root mean square over components, in the standard deviation over the training data of those of "
    "one unit; mean over time. Each run was left out of the fit that forecasts it. `projection` is "
    "the error of "
    "the manifold on their true states, which is no forecast. The rows below it are "
    "forecasts that need no model."
)

TRIED = (
    "Geometric means of the errors on left-out runs, of segments of them where whole runs lose the "
    "phase; candidates near the best one were tried on further folds. The simplest candidate within "
    "a standard error of the best one is taken, and fitted to all runs."
)

NOT_SHIFTED = (
    " The nearest run is shifted to where it is most like the first state of a left-out run. Here "
    "that is its own start, so that the two rows are equal."
)

OF_LAW = (
    " The row `law` is the best law, whose forecasts model.of_law() gives; the row `forecast` is of "
    "the {way}."
)


def write_page(learned: Judged, folder: Path) -> Path:
    """Write REPORT.md with pictures into a folder."""
    files.make_folder(folder)
    pictures = _pictures(learned, folder)
    made_by = ", ".join(f"{name} {version}" for name, version in versions().items())
    sections = [
        "# A reduced model of your runs",
        *_paragraphs(words.facts(learned)),
        f"## {words.HEADLINE.capitalize()}",
        _measure(learned),
        _runs_table(learned),
        "Mean of these runs for each variable, in its unit, and in its deviation:",
        _variables_table(learned),
        *_equations(learned),
        "## Pictures",
        "\n\n".join(pictures),
        "## Candidates",
        TRIED,
        _trials_table(learned),
        "## A forecast",
        _commands(learned, folder),
        "## Made by",
        f"{made_by}; {learned.seconds:.0f} s of the processor.",
    ]
    path = folder / "REPORT.md"
    with files.atomic(path) as temporary:
        temporary.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    return path


def _paragraphs(facts: Mapping[str, str]) -> list[str]:
    """Return a paragraph for each fact, the advice first; several lines stand as they are."""
    paragraphs = []
    for name in sorted(facts, key=lambda name: name != "advice"):
        value = facts[name]
        body = f"\n\n```text\n{value}\n```" if "\n" in value else f" {value}"
        paragraphs.append(f"**{name.capitalize()}.**{body}")
    return paragraphs


def _equations(learned: Judged) -> list[str]:
    """Return the section with the equations of latents; none where they cannot be read, or are a
    fact.
    """
    lines = words.equations(learned)
    if not lines or "law" in words.facts(learned):
        return []
    text = "\n".join(lines)
    section = ["## Equations", f"```text\n{text}\n```"]
    if learned.interpolated is not None:
        section.insert(
            1,
            f"Of the law, model.of_law(). Forecasts are of the {words.describe_interpolation(learned)}.",
        )
    return section


def _measure(learned: Judged) -> str:
    """Return the meaning of the rows of the table."""
    measure = MEASURE
    if words.is_not_shifted(learned):
        measure += NOT_SHIFTED
    if learned.interpolated is not None:
        measure += OF_LAW.format(way=words.describe_interpolation(learned))
    return measure


def _pictures(learned: Judged, folder: Path) -> list[str]:
    """Draw forecasts into the folder, with bars where there are some; lines that show them."""
    from romkit.learning.pictures import picture  # matplotlib, half a second
    from romkit.plotting import plot_forecast, save_figure

    save_figure(picture(learned), folder / "rollout.png")
    lines = ["![truth, reduced model and difference of runs that were left out](rollout.png)"]
    if learned.intervals is None:
        return lines
    with quiet():  # of these runs, and of no forecast of the user
        band = learned.intervals.follow(learned.test, level=LEVEL)
    save_figure(plot_forecast(band, learned.test), folder / "forecast.png")
    how = "that nothing was fitted to" if learned.held_out else "by the model of all runs"
    lines.append(f"![forecasts of runs {how}, with intervals](forecast.png)")
    return lines


def _commands(learned: Judged, folder: Path) -> str:
    """Return lines that forecast the first held-out run: on the command line, where the model is
    saved beside the page.
    """
    times = learned.train["time"].values
    # rounded to nearest, it might end after the runs
    duration = f"{_rounded_down(times[-1] - times[0]):.4g}"
    step = f"{np.median(np.diff(times)):.4g}"
    context = {}
    for name in context_names(learned.test):
        context[name] = f"{float(learned.test[name].values.flat[0]):.10g}"
    # a period that is known repeats the inputs by itself
    needs_inputs = bool(learned.law.control_names) and learned.period is None
    if (folder / LEARNED).exists():
        start = folder / "test.nc"
        command = ["romkit forecast", f"{folder} --from {start} --duration {duration} --dt {step}"]
        command += [f"--{name} {value}" for name, value in context.items()]
        if needs_inputs:
            command.append(f"--control {start}")
        return f"```sh\n{' '.join(command)}\n```"
    values = ", ".join(f'"{name}": {value}' for name, value in context.items())
    arguments = ["initial_state=model.test.state[0, 0]", f"duration={duration}", f"dt={step}"]
    arguments.append(f"context={{{values}}}")
    if needs_inputs:
        arguments.append("control=model.test.control[0]")
    return f"```python\nmodel.forecast({', '.join(arguments)})\n```"


def _rounded_down(span: float) -> float:
    """Return the span of four digits that is no longer."""
    digit = 10.0 ** (np.floor(np.log10(span)) - 3)
    return float(np.floor(span / digit * (1 + EXACT)) * digit)


def _runs_table(learned: Judged) -> str:
    """Return a row for each forecast, a column for each held-out run."""
    head = [""]
    for run in range(learned.test.sizes["trajectory"]):
        head.append(describe_context(learned.test, run))
    rows = []
    for name, errors in learned.errors.items():
        rows.append([name, *map(_number, errors)])
    return _table(head, rows)


def _variables_table(learned: Judged) -> str:
    """Return a row for each variable, with the error of the forecast in its unit and those of all."""
    head = ["variable", "forecast, in its unit", *learned.errors]
    rows = []
    for name, errors in learned.errors_of_variables.items():
        in_deviations = [_number(mean_kept(values)) for values in errors.relative.values()]
        rows.append([name, words.unit_headline(errors), *in_deviations])
    return _table(head, rows)


def _trials_table(learned: Judged) -> str:
    """Make a row for each candidate."""
    rows = []
    for row in learned.law.report:
        name = words.shortened(row["settings"])
        if row["chosen"]:
            name = f"**{name}**"
        terms = str(row["terms"]) if row["terms"] else ""
        seconds = f"{row['seconds']:.1f}"
        rows.append([name, f"{row['error']:.2g}", str(row["folds"]), terms, seconds])
    return _table(["candidate", "error", "folds", "coefficients tried", "CPU seconds"], rows)


def _number(error: float) -> str:
    """Return error of a run, or that its forecast is lost."""
    if np.isfinite(error):
        return f"{error:.2g}"
    return "lost"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(head)
    lines = []
    for cells in (head, rule, *rows):
        columns = " | ".join(cells)
        lines.append(f"| {columns} |")
    return "\n".join(lines)
