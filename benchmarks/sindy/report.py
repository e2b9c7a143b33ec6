"""RESULTS.md from results.json."""

from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.harness import Result, used
from studies.report import dots, filled, table


def page(found: Result) -> str:
    """Return text of RESULTS.md."""
    text = filled(
        Path(__file__).with_name("page.template"),
        **found,
        used=used(found, "torch", "pysindy", "numpy"),
    )
    return text + "".join(map(_case, found["cases"]))


def draw(found: Result) -> dict[str, Figure]:
    """Return times of each contestant on each problem."""
    times = {name: {} for name in found["cases"][0]["contestants"]}
    for case in found["cases"]:
        for name, result in case["contestants"].items():
            times[name][f"{case['problems']} x {case['samples']} samples"] = result["cpu_ms"]
    ours, fit, _ = (list(row.values()) for row in times.values())
    ratios = [theirs / own for theirs, own in zip(fit, ours, strict=True)]
    finding = f"romkit fits SINDy {min(ratios):.0f} to {max(ratios):.0f} times faster than pysindy"
    return {"times.png": dots(times, "CPU time, ms", finding)}


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
