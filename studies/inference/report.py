"""RESULTS.md and its figures from the numbers of a preset."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from studies.inference.tracking import FILTERS
from studies.report import filled, panels, save_png, table
from studies.runner import Study, numbers

Found = dict[str, dict]


def write(folder: Path, preset: str) -> Path:
    """Write RESULTS.md and the figures into `folder`."""
    written = Study("inference").write_page(folder, preset, page, "RESULTS.md")
    if written.suffix:
        results = numbers(folder / preset)
        save_png(winners(results), folder / "errors.png")
        save_png(
            drift({name: results[f"tracking: drift, {name}"] for name in FILTERS}),
            folder / "drift.png",
        )
    return written


def page(results: Found) -> str:
    """Return text of RESULTS.md."""
    cases = [table([_row(results, title, name) for name in names], (), f"### {title}\n\n{_head(results, title)}")
             for title, names in _cases(results).items()]  # fmt: skip
    alarms = [
        [known, found["windows"], *(f"{100 * share:.1f} %" for share in (found["stated"], found["mean"])),
         ", ".join(f"{100 * share:.1f}" for share in found["shares"])]
        for known, found in results["alarms"].items() if isinstance(found, Mapping) and "stated" in found
    ]  # fmt: skip
    head = (
        "known trajectories",
        "fresh windows",
        "stated",
        "measured",
        "of each calibration, in %",
    )
    template, device = Path(__file__).with_name("RESULTS.template"), results["alarms"]["device"]
    return filled(
        template,
        cases="\n".join(cases),
        alarms=table(alarms, head),
        device=device,
        **_tracking(results),
    )


def _cases(results: Found) -> dict[str, list[str]]:
    """Return names of the contestants by title of the case, as the presets have them."""
    cases = {
        title: case
        for preset in Study("inference").presets.values()
        for title, case in preset["cases"].items()
    }
    return {
        title: case["contestants"] for title, case in cases.items() if f"{title}: bound" in results
    }


def _head(results: Found, title: str) -> str:
    found = results[f"{title}: {_cases(results)[title][0]}"]
    sensors = (
        ""
        if np.ndim(found["sensors"]) == 0
        else f", sensors {', '.join(map(str, found['sensors']))}"
    )
    bound = results[f"{title}: bound"]["bound"]
    return f"Bound {bound:.2e}; {len(found['truth'])} windows, noise {found['sigma']:.3g}{sensors}."


def _row(results: Found, title: str, name: str) -> dict[str, object]:
    found, bound = results[f"{title}: {name}"], results[f"{title}: bound"]["bound"]
    percent = lambda key: f"{100 * np.mean(found[key]):.0f} %" if key in found else ""  # noqa: E731
    return {
        "contestant": name,
        "rms error": f"{found['rms']:.2e}",
        "of the bound": f"{found['rms'] / bound:.2f}",
        "median error": f"{found['median']:.2e}",
        "bias": ", ".join(f"{each:.1e}" for each in found["bias"]),
        "90 % intervals hold": percent("coverage"),
        "false alarms": percent("false alarms"),
        "alarms outside": percent("alarms outside"),
        "seconds each": f"{found['seconds']['each of all']:.3f}",
        "one alone": f"{np.median(found['seconds']['single']):.2f}",
        "of them processor": f"{np.median(alone):.2f}"
        if (alone := found["seconds"].get("processor"))
        else "",
        "before": f"{found['seconds']['preparing']:.0f}",
    }


def winners(results: Found) -> Figure:
    """Return errors of all contestants relative to the bound, by case."""
    cases = _cases(results)
    names = list(dict.fromkeys(name for each in cases.values() for name in each))
    drawing, axes = panels(1, 1, (7.0, 0.55 * len(cases) + 1.0))
    axis, colours = axes[0][0], colormaps["tab10"].colors
    for k, name in enumerate(names):
        there = [title for title in cases if name in cases[title]]
        ratio = [
            results[f"{title}: {name}"]["rms"] / results[f"{title}: bound"]["bound"]
            for title in there
        ]
        mark = "D" if name.startswith("infer") else "o"
        axis.plot(
            ratio,
            [list(cases).index(title) for title in there],
            mark,
            color=colours[k],
            label=name,
            ms=6,
        )
    axis.axvspan(axis.get_xlim()[0] * 0.9, 2, color="0.92", lw=0, label="within twice the bound")
    axis.set_yticks(range(len(cases)), list(cases))
    axis.set(
        xscale="log",
        xlabel="root mean square error, relative to the Cramer-Rao bound (1)",
        xlim=(0.7, None),
    )
    axis.axvline(1, color="k", lw=0.8)
    axis.invert_yaxis()
    axis.legend(fontsize=6, loc="upper right")
    return drawing


def drift(runs: dict[str, dict]) -> Figure:
    """Return the forcing and its estimates over time."""
    drawing, ((axis,),) = panels(1, 1, (7.0, 3.2))
    t = np.array(runs["full"]["t"])
    for (name, found), colour in zip(
        runs.items(), ("#D55E00", "#CC79A7", "#009E73", "#0072B2"), strict=True
    ):
        mean, std = np.array(found["estimate"]), np.array(found["std"])
        axis.plot(t, mean, color=colour, lw=0.8, label=name)
        axis.fill_between(t, mean - 1.645 * std, mean + 1.645 * std, color=colour, alpha=0.25, lw=0)
    axis.plot(t, runs["full"]["F"], color="k", ls="--", lw=1.0, label="truth")
    axis.axvspan(*runs["full"]["mixed"], color="0.85", lw=0, label="the wave changes from 8 to 7")
    axis.set(
        xlabel="time, in units of Lorenz96",
        ylabel="forcing F, with 90 % intervals",
        ylim=(3.13, 3.21),
    )
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=6, fontsize=7)
    return drawing


def _tracking(results: Found) -> dict[str, str]:
    """Return tables and numbers of the filters."""
    found = {
        name.removeprefix("tracking: "): each
        for name, each in results.items()
        if name.startswith("tracking: ")
    }
    milli = lambda values: [f"{1e3 * value:.2f}" for value in values]  # noqa: E731
    runs = {name: found[f"constant, {name}"] for name in FILTERS}
    times = [f"t = {t:g}" for t in runs["full"]["times"]]
    constant = [
        [name, *milli(each["rms"]), f"{each['milliseconds']:.2f}"] for name, each in runs.items()
    ]
    covered = [
        [name, *(f"{100 * share:.0f} %" for share in each["covered"])]
        for name, each in runs.items()
    ]
    jumps = [
        [name, size, f"{100 * each['noticed']:.0f} %", *milli([each["2 after"], each["5 after"]])]
        for name in FILTERS
        for size, each in found[f"jump, {name}"].items()
        if isinstance(each, dict) and "noticed" in each
    ]
    drifts = [
        [name, *milli([*run["rms"].values(), run["largest"]["after"]])]
        for name, run in ((name, found[f"drift, {name}"]) for name in FILTERS)
    ]
    alarms, (begins, ends) = (
        {name: found[f"alarm, {name}"] for name in FILTERS[:-1]},
        found["drift, full"]["mixed"],
    )
    costs = {name: value for name, value in found["cost"].items() if isinstance(value, float)}
    cost = [
        [name, f"{value:.2f}", f"{value / costs['reduced']:.0f}"] for name, value in costs.items()
    ]
    outside = [
        [
            name,
            far,
            *(f"{100 * each[side]:.0f} %" for side in ("below", "above")),
            f"{100 * alarm['false']:.1f} %",
        ]
        for name, alarm in alarms.items()
        for far, each in alarm["outside"].items()
    ]
    return {
        "scores": ", ".join(f"{score:.4f}" for score in found["score"]["scores"]),
        "mean": f"{np.mean(found['score']['scores']):.4f}",
        "constant": table(constant, ("filter", *times, "ms per update")),
        "covered": table(covered, ("filter", *times)),
        "jumps": table(
            jumps, ("filter", "size", "noticed within 2", "error 2 after", "error 5 after")
        ),
        "drift": table(
            drifts, ("filter", "before", "other wave", "changing", "after", "largest after")
        ),
        "begins": f"{begins:.0f}",
        "ends": f"{ends:.0f}",
        "cost": table(cost, ("filter", "ms per update", "relative to reduced")),
        "outside": table(
            outside, ("filter", "distance from the range", "below", "above", "false alarms")
        ),
        "runs": alarms["flow"]["runs"],
    }
