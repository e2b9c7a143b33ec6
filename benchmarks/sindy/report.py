"""RESULTS.md from results.json."""

from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.harness import Result, used
from studies.report import dots, filled, table


def page(found: Result) -> str:
    """Return text of RESULTS.md."""
    name = "gpu.template" if found.get("clock") == "wall" else "page.template"
    text = filled(
        Path(__file__).with_name(name),
        **found,
        used=used(found, "torch", "pysindy", "numpy"),
    )
    case = _case_on_gpu if found.get("clock") == "wall" else _case
    by_default = _by_default(found["by_default"]) if "by_default" in found else ""
    return text + "".join(map(case, found["cases"])) + by_default


def draw(found: Result) -> dict[str, Figure]:
    """Return times of each contestant on each problem."""
    times = {name: {} for name in found["cases"][0]["contestants"]}
    for case in found["cases"]:
        for name, result in case["contestants"].items():
            times[name][f"{case['problems']} x {case['samples']} samples"] = result["cpu_ms"]
    if found.get("clock") == "wall":
        return {}
    ours, fit, _ = (list(row.values()) for row in times.values())
    ratios = [theirs / own for theirs, own in zip(fit, ours, strict=True)]
    finding = f"romkit fits SINDy {min(ratios):.0f} to {max(ratios):.0f} times faster than pysindy"
    return {"times.png": dots(times, "CPU time, ms", finding)}


def _by_default(rows: list[Result]) -> str:
    """Return table of fits by default settings."""
    least = min(row["cpu_ms"] for row in rows)
    lines = []
    for row in rows:
        lines.append(
            {
                "fit": row["fit"],
                "CPU time, ms": f"{row['cpu_ms']:.0f}",
                "times the fastest": f"{row['cpu_ms'] / least:.1f}",
                "terms": row["terms"],
                "error of the rates": f"{row['error']:.1e}",
            }
        )
    caption = "\n## By default settings, 1 run of 2000 samples without its rates"
    return table(lines, caption=caption)


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
    return _section(case, rows)


def _case_on_gpu(case: Result) -> str:
    times = case["contestants"]
    fastest = min(t["wall_ms"] for t in times.values())
    rows = [
        {
            "contestant": name,
            "wall time, ms": f"{t['wall_ms']:.2f}",
            "times the fastest": f"{t['wall_ms'] / fastest:.1f}",
        }
        for name, t in times.items()
    ]
    return _section(case, rows)


def _section(case: Result, rows: list[dict[str, str]]) -> str:
    title = f"\n## {case['problems']} problem{'s' * (case['problems'] > 1)} of {case['samples']} samples"
    same = f"\nSame support; coefficients differ by at most {case['difference']:.1e}.\n"
    return table(rows, caption=title) + same
