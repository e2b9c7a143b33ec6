"""RESULTS.md from results.json: `python -m benchmarks.sindy.report`."""

import json
from pathlib import Path

from benchmarks.sindy.contestants import ROMKIT
from romkit.core.files import atomic

FOLDER = Path(__file__).parent
HEAD = """| contestant | CPU time, ms | median | wall time, ms | times romkit's |
|---|---|---|---|---|
"""


def page(found: dict[str, object]) -> str:
    """The text of RESULTS.md."""
    config, versions = found["config"], found["versions"]
    used = ", ".join(f"{name} {versions[name]}" for name in ("torch", "pysindy", "numpy") if name in versions)
    intro = f"""# Results

Written by report.py from results.json. {found["device"]}; one core; {used}.
Lorenz 63, polynomials of degree {config["degree"]}, exact rates, float64; threshold 0.1, α = 0.05. Least of \
{config["repeats"]} rounds in which the contestants take turns. The ratio is that of the least CPU times.
romkit fits a stack at once, pysindy in a loop. *STLSQ alone* is given the library's matrix and only regresses.
Wanted are ratios to *pysindy, SINDy.fit* of at least 5 for one problem of 50000 samples and 30 for 20 stacked ones.
"""
    return intro + "".join(_section(case) for case in found["cases"])


def _section(case: dict[str, object]) -> str:
    ours = case["contestants"][ROMKIT]["cpu_ms"]
    lines = "".join(_row(name, times, ours) for name, times in case["contestants"].items())
    plural = "s" if case["problems"] > 1 else ""
    title = f"\n## {case['problems']} problem{plural} of {case['samples']} samples\n\n"
    return title + HEAD + lines + f"\nSame support; coefficients differ by at most {case['difference']:.1e}.\n"


def _row(name: str, times: dict[str, float], ours: float) -> str:
    cells = [
        name,
        f"{times['cpu_ms']:.2f}",
        f"{times['median_ms']:.2f}",
        f"{times['wall_ms']:.2f}",
        f"{times['cpu_ms'] / ours:.1f}",
    ]
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    with atomic(FOLDER / "RESULTS.md") as temporary:
        temporary.write_text(page(json.loads((FOLDER / "results.json").read_text())))
