"""RESULTS.md from results.json: python -m studies.wake.report."""

from pathlib import Path

import numpy as np

from studies.pieces import stored
from studies.report import table, write_text

HERE = Path(__file__).parent
LENGTH, RUN = 40.0, 12.0
"""Seconds of flow in the reduced models' runs, and in those of the full model."""
PUBLISHED = {"drag": (3.22, 3.24), "lift": (0.99, 1.01), "Strouhal": (0.295, 0.305)}
"""Reference intervals of Schäfer and Turek (1996)."""
TRUTH = {"Strouhal number": ("Strouhal", 4), "largest lift": ("lift", 3), "growth rate, 1/s": ("growth", 3)}
HEAD = (
    "model", "seeds", "projection error", "Strouhal, median (largest) error", "lift, median (largest) error",
    "growth rate, median error", "lift in the transient, median error", "critical Re", "diverged, 1000 periods",
    "seconds for 40 s", "speed-up",
)  # fmt: skip


def page(results: dict[str, dict]) -> str:
    """Text of RESULTS.md."""
    full, meshes = results["full"], [found for found in results.values() if "mesh" in found]
    models = {name: found for name, found in results.items() if name != "full" and "mesh" not in found}
    columns = ("", *(f"{re:g}" for re in full["Re"]))
    benchmark = []
    for found in sorted(meshes, key=lambda found: found["n"]):
        measured = [f"{found[name]:.4f}" for name in PUBLISHED]
        benchmark.append([found["mesh"], found["n"], f"{found['step']:g}", *measured, f"{found['CPU seconds']:.0f}"])
    benchmark.append(["published", "", "", *(f"{low:g} to {high:g}" for low, high in PUBLISHED.values()), ""])
    truth = [[name, *(f"{x:.{digits}f}" for x in full[key])] for name, (key, digits) in TRUTH.items()]
    truth.append([f"CPU seconds for {LENGTH:g} s", *(f"{x * LENGTH / RUN:.0f}" for x in full["seconds, 12 s of flow"])])
    each = [
        [f"{name}, {key}", *map(_percent, np.median(_errors(found, full, key), axis=0))]
        for name, found in models.items()
        for key in ("Strouhal", "lift")
    ]
    contexts = {10: "ten"}.get(len(full["Re"]), len(full["Re"]))
    return (
        (HERE / "RESULTS.template")
        .read_text(encoding="utf-8")
        .format_map(
            full
            | {
                "meshes": table(benchmark, ("mesh", "n", "step, s", *PUBLISHED, "CPU seconds")),
                "truth": table(truth, columns),
                "contexts": contexts,
                "models": table([_row(name, found, full) for name, found in models.items()], HEAD),
                "each": table(each, columns),
                "seeds": (full["seeds"][0], full["seeds"][-1]),
            }
        )
    )


def _errors(found: dict, full: dict, name: str) -> np.ndarray:
    """(seeds, Re) relative to the full model; infinite where the model has no number."""
    values, truth = np.atleast_2d(np.array(found[name], dtype=float)), np.array(full[name], dtype=float)
    return np.nan_to_num(np.abs(values / truth - 1), nan=np.inf)


def _row(name: str, found: dict, full: dict) -> list[str]:
    spread = lambda errors: f"{_percent(np.median(errors))} ({_percent(errors.max())})"  # noqa: E731
    strouhal, lift, growth = (_errors(found, full, key) for key in ("Strouhal", "lift", "growth"))
    status, seconds = np.atleast_2d(found["status, long"]), np.median(found["seconds"])
    speed = np.median(full["seconds, 12 s of flow"]) * LENGTH / RUN / seconds
    errors = [_percent(np.median(found["projection error"])), spread(strouhal), spread(lift)]
    errors += [_percent(np.median(growth)), _percent(np.nanmedian(found["transient"]))]
    critical = _range(np.atleast_1d(np.array(found["critical"], dtype=float)))
    diverged = f"{(status != 0).sum()} of {status.size}"
    return [name, len(strouhal), *errors, critical, diverged, f"{seconds:.3f}", f"{speed:.0f}"]


def _percent(error: float) -> str:
    return f"{100 * error:.2f} %" if np.isfinite(error) else "none"


def _range(values: np.ndarray) -> str:
    known = values[np.isfinite(values)]
    missing = f", {len(values) - len(known)} without" if len(known) < len(values) else ""
    if not len(known):
        return "none"
    return (f"{known[0]:.1f}" if len(known) == 1 else f"{known.min():.1f} to {known.max():.1f}") + missing


if __name__ == "__main__":
    write_text(HERE / "RESULTS.md", page(stored(HERE / "results.json")))
