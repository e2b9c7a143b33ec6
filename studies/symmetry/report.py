"""RESULTS.md and its figure from the numbers of a preset."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from studies.report import panels, save_png, table
from studies.runner import Study, numbers

DYNAMICS = ("Galerkin", "Petrov-Galerkin", "law")
COLOURS = {"with": "#0072B2", "without": "#D55E00"}


def write(folder: Path, preset: str) -> Path:
    """Write RESULTS.md and drift.png into `folder`."""
    written = Study("symmetry").write_page(folder, preset, page, "RESULTS.md")
    if written.suffix:
        save_png(figure(numbers(folder / preset)), folder / "drift.png")
    return written


def figure(results: dict[str, dict]) -> Figure:
    """Return size of the drift over contexts, with the symmetry and without: median over seeds."""
    names = list(dict.fromkeys(title.split(", ")[0] for title in results))
    drawing, (axes,) = panels(1, len(names), (2.4 * len(names), 3.2))
    for title, found in results.items():
        (name, how), place = title.split(", "), axes[names.index(title.split(", ")[0])]
        for dynamics, style in zip(DYNAMICS, ("s--", "^:", "o-"), strict=True):
            rates = np.nanmedian(np.abs(np.array(found[dynamics]["drift"], dtype=float)), axis=0)
            place.plot(
                found["contexts"],
                rates,
                style,
                color=COLOURS[how],
                ms=3,
                label=f"{dynamics}, {how}",
            )
        unit = "forcing F" if "waves" in name else "length L"
        place.set(yscale="log", xlabel=unit, title=name)
    axes[0].set_ylabel("drift of the phase, rad per time unit")
    drawing.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return drawing


def page(results: dict[str, dict]) -> str:
    """Return text of RESULTS.md."""
    parts = [
        "# Results\n\nWritten by report.py; the README beside says what is measured and how.\n",
        "![Drift of the phase](drift.png)\n",
        "## Drift of the phase\n",
        table([row for title, found in results.items() for row in _rows(title, found)]),
        "## Projections\n",
        table([_exact(title, found) for title, found in results.items()]),
        f"{next(iter(results.values()))['device']}.\n",
    ]
    return "\n".join(parts)


def _rows(title: str, found: dict) -> list[dict[str, str]]:
    rows = []
    for dynamics in DYNAMICS:
        rates = np.abs(np.array(found[dynamics]["drift"], dtype=float))
        row = {
            "waves": title,
            "dynamics": dynamics,
            "median, rad per time unit": f"{np.nanmedian(rates):.1e}",
        }
        row |= {"90 %": f"{np.nanquantile(rates, 0.9):.1e}", "largest": f"{np.nanmax(rates):.1e}"}
        rows.append(row | {"diverged": f"{found[dynamics]['diverged']} of {rates.size}"})
    return rows


def _exact(title: str, found: dict) -> dict[str, str]:
    keys = {
        "P(P(x)) - P(x)": "idempotency",
        "P(g x) - g P(x)": "equivariance",
        "RMSE of P(x)": "error",
    }
    return {"waves": title} | {name: f"{found[key]:.1e}" for name, key in keys.items()}
