"""RESULTS.md and curves.png from results.json: `python -m benchmarks.optimizers.report`."""

import json
import statistics
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from benchmarks.harness import Result, report
from romkit.core.files import atomic
from studies.report import table

FOLDER = Path(__file__).parent
QUICK = "Adam, cosine"
COLUMNS = (
    "contestant", "rate", "steps", "ms", "training loss", "position / velocity RMSE", "condition", "diverged",
    "s to paper's", "s to quick's", "ratio", "start, s",
)  # fmt: skip


def page(found: Result) -> str:
    """Text of RESULTS.md."""
    config = found["config"]
    intro = f"""# Results

Written by report.py from results.json. {found["device"]}, one thread; torch {found["versions"].get("torch")}.
{config["seeds"]} seeds stacked; means over seeds, ± their standard deviation.

![training loss and position RMSE against CPU seconds](curves.png)
"""
    for system, results in found["systems"].items():
        paper, quick = found["paper"][system], results[QUICK]
        goal = statistics.fmean(quick["curve"][-1]["loss"])
        rows = [_row(name, result, paper, goal, seconds_to_loss(quick, goal)) for name, result in results.items()]
        title = f"{system}, {config['budgets'][system]:.0f} CPU seconds each; the paper has {paper[0]} / {paper[1]}"
        intro += table(rows, COLUMNS, f"\n## {title}")
    return intro


def _row(name: str, result: Result, paper: tuple[float, float], goal: float, quick: float) -> list[str]:
    last, caught_up = result["curve"][-1], seconds_to_loss(result, goal)
    return [
        name,
        f"{result['learning_rate']:g}",
        last["steps"],
        f"{result['step_s'] * 1e3:.3g}",
        _with_deviation(last["loss"]),
        f"{_with_deviation(last['position_rmse'])} / {_with_deviation(last['velocity_rmse'])}",
        f"{max(max(sample['condition']) for sample in result['curve']):.0f}",
        f"{sum(result['diverged'])} of {len(result['diverged'])}",
        _seconds(seconds_to_errors(result, paper)),
        _seconds(caught_up),
        "-" if caught_up is None else f"{caught_up / quick:.2f}",
        f"{result['start_s']:.0f}",
    ]


def seconds_to_errors(result: Result, errors: tuple[float, float]) -> float | None:
    """CPU seconds until the means over seeds of position and velocity RMSE are at most `errors`; None if never."""
    for sample in result["curve"]:
        found = (statistics.fmean(sample[f"{name}_rmse"]) for name in ("position", "velocity"))
        if all(error <= wanted for error, wanted in zip(found, errors, strict=True)):
            return sample["steps"] * result["step_s"]
    return None


def seconds_to_loss(result: Result, goal: float) -> float | None:
    """CPU seconds until the mean training loss over seeds is at most `goal`; None if never."""
    curve = result["curve"]
    return next((s["steps"] * result["step_s"] for s in curve if statistics.fmean(s["loss"]) <= goal), None)


def draw(found: Result) -> Figure:
    """Training loss and position RMSE against CPU seconds, one row of axes per system."""
    figure = Figure(figsize=(11, 4 * len(found["systems"])), layout="constrained")
    axes = figure.subplots(len(found["systems"]), 2, squeeze=False)
    for row, (system, results) in zip(axes, found["systems"].items(), strict=True):
        for ax, key, label in zip(row, ("loss", "position_rmse"), ("training loss", "position RMSE"), strict=True):
            for k, (name, result) in enumerate(results.items()):
                curve = result["curve"][1:]
                seconds = [s["steps"] * result["step_s"] for s in curve]
                style = {"color": matplotlib.color_sequences["tab10"][k % 10], "linestyle": ("-", "--")[k // 10]}
                ax.plot(seconds, [statistics.fmean(s[key]) for s in curve], label=name, lw=1.3, **style)
            ax.set(yscale="log", xlabel="CPU seconds", ylabel=label, title=system)
        row[1].axhline(found["paper"][system][0], color="0.5", lw=0.8)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def write_curves(folder: Path) -> None:
    """curves.png from results.json."""
    found = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    with atomic(folder / "curves.png") as temporary:
        draw(found).savefig(temporary, format="png", dpi=80)


def _with_deviation(values: list[float]) -> str:
    mean = f"{statistics.fmean(values):.3g}"
    return f"{mean} ± {statistics.stdev(values):.2g}" if len(values) > 1 else mean


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


if __name__ == "__main__":
    report(FOLDER, page)
    write_curves(FOLDER)
