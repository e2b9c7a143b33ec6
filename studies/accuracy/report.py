"""Write RESULTS.md from results.json: `python -m studies.accuracy.report`."""

import json
from pathlib import Path

import numpy as np

from romkit.core.files import atomic
from studies.accuracy.run import RESULTS

PAGE = Path(__file__).parent / "RESULTS.md"
PUBLISHED = {
    ("lorenz96", "ncae"): "0.079 / 0.329 and 0.046 / 0.209",
    ("lorenz96", "ncae-bias"): "0.076 / 0.277",
    ("lorenz96", "ncae-slope"): "0.089 / 0.322",
    ("lorenz96", "cae"): "0.468 / 0.653",
    ("pendulum", "ncae"): "0.012 / 0.059",
    ("pendulum", "ncae-bias"): "0.015 / 0.067",
    ("pendulum", "ncae-slope"): "0.018 / 0.071",
    ("pendulum", "cae"): "0.049 / 0.220",
}
"""Position / velocity RMSE, mean over ten seeds, in Adriaens et al. (2026), tables 1 and 3."""

HEAD = """| system | method | training set | seeds | position RMSE | velocity RMSE | covered contexts | \
condition number | diverged | CPU minutes | paper |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    results = json.loads(RESULTS.read_text())
    rows = "".join(_row(key, result) for key, result in sorted(results.items()))
    device = sorted({result["device"] for result in results.values()})
    page = f"# Results\n\nWritten by report.py from results.json; {', '.join(device)}, one thread.\n\n{HEAD}{rows}"
    with atomic(PAGE) as temporary:
        temporary.write_text(page)
    print(page)


def _row(key: str, result: dict[str, object]) -> str:
    system, method, seeds, data = key.split("/")
    covered = " / ".join(_mean(result["covered"][f"{what}_rmse"], "{:.3f}") for what in ("position", "velocity"))
    cells = [
        system,
        method,
        data.removeprefix("data "),
        seeds.removeprefix("seeds "),
        _mean(result["position_rmse"], "{:.4f}"),
        _mean(result["velocity_rmse"], "{:.3f}"),
        covered,
        f"{max(result['condition_numbers']):.0f}",
        f"{sum(result['diverged'])} of {len(result['diverged'])}",
        f"{result['cpu_seconds'] / 60:.1f}",
        PUBLISHED[system, method],
    ]
    return f"| {' | '.join(cells)} |\n"


def _mean(values: list[float], form: str) -> str:
    """Mean ± standard deviation over seeds."""
    text = form.format(np.mean(values))
    return text if len(values) == 1 else f"{text} ± {form.format(np.std(values))}"


if __name__ == "__main__":
    main()
