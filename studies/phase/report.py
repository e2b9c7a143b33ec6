"""RESULTS.md from the numbers of the preset "full"."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from studies.report import dots, filled, table
from studies.runner import Study

PARAMETERS = ("F", "L", "Re")


def write(folder: Path, preset: str) -> Path:
    """Write RESULTS.md and drift.png into `folder`."""
    return Study("phase").write_page(folder, preset, page, "RESULTS.md", draw)


def draw(results: dict[str, dict]) -> dict[str, Figure]:
    """Drift of each model at each context, with a speed and without."""
    values = {}
    for title, numbers in results.items():
        values[title] = {
            "Galerkin": np.abs(numbers["Galerkin"]),
            "with a speed": np.abs(numbers["timed"]),
        }
    finding = "A speed for each context keeps the phase of waves"
    label = "drift over the whole rollout, turns; one dot for each context"
    return {"drift.png": dots(values, label, finding)}


def page(results: dict[str, dict]) -> str:
    """Return text of RESULTS.md."""
    rows = [_summary(title, numbers) for title, numbers in results.items()]
    template = Path(__file__).with_name("RESULTS.template")
    details = "\n".join(_details(title, numbers) for title, numbers in results.items())
    return filled(template, summary=table(rows), details=details)


def _summary(title: str, numbers: dict) -> dict[str, str]:
    plain, timed = np.abs(numbers["Galerkin"]), np.abs(numbers["timed"])
    return {
        "model": title,
        "length": f"{numbers['duration']:.4g}",
        "turns, median": f"{np.median(numbers['turns']):.3g}",
        "drift by Galerkin, median turns": f"{np.median(plain):.2g}",
        "with a speed": f"{np.median(timed):.2g}",
        "ratio": f"{np.median(plain) / np.median(timed):.0f}",
        "largest drift, without and with": f"{plain.max():.2g}, {timed.max():.2g}",
    }


def _details(title: str, numbers: dict) -> str:
    name = next(name for name in PARAMETERS if name in numbers)
    rows = []
    columns = zip(
        numbers[name], numbers["Galerkin"], numbers["timed"], numbers["turns"], strict=True
    )
    for value, plain, timed, turns in columns:
        row = {name: f"{value:.5g}", "drift by Galerkin": f"{plain:.2e}"}
        row |= {"with a speed": f"{timed:.2e}", "error of the speed": f"{timed / turns:.1e}"}
        rows.append(row)
    return f"## {title}\n\n{table(rows)}"
