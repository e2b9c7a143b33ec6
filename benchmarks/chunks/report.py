"""RESULTS.md from results.json."""

import itertools
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.harness import Result, used
from studies.report import dots, filled, table


def page(found: Result) -> str:
    """Return text of RESULTS.md."""
    text = filled(
        Path(__file__).with_name("page.template"),
        **found,
        used=used(found, "dask", "xarray", "torch"),
    )
    cases = itertools.groupby(found["runs"], key=lambda run: run["components"])
    return text + "".join(_case(components, [*runs], found["config"]) for components, runs in cases)


def draw(found: Result) -> dict[str, Figure]:
    """Peak memory of each verb, by chunks."""
    memory = {}
    for run in found["runs"]:
        memory.setdefault(run["verb"], {}).setdefault(f"{run['components']} components", []).append(
            run["memory_gb"]
        )
    most, size = max(run["memory_gb"] for run in found["runs"]), found["config"]["gigabytes"]
    finding = f"Verbs on {size} GB of states take {most:.1f} GB at most"
    return {"memory.png": dots(memory, "peak memory of a process, GB", finding)}


def _case(components: int, runs: list[Result], config: Result) -> str:
    rows = [
        {
            "verb": run["verb"],
            "seconds": f"{run['seconds']:.1f}",
            "before, GB": f"{run['before_gb']:.2f}",
            "peak, GB": f"{run['memory_gb']:.2f}",
            "error": "" if run["error"] is None else f"{run['error']:.1e}",
        }
        for run in runs
    ]
    size = 8e-6 * components * config["rows"]
    return table(rows, caption=f"\n## Chunks of {components} components, {size:.3g} MB")
