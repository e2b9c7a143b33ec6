"""RESULTS.md from results.json, RESULTS-cuda.md from results-cuda.json."""

from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.harness import Result, used
from studies.report import dots, filled, table

FOLDER = Path(__file__).parent
CLOCKS = {
    "cpu": {
        "where": "all on one core",
        "times": "Times are CPU times of the process, so that other users of the machine count less; wall times are in "
        "results.json.",
        "picture": "times.png",
        "recording": "Kernels of romkit are recorded and compiled once, as a jit of JAX; a call of a solver records "
        "the field anew, which costs as many milliseconds as each section says.",
    },
    "wall": {
        "where": "all on this GPU",
        "times": "Times are by the clock on the wall, until the GPU has finished.",
        "picture": "times-cuda.png",
        "recording": "Kernels of romkit are recorded and compiled once; a call of a solver records the field anew.",
    },
}
CHECK = """
Fields differ by at most {difference:.0e} of the largest component.

The floor: {kiloflop:.1f} kflop of matrix products per step and trajectory take {arithmetic} µs at the rate of a large \
product ({peak_gflop_per_s:.0f} Gflop/s in float64); reading weights, biases and slopes ({kilobyte:.1f} kB) takes \
{memory} µs. romkit's fastest takes {ratio} times as long as the arithmetic, which leaves out the 80 square roots and \
as many divisions of the activations.
"""
RECORDING = """
Recording the field for one call costs {recording_ms:.0f} ms.
"""


def page(found: Result) -> str:
    """Return text of RESULTS.md."""
    clock = found.get("clock", "cpu")
    versions = used(found, "torch", "torchdiffeq", "torchode", "jax", "diffrax")
    tolerances = "".join(
        f"- {name}: rtol = atol = {c['tolerance']:.1e}, error {c['error']:.1e} (RK4's is {c['rk4_error']:.1e})\n"
        for name, c in found["calibration"].items()
    )
    core = ""
    if found["sizes"]:
        printed = [
            (m, *(_digits(found["printed"][f"{m}{k}_us"]) for k in ("_printed", "")))
            for m in ("full", "reduced")
        ]
        printed = table(printed, ("model", "printed", "timed"))
        core = filled(
            FOLDER / "core.template", sizes=table(list(map(_size, found["sizes"]))), printed=printed
        )
    cases = "".join(_case(case, f"{clock}_us") for case in found["cases"])
    parts = {"used": versions, "tolerances": tolerances, "cases": cases, "core": core}
    return filled(FOLDER / "page.template", **found | CLOCKS[clock] | parts).rstrip() + "\n"


def draw(found: Result) -> dict[str, Figure]:
    """Return times of each contestant at each number of contexts."""
    clock = found.get("clock", "cpu")
    times, fastest = {}, set()
    for case in found["cases"]:
        each = {name: result[f"{clock}_us"] for name, result in case["contestants"].items()}
        fastest.add(min(each, key=each.get))
        for name, microseconds in each.items():
            times.setdefault(name, {})[
                f"{case['contexts']} context{'s' * (case['contexts'] > 1)}"
            ] = microseconds
    label = f"{'CPU' if clock == 'cpu' else clock} time per step and trajectory, µs"
    finding = f"Fastest at each number of contexts: {' and '.join(sorted(fastest))}"
    return {CLOCKS[clock]["picture"]: dots(times, label, finding)}


def _case(case: Result, key: str) -> str:
    contexts, floor = case["contexts"], case["floor"]
    ours = next(iter(case["contestants"].values()))[key]
    best = min(
        result[key] for name, result in case["contestants"].items() if name.startswith("romkit")
    )
    rows = [
        {
            "contestant": name,
            "µs per step, trajectory": _digits(result[key]),
            "range": f"{_digits(result['low_us'])} - {_digits(result['high_us'])}",
            "times romkit's": f"{result[key] / ours:.2f}",
            "s, 10 000 steps": _digits(result[key] * contexts / 100),
            "steps timed": result["steps"],
            "start, s": f"{result['start_s']:.1f}",
        }
        for name, result in case["contestants"].items()
    ]
    arithmetic, memory = floor["arithmetic_us"], floor["memory_us"]
    ratios = {
        "arithmetic": _digits(arithmetic),
        "memory": _digits(memory),
        "ratio": _digits(best / arithmetic),
    }
    title = f"\n## {contexts} context{'s' * (contexts > 1)}"
    text = table(rows, caption=title)
    text += CHECK.format(difference=case["field_difference"], **floor, **ratios)
    if case.get("recording_ms") is not None:
        text += RECORDING.format(recording_ms=case["recording_ms"])
    return text


def _size(size: Result) -> dict[str, object]:
    costs = {"full model": size["full_us"], "reduced model": size["whole_us"]}
    return {
        **{name: size[name] for name in ("n", "contexts", "engine")},
        **{name: _digits(cost / size["contexts"]) for name, cost in costs.items()},
        **{
            part: f"{round(100 * size[f'{part}_us'] / size['whole_us'])} %"
            for part in ("f", "projection", "solve")
        },
    }


def _digits(x: float) -> str:
    """Three significant digits, and no exponent."""
    return f"{x:.3g}" if x < 1000 else f"{x:.0f}"
