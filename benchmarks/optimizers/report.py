"""RESULTS.md and curves.png from results.json: `python -m benchmarks.optimizers.report`."""

import json
import statistics
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from benchmarks.optimizers.contestants import CONTESTANTS, QUICK
from romkit.core.files import atomic

FOLDER = Path(__file__).parent
HEAD = """| contestant | rate | steps | ms | training loss | position / velocity RMSE | condition | diverged \
| s to paper's | s to quick's | ratio | start, s |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""


def write(found: dict[str, object], folder: Path) -> None:
    """Both files into `folder`, and the page to the screen."""
    text = page(found)
    with atomic(folder / "RESULTS.md") as temporary:
        temporary.write_text(text)
    with atomic(folder / "curves.png") as temporary:
        draw(found).savefig(temporary, format="png", dpi=80)
    print(text)


def page(found: dict[str, object]) -> str:
    """The text of RESULTS.md."""
    config = found["config"]
    intro = f"""# Results

Written by report.py from results.json. {found["device"]}, one thread; torch {found["versions"].get("torch")}.
{config["seeds"]} seeds stacked; means over seeds, ± their standard deviation.

![training loss and position RMSE against CPU seconds](curves.png)
"""
    return intro + "".join(
        _section(system, results, config["budgets"][system], found["paper"][system])
        for system, results in found["systems"].items()
    )


def _section(system: str, results: dict[str, dict], budget: float, paper: tuple[float, float]) -> str:
    results = {name: results[name] for name in CONTESTANTS if name in results}
    goal = _mean(results[QUICK]["curve"][-1]["loss"]) if QUICK in results else None
    quick = seconds_to_loss(results[QUICK], goal) if QUICK in results else None
    lines = "".join(_row(name, result, paper, goal, quick) for name, result in results.items())
    missing = [name for name in CONTESTANTS if name not in results]
    note = f"\nNot run yet: {'; '.join(missing)}.\n" if missing else ""
    return f"\n## {system}, {budget:.0f} CPU seconds each; the paper has {paper[0]} / {paper[1]}\n\n{HEAD}{lines}{note}"


def _row(name: str, result: dict, paper: tuple[float, float], goal: float | None, quick: float | None) -> str:
    last = result["curve"][-1]
    caught_up = None if goal is None else seconds_to_loss(result, goal)
    cells = [
        name,
        f"{result['learning_rate']:g}",
        f"{last['steps']}",
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
    return f"| {' | '.join(cells)} |\n"


def seconds_to_errors(result: dict, errors: tuple[float, float]) -> float | None:
    """CPU seconds until the means over seeds of position and velocity RMSE are at most `errors`; None if never."""
    for sample in result["curve"]:
        if _mean(sample["position_rmse"]) <= errors[0] and _mean(sample["velocity_rmse"]) <= errors[1]:
            return sample["steps"] * result["step_s"]
    return None


def seconds_to_loss(result: dict, goal: float) -> float | None:
    """CPU seconds until the mean training loss over seeds is at most `goal`; None if never."""
    return next((s["steps"] * result["step_s"] for s in result["curve"] if _mean(s["loss"]) <= goal), None)


def draw(found: dict[str, object]) -> Figure:
    """Training loss and position RMSE against CPU seconds, one row of axes per system."""
    figure = Figure(figsize=(11, 4 * max(1, len(found["systems"]))), layout="constrained")
    axes = figure.subplots(max(1, len(found["systems"])), 2, squeeze=False)
    for row, (system, results) in zip(axes, found["systems"].items(), strict=False):
        for ax, key, label in zip(row, ("loss", "position_rmse"), ("training loss", "position RMSE"), strict=True):
            for k, name in enumerate(name for name in CONTESTANTS if name in results):
                result, curve = results[name], results[name]["curve"][1:]
                style = {"color": matplotlib.color_sequences["tab10"][k % 10], "linestyle": ("-", "--")[k // 10]}
                ax.plot(
                    [s["steps"] * result["step_s"] for s in curve],
                    [_mean(s[key]) for s in curve],
                    label=name,
                    lw=1.3,
                    **style,
                )
            ax.set(yscale="log", xlabel="CPU seconds", ylabel=label, title=system)
        row[1].axhline(found["paper"][system][0], color="0.5", lw=0.8)
    if found["systems"]:
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _mean(values: list[float]) -> float:
    return statistics.fmean(values)


def _with_deviation(values: list[float]) -> str:
    return f"{_mean(values):.3g} ± {statistics.stdev(values):.2g}" if len(values) > 1 else f"{values[0]:.3g}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


if __name__ == "__main__":
    write(json.loads((FOLDER / "results.json").read_text()), FOLDER)
