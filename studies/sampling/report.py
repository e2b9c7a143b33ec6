"""RESULTS.md and its figure from the numbers of a preset."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from studies.report import filled, panels, table
from studies.runner import Study, numbers

COLOURS = {
    "greedy": "#D55E00",
    "true error": "#222222",
    "uniform": "#0072B2",
    "chebyshev": "#009E73",
    "expanded": "#E69F00",
    "sobol": "#CC79A7",
    "random": "#999999",
}
NEAR = 1.25
"""An error is that of all candidates if it is at most this many times as large."""

GOALS = 0.1, 0.01, 0.001
"""Errors of the waves until which contexts are counted."""

TEN = Path(__file__).with_name("ten_runs")
"""NcAEs on ten runs, as studies/wake had them at commit 765c1f9."""


def write(folder: Path, preset: str) -> Path:
    """Write RESULTS.md and errors.png into `folder`."""
    return Study("sampling").write_page(folder, preset, page, "RESULTS.md", draw)


def measured(seeds: list[dict]) -> list[str]:
    """Methods that a case was tried with."""
    return [method for method in COLOURS if method in seeds[0]["errors"]]


def grouped(results: dict[str, dict]) -> dict[str, list[dict]]:
    """Seeds of each case."""
    cases = {}
    for title, found in results.items():
        if "errors" in found:
            cases.setdefault(title.split(",")[0], []).append(found)
    return cases


def largest(seeds: list[dict], method: str) -> np.ndarray:
    """(seed, number) largest error over unseen contexts; infinite where one is lost."""
    return np.nan_to_num(
        np.array([np.max(found["errors"][method], axis=1) for found in seeds], dtype=float),
        nan=np.inf,
    )


def needed(errors: np.ndarray, counts: list[int], goal: float) -> str:
    """Return smallest number of contexts whose median error reaches the goal."""
    reached = [
        count
        for count, error in zip(counts, np.median(errors, axis=0), strict=False)
        if error <= goal
    ]
    return str(min(reached)) if reached else f"more than {counts[errors.shape[1] - 1]}"


def page(results: dict[str, dict]) -> str:
    """Return text of RESULTS.md."""
    parts = []
    for name, seeds in grouped(results).items():
        counts = seeds[0]["numbers"]
        floor = float(np.median(largest(seeds, "all candidates")))
        rows = []
        for method in measured(seeds):
            medians = np.median(largest(seeds, method), axis=0)
            shown = [f"{each:.2g}" for each in medians] + [""] * (len(counts) - len(medians))
            rows.append([method, *shown, needed(largest(seeds, method), counts, NEAR * floor)])
        near = f"within {NEAR - 1:.0%} of all candidates"
        parts.append(f"## {name.capitalize()}\n")
        caption = f"Largest error at unseen contexts, median of {len(seeds)} seeds; of all candidates {floor:.2g}."
        parts.append(table(rows, ("contexts", *map(str, counts), near), caption))
        goals = np.median(largest(seeds, "uniform"), axis=0)
        several = [k for k, count in enumerate(counts) if count >= 4]
        rows = []
        for method in measured(seeds):
            errors = largest(seeds, method)
            rows.append([method, *(needed(errors, counts, goals[k]) for k in several)])
        caption = "Contexts until the error is that of a uniform grid of so many."
        parts.append(table(rows, ("uniform grid of", *(str(counts[k]) for k in several)), caption))
        ranks = np.median([found["rank correlation"] for found in seeds], axis=0)
        row = ["rank correlation", *(f"{rank:.2f}" for rank in ranks)]
        caption = "Estimate against true error over the candidates, models of greedy choice."
        parts.append(table([row], ("contexts", *map(str, counts[: len(ranks)])), caption))
    if any("waves" in found for found in results.values()):
        parts.append(_waves(results))
    if any("Strouhal" in found for found in results.values()):
        parts.append(_wake(results))
    device = next(iter(results.values()))["device"]
    return filled(
        Path(__file__).with_name("RESULTS.template"), parts="\n".join(parts), device=device
    )


def _waves(results: dict[str, dict]) -> str:
    """NcAEs of Lorenz96 with the symmetry and without."""
    rows = []
    for title, found in sorted(results.items()):
        for dynamics, errors in found.get("waves", {}).items():
            median = np.median(
                np.nan_to_num(np.array(errors, dtype=float), nan=np.inf), axis=(1, 2)
            )
            until = [
                next((n for n, e in zip(found["numbers"], median, strict=True) if e <= goal), "")
                for goal in GOALS
            ]
            rows.append([title, dynamics, *(f"{each:.2g}" for each in median), *until])
            counts = found["numbers"]
    head = ("symmetry", "dynamics", *map(str, counts), *(f"until {goal:g}" for goal in GOALS))
    caption = "Median error at eight unseen forcings, seeds 0 and 1, by number of contexts; contexts until it is so small."
    return (
        f"## NcAE of Lorenz96, with shifts factored out and without\n\n{table(rows, head, caption)}"
    )


def _wake(results: dict[str, dict]) -> str:
    """Return models of five runs beside NcAEs of ten."""
    stored = numbers(TEN)
    full = stored["full"]["Strouhal"], stored["full"]["lift"]
    titles = {"ten, 32 modes": "ncae", "ten, 64 modes": "ncae, 64 modes"}
    rows = [_errors(f"ncae, {title}", stored[name], *full, "all") for title, name in titles.items()]
    for title, found in sorted(results.items()):
        if "Strouhal" in found:
            chosen = ", ".join(f"{re:g}" for re in sorted(found["chosen"]))
            rows.append(_errors(title, found, *zip(*found["full"], strict=True), chosen))
    caption = "Errors relative to the full model at ten unseen Reynolds numbers, seeds 0 and 1."
    return f"## NcAE of the wake, on five runs and on ten\n\n{table(rows, caption=caption)}"


def _errors(
    title: str, found: dict, strouhal: list[float], lift: list[float], chosen: str
) -> dict[str, str]:
    row = {"model": title, "full runs, Re": chosen}
    for key, truth in (("Strouhal", strouhal), ("lift", lift)):
        error = np.abs(np.array(found[key][:2], dtype=float) / np.array(truth, dtype=float) - 1)
        error = 100 * np.nan_to_num(error, nan=np.inf)
        row[f"{key}, median (largest)"] = f"{np.median(error):.2f} % ({error.max():.1f} %)"
    return row


def draw(results: dict[str, dict]) -> dict[str, Figure]:
    """Return largest error over the number of contexts: medians, and the range over seeds."""
    cases = grouped(results)
    drawing, (axes,) = panels(1, len(cases), (4.2 * len(cases), 3.4))
    for (name, seeds), place in zip(cases.items(), axes, strict=True):
        counts, floor = seeds[0]["numbers"], float(np.median(largest(seeds, "all candidates")))
        for method in measured(seeds):
            colour = COLOURS[method]
            errors = largest(seeds, method)
            at = counts[: errors.shape[1]]
            place.plot(at, np.median(errors, axis=0), "o-", color=colour, ms=3, label=method)
            place.fill_between(
                at, errors.min(0), errors.max(0), color=colour, alpha=0.12, linewidth=0
            )
        place.axhline(floor, color="0.5", linestyle=":", label="all candidates")
        words = []
        for method in ("greedy", "chebyshev", "uniform"):
            words.append(f"{method} {needed(largest(seeds, method), counts, NEAR * floor)}")
        place.set_title(f"{name.capitalize()}, near the floor at:\n{', '.join(words)}", loc="left")
        place.set(
            xscale="log",
            yscale="log",
            xlabel="number of contexts",
            xticks=counts,
            xticklabels=counts,
        )
        place.minorticks_off()
    axes[0].set_ylabel("largest error at unseen contexts, NRMSE")
    # not every case was tried with every method
    entries = {}
    for place in axes:
        entries |= dict(zip(*reversed(place.get_legend_handles_labels()), strict=True))
    drawing.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=4)
    return {"errors.png": drawing}
