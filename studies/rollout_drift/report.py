"""Write RESULTS.md and valid_time.png from results.json: `python -m studies.rollout_drift.report`."""

import json
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from romkit.files import atomic
from studies.rollout_drift.run import HORIZON, RESULTS

HERE = Path(__file__).parent
SWITCH, MARGIN = 3.165, 0.004
"""F at which the wave number changes, and the distance from it that counts as away."""

HEAD = """| training | latent field | median valid time | away from the switch: share over 100 | share over 500 | \
median valid time (0.05) | diverged | position / velocity RMSE | CPU minutes |
|---|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    results = json.loads(RESULTS.read_text())
    rows = "".join(_row(name, field, result) for name, result in results.items() for field in result["rollouts"])
    device = sorted({result["device"] for result in results.values()})
    page = (
        f"# Results\n\nWritten by report.py from results.json; {', '.join(device)}, one thread. Ten seeds, ten test "
        f"forcings, to {HORIZON:.0f} time units; a valid time of {HORIZON:.0f} means that the error stayed below the "
        f"threshold to the end.\n\n{HEAD}{rows}\n![Valid time by forcing](valid_time.png)\n"
    )
    with atomic(HERE / "RESULTS.md") as temporary:
        temporary.write_text(page)
    with atomic(HERE / "valid_time.png") as temporary:
        figure(results).savefig(temporary, format="png", dpi=110)
    print(page)


def figure(results: dict[str, dict]) -> Figure:
    """Valid time against F: median over seeds, with the range from the lower to the upper quartile."""
    picture = Figure(figsize=(9, 4), layout="constrained")
    panels = picture.subplots(1, 2, sharey=True)
    for axes, field in zip(panels, ("galerkin", "petrov-galerkin"), strict=True):
        for name, result in results.items():
            F, valid = np.array(result["contexts"]), np.array(result["rollouts"][field]["valid_time"])
            low, middle, high = np.quantile(valid, [0.25, 0.5, 0.75], axis=0)
            (line,) = axes.plot(F, middle, marker="o", label=name)
            axes.fill_between(F, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
        axes.axvline(SWITCH, color="0.6", linestyle=":")
        axes.set(title=field, xlabel="forcing F", yscale="log")
    panels[0].set_ylabel("valid prediction time (time units)")
    panels[1].legend()
    return picture


def _row(name: str, field: str, result: dict) -> str:
    rollouts = result["rollouts"][field]
    valid = np.array(rollouts["valid_time"])
    away = np.abs(np.array(result["contexts"]) - SWITCH) >= MARGIN
    cells = [
        name,
        field,
        f"{np.median(valid):.0f}",
        f"{100 * np.mean(valid[:, away] > 100):.0f} %",
        f"{100 * np.mean(valid > 500):.0f} %",
        f"{np.median(rollouts['valid_time_0.05']):.1f}",
        f"{rollouts['diverged']} of {valid.size}",
        f"{np.mean(result['position_rmse']):.3f} / {np.mean(result['velocity_rmse']):.3f}",
        f"{result['training_cpu_seconds'] / 60:.1f}",
    ]
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    main()
