"""RESULTS.md and its figure from the numbers of a preset."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from scipy.stats import spearmanr

from studies.estimates.tasks import TIMES
from studies.report import panels, save_png, table
from studies.runner import Study, numbers

KINDS = {
    "estimate": "estimate",
    "without known": "without known rollouts",
    "local": "windows alone",
    "residual": "plain residual",
}
"""Indicators, and how the tables call them."""

MAIN = (
    "Lorenz96, flow",
    "Pendulum, flow",
    "Kuramoto-Sivashinsky, flow",
    "Wake in 64 modes, NcAE",
    "Burgers, flow",
)
"""One projection for each system: the rollouts that the last row pools."""


def write(folder: Path, preset: str) -> Path:
    """Write RESULTS.md and estimates.png into `folder`."""
    written = Study("estimates").write_page(folder, preset, page, "RESULTS.md")
    if written.suffix:
        save_png(figure(_rollouts(numbers(folder / preset))), folder / "estimates.png")
    return written


def _rollouts(results: dict[str, dict]) -> dict[str, dict]:
    return {title: found for title, found in results.items() if "rms" in found}


def figure(results: dict[str, dict]) -> Figure:
    """Return true error over estimate, root mean square over time, a dot a rollout; the band is as
    wide as intervals.
    """
    columns = -(-len(results) // 2)
    drawing, axes = panels(2, columns, (2.5 * columns, 4.6))
    places = [place for row in axes for place in row]
    for place, (title, found) in zip(places, results.items(), strict=False):
        estimate, truth = (np.array(found["rms"][name]) for name in ("estimate", "truth"))
        ends = np.array([min(estimate.min(), truth.min()), max(estimate.max(), truth.max())])
        place.fill_between(
            ends, ends / found["width"], ends * found["width"], color="#56B4E9", alpha=0.3, lw=0
        )
        place.plot(estimate, truth, "o", color="#0072B2", ms=3)
        place.set(xscale="log", yscale="log", title=title)
        for axis in (place.xaxis, place.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 3), numticks=8))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
    for place in places[len(results) :]:
        place.set_axis_off()
    drawing.supxlabel("estimated error, standard deviations")
    drawing.supylabel("true error, standard deviations")
    return drawing


def page(results: dict[str, dict]) -> str:
    """Return text of RESULTS.md."""
    rollouts = _rollouts(results)
    count = sum(len(found["rms"]["truth"]) for found in rollouts.values())
    pairs = f"root mean square over time / at the end / at {TIMES} times of each"
    parts = [
        "# Results\n\nWritten by report.py; the README beside says what is measured and how.\n",
        "![True error over estimate](estimates.png)\n",
        f"## Rank correlation with the true error\n\nOf {count} rollouts: {pairs}.\n",
        table(
            [{"system, projection": title} | _ranks(found) for title, found in rollouts.items()]
            + _pooled(rollouts)
        ),
        "## Intervals of 90 %\n",
        table([_interval(title, found) for title, found in rollouts.items()]),
        "## Cost\n\nSeconds of the estimate relative to `romkit.simulate` and to its solver alone.\n",
        table([_cost(title, found) for title, found in results.items()]),
        f"{next(iter(results.values()))['device']}.\n",
    ]
    return "\n".join(parts)


def _rank(found: dict[str, list], name: str) -> str:
    return f"{spearmanr(np.ravel(found[name]), np.ravel(found['truth'])).statistic:.2f}"


def _ranks(found: dict) -> dict[str, str]:
    ends = {name: np.array(values)[:, -1] for name, values in found["along"].items()}
    kinds = KINDS.items()
    return {
        said: " / ".join(_rank(each, name) for each in (found["rms"], ends, found["along"]))
        for name, said in kinds
    }


def _pooled(results: dict[str, dict]) -> list[dict[str, str]]:
    """Return all rollouts of one projection for each system, as one set."""
    main = [results[title] for title in MAIN if title in results]
    kinds = ("truth", *KINDS)
    joined = {
        "rms": {name: np.concatenate([found["rms"][name] for found in main]) for name in kinds},
        "along": {name: np.concatenate([found["along"][name] for found in main]) for name in kinds},
    }
    return [
        {"system, projection": f"{len(joined['rms']['truth'])} rollouts of {len(main)} systems"}
        | _ranks(joined)
    ]


def _interval(title: str, found: dict) -> dict[str, str]:
    covered = np.array(found["covered"])
    row = {
        "system, projection": title,
        "covered": f"{covered.mean():.0%}",
        "width": f"factor {found['width']:.2f}",
    }
    low, high = np.quantile(found["rms"]["truth"], (0.05, 0.95))
    return row | {"true errors, 5 to 95 %": f"{low:.2g} to {high:.2g}"}


def _cost(title: str, found: dict) -> dict[str, str]:
    paid = found["seconds"]
    row = {
        "system, projection": title,
        "n": str(found["n"]),
        "share of the truth": f"{found['share']:.3f}",
    }
    whole, solver = (f"{paid['estimate'] / paid[of]:.0%}" for of in ("truth", "solver"))
    return row | {"cost": whole, "of the solver": solver}
