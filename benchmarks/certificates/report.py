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
        used=used(found, "torch", "cvxpy", "scs"),
    )
    columns = ("upper", "lower", "context_upper")
    rows = [
        {
            "model": case["model"],
            "states within": case["radius"],
            "contexts within": f"{case['context_radius']:g}",
            "CPU time, s": f"{case['cpu_s']:.2f}",
            **{name: f"{float(case[name]):.4g}" for name in columns},
        }
        for case in found["cases"]
    ]
    return text + table(rows)


def draw(found: Result) -> dict[str, Figure]:
    """Return times of each certificate."""
    times = {
        f"{case['model']}, radius {case['radius']}": {"cpu": case["cpu_s"]}
        for case in found["cases"]
    }
    slowest = max(case["cpu_s"] for case in found["cases"])
    return {"times.png": dots(times, "CPU time, s", f"A certificate takes {slowest:.0f} s at most")}
