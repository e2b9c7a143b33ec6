"""RESULTS.md from the numbers of a preset."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from studies.report import dots, filled, table
from studies.runner import Study

LENGTH, RUN = 40.0, 12.0
"""Seconds of flow in the reduced models' runs, and in those of the full model."""
PUBLISHED = {"drag": (3.22, 3.24), "lift": (0.99, 1.01), "Strouhal": (0.295, 0.305)}
"""Reference intervals of Schäfer and Turek (1996)."""
TRUTH = {
    "Strouhal number": ("Strouhal", 4),
    "largest lift": ("lift", 3),
    "growth rate, 1/s": ("growth", 3),
}


def write(folder: Path, preset: str) -> Path:
    """Write RESULTS.md into `folder`."""
    return Study("wake").write_page(folder, preset, page, "RESULTS.md", draw)


def page(results: dict[str, dict]) -> str:
    """Return text of RESULTS.md."""
    full, meshes = results["full"], [found for found in results.values() if "mesh" in found]
    models = _models(results)
    columns = ("", *(f"{re:g}" for re in full["Re"]))
    benchmark = []
    for found in sorted(meshes, key=lambda found: found["n"]):
        row = {"mesh": found["mesh"], "n": found["n"], "step, s": f"{found['step']:g}"}
        row |= {name: f"{found[name]:.4f}" for name in PUBLISHED}
        benchmark.append(row | {"CPU seconds": f"{found['CPU seconds']:.0f}"})
    benchmark.append(
        ["published", "", "", *(f"{low:g} to {high:g}" for low, high in PUBLISHED.values()), ""]
    )
    truth = [
        [name, *(f"{x:.{digits}f}" for x in full[key])] for name, (key, digits) in TRUTH.items()
    ]
    truth.append(
        [
            f"CPU seconds for {LENGTH:g} s",
            *(f"{x * LENGTH / RUN:.0f}" for x in full["seconds, 12 s of flow"]),
        ]
    )
    each = [
        [f"{name}, {key}", *map(_percent, np.median(_errors(found, full, key), axis=0))]
        for name, found in models.items()
        for key in ("Strouhal", "lift")
    ]
    return filled(
        Path(__file__).with_name("RESULTS.template"),
        **full,
        meshes=table(benchmark),
        truth=table(truth, columns),
        contexts={10: "ten"}.get(len(full["Re"]), len(full["Re"])),
        models=table([_row(name, found, full) for name, found in models.items()]),
        each=table(each, columns),
    )


def draw(results: dict[str, dict]) -> dict[str, Figure]:
    """Median errors of Strouhal number and lift."""
    median = {}
    for name, found in _models(results).items():
        errors = {
            label: _errors(found, results["full"], label.split()[0])
            for label in ("lift", "Strouhal number")
        }
        median[name] = {label: 100 * np.median(each) for label, each in errors.items()}
    best = min(median, key=lambda name: max(median[name].values()))
    finding = f"{best}: the smallest errors of lift and Strouhal number at unseen Reynolds numbers"
    return {"errors.png": dots(median, "median error, % of the full model's value", finding)}


def _models(results: dict[str, dict]) -> dict[str, dict]:
    return {
        name: found for name, found in results.items() if name != "full" and "mesh" not in found
    }


def _errors(found: dict, full: dict, name: str) -> np.ndarray:
    """(seeds, Re) relative to the full model; infinite where the model has no number."""
    values, truth = (
        np.atleast_2d(np.array(found[name], dtype=float)),
        np.array(full[name], dtype=float),
    )
    return np.nan_to_num(np.abs(values / truth - 1), nan=np.inf)


def _row(name: str, found: dict, full: dict) -> dict[str, object]:
    spread = lambda errors: f"{_percent(np.median(errors))} ({_percent(errors.max())})"  # noqa: E731
    strouhal, lift, growth = (_errors(found, full, key) for key in ("Strouhal", "lift", "growth"))
    # what else a machine does only adds to the time of a run
    status, seconds = np.atleast_2d(found["status, long"]), np.min(found["seconds"])
    speed = np.median(full["seconds, 12 s of flow"]) * LENGTH / RUN / seconds
    return {
        "model": name,
        "seeds": len(strouhal),
        "projection error": _percent(np.median(found["projection error"])),
        "Strouhal, median (largest) error": spread(strouhal),
        "lift, median (largest) error": spread(lift),
        "growth rate, median error": _percent(np.median(growth)),
        "lift in the transient, median error": _percent(np.nanmedian(found["transient"])),
        "critical Re": _range(np.atleast_1d(np.array(found["critical"], dtype=float))),
        "diverged, 1000 periods": f"{(status != 0).sum()} of {status.size}",
        "seconds for 40 s": f"{seconds:.4f}",
        "speed-up": f"{speed:.0f}",
        "fit, CPU s": _fit(found),
    }


def _percent(error: float) -> str:
    return f"{100 * error:.2f} %" if np.isfinite(error) else "none"


def _range(values: np.ndarray) -> str:
    known = values[np.isfinite(values)]
    missing = f", {len(values) - len(known)} without" if len(known) < len(values) else ""
    if not len(known):
        return "none"
    return (
        f"{known[0]:.1f}" if len(known) == 1 else f"{known.min():.1f} to {known.max():.1f}"
    ) + missing


def _fit(found: dict) -> str:
    """CPU seconds of a manifold and of its law, the mean over seeds."""
    if "seconds, manifold" not in found:
        return "-"
    return f"{found['seconds, manifold']:.1f} + {np.mean(found['seconds, law']):.1f}"
