"""RESULTS.md and errors.png from the numbers of a preset."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from studies.report import filled, panels, save_png, table
from studies.runner import Study, numbers

FIGURE = "errors.png"


def write(folder: Path, preset: str) -> Path:
    """Write RESULTS.md and the figure into `folder`."""
    written = Study("inference").write_page(folder, preset, page, "RESULTS.md")
    if written.suffix:
        save_png(figure(numbers(folder / preset)), folder / FIGURE)
    return written


def page(results: dict[str, dict]) -> str:
    """Text of RESULTS.md."""
    titles, names = _in_order(results)
    first = results[f"{titles[0]}: {names[0]}"]
    rows = [_row(results, title, name) for title in titles for name in names]
    template, draws = Path(__file__).with_name("RESULTS.template"), len(first["truth"])
    return filled(template, table=table(rows), draws=draws, **first)


def _in_order(results: dict[str, dict]) -> tuple[list[str], list[str]]:
    """Titles of the cases and names of the contestants, as the presets have them."""
    presets = Study("inference").presets.values()
    titles = {title: None for preset in presets for title in preset["cases"] if f"{title}: bound" in results}
    names = {name: None for preset in presets for name in preset["contestants"]}
    return list(titles), [name for name in names if f"{next(iter(titles))}: {name}" in results]


def _row(results: dict[str, dict], title: str, name: str) -> dict[str, object]:
    found, (bound,) = results[f"{title}: {name}"], results[f"{title}: bound"]["bound"]
    (rms,), seconds = found["rms"], found["seconds"]
    percent = lambda key: f"{100 * np.mean(found[key]):.0f} %" if key in found else ""  # noqa: E731
    return {
        "observations": title,
        "contestant": name,
        "bound": f"{bound:.2e}",
        "rms error": f"{rms:.2e}",
        "of the bound": f"{rms / bound:.2f}",
        "median error": f"{found['median'][0]:.2e}",
        "bias": f"{found['bias'][0]:.1e}",
        "90 % intervals hold": percent("coverage"),
        "false alarms": percent("false alarms"),
        "alarms outside": percent("alarms outside"),
        "seconds each": f"{seconds['each of all']:.3f}",
        "one alone": f"{np.median(seconds['single']):.2f} (to {max(seconds['single']):.2f})",
        "before": f"{seconds['preparing']:.0f}",
    }


def figure(results: dict[str, dict]) -> Figure:
    """Errors and intervals of the first contestant against the context, and the bound."""
    titles, (name, *_) = _in_order(results)
    drawing, axes = panels(1, len(titles), (3.0 * len(titles), 2.8))
    for axis, title in zip(axes[0], titles, strict=True):
        found, bounds = results[f"{title}: {name}"], np.array(results[f"{title}: bound"]["bounds"])[:, 0]
        truth, estimate, lower, upper = (np.array(found[k])[:, 0] for k in ("truth", "estimate", "lower", "upper"))
        order = np.argsort(truth)
        axis.fill_between(truth[order], -bounds[order], bounds[order], color="0.8", label="Cramer-Rao bound")
        bars = np.maximum([estimate - lower, upper - estimate], 0)
        axis.errorbar(truth, estimate - truth, yerr=bars, fmt="o", ms=2, lw=0.5, label=name)
        axis.set(title=title.replace(", ", "\n", 1), xlabel="F", ylabel="estimate - F")
    drawing.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return drawing
