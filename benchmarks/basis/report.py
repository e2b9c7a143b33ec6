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
        used=used(found, "dask", "distributed", "torch"),
    )

    def of(run: Result) -> tuple[float, int, int]:
        return run["gigabytes"], run["n"], run["snapshots"]

    cases = itertools.groupby(sorted(found["runs"], key=of, reverse=True), of)
    return text + "".join(_case(*case, [*runs]) for case, runs in cases)


def draw(found: Result) -> dict[str, Figure]:
    """Return errors of singular values of each contestant, by the size of the data."""
    errors, worst = {}, {}
    for run in found["runs"]:
        series = f"{run['gigabytes']:.3g} GB, n = {run['n']}"
        errors.setdefault(run["contestant"], {}).setdefault(series, []).append(run["error"])
        worst[run["contestant"]] = max(run["error"], worst.get(run["contestant"], 0.0))
    finding = f"Singular values are right to {worst['romkit']:.0e}, of dask's compressed SVD to {worst['dask']:.0e}"
    return {"errors.png": dots(errors, "largest relative error of a singular value", finding)}


def _case(gigabytes: float, n: int, snapshots: int, runs: list[Result]) -> str:
    rows = [
        {
            "contestant": run["contestant"],
            "workers": str(run["workers"]),
            "seconds": f"{run['seconds']:.1f}",
            "MB of snapshots a second": f"{1e3 * gigabytes / run['seconds']:.0f}",
            "largest memory of a worker, GB": f"{run['memory_gb']:.2f}",
            "error of singular values": f"{run['error']:.1e}",
        }
        for run in runs
    ]
    return table(rows, caption=f"\n## {gigabytes:.3g} GB: {snapshots} snapshots of {n} components")
