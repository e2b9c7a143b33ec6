"""RESULTS.md and its figure from the numbers of a preset."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from studies.report import panels, save_png, table
from studies.runner import Study, numbers


def write(folder: Path, preset: str) -> Path:
    """Write RESULTS.md and errors.png into `folder`."""
    written = Study("regimes").write_page(folder, preset, page, "RESULTS.md")
    if written.suffix:
        save_png(figure(numbers(folder / preset)), folder / "errors.png")
    return written


def figure(results: dict[str, dict]) -> Figure:
    """Return errors of thresholds, by model, and of periods along the forcing."""
    drawing, ((left, right),) = panels(1, 2, (7.0, 3.0))
    thresholds = [
        (title.replace("rings, ", "KS, "), [abs(r / f - 1) for _, r, f, *_ in found["special"]])
        for title, found in results.items()
        if "special" in found
    ]
    thresholds += [
        (title, [abs(x["Re"] / x["full"] - 1)])
        for title, x in results.items()
        if title.startswith("wake")
    ]
    for k, (_, errors) in enumerate(thresholds):
        left.plot(
            np.multiply(100, errors),
            [k] * len(errors),
            "o",
            color="#0072B2" if len(errors) > 1 else "#D55E00",
        )
    left.set_yticks(range(len(thresholds)), [title for title, _ in thresholds])
    left.set(xscale="log", xlabel="error of a threshold, %", title="where the motion changes")
    left.axvline(1, color="k", lw=0.8, ls="--")
    for title, found in results.items():
        if title.startswith("waves"):
            sides = [each for side, each in found.items() if side not in ("device", "versions")]
            F = np.concatenate([each["F"] for each in sides])
            ratio = np.concatenate([np.divide(each["reduced"], each["full"]) for each in sides])
            order = np.argsort(F)
            right.plot(
                F[order], 100 * (ratio - 1)[order], "o-", label=title.removeprefix("waves, ")
            )
    right.axhspan(-0.1, 0.1, color="0.9", lw=0)
    right.set(
        xlabel="forcing F of Lorenz96",
        ylabel="error of the period, %",
        title="periods of its waves",
    )
    right.legend(fontsize=6)
    return drawing


def page(results: dict[str, dict]) -> str:
    """Return text of RESULTS.md."""
    of = lambda name: {title: found for title, found in results.items() if title.startswith(name)}  # noqa: E731
    known = [
        [name, f"{x:.9f}", f"{exact:.9f}", f"{abs(x - exact):.1e}"]
        for name, (x, exact) in _textbook(results)
    ]
    parts = [
        "# Results\n\nWritten by report.py; the README beside says what is measured and how.\n",
        "![Errors of thresholds and periods](errors.png)\n",
        "## Closed forms\n",
        table(known, ("bifurcation", "found", "exact", "error")),
        "## Kuramoto-Sivashinsky: where steady waves change their stability\n",
        table([row for title, found in of("rings").items() for row in _rings(title, found)], RINGS),
        "## Cylinder wake: where shedding begins\n",
        table([_wake(title, found) for title, found in of("wake").items()]),
        "## Lorenz96: periods of the travelling waves\n",
        table([row for title, found in of("waves").items() for row in _waves(title, found)]),
        f"{next(iter(results.values()))['device']}.\n",
    ]
    return "\n".join(parts)


RINGS = ("model", "bifurcation", "L, reduced", "L, full", "difference", "distance of states")


def _textbook(results: dict[str, dict]) -> list[tuple[str, list[float]]]:
    return [
        (name, pair)
        for name, pair in results["textbook"].items()
        if name not in ("device", "versions")
    ]


def _rings(title: str, found: dict) -> list[list[str]]:
    if "special" in found:
        return [
            [
                title.partition(", ")[2],
                kind,
                f"{r:.4f}",
                f"{f:.4f}",
                f"{100 * abs(r / f - 1):.3f} %",
                f"{apart:.1e}",
            ]
            for kind, r, f, _, apart in found["special"]
        ]
    hopf = [x for x in found["Hopf"] if np.isfinite(x)]
    seen = f"{min(hopf):.2f} to {max(hopf):.2f}" if hopf else "none"
    count = f"equilibria from {len(found['Hopf'])} of {found['phases']} phases"
    return [[title.partition(", ")[2], "Hopf", seen, "", count, ""]]


def _wake(title: str, found: dict) -> dict[str, str]:
    full, frequency = found["full"], found["frequency"]
    row = {
        "model": title.partition(", ")[2],
        "Re, reduced": f"{found['Re']:.2f}",
        "Re, full": f"{full:.2f}",
    }
    return row | {
        "difference": f"{abs(found['Re'] - full):.2f}",
        "frequency, rad/s": f"{frequency:.2f}",
    }


def _waves(title: str, found: dict) -> list[dict[str, str]]:
    rows = []
    for side, each in found.items():
        if side not in ("device", "versions"):
            errors = 100 * (np.array(each["reduced"]) / np.array(each["full"]) - 1)
            row = {"model": title.partition(", ")[2], "F": side, "points": len(errors)}
            row |= {
                "period, mean error": f"{errors.mean():+.2g} %",
                "largest": f"{abs(errors).max():.2g} %",
            }
            rows.append(row | {"all stable": "yes" if all(each["stable"]) else "no"})
    return rows
