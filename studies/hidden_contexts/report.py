"""Page and picture of the study of hidden contexts."""

from pathlib import Path

import numpy as np

from romkit.plotting.style import Figure
from studies.report import panels, table
from studies.runner import Study

CRITICAL = 49.08
"""Reynolds number at which the steady flow of the full model loses its stability (studies/wake)."""

PICTURE = "![Discovered parameters of Lotka-Volterra beside the true ones](discovered.png)"


def write(folder: Path, preset: str) -> Path:
    """Write RESULTS.md and the picture when all numbers are there."""
    return Study("hidden_contexts").write_page(folder, preset, page, "RESULTS.md", pictures)


def pictures(results: dict[str, dict]) -> dict[str, Figure]:
    """Discovered against true parameters."""
    found = results.get("Lotka-Volterra")
    return {} if found is None else {"discovered.png": figure(found)}


def figure(found: dict) -> Figure:
    """Return true parameters, and those that hidden ones say after an affine map; new environments
    were in no fit of the map.
    """
    truth, values = np.array(found["truth"]), np.array(found["values"])
    design = np.column_stack([np.ones(len(values)), values])
    read = design @ np.linalg.lstsq(design, truth, rcond=None)[0]
    new, new_read = np.array(found["new_truth"]), np.array(found["new_read"])
    drawing, axes = panels(1, truth.shape[1], (2.6 * truth.shape[1], 2.6))
    names = ("beta", "delta")
    for column, place in enumerate(np.ravel(axes)):
        place.plot(truth[:, column], truth[:, column], color="#999999", lw=1)
        place.plot(truth[:, column], read[:, column], "o", color="#0072B2", ms=5)
        place.plot(new[:, column], new_read[:, column], "s", color="#D55E00", ms=4)
        place.set(xlabel=f"true {names[column]}", ylabel="discovered")
    return drawing


def page(results: dict[str, dict]) -> str:
    """Return text of RESULTS.md."""
    parts = [
        "# Results\n\nWritten by report.py; the README beside says what is measured and how.\n"
    ]
    if "Lotka-Volterra" in results:
        parts.append(f"{PICTURE}\n")
    literature = [title for title in results if "known_mse" in results[title]]
    if literature:
        rows = [_literature(title, results[title]) for title in literature]
        parts += ["## Families of the literature\n", table(rows)]
    lots = [title for title in results if "right" in results[title]]
    for title in lots:
        found = results[title]
        parts += [f"## {title}\n\nRight: {found['right']} of {found['of']}.\n"]
        parts.append(table([_lot(row) for row in found["rows"]]))
    held = [found for found in results.values() if "placed" in found]
    if held:
        rows = [_held(found) for found in held]
        parts += ["## Intervals of 90 %, Lotka-Volterra, placed by ten samples\n", table(rows)]
    if "Wake without Re" in results:
        parts += ["## Wake without Re\n", _wake(results["Wake without Re"])]
    if "Lorenz96 without F" in results:
        parts += ["## Lorenz96 without F\n", _lorenz96(results["Lorenz96 without F"])]
    made_by = [found["sources"]["commit"][:8] for found in results.values()]
    device = next(iter(results.values()))["device"]
    seeds = "seed 0 but for intervals, which have 0 to 4 without noise and 0 to 2 with it"
    parts.append(f"{device}; {seeds}; computed at {', '.join(sorted(set(made_by)))}.\n")
    return "\n".join(parts)


def _literature(title: str, found: dict) -> dict[str, str]:
    return {
        "family": title,
        "hidden parameters, true": f"{found['hidden']}, {found['parameters']}",
        "mean square error, same environments": f"{found['known_mse']:.1e}",
        "new environments": f"{found['new_mse']:.1e}",
        "not described by the latents": f"{found['described']:.1e}",
        "variance": f"{found['variance']:.2g}",
        "CPU seconds": f"{found['seconds']:.0f}",
    }


def _lot(row: dict) -> dict[str, str]:
    errors = ", ".join(f"{error:.2g}" for error in row["left_out"].values())
    return {
        "system": row["name"],
        "true": str(row["truth"]),
        "found": str(row["hidden"]),
        "degree": str(row["degree"]),
        "left-out errors with 0, 1, ...": errors,
        "CPU seconds": f"{row['seconds']:.0f}",
    }


def _held(found: dict) -> dict[str, str]:
    return {
        "noise": f"{found['noise']:.0%}",
        "hidden parameters": ", ".join(map(str, found["numbers"])),
        "contexts": f"{found['contexts']:.0%}",
        "forecasts": f"{found['forecasts']:.0%}",
        "placed runs": str(found["placed"]),
    }


def _wake(found: dict) -> str:
    seen = [how for how in found if isinstance(found[how], dict) and "strouhal" in found[how]]
    rows = [_glance(how, found[how]) for how in seen]
    onset = ", ".join(f"{value:.2f}" for value in found.get("critical", [])) or "not found"
    return (
        f"{found['hidden']} parameters, of a law of degree {found['degree']} of three coordinates, in "
        f"{found['seconds']:.0f} CPU seconds. Ten unseen flows:\n\n{table(rows)}\n"
        f"Onset of shedding, a Hopf point along the discovered parameter: Re {onset}; "
        f"{CRITICAL} in the full model.\n"
    )


def _glance(how: str, found: dict) -> dict[str, str]:
    off = 100 * np.abs(found["strouhal"])
    return {
        "placed by": how,
        "rank correlation with Re": f"{found['rank_correlation']:.3f}",
        "Strouhal number off by, median": f"{np.median(off):.3f} %",
        "largest": f"{off.max():.3f} %",
    }


def _lorenz96(found: dict) -> str:
    return (
        f"{found['hidden']} parameters in four modes of eight waves; rank correlation with F of the "
        f"first {found.get('rank_correlation', np.nan):.3f}. Second halves of seven waves between them, "
        f"placed by the first, err by {found['error']:.2g} of the deviation of the state. "
        f"{found['seconds']:.0f} CPU seconds.\n"
    )
