"""Pictures of studies that are answered, from the results that the repository keeps: `python -m
studies.answered`.
"""

import json
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from studies.report import SERIES, STYLE, dots, panels, save_png

HERE = Path(__file__).parent
PUBLISHED = {"cae": 0.049, "ncae-bias": 0.015, "ncae-slope": 0.018, "ncae": 0.012}
"""Position RMSE of the pendulum in the paper."""


def accuracy(found: dict) -> Figure:
    """Return position errors of ten seeds."""
    rows = {}
    for method in PUBLISHED:
        for system in ("lorenz96", "pendulum"):
            result = found[f"{system}/{method}/seeds 0-9/data 0"]
            rows.setdefault(method, {})[f"{system}, ten seeds"] = result["covered"]["position_rmse"]
        rows[method]["pendulum, published"] = PUBLISHED[method]
    mean = {name: [np.mean(row[series]) for series in list(row)[:2]] for name, row in rows.items()}
    best = " and ".join({min(mean, key=lambda name: mean[name][k]) for k in range(2)})
    return dots(
        rows, "position RMSE over covered contexts", f"Smallest mean error on both systems: {best}"
    )


@matplotlib.rc_context(STYLE)
def limit_cycle(found: dict) -> Figure:
    """Return valid times of the chosen equations and of the first attempt."""
    figure, [[axis]] = panels(1, 1, (7, 3))
    labels = {
        "wave number 8": "wave number 8",
        "wave number 7": "wave number 7",
        "cubic": "the first attempt",
    }
    for (name, label), colour in zip(labels.items(), SERIES, strict=False):
        axis.plot(found[name]["F"], found[name]["valid_time"], "o", color=colour, label=label)
    worst = min(found["wave number 8"]["valid_time"] + found["wave number 7"]["valid_time"])
    first = max(found["cubic"]["valid_time"])
    finding = f"Valid times: at least {worst:.0f} of equations that rollouts chose, at most {first:.1f} of the first attempt"
    axis.set(yscale="log", xlabel="F", ylabel=f"valid time, of {found['duration']:.0f} time units")
    axis.set_title(finding, loc="left")
    axis.legend()
    return figure


def own_data(found: dict) -> Figure:
    """Return forecast errors of romkit and of other packages on the pulses."""
    rows = {}
    for data in ("pulses", "noisy-pulses"):
        ours = found[data].get("errors_against_clean", {}).get("forecast_median_to_40")
        rows.setdefault("romkit", {})[data] = ours or found[data]["errors_to_40"]["forecast_median"]
        for name, rival in found["rivals"].items():
            if name.startswith(f"{data}, "):
                rows.setdefault(name.removeprefix(f"{data}, "), {})[data] = rival[
                    "forecast_median_to_40"
                ]
    ours, *theirs = (row["pulses"] for row in rows.values())
    finding = (
        f"Forecasts of pulses: the best rival's error is {min(theirs) / ours:.0f} times romkit's"
    )
    return dots(rows, "NRMSE over 40 time units, median over held-out runs", finding)


if __name__ == "__main__":
    for draw in (accuracy, limit_cycle, own_data):
        folder = HERE / draw.__name__
        save_png(
            draw(json.loads((folder / "results.json").read_text(encoding="utf-8"))),
            folder / "errors.png",
        )
