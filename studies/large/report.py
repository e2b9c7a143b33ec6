"""RESULTS.md and SAMPLED.md from the numbers of the presets "full" and "sampled"."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from studies.report import SERIES, STYLE, filled, panels, table
from studies.runner import Study

HERE = Path(__file__).parent
FULL = ("implicit, general sparse solver", "implicit, one sweep", "explicit RK4")
LARGE = ", n = 500 000"
Results = dict[str, dict]


def write(folder: Path, preset: str) -> Path:
    """Write the page of a preset into `folder`; the smoke preset has none."""
    pages = {"full": (page, "RESULTS.md", draw), "sampled": (sampled, "SAMPLED.md")}
    return (
        Study("large").write_page(folder, preset, *pages[preset])
        if preset in pages
        else folder / preset
    )


def page(results: Results) -> str:
    """Return text of RESULTS.md."""
    full = {
        name.rsplit("n = ", 1)[1]: found
        for name, found in results.items()
        if name.startswith("full models")
    }
    full = dict(sorted(full.items(), key=lambda item: item[1]["n"]))
    calls, unresolved = results["n = 100 000"], results["unresolved share, 64 modes"]
    reduced = {name: found for name, found in results.items() if "errors" in found}
    spans = []
    for where in ("inside", "outside"):
        errors, shares = unresolved[f"errors {where}"], unresolved[f"shares {where}"]
        row = {"contexts": f"{len(errors)} {where} of the training range", "error": _span(errors)}
        spans.append(row | {"unresolved share": _span(shares)})
    sweeps = {str(found["n"]): found["implicit, one sweep"] for found in full.values()}
    coarser = results["coarser grids, n = 500 000"]["errors by n"].items()
    steps = sorted(
        (found for name, found in results.items() if name.startswith("step, ")),
        key=lambda each: each["n"],
    )
    costs = {
        name: c["CPU seconds"]
        for name, c in calls.items()
        if isinstance(c, dict) and "CPU seconds" in c
    }
    return filled(
        HERE / "RESULTS.template",
        full=table(
            [
                [name, *(f"{f[name]:.3g} s" if name in f else "-" for f in full.values())]
                for name in FULL
            ],
            ("full model", *(f"n = {n}" for n in full)),
        ),
        small=table(
            [
                _model(name, found, full["20 000"])
                for name, found in reduced.items()
                if LARGE not in name
            ]
        ),
        meshes=table([_mesh(name, found) for name, found in results.items() if "rows" in found]),
        unresolved=unresolved,
        microseconds=unresolved["one state, seconds"] * 1e6,
        shares=table(spans),
        large=table(
            [
                _model(name, found, full["500 000"])
                for name, found in reduced.items()
                if LARGE in name
            ]
        ),
        coarser=table(
            [
                {"n": n, "error": _percents([e]), "implicit, one sweep": f"{sweeps[n]:.3g} s"}
                for n, e in coarser
            ]
        ),
        steps=table(list(map(_step, steps))),
        calls=calls,
        costs=table(
            [{"call": name, "CPU seconds": f"{seconds:.3g}"} for name, seconds in costs.items()]
        ),
        device=full["20 000"]["device"],
    )


@matplotlib.rc_context(STYLE)
def draw(results: Results) -> dict[str, Figure]:
    """Return error against cost of the reduced models at n = 20 000, and the cost of the full ones."""
    figure, [[axis]] = panels(1, 1, (7, 4.5))
    points = {
        name: (
            np.median(found["seconds"]),
            100 * np.median(np.mean(np.atleast_2d(found["errors"]), axis=1)),
        )
        for name, found in results.items()
        if "errors" in found and LARGE not in name
    }
    for k, (name, (cost, error)) in enumerate(
        sorted(points.items(), key=lambda point: point[1][1])
    ):
        unbeaten = not any(c < cost and e < error for c, e in points.values())
        axis.plot(cost, error, "o", color=SERIES[0] if unbeaten else SERIES[-1])
        side = {"xytext": (5, -2)} if cost > 0.03 or k % 2 else {"xytext": (-5, -2), "ha": "right"}
        axis.annotate(name, (cost, error), textcoords="offset points", fontsize=6, **side)
    for name, colour in zip(FULL[1:], SERIES[1:], strict=False):
        cost = results["full models, n = 20 000"][name]
        axis.axvline(cost, color=colour, lw=0.8, label=f"full model, {name}")
    axis.set(
        xscale="log",
        yscale="log",
        xlim=(1e-7, 100),
        xlabel="CPU time of one run, s",
        ylabel="error of states, %",
    )
    axis.set_title(
        "n = 20 000: no model is both faster and more accurate than one in orange", loc="left"
    )
    axis.legend()
    return {"errors.png": figure}


def sampled(found: Results) -> str:
    """Return text of SAMPLED.md."""
    reaction, distances = found["reaction, n = 10 000"], found["distances, n = 900"]
    full, burgers = reaction["full"], found["Burgers, n = 20 000"]
    explicit, once = full["explicit, seconds"], full["exponential, 1 steps"]
    cases = [
        (case, each)
        for case in reaction["reduced"]
        for name, each in case.items()
        if "energy left" in name
    ]
    runs = [
        {
            "modes": case["rank"],
            "energy left": f"{each['tolerance']:.0e}",
            "rows": each["rows"],
            "projection": f"{case['floor']:.2e}",
            "Galerkin": f"{case['whole right-hand side']:.2e}",
            "sampled": f"{each['error']:.2e}",
            "one run": f"{each['seconds'] * 1e3:.2f} ms",
            "over RK4": f"{explicit / each['seconds']:.0f}",
            "over exponential": f"{once['seconds'] / each['seconds']:.0f}",
        }
        for case, each in cases
    ]
    far = [
        (*each["mu"], f"{each['distance']:.2g}", f"{each['error']:.1e}", f"{each['floor']:.1e}")
        for each in distances["runs"]
    ]
    steps = [numbers for name, numbers in found.items() if name.startswith("step, n")]
    seconds = [each["step, seconds"] for each in steps]
    rows = [
        {
            "n": each["n"],
            "a step": f"{each['step, seconds'] * 1e6:.3f} µs",
            "decoding a state": f"{each['decoding, seconds'] * 1e3:.3g} ms",
            "choosing rows, once": f"{each['choosing rows, seconds']:.2g} s",
        }
        for each in steps
    ]
    return filled(
        HERE / "SAMPLED.template",
        reaction=reaction,
        distances=distances,
        burgers=burgers,
        runs=table(runs),
        explicit=explicit,
        once=once["seconds"],
        error=once["error"],
        far=table(far, ("μ₁", "μ₂", "distance", "error", "of the projection")),
        step=steps[0],
        within=100 * (max(seconds) / min(seconds) - 1),
        steps=table(rows),
        tolerances=table(
            [
                {"energy left": f"{each['tolerance']:.0e}"} | _burgers(each)
                for each in burgers["by tolerance"]
            ]
        ),
        shares=table(list(map(_burgers, burgers["by rows"]))),
        velocities=table(list(map(_burgers, burgers["right-hand sides of the truth"]))),
    )


def _model(name: str, found: dict, full: dict) -> dict[str, object]:
    errors, cost = np.atleast_2d(found["errors"]), np.median(found["seconds"])
    ratios = [full[each] / cost for each in FULL if each in full]
    once = {"tensors, once": "tensors, seconds", "training, per seed": "training, seconds per seed"}
    return {
        "model": name.removesuffix(LARGE),
        "seeds": len(errors),
        "parameters": found.get("parameters", "-"),
        "error at (4.56, 0.019)": _percents(errors[:, 0]),
        "mean over contexts": _percents(errors.mean(1)),
        "largest": _percents([errors.max()]),
        "one run": f"{cost:.3g} s",
        "times faster": " / ".join(f"{x:.2g}" if x < 10 else f"{x:.0f}" for x in ratios),
        **{title: f"{found[name]:.2g} s" if name in found else "-" for title, name in once.items()},
    }


def _mesh(name: str, found: dict) -> dict[str, str]:
    whole = found["all rows, seconds of a step"] * found["steps"]
    costs = {
        "choosing them": found["choosing, seconds"],
        "one run": found["seconds"],
        "on all rows": whole,
    }
    seen = {what: f"{found[what]} of {found['n']}" for what in ("rows", "components seen")}
    row = {"model": name, "tolerance": f"{found['tolerance']:g}"}
    return row | seen | {what: f"{seconds:.3g} s" for what, seconds in costs.items()}


def _step(found: dict) -> dict[str, object]:
    return {
        "n": found["n"],
        "one step": f"{found['step, seconds'] * 1e6:.3g} µs",
        "decoding one state": f"{found['decoding, seconds'] * 1e3:.2g} ms",
        "tensors, once": f"{found['tensors, seconds']:.2g} s",
    }


def _burgers(each: dict) -> dict[str, object]:
    numbers = {"from exact": f"{each['from exact']:.2e}", "error": f"{each['error']:.3%}"}
    numbers["one run"] = f"{each['seconds'] * 1e3:.1f} ms"
    return {"modes of right-hand sides": each["modes"], "rows": each["rows"]} | numbers


def _span(values: Sequence[float]) -> str:
    return f"{100 * min(values):.2g} to {100 * max(values):.2g} %"


def _percents(errors: Sequence[float]) -> str:
    return ", ".join(f"{100 * error:.3g} %" for error in errors)
