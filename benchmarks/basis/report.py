"""RESULTS.md from results.json."""

import itertools
from pathlib import Path

from benchmarks.harness import Result, used
from studies.report import filled, table


def page(found: Result) -> str:
    """Text of RESULTS.md."""
    text = filled(Path(__file__).with_name("page.template"), **found, used=used(found, "dask", "distributed", "torch"))

    def of(run: Result) -> tuple[float, int, int]:
        return run["gigabytes"], run["n"], run["snapshots"]

    cases = itertools.groupby(sorted(found["runs"], key=of, reverse=True), of)
    return text + "".join(_case(*case, [*runs]) for case, runs in cases)


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
