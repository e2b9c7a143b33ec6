"""RESULTS.md and its figure from the numbers of a preset."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from romkit.plotting import save_figure
from studies.report import filled, table
from studies.runner import Study, numbers


def write(folder: Path, preset: str) -> Path:
    """Write RESULTS.md and drift.png into `folder`."""
    found = numbers(folder / preset)
    if "drift, reduced" in found and "drift, full" in found:
        save_figure(figure(found["drift, reduced"], found["drift, full"]), folder / "drift.png")
    return Study("tracking").write_page(folder, preset, page, "RESULTS.md")


def figure(reduced: dict, full: dict) -> Figure:
    """The forcing and its estimates over time."""
    drawn = Figure(figsize=(7.0, 3.2), layout="constrained")
    axes = drawn.subplots()
    t = np.array(reduced["t"])
    for found, colour, label in ((full, "#0072B2", "full-order filter"), (reduced, "#D55E00", "reduced model")):
        mean, std = np.array(found["estimate"]), np.array(found["std"])
        axes.plot(t, mean, color=colour, lw=0.8, label=f"{label}, with its 90 % interval")
        axes.fill_between(t, mean - 1.645 * std, mean + 1.645 * std, color=colour, alpha=0.25, lw=0)
    axes.plot(t, reduced["F"], color="k", ls="--", lw=1.0, label="truth")
    begins, ends = reduced["mixed"]
    axes.axvspan(begins, ends, color="0.85", lw=0, label="the wave changes from 8 to 7")
    axes.set(xlabel="time, in units of Lorenz96", ylabel="forcing F", ylim=(3.13, 3.21))
    axes.legend(loc="lower right", fontsize=7)
    return drawn


def page(results: dict[str, dict]) -> str:
    """Text of RESULTS.md."""
    milli = lambda values: [f"{1e3 * value:.2f}" for value in values]  # noqa: E731
    both = {name: results[f"constant, {name}"] for name in ("reduced", "full")}
    times = [f"t = {t:g}" for t in both["full"]["times"]]
    constant = [[name, *milli(found["rms"]), f"{found['milliseconds']:.2f}"] for name, found in both.items()]
    covered = [[name, *(f"{100 * share:.0f} %" for share in found["covered"])] for name, found in both.items()]
    jumps = [
        [name, size, f"{100 * found['noticed']:.0f} %", *milli([found["2 after"], found["5 after"]])]
        for name in both
        for size, found in results[f"jump, {name}"].items()
        if isinstance(found, dict) and "noticed" in found
    ]
    drift = [
        [
            name,
            *milli(results[f"drift, {name}"]["rms"].values()),
            *milli([results[f"drift, {name}"]["largest"]["after"]]),
        ]
        for name in both
    ]
    alarm = results["alarm"]
    costs = {name: value for name, value in results["cost"].items() if isinstance(value, float)}
    cost = [[name, f"{value:.2f}", f"{value / costs['reduced']:.0f}"] for name, value in costs.items()]
    alarms = [
        [far, f"{100 * found['below']:.0f} %", f"{100 * found['above']:.0f} %"]
        for far, found in alarm["outside"].items()
    ]
    return filled(
        Path(__file__).with_name("RESULTS.template"),
        scores=", ".join(f"{score:.4f}" for score in results["score"]["scores"]),
        mean=f"{np.mean(results['score']['scores']):.4f}",
        constant=table(constant, ("filter", *times, "ms per update")),
        covered=table(covered, ("filter", *times)),
        jumps=table(jumps, ("filter", "size", "noticed within 2", "error 2 after", "error 5 after")),
        drift=table(drift, ("filter", "before", "other wave", "changing", "after", "largest after")),
        begins=f"{results['drift, reduced']['mixed'][0]:.0f}", ends=f"{results['drift, reduced']['mixed'][1]:.0f}",
        cost=table(cost, ("filter", "ms per update", "relative to reduced")),
        alarms=table(alarms, ("distance from the range", "below", "above")),
        false=f"{100 * alarm['false']:.1f} %", runs=alarm["runs"],
    )  # fmt: skip
