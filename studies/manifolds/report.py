"""RESULTS.md and its figure from the numbers of a preset."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from studies.report import dots, table
from studies.runner import Study


def write(folder: Path, preset: str) -> Path:
    """Write RESULTS.md and errors.png into `folder`."""
    return Study("manifolds").write_page(folder, preset, page, "RESULTS.md", draw)


def draw(results: dict[str, dict]) -> dict[str, Figure]:
    """Return forecast and projection errors of each case and method."""
    values = {
        title: {"forecast": finite(row["forecast"]), "projection": finite(row["projection"])}
        for title, row in results.items()
    }
    label = "error relative to the deviation of a run, one dot for each unseen context"
    return {"errors.png": dots(values, label, "Errors of manifolds, and of laws on them")}


def finite(errors: list[float]) -> list[float]:
    """Return the errors that are numbers."""
    return [error for error in errors if np.isfinite(error)]


def page(results: dict[str, dict]) -> str:
    """Return text of RESULTS.md."""
    parts = [
        "# Results\n\nWritten by report.py; the README beside says what is measured and how.\n",
        "![Errors of each manifold and of its law](errors.png)\n",
        "Errors are relative to the deviation of each run from its mean; median (largest) over"
        " unseen contexts.\n",
        table([_row(title, numbers) for title, numbers in results.items()]),
        f"{next(iter(results.values()))['device']}.\n",
    ]
    return "\n".join(parts)


def _row(title: str, numbers: dict) -> dict[str, str]:
    case, method = title.split(", ")
    return {
        "motion": case,
        "manifold": method,
        "latents": str(numbers["latents"]),
        "parameters": str(numbers["parameters"]),
        "projection": _summary(numbers["projection"]),
        "law": numbers["law"],
        "forecast": _summary(numbers["forecast"]),
        "P(P(x)) - P(x)": f"{numbers['idempotency']:.0e}",
        "CPU s, manifold + law": f"{numbers['seconds, manifold']:.1f}"
        f" + {numbers['seconds, law']:.1f}",
    }


def _summary(errors: list[float]) -> str:
    """Median (largest); lost where a forecast is."""
    values = np.array(errors, dtype=float)
    if not np.isfinite(values).all():
        return "lost"
    return f"{np.median(values):.2g} ({values.max():.2g})"
