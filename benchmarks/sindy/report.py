"""RESULTS.md from results.json."""

from pathlib import Path

from benchmarks.harness import Result, used
from studies.report import filled, table


def page(found: Result) -> str:
    """Text of RESULTS.md."""
    text = filled(Path(__file__).with_name("page.template"), **found, used=used(found, "torch", "pysindy", "numpy"))
    return text + "".join(map(_case, found["cases"]))


def _case(case: Result) -> str:
    times = case["contestants"]
    ours = next(iter(times.values()))["cpu_ms"]
    rows = [
        {
            "contestant": name,
            "CPU time, ms": f"{t['cpu_ms']:.2f}",
            "median": f"{t['median_ms']:.2f}",
            "wall time, ms": f"{t['wall_ms']:.2f}",
            "times romkit's": f"{t['cpu_ms'] / ours:.1f}",
        }
        for name, t in times.items()
    ]
    title = f"\n## {case['problems']} problem{'s' * (case['problems'] > 1)} of {case['samples']} samples"
    same = f"\nSame support; coefficients differ by at most {case['difference']:.1e}.\n"
    return table(rows, caption=title) + same
