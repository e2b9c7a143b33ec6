"""RESULTS.md and SAMPLED.md from the result files: python -m studies.large.report."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from studies.pieces import stored
from studies.report import table, write_text

HERE = Path(__file__).parent
FULL = ("implicit, general sparse solver", "implicit, one sweep", "explicit RK4")
LARGE = ", n = 500 000"
REDUCED = (
    "model", "seeds", "parameters", "error at (4.56, 0.019)", "mean over contexts", "largest", "one run",
    "times faster", "tensors, once", "training, per seed",
)  # fmt: skip
MESH = ("model", "tolerance", "rows", "components seen", "choosing them", "one run", "on all rows")
SAMPLED = ("energy left", "modes of right-hand sides", "rows", "from exact", "error", "one run")
REACTION = (
    "modes", "energy left", "rows", "projection", "Galerkin", "sampled", "one run", "over RK4", "over exponential",
)  # fmt: skip
Results = dict[str, dict]


def page(results: Results) -> str:
    """Text of RESULTS.md."""
    full = {name.rsplit("n = ", 1)[1]: found for name, found in results.items() if name.startswith("full models")}
    full = dict(sorted(full.items(), key=lambda item: item[1]["n"]))
    calls, unresolved = results["n = 100 000"], results["unresolved share, 64 modes"]
    reduced = {name: found for name, found in results.items() if "errors" in found}
    small = [_model(name, found, full["20 000"]) for name, found in reduced.items() if LARGE not in name]
    large = [_model(name, found, full["500 000"]) for name, found in reduced.items() if LARGE in name]
    spans = []
    for where in ("inside", "outside"):
        errors, shares = (unresolved[f"{of} {where}"] for of in ("errors", "shares"))
        spans.append((f"{len(errors)} {where} of the training range", _span(errors), _span(shares)))
    sweeps = {str(found["n"]): found["implicit, one sweep"] for found in full.values()}
    coarser = results["coarser grids, n = 500 000"]["errors by n"]
    steps = sorted((found for name, found in results.items() if name.startswith("step, ")), key=lambda each: each["n"])
    costs = [
        (name, f"{c['CPU seconds']:.3g}") for name, c in calls.items() if isinstance(c, dict) and "CPU seconds" in c
    ]
    return _filled(
        "RESULTS",
        full=table(
            [[name, *(f"{f[name]:.3g} s" if name in f else "-" for f in full.values())] for name in FULL],
            ("full model", *(f"n = {n}" for n in full)),
        ),
        small=table(small, REDUCED),
        meshes=table([_mesh(name, found) for name, found in results.items() if "rows" in found], MESH),
        unresolved=unresolved,
        microseconds=unresolved["one state, seconds"] * 1e6,
        shares=table(spans, ("contexts", "error", "unresolved share")),
        large=table(large, REDUCED),
        coarser=table(
            [(n, _percents([error]), f"{sweeps[n]:.3g} s") for n, error in coarser.items()],
            ("n", "error", "implicit, one sweep"),
        ),
        steps=table(list(map(_step, steps)), ("n", "one step", "decoding one state", "tensors, once")),
        calls=calls,
        costs=table(costs, ("call", "CPU seconds")),
        device=full["20 000"]["device"],
    )


def sampled(found: Results) -> str:
    """Text of SAMPLED.md."""
    reaction, distances = found["reaction, n = 10 000"], found["distances, n = 900"]
    full, burgers = reaction["full"], found["Burgers, n = 20 000"]
    once, runs = full["exponential, 1 steps"], []
    for case in reaction["reduced"]:
        for each in (each for name, each in case.items() if "energy left" in name):
            errors = (case["floor"], case["whole right-hand side"], each["error"])
            speed = (full["explicit, seconds"] / each["seconds"], once["seconds"] / each["seconds"])
            runs.append([case["rank"], f"{each['tolerance']:.0e}", each["rows"], *(f"{e:.2e}" for e in errors)])
            runs[-1] += [f"{each['seconds'] * 1e3:.2f} ms", *(f"{ratio:.0f}" for ratio in speed)]
    far = [
        (*each["mu"], f"{each['distance']:.2g}", f"{each['error']:.1e}", f"{each['floor']:.1e}")
        for each in distances["runs"]
    ]
    steps = [numbers for name, numbers in found.items() if name.startswith("step, n")]
    seconds = [each["step, seconds"] for each in steps]
    rows = []
    for each in steps:
        decoding, choosing = each["decoding, seconds"] * 1e3, each["choosing rows, seconds"]
        rows.append((each["n"], f"{each['step, seconds'] * 1e6:.3f} µs", f"{decoding:.3g} ms", f"{choosing:.2g} s"))
    return _filled(
        "SAMPLED",
        reaction=reaction,
        distances=distances,
        burgers=burgers,
        runs=table(runs, REACTION),
        explicit=full["explicit, seconds"],
        once=once["seconds"],
        error=once["error"],
        far=table(far, ("μ₁", "μ₂", "distance", "error", "of the projection")),
        step=steps[0],
        within=100 * (max(seconds) / min(seconds) - 1),
        steps=table(rows, ("n", "a step", "decoding a state", "choosing rows, once")),
        tolerances=table([[f"{each['tolerance']:.0e}", *_burgers(each)] for each in burgers["by tolerance"]], SAMPLED),
        shares=table(list(map(_burgers, burgers["by rows"])), SAMPLED[1:]),
        velocities=table(list(map(_burgers, burgers["right-hand sides of the truth"])), SAMPLED[1:]),
    )


def _filled(name: str, **values: object) -> str:
    return (HERE / f"{name}.template").read_text(encoding="utf-8").format(**values)


def _model(name: str, found: dict, full: dict) -> list[object]:
    errors, cost = np.atleast_2d(found["errors"]), np.median(found["seconds"])
    ratios = [full[each] / cost for each in FULL if each in full]
    faster = " / ".join(f"{x:.2g}" if x < 10 else f"{x:.0f}" for x in ratios)
    once = (found.get(key) for key in ("tensors, seconds", "training, seconds per seed"))
    return [
        name.removesuffix(LARGE), len(errors), found.get("parameters", "-"), _percents(errors[:, 0]),
        _percents(errors.mean(1)), _percents([errors.max()]), f"{cost:.3g} s", faster,
        *("-" if s is None else f"{s:.2g} s" for s in once),
    ]  # fmt: skip


def _mesh(name: str, found: dict) -> list[str]:
    whole = found["all rows, seconds of a step"] * found["steps"]
    seen = [f"{found[what]} of {found['n']}" for what in ("rows", "components seen")]
    costs = [f"{seconds:.3g} s" for seconds in (found["choosing, seconds"], found["seconds"], whole)]
    return [name, f"{found['tolerance']:g}", *seen, *costs]


def _step(found: dict) -> list[object]:
    decoding, tensors = found["decoding, seconds"], found["tensors, seconds"]
    return [found["n"], f"{found['step, seconds'] * 1e6:.3g} µs", f"{decoding * 1e3:.2g} ms", f"{tensors:.2g} s"]


def _burgers(each: dict) -> list[object]:
    numbers = [f"{each['from exact']:.2e}", f"{each['error']:.3%}", f"{each['seconds'] * 1e3:.1f} ms"]
    return [each["modes"], each["rows"], *numbers]


def _span(values: Sequence[float]) -> str:
    return f"{100 * min(values):.2g} to {100 * max(values):.2g} %"


def _percents(errors: Sequence[float]) -> str:
    return ", ".join(f"{100 * error:.3g} %" for error in errors)


if __name__ == "__main__":
    for make, results, target in ((page, "results", "RESULTS"), (sampled, "sampled", "SAMPLED")):
        write_text(HERE / f"{target}.md", make(stored(HERE / f"{results}.json")))
