"""RESULTS.md and curves.png from results.json."""

import statistics
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from benchmarks.harness import Result
from studies.report import filled, table

QUICK = "Adam, cosine"


def page(found: Result) -> str:
    """Return text of RESULTS.md."""
    config, tables = found["config"], []
    for system, results in found["systems"].items():
        paper, quick = found["paper"][system], results[QUICK]
        goal = statistics.fmean(quick["curve"][-1]["loss"])
        rows = [
            _row(name, result, paper, goal, seconds_to_loss(quick, goal))
            for name, result in results.items()
        ]
        title = f"{system}, {config['budgets'][system]:.0f} CPU seconds each; the paper has {paper[0]} / {paper[1]}"
        tables.append(table(rows, caption=f"\n## {title}"))
    template, torch = Path(__file__).with_name("page.template"), found["versions"].get("torch")
    return filled(
        template, device=found["device"], torch=torch, seeds=config["seeds"], tables="".join(tables)
    )


def _row(
    name: str, result: Result, paper: tuple[float, float], goal: float, quick: float
) -> dict[str, object]:
    last, caught_up = result["curve"][-1], seconds_to_loss(result, goal)
    return {
        "contestant": name,
        "rate": f"{result['learning_rate']:g}",
        "steps": last["steps"],
        "ms": f"{result['step_s'] * 1e3:.3g}",
        "training loss": _with_deviation(last["loss"]),
        "position / velocity RMSE": " / ".join(
            _with_deviation(last[f"{x}_rmse"]) for x in ("position", "velocity")
        ),
        "condition": f"{max(max(sample['condition']) for sample in result['curve']):.0f}",
        "diverged": f"{sum(result['diverged'])} of {len(result['diverged'])}",
        "s to paper's": _seconds(seconds_to_errors(result, paper)),
        "s to quick's": _seconds(caught_up),
        "ratio": "-" if caught_up is None else f"{caught_up / quick:.2f}",
        "start, s": f"{result['start_s']:.0f}",
    }


def seconds_to_errors(result: Result, errors: tuple[float, float]) -> float | None:
    """CPU seconds until the means over seeds of position and velocity RMSE are at most `errors`;
    None if never.
    """
    for sample in result["curve"]:
        found = (statistics.fmean(sample[f"{name}_rmse"]) for name in ("position", "velocity"))
        if all(error <= wanted for error, wanted in zip(found, errors, strict=True)):
            return sample["steps"] * result["step_s"]
    return None


def seconds_to_loss(result: Result, goal: float) -> float | None:
    """CPU seconds until the mean training loss over seeds is at most `goal`; None if never."""
    curve = result["curve"]
    return next(
        (s["steps"] * result["step_s"] for s in curve if statistics.fmean(s["loss"]) <= goal), None
    )


def draw(found: Result) -> dict[str, Figure]:
    """Training loss and position RMSE against CPU seconds, one row of axes per system."""
    figure = Figure(figsize=(11, 4 * len(found["systems"])), layout="constrained", dpi=80)
    axes = figure.subplots(len(found["systems"]), 2, squeeze=False)
    for row, (system, results) in zip(axes, found["systems"].items(), strict=True):
        for ax, key, label in zip(
            row, ("loss", "position_rmse"), ("training loss", "position RMSE"), strict=True
        ):
            for k, (name, result) in enumerate(results.items()):
                curve = result["curve"][1:]
                seconds = [s["steps"] * result["step_s"] for s in curve]
                style = {
                    "color": matplotlib.color_sequences["tab10"][k % 10],
                    "linestyle": ("-", "--")[k // 10],
                }
                ax.plot(
                    seconds, [statistics.fmean(s[key]) for s in curve], label=name, lw=1.3, **style
                )
            ax.set(yscale="log", xlabel="CPU seconds", ylabel=label, title=system)
        row[1].axhline(found["paper"][system][0], color="0.5", lw=0.8)
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8
    )
    return {"curves.png": figure}


def _with_deviation(values: list[float]) -> str:
    mean = f"{statistics.fmean(values):.3g}"
    return f"{mean} ± {statistics.stdev(values):.2g}" if len(values) > 1 else mean


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
