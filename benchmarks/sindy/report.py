"""RESULTS.md from results.json: `python -m benchmarks.sindy.report`."""

from pathlib import Path

from benchmarks.harness import Result, report, used
from studies.report import table

FOLDER = Path(__file__).parent
COLUMNS = ("contestant", "CPU time, ms", "median", "wall time, ms", "times romkit's")


def page(found: Result) -> str:
    """Text of RESULTS.md."""
    text = (FOLDER / "page.template").read_text(encoding="utf-8")
    text = text.format(**found, used=used(found, "torch", "pysindy", "numpy"))
    return text + "".join(map(_case, found["cases"]))


def _case(case: Result) -> str:
    times = case["contestants"]
    ours = next(iter(times.values()))["cpu_ms"]
    rows = [
        [name, *(f"{t[key]:.2f}" for key in ("cpu_ms", "median_ms", "wall_ms")), f"{t['cpu_ms'] / ours:.1f}"]
        for name, t in times.items()
    ]
    title = f"\n## {case['problems']} problem{'s' * (case['problems'] > 1)} of {case['samples']} samples"
    return f"{table(rows, COLUMNS, title)}\nSame support; coefficients differ by at most {case['difference']:.1e}.\n"


if __name__ == "__main__":
    report(FOLDER, page)
