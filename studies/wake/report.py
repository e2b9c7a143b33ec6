"""RESULTS.md from results.json: python -m studies.wake.report."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from romkit.core.files import atomic
from studies.markdown import table
from studies.wake.benchmark import PUBLISHED
from studies.wake.reduced import LENGTH

HERE = Path(__file__).parent
RUN = 12.0
"""Seconds of flow that a run of the full model takes its CPU seconds for."""

HEAD = (
    "model", "seeds", "projection error", "Strouhal, median (largest) error", "lift, median (largest) error",
    "growth rate, median error", "lift in the transient, median error", "critical Re", "diverged, 1000 periods",
    "seconds for 40 s", "speed-up",
)  # fmt: skip


def page(results: dict[str, dict]) -> str:
    """The page."""
    full, meshes = results["full"], [found for found in results.values() if "mesh" in found]
    models = {name: found for name, found in results.items() if name != "full" and "mesh" not in found}
    return "\n".join(
        [
            "# Results\n\nWritten by report.py from results.json; the README beside says what is measured and how.",
            "## The full model at Re = 100\n\nOver its last 5 s; beside it the ranges of Schäfer and Turek (1996).\n",
            table(("mesh", "n", "step, s", *PUBLISHED, "CPU seconds"), list(_benchmark(meshes))),
            "## The full model at the unseen Reynolds numbers\n",
            table(("", *(f"{re:g}" for re in full["Re"])), list(_truth(full))),
            f"Critical Reynolds number {full['critical']:.2f}.\n",
            "## Reduced models\n\nErrors relative to the full model, over ten unseen Reynolds numbers and all seeds.\n",
            table(HEAD, [_row(name, found, full) for name, found in models.items()]),
            "## Strouhal number and lift at each Reynolds number\n\nMedians over seeds of the errors in percent.\n",
            table(("", *(f"{re:g}" for re in full["Re"])), list(_each(models, full))),
            _provenance(full),
        ]
    )


def _benchmark(meshes: list[dict]) -> Iterator[list[str]]:
    for found in sorted(meshes, key=lambda found: found["n"]):
        values = (f"{found[name]:.4f}" for name in PUBLISHED)
        yield [found["mesh"], str(found["n"]), f"{found['step']:g}", *values, f"{found['CPU seconds']:.0f}"]
    yield ["published", "", "", *(f"{low:g} to {high:g}" for low, high in PUBLISHED.values()), ""]


def _truth(full: dict) -> Iterator[list[str]]:
    seconds = np.array(full["seconds, 12 s of flow"]) * LENGTH / RUN
    for name, values, digits in (
        ("Strouhal number", full["Strouhal"], 4),
        ("largest lift", full["lift"], 3),
        ("growth rate, 1/s", full["growth"], 3),
        (f"CPU seconds for {LENGTH:g} s", seconds, 0),
    ):
        yield [name, *(f"{value:.{digits}f}" for value in values)]


def _errors(found: dict, full: dict, name: str) -> np.ndarray:
    """(seeds, Re) relative to the full model; infinite where the model has no number."""
    values, truth = np.atleast_2d(np.array(found[name], dtype=float)), np.array(full[name], dtype=float)
    return np.nan_to_num(np.abs(values / truth - 1), nan=np.inf)


def _row(name: str, found: dict, full: dict) -> list[str]:
    spread = lambda errors: f"{_percent(np.median(errors))} ({_percent(errors.max())})"  # noqa: E731
    strouhal, lift, growth = (_errors(found, full, key) for key in ("Strouhal", "lift", "growth"))
    critical = np.atleast_1d(np.array(found["critical"], dtype=float))
    status, seconds = np.atleast_2d(found["status, long"]), np.median(found["seconds"])
    speed = np.median(full["seconds, 12 s of flow"]) * LENGTH / RUN / seconds
    return [
        name,
        str(len(strouhal)),
        _percent(np.median(found["projection error"])),
        spread(strouhal),
        spread(lift),
        _percent(np.median(growth)),
        _percent(np.nanmedian(found["transient"])),
        _range(critical),
        f"{(status != 0).sum()} of {status.size}",
        f"{seconds:.3f}",
        f"{speed:.0f}",
    ]


def _each(models: dict[str, dict], full: dict) -> Iterator[list[str]]:
    for name, found in models.items():
        for key in ("Strouhal", "lift"):
            errors = np.median(_errors(found, full, key), axis=0)
            yield [f"{name}, {key}", *(_percent(error) for error in errors)]


def _provenance(full: dict) -> str:
    seeds, epochs = full["seeds"], full["training"]["epochs"]
    return f"{full['device']}; seeds {seeds[0]} to {seeds[-1]}, {epochs} epochs.\n"


def _percent(error: float) -> str:
    return f"{100 * error:.2f} %" if np.isfinite(error) else "none"


def _range(values: np.ndarray) -> str:
    known = values[np.isfinite(values)]
    missing = f", {len(values) - len(known)} without" if len(known) < len(values) else ""
    if not len(known):
        return "none"
    return (f"{known[0]:.1f}" if len(known) == 1 else f"{known.min():.1f} to {known.max():.1f}") + missing


def main() -> None:
    """Writes the page."""
    with atomic(HERE / "RESULTS.md") as file:
        file.write_text(page(json.loads((HERE / "results.json").read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
