"""RESULTS.md from results.json."""

from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.export.run import ENGINE
from benchmarks.harness import Result, used
from studies.report import dots, filled, table


def page(found: Result) -> str:
    """Return text of RESULTS.md."""
    given = found | {"used": used(found, "torch"), "compilers": ", ".join(found["compilers"])}
    text = filled(Path(__file__).with_name("page.template"), **given)
    return text + "".join(map(_case, found["cases"]))


def draw(found: Result) -> dict[str, Figure]:
    """Return times of a step of each contestant and model."""
    times = {}
    for case in found["cases"]:
        for name, result in case["contestants"].items():
            times.setdefault(name, {})[case["model"]] = result["cpu_ns"]
    ratios = [
        row[model] / times[ENGINE][model]
        for name, row in times.items()
        if name != ENGINE
        for model in row
    ]
    finding = f"A step of an exported model takes {min(ratios):.2f} to {max(ratios):.2f} times as long as in the engine"
    return {"times.png": dots(times, "CPU time per step, ns", finding)}


def _case(case: Result) -> str:
    times = case["contestants"]
    rows = [
        {
            "contestant": name,
            "ns per step": f"{t['cpu_ns']:.0f}",
            "range": f"{t['low_ns']:.0f} - {t['high_ns']:.0f}",
            "times the engine's": f"{t['cpu_ns'] / times[ENGINE]['cpu_ns']:.2f}",
        }
        for name, t in times.items()
    ]
    same = f"\nLast states differ by at most {case['difference']:.1e} of the largest component.\n"
    return table(rows, caption=f"\n## {case['model']}") + same
